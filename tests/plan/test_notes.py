"""What a plan notes, and what it explains of windows that are odd: whole sentences, for one and for several."""

from __future__ import annotations

from typing import Any

import pytest

from poolcli import AdaptiveAvgPool, AvgPool, MaxPool
from poolcli.explain import facts

HALVES: dict[str, Any] = {"rounding_type": "ceil"}
NOTES: dict[str, tuple[Any, int, str, tuple[str, ...]]] = {
    "nothing": (AvgPool(2, 2), 8, "float32", ()),
    "strides of 1 that nobody gave": (
        AvgPool(2), 8, "float32", ("strides not given: 1 on every axis; set them with strides",),
    ),
    "strides that a kernel of 1 does not miss": (AvgPool(1), 8, "float32", ()),
    "pads that auto_pad replaces, at the beginning": (
        AvgPool(2, 2, 1, 0, auto_pad="valid"), 8, "float32", ("the given pads are ignored: auto_pad valid sets them",),
    ),
    "pads that auto_pad replaces, at the end": (
        AvgPool(2, 2, 0, 1, auto_pad="valid"), 8, "float32", ("the given pads are ignored: auto_pad valid sets them",),
    ),
    "a window that is dropped": (
        AvgPool(2, 3, 0, 2, rounding_type="ceil_torch", exclude_pad=False), 7, "float32",
        ("axis W: one window less, because the last one would start past the input",
         "axis W: 2 of 7 input elements are unused"),
    ),
    "input that no window reads": (
        AvgPool(2, 5), 8, "float32", ("axis W: 4 of 8 input elements are unused",),
    ),
    "an empty window: a mean": (
        AvgPool(2, 4, **HALVES), 7, "float32",
        ("axis W: 3 of 7 input elements are unused", "1 window holds no input element: the average is nan"),
    ),
    "an empty window: a mean over a divisor of its own": (
        AvgPool(2, 4, divisor_override=2, **HALVES), 7, "float32",
        ("axis W: 3 of 7 input elements are unused", "1 window holds no input element: the average is 0"),
    ),
    "empty windows: a mean that counts padding": (
        AvgPool(1, 1, 1, 1, exclude_pad=False), 8, "uint8", ("2 windows hold no input element: the average is 0",),
    ),
    "empty windows: a maximum of floats": (
        MaxPool(1, 1, 1, 1), 8, "float32", ("2 windows hold no input element: the maximum is -inf, the index -1",),
    ),
    "empty windows: a maximum of integers": (
        MaxPool(1, 1, 1, 1), 8, "int8", ("2 windows hold no input element: the maximum is -128, the index -1",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_a_plan_notes_what_a_person_should_know(name: str) -> None:
    op, size, dtype, notes = NOTES[name]
    assert op.plan((1, 1, size), dtype).notes == notes


FACTS: dict[str, tuple[Any, int, list[str]]] = {
    "one element, one overhang, one empty window": (
        AvgPool(1, 2, 0, 0, rounding_type="ceil"), 2,
        ["receptive field: 1 position", "1 unused input element",
         "1 window extends past the input", "1 window without any input element"],
    ),
    "several of each": (
        MaxPool(2, 5, 7, 5, rounding_type="ceil"), 9,
        ["receptive field: 2 positions", "6 unused input elements",
         "1 window extends past the input and its pads", "3 windows without any input element"],
    ),
    "bins of one length": (AdaptiveAvgPool(4), 8, ["equals kernel 2, stride 2 exactly"]),
    "bins of two lengths": (
        AdaptiveAvgPool(3), 8, ["no fixed kernel and stride give these windows: 2 of length 3, 1 of length 4"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTS)
def test_an_axis_explains_what_its_windows_leave_out(name: str) -> None:
    op, size, expected = FACTS[name]
    assert facts(op.plan((1, 1, size)).explain().axes[0]) == expected


BINS = {
    1: ["bin i reads from floor(i * 8 / 1) to ceil((i + 1) * 8 / 1)",
        "bin 0: 0/1 = 0, down to 0; 8/1 = 8, up to 8: 8 long"],
    3: ["bin i reads from floor(i * 8 / 3) to ceil((i + 1) * 8 / 3)",
        "bin 0: 0/3 = 0, down to 0; 8/3 = 2 and 2/3, up to 3: 3 long",
        "bin 1: 8/3 = 2 and 2/3, down to 2; 16/3 = 5 and 1/3, up to 6: 4 long",
        "bin 2: 16/3 = 5 and 1/3, down to 5; 24/3 = 8, up to 8: 3 long"],
    4: ["bin i reads from floor(i * 8 / 4) to ceil((i + 1) * 8 / 4)",
        "bin 0: 0/4 = 0, down to 0; 8/4 = 2, up to 2: 2 long",
        "bin 1: 8/4 = 2, down to 2; 16/4 = 4, up to 4: 2 long",
        "bin 3: 24/4 = 6, down to 6; 32/4 = 8, up to 8: 2 long"],
}  # fmt: skip


@pytest.mark.parametrize("output", BINS)
def test_bins_are_reckoned_for_the_first_two_and_the_last(output: int) -> None:
    assert list(AdaptiveAvgPool(output).plan((1, 1, 8)).explain().axes[0].steps) == BINS[output]


@pytest.mark.parametrize(
    ("word", "size", "formula"),
    [("floor", 8, "(8+1+2-3)//3 + 1 = 3"), ("ceil", 9, "ceil((9+1+2-3)/3) + 1 = 4"),
     ("ceil", 10, "ceil((10+1+2-3)/3) + 1 = 5"), ("ceil_torch", 10, "ceil((10+1+2-3)/3) + 1 - 1 = 4")],
)  # fmt: skip
def test_the_length_of_an_axis_is_shown_as_it_was_reckoned(word: str, size: int, formula: str) -> None:
    plan = AvgPool(3, 3, 1, 2, rounding_type=word, exclude_pad=False).plan((1, 1, size))
    assert plan.axes[0].formula == formula
