"""In which order the axes of an array lie in memory, as far as results follow it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from poolcli.dtypes import lookup
from poolcli.windows import AxisWindows, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan import Plan


WORTH_TURNING = 1 << 18  # elements of an output; from here on a kernel of its own for exchanged axes pays
MOST_TAPS, MOST_STRIDE = 8, 4  # of windows that have one


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


def is_exchanged(plan: Plan, order: tuple[int, ...]) -> bool:
    """Whether columns come as rows, and are to be added as columns."""
    spatial = [axis.position for axis in plan.axes]
    return not is_exact(plan) and sorted(spatial, key=order.index) != spatial


def _adds_turned(plan: Plan, turned: list[int], x: NDArray[Any]) -> bool:
    """Whether there is a kernel that adds columns that lie in memory as rows do as it adds columns: for windows that
    slide along two axes. Outside of the input it adds zeros, which changes no sum of up to three elements in turn.
    """
    if len(plan.axes) < 2:
        return False
    *planes, down, along = [axis.windows for axis in plan.axes]
    *before, rows, columns = [axis.position for axis in plan.axes]
    return (
        turned == [*before, columns, rows]
        and x.strides[rows] == x.itemsize
        and plan.reducer.divides
        and plan.reducer.power is None
        and plan.dtype != "float64"  # whose sums with errors take twice as long so: longer than a copy
        and all(windows.longest == 1 and windows.output == windows.size for windows in planes)
        and _slides(down)
        and _slides(along)
    )


def _slides(windows: AxisWindows) -> TypeGuard[Sliding]:
    """Whether windows are few elements that lie side by side, some of them in the input."""
    return (
        isinstance(windows, Sliding)
        and windows.dilation == 1
        and windows.kernel <= min(MOST_TAPS, windows.size - 1)
        and windows.stride <= MOST_STRIDE
        and max(windows.pad_begin, windows.pad_end) < windows.kernel
    )


def order_of(plan: Plan, x: NDArray[Any], outputs: int, indices: bool) -> Order:
    """The order that `x` has in memory: inside are the axes whose elements lie closer than those of all axes that
    windows slide along (channels that lie last, wherever the layout has them). These are in its order too where the
    same values, `outputs` of them, can be computed so; the first of several places depends on the order.
    """
    steps = [abs(step) if length > 1 else 0 for step, length in zip(x.strides, x.shape, strict=True)]
    spatial = [axis.position for axis in plan.axes]
    if not indices:
        lying = iter(sorted((i for i in spatial if steps[i]), key=lambda i: -steps[i]))
        turned = [next(lying) if steps[i] else i for i in spatial]
        if is_exact(plan) or (outputs >= WORTH_TURNING and _adds_turned(plan, turned, x)):
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
    order = order_of(plan, x, prod(shape), indices)
    if not order.inside and order.spatial == tuple(axis.position for axis in plan.axes):
        return np.empty(shape, dtype)
    return np.empty([shape[i] for i in order.axes], dtype).transpose(np.argsort(order.axes))
