"""Formulas of dynamic lengths, against the lengths that come out when the dynamic ones are known."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from poolcli import AvgPool, MaxPool, RequestError
from poolcli.models.layer import Shape, infer_shape
from tests.profiles import sized

NUMBERS = {
    "kernel": st.integers(1, 6), "strides": st.integers(1, 5), "dilations": st.integers(1, 3),
    "pads_begin": st.integers(0, 4), "pads_end": st.integers(0, 4),
    "auto_pad": st.sampled_from(["explicit", "explicit", "same_upper", "same_lower", "valid"]),
    "rounding_type": st.sampled_from(["floor", "ceil", "ceil_torch"]),
}  # fmt: skip


PADS_AS_LONG_AS_THE_WINDOW = {
    "kernel": 2, "strides": 1, "dilations": 1, "pads_begin": 0, "pads_end": 2, "auto_pad": "explicit",
    "rounding_type": "ceil_torch",
}  # fmt: skip


@given(st.fixed_dictionaries(NUMBERS), st.integers(1, 40), st.booleans())
@example(PADS_AS_LONG_AS_THE_WINDOW, 1, False)
@settings(max_examples=sized(100, 1000))
def test_a_formula_gives_the_length_that_comes_out(attributes: dict[str, Any], size: int, average: bool) -> None:
    try:
        op = AvgPool(**attributes, exclude_pad=False) if average else MaxPool(**attributes)
        (*_, formula) = infer_shape(op, ("N", "C", "H")).shape
        (*_, number) = infer_shape(op, ("N", "C", size)).shape
    except RequestError:
        return
    assert isinstance(formula, str)
    if attributes["rounding_type"] != "floor" and formula == "?":
        return  # it would need a minimum or maximum
    assert re.fullmatch(r"[H0-9+\-*/()]+", formula)
    beyond = attributes["pads_end"] > (attributes["kernel"] - 1) * attributes["dilations"] + 1
    if attributes["rounding_type"] != "ceil_torch" or not beyond:  # one window is dropped, not all that are beyond
        assert eval(formula, {"H": size}) == number  # noqa: S307  # of the characters above alone


@pytest.mark.parametrize(
    ("op", "shape", "output"),
    [
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", "W"), ("N", 3, "H//2", "W//2")),
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", 9), ("N", 3, "H//2", 4)),
        (AvgPool((1, 2, 3), like="pytorch"), ("N", 3, "D", "H", 9), ("N", 3, "D", "H//2", 3)),
    ],
    ids=["divisor", "divisor and one known length", "an own kernel for each axis"],
)  # fmt: skip
def test_limits_of_one_axis_do_not_hold_for_several_that_are_dynamic(op: AvgPool, shape: Shape, output: Shape) -> None:
    """PyTorch's avg_pool1d takes no divisor_override."""
    assert infer_shape(op, shape).shape == output


def test_limits_of_three_axes_hold_where_one_of_them_is_dynamic() -> None:
    """PyTorch 2.13: "kernel size (kT: 2 kH: 5 kW: 2) should be smaller than or equal to input image size"."""
    op = AvgPool((2, 5, 2), pads_begin=1, pads_end=1, like="pytorch")
    assert infer_shape(op, ("N", 3, "D", 5, 4)).shape == ("N", 3, "(D+2)//2", 1, 3)
    with pytest.raises(RequestError, match="axis H is 4 long, the kernel 5"):
        infer_shape(op, ("N", 3, "D", 4, 4))
