"""Shapes of which some lengths are dynamic."""

from __future__ import annotations

import pytest

from poolcli import AvgPool, RequestError
from poolcli.models.layer import Shape, infer_shape


@pytest.mark.parametrize(
    ("op", "shape", "output"),
    [
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", "W"), ("N", 3, "?", "?")),
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", 9), ("N", 3, "?", 4)),
        (AvgPool((1, 2, 3), like="pytorch"), ("N", 3, "D", "H", 9), ("N", 3, "?", "?", 3)),
    ],
    ids=["divisor", "divisor and one known length", "an own kernel for each axis"],
)  # fmt: skip
def test_limits_of_one_axis_do_not_hold_for_several_that_are_dynamic(op: AvgPool, shape: Shape, output: Shape) -> None:
    """PyTorch's avg_pool1d takes no divisor_override."""
    assert infer_shape(op, shape).shape == output


def test_limits_of_three_axes_hold_where_one_of_them_is_dynamic() -> None:
    """PyTorch 2.13: "kernel size (kT: 2 kH: 5 kW: 2) should be smaller than or equal to input image size"."""
    op = AvgPool((2, 5, 2), pads_begin=1, pads_end=1, like="pytorch")
    assert infer_shape(op, ("N", 3, "D", 5, 4)).shape == ("N", 3, "?", 1, 3)
    with pytest.raises(RequestError, match="axis H is 4 long, the kernel 5"):
        infer_shape(op, ("N", 3, "D", 4, 4))
