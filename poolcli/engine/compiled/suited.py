"""The choice of a kernel for an array whose axes lie in memory in another order than its layout has them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from poolcli.engine.compiled.choice import Choice
from poolcli.engine.compiled.choose import LIMITS, choose_kernel
from poolcli.engine.compiled.geometry import SHORT
from poolcli.engine.compiled.strided import apart_of
from poolcli.engine.memory import is_exact, order_of
from poolcli.plan.region import Region

Array = np.ndarray[Any, np.dtype[Any]]
# All of them add in one order.
SLIDING = {"slide", "slide_line", "slide_planes", "slide_maps", "slide_turned", "tile_turned", "halve", "halve_pixels"}


def suited(region: Region, indices: bool, in_order: Choice, x: Array) -> Choice:
    """The choice for the axes as they lie, so that no element needs to be moved, or none far; `in_order` where there
    is none, or its kernel would add floats in another order.
    """
    exact = is_exact(region.plan)
    order = order_of(region.plan, x, prod(region.output_shape), indices)
    back = prod(region.output_shape) >= LIMITS.constant and x.transpose(order.axes).strides[-1] == -x.itemsize
    if order.axes == in_order.view.order and not back:
        return in_order
    other = choose_kernel(region, indices, order, back)
    if not (exact or _add_alike(in_order, other)):
        return in_order
    if not _moves(other, x):
        return other
    return other if other.view.inner >= LIMITS.channels and _moves(in_order, x) else in_order


def _moves(choice: Choice, x: Array) -> bool:
    """Whether elements are brought into another order for it."""
    return apart_of(choice, choice.view.of_input(x)) is None


def _add_alike(one: Choice, other: Choice) -> bool:
    kernels = {one.kernel, other.kernel}
    return kernels <= SLIDING or kernels == {"slide_blocks"} or all(map(_adds_in_lanes, (one, other)))


def _adds_in_lanes(choice: Choice) -> bool:
    """Whether windows are taken one by one, their elements along W in lanes or else in turn, as `each` has them."""
    is_short = choice.view.axes[2].entire.longest <= SHORT
    return choice.kernel == "each_inner" or (choice.kernel == "each" and (choice.view.inner == 1 or is_short))
