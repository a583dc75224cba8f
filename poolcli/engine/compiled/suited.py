"""The choice of a kernel for an array whose channels lie in memory elsewhere than its layout has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.core.dtypes import lookup
from poolcli.engine.compiled.choose import Choice, choose_kernel
from poolcli.engine.compiled.strided import apart_of
from poolcli.engine.memory import closest_axes
from poolcli.plan.region import Region

Array = np.ndarray[Any, np.dtype[Any]]
SLIDING = {"slide", "slide_line", "slide_planes", "slide_maps", "halve", "halve_pixels"}  # all of them add in one order


def suited(region: Region, indices: bool, in_order: Choice, x: Array) -> Choice:
    """The choice for the channels where they lie, so that no element needs to be moved; `in_order` where there is none,
    or its kernel would add floats in another order.
    """
    inner = closest_axes(region.plan, x)
    if set(inner) == set(in_order.view.inside):
        return in_order
    other = choose_kernel(region, indices, inner)
    if apart_of(other, other.view.of_input(x)) is None:
        return in_order
    return other if _is_exact(region) or _add_alike(in_order, other) else in_order


def _is_exact(region: Region) -> bool:
    """Whether results are the same in whatever order elements are joined."""
    plan = region.plan
    sums_integers = lookup(plan.dtype).kind != "float" and plan.reducer.power is None
    return sums_integers or plan.reducer.better is not None


def _add_alike(one: Choice, other: Choice) -> bool:
    kernels = {one.kernel, other.kernel}
    return kernels <= SLIDING or kernels == {"slide_blocks"}
