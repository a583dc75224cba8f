"""In which order the axes of an array lie in memory, as far as results follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan import Plan


def closest_axes(plan: Plan, x: NDArray[Any]) -> tuple[int, ...]:
    """The axes that windows do not slide along and whose elements lie closer than those of all that they do, which are
    in C order: channels that lie last in memory, wherever the layout has them.
    """
    spatial = [axis.position for axis in plan.axes]
    steps = [abs(step) if length > 1 else 0 for step, length in zip(x.strides, x.shape, strict=True)]
    along = [steps[i] for i in spatial if steps[i]]
    limit = min(along, default=0) if along == sorted(along, reverse=True) else 0
    return tuple(i for i, step in enumerate(steps) if 0 < step < limit and i not in spatial)


def empty_like(plan: Plan, x: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array for what is made of `x`: in C order, but channels lie last in memory where they do so in `x`."""
    last = () if x.flags.c_contiguous else closest_axes(plan, x)
    if not last:
        return np.empty(shape, dtype)
    order = (*(i for i in range(len(shape)) if i not in last), *last)
    return np.empty([shape[i] for i in order], dtype).transpose(np.argsort(order))
