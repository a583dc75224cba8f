"""What a plan notes: whole sentences, for one and for several."""

from __future__ import annotations

from typing import Any

import pytest

from poolcli import AdaptiveMaxPool, AvgPool, LpPool, MaxPool, SumPool

HALVES: dict[str, Any] = {"rounding_type": "ceil"}
LATE = "the last window on W starts past the input; PyTorch's ceil drops it (like='pytorch')"
NOTES: dict[str, tuple[Any, int, str, tuple[str, ...]]] = {
    "nothing": (AvgPool(2, strides=2), 8, "float32", ()),
    "strides of 1 that nobody gave": (AvgPool(2), 8, "float32",
        ("strides not given: 1 on every axis; PyTorch and Keras take the kernel: use strides=2",)),
    "strides that a kernel of 1 does not miss": (AvgPool(1), 8, "float32", ()),
    "strides of a window that fits once": (AvgPool(8), 8, "float32", ()),
    "pads that auto_pad replaces, at the beginning": (AvgPool(2, strides=2, pads_begin=1, pads_end=0, auto_pad="valid"),
        8, "float32", ("the given pads are ignored: auto_pad valid sets them",)),
    "pads that auto_pad replaces, at the end": (AvgPool(2, strides=2, pads_begin=0, pads_end=1, auto_pad="valid"), 8,
        "float32", ("the given pads are ignored: auto_pad valid sets them",)),
    "padding of a norm that auto_pad sets": (LpPool(5, strides=2, auto_pad="same_lower"), 8, "float32", ()),
    "a window that is dropped": (
        AvgPool(2, strides=3, pads_begin=0, pads_end=2, rounding_type="ceil_torch", exclude_pad=False), 7, "float32",
        ("axis W: one window less, because the last one would start past the input",
         "axis W: 2 of 7 input elements are unused"),
    ),
    "input that no window reads": (AvgPool(2, strides=5), 8, "float32", ("axis W: 4 of 8 input elements are unused",)),
    "a sum of a part of a window": (SumPool(7, strides=7, **HALVES), 365, "uint8",
        ("axis W: the last window holds 1 of 7 elements",)),
    "a mean of a part of a window": (AvgPool(7, strides=7, **HALVES), 365, "float32", ()),
    "a divisor that counts what no other framework counts": (
        AvgPool(3, strides=2, pads=1, exclude_pad=False, **HALVES), 8, "float32",
        ("the last window on W reaches past the pads, which the divisor counts; PyTorch does not (like='pytorch')",)),
    "the same in PyTorch": (AvgPool(3, strides=2, pads=1, like="pytorch", **HALVES), 8, "float32", ()),
    "bins of less than an element": (AdaptiveMaxPool(9), 8, "float32",
        ("larger than the input on W: elements repeat, nothing is interpolated",)),
    "an empty window: a mean": (AvgPool(2, strides=4, **HALVES), 7, "float32",
        (LATE, "axis W: 3 of 7 input elements are unused", "1 window holds no input element: the average is nan")),
    "an empty window: a mean over a divisor of its own": (AvgPool(2, strides=4, divisor_override=2, **HALVES), 7,
        "float32",
        (LATE, "axis W: 3 of 7 input elements are unused", "1 window holds no input element: the average is 0")),
    "empty windows: a mean that counts padding": (AvgPool(1, strides=1, pads=1, exclude_pad=False), 8, "uint8",
        ("2 windows hold no input element: the average is 0",)),
    "empty windows: a maximum of floats": (MaxPool(1, strides=1, pads=1), 8, "float32",
        ("2 windows hold no input element: the maximum is -inf",)),
    "empty windows: a maximum of integers": (MaxPool(1, strides=1, pads=1), 8, "int8",
        ("2 windows hold no input element: the maximum is -128",)),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_a_plan_notes_what_a_person_should_know(name: str) -> None:
    op, size, dtype, notes = NOTES[name]
    assert op.plan((1, 1, size), dtype).notes == notes


@pytest.mark.parametrize(
    ("word", "size", "formula"),
    [("floor", 8, "(8+1+2-3)//3 + 1 = 3"), ("ceil", 9, "ceil((9+1+2-3)/3) + 1 = 4"),
     ("ceil", 10, "ceil((10+1+2-3)/3) + 1 = 5"), ("ceil_torch", 10, "ceil((10+1+2-3)/3) + 1 - 1 = 4")],
)  # fmt: skip
def test_the_length_of_an_axis_is_shown_as_it_was_reckoned(word: str, size: int, formula: str) -> None:
    plan = AvgPool(3, strides=3, pads_begin=1, pads_end=2, rounding_type=word, exclude_pad=False).plan((1, 1, size))
    assert plan.axes[0].formula == formula


def test_indices_of_another_order_than_the_array_are_said() -> None:
    order = {"NHWC": "N,C,H,W, not N,H,W,C as stored", "NCHW": "N,C,H,W", "NCTHW": "N,T,C,H,W, not N,C,T,H,W as stored"}
    for layout, said in order.items():
        plan = MaxPool(2).plan((4,) * len(layout), "int8", layout=layout)
        assert plan.index is not None
        assert plan.index.rule == f"flat position over {said}"
