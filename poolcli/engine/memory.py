"""In which order the axes of an array lie in memory, as far as results follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan import Plan


class Order(NamedTuple):
    """The axes of a layout as computing goes through them: those outside of the axes that windows slide along, these,
    and those inside of them.
    """

    outside: tuple[int, ...]
    spatial: tuple[int, ...]
    inside: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.outside, *self.spatial, *self.inside)


def is_exact(plan: Plan) -> bool:
    """Whether values are the same in whatever order elements are joined."""
    sums_integers = lookup(plan.dtype).kind != "float" and plan.reducer.power is None
    return sums_integers or plan.reducer.better is not None


def order_of(plan: Plan, x: NDArray[Any], indices: bool) -> Order:
    """The order that `x` has in memory: inside are the axes whose elements lie closer than those of all axes that
    windows slide along (channels that lie last, wherever the layout has them). These are in its order too where the
    same values, `outputs` of them, can be computed so; the first of several places depends on the order.
    """
    steps = [abs(step) if length > 1 else 0 for step, length in zip(x.strides, x.shape, strict=True)]
    spatial = [axis.position for axis in plan.axes]
    if not indices:
        lying = iter(sorted((i for i in spatial if steps[i]), key=lambda i: -steps[i]))
        turned = [next(lying) if steps[i] else i for i in spatial]
        if is_exact(plan):
            spatial = turned
    limit = min((steps[i] for i in spatial if steps[i]), default=0)
    inside = sorted((i for i, step in enumerate(steps) if 0 < step < limit), key=lambda i: -steps[i])
    outside = (i for i in range(x.ndim) if i not in spatial and i not in inside)
    return Order(tuple(outside), tuple(spatial), tuple(inside))


def empty_like(
    plan: Plan, x: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any], indices: bool = False
) -> NDArray[Any]:
    """A new array for what is made of `x`: in C order, but channels lie last in memory where they do so in `x`, and
    rows and columns are exchanged where they are so there and may be pooled so.
    """
    if x.flags.c_contiguous:
        return np.empty(shape, dtype)
    order = order_of(plan, x, indices)
    if not order.inside and order.spatial == tuple(axis.position for axis in plan.axes):
        return np.empty(shape, dtype)
    return np.empty([shape[i] for i in order.axes], dtype).transpose(np.argsort(order.axes))
