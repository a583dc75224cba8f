"""The view of arrays that kernels work on: any layout and rank as (outer, D, H, W * inner)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.call import Order
from poolcli.engine.compiled.arithmetic import distinct_windows
from poolcli.engine.compiled.geometry import Geometry, Strides
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Plan, Region
from poolcli.windows import AxisWindows, Cells, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Axis:
    """One spatial axis of the view. Window o reads the elements start[o] + j * dilation, j < count[o], of the slab.

    Parameters
    ----------
    size, output
        The numbers of elements and of windows.
    start, count, divisor
        Of each window: its first element inside the input, its number of elements, and its factor of the divisor.
    dilation
        The distance of the elements of a window.
    windows
        The windows if they are regular; the first one starts `pad` before the slab.
    full
        The whole axis, whatever the region. Only this may decide on a kernel, because kernels differ in their order of
        additions.
    weights
        Of each window, for as many elements as the longest one has; None if all elements count fully.
    """

    size: int
    output: int
    start: NDArray[np.int64]
    count: NDArray[np.int64]
    dilation: int
    divisor: NDArray[np.int64]
    windows: Sliding | None
    pad: int
    full: FullAxis
    weights: NDArray[np.int64] | None = None

    @property
    def is_global(self) -> bool:
        """Whether its one window is the whole axis."""
        return not self.full.is_cut and (
            self.output == 1 and self.dilation == 1 and self.start[0] == 0 and self.count[0] == self.size
        )


class FullAxis(NamedTuple):
    """A whole axis: the elements of its longest window, whether all windows have one element, and whether the region is
    a part of it.
    """

    longest: int
    is_single: bool
    is_cut: bool


@dataclass(frozen=True)
class CanonicalView:
    """The arrays of a region as (outer, D, H, W * inner).

    `order` is the order of the array's axes: outer, spatial, inner; `ordered_shape` is the output's shape in it.
    """

    order: tuple[int, ...]
    ordered_shape: tuple[int, ...]
    outer: int
    inner: int
    axes: tuple[Axis, Axis, Axis]

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """(outer, D, H, W * inner) of the input."""
        d, h, w = self.axes
        return self.outer, d.size, h.size, w.size * self.inner

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """(outer, D, H, W * inner) of the output."""
        d, h, w = self.axes
        return self.outer, d.output, h.output, w.output * self.inner

    @property
    def rows(self) -> int:
        """The number of output rows."""
        return prod(self.output_shape[:3])

    def transposed(self, x: Array) -> Array:
        """`x` in the order of the view, without a copy."""
        return x.transpose(self.order)

    def to_layout(self, array: Array) -> Array:
        """An output of the view in the order of the layout, without a copy."""
        return array.reshape(self.ordered_shape).transpose(np.argsort(self.order))

    def geometry(self, divisor: np.dtype[Any], repeat: bool = False) -> Geometry:
        """The geometry for kernels, with divisors of that dtype. Divisors along W are repeated for every inner element,
        and with `repeat` the windows are too.
        """
        d, h, w = self.axes
        start, count, row = w.start, w.count, self.input_shape[3]
        plane = h.size * row
        if repeat:
            start = (start[:, None] * self.inner + np.arange(self.inner)).ravel()
            count = np.repeat(count, self.inner)
        along_w = np.repeat(w.divisor, self.inner).astype(divisor)
        divisors = d.divisor.astype(divisor), h.divisor.astype(divisor), along_w
        return Geometry(
            Strides(1, d.size * plane, 0, plane, row),
            self.rows,
            self.inner,
            (d.size, h.size, row),
            (d.output, h.output),
            w.output * self.inner,
            (d.start, h.start, start),
            (d.count, h.count, count),
            (d.dilation, h.dilation, w.dilation),
            divisors,
            divisors,
            weights=() if h.weights is w.weights is None else (_flat_weights(h), _flat_weights(w)),
        )


def canonical_view(region: Region, row: int, order: Order | None = None) -> CanonicalView:
    """The view of a region, with its axes in an `order` (default: that of the layout).

    Axes that the windows of others cover are merged. If every window is a whole plane, it has no sliding windows, and
    without inner elements planes are joined to rows of up to `row` elements.
    """
    plan, outputs, input_shape = region.plan, region.outputs, region.input_shape
    order, override = order or _layout_order(plan), 1 if plan.reducer.is_sum else plan.divisor_override
    windows = {axis.position: axis.windows for axis in plan.axes}
    axes = [_ONE] * (3 - len(windows)) + [_axis(windows[i], outputs[i]) for i in order.spatial]
    if override is not None:
        axes = [replace(axis, divisor=np.ones_like(axis.divisor)) for axis in axes]
        axes[0] = replace(axes[0], divisor=axes[0].divisor * override)
    sizes = () if plan.is_weighted else tuple(windows[i].size for i in order.spatial[:-1])  # of axes to merge with W
    while axes[2].is_global and axes[1].dilation == 1 and prod(sizes) > 1:
        axes, sizes = [_ONE, axes[0], _merged(axes[1], axes[2])], sizes[:-1]
    outer, inner = prod(input_shape[i] for i in order.outside), prod(input_shape[i] for i in order.inside)
    if all(axis.is_global for axis in axes):  # whatever `inner` is, which may be larger for the whole than for a region
        planes = _divisor_up_to(outer, row // axes[2].size) if inner == 1 else 1
        outer, axes[2] = outer // planes, _repeated(axes[2], planes)
    ordered_shape = tuple(len(outputs[i]) for i in order.axes)
    return CanonicalView(order.axes, ordered_shape, outer, inner, (axes[0], axes[1], axes[2]))


def _layout_order(plan: Plan) -> Order:
    """Inner axes are those after the first spatial axis, if spatial axes are adjacent and in order; else none."""
    spatial = tuple(axis.position for axis in plan.axes)
    others = [i for i in range(len(plan.input_shape)) if i not in spatial]
    in_place = spatial == tuple(range(spatial[0], spatial[0] + len(spatial)))
    inside = [i for i in others if in_place and i > spatial[0]]
    return Order(tuple(i for i in others if i not in inside), spatial, tuple(inside))


def _axis(windows: AxisWindows, outputs: range) -> Axis:
    o, reads = np.arange(outputs.start, outputs.stop), windows.reads(outputs)
    start, dilation, sliding = windows.start(o) - reads.start, 1, None
    pad = -int(start[0])
    if isinstance(windows, Sliding):
        start, dilation, sliding = start + windows.first_tap(o) * windows.dilation, windows.dilation, windows
    full = _full_axis(windows)._replace(is_cut=len(outputs) < windows.output)
    axis = Axis(len(reads), len(outputs), start, windows.inside(o), dilation, windows.divisor(o), sliding, pad, full)
    if not isinstance(windows, Cells):
        return axis
    elements = windows.start(o)[:, None] + np.arange(windows.longest)
    return replace(axis, weights=windows.weight(o[:, None], elements))


def _flat_weights(axis: Axis) -> NDArray[np.int64]:
    weights = np.ones((axis.output, axis.full.longest), np.int64) if axis.weights is None else axis.weights
    return weights.ravel()


@lru_cache(maxsize=16)
def _full_axis(windows: AxisWindows) -> FullAxis:
    count = distinct_windows(windows)[0]
    return FullAxis(int(count.max(initial=0)), bool((count == 1).all()), False)


def _merged(rows: Axis, columns: Axis) -> Axis:
    """Windows of whole rows, as windows of one long row."""
    n, full = columns.size, rows.full
    divisor = rows.divisor * columns.divisor[0]
    full = FullAxis(full.longest * n, full.is_single and n == 1, full.is_cut)
    return Axis(rows.size * n, rows.output, rows.start * n, rows.count * n, 1, divisor, None, 0, full)


def _repeated(axis: Axis, times: int) -> Axis:
    """The one window of each of several planes, one after the other in a row."""
    start = np.arange(times) * axis.size
    count, divisor = np.repeat(axis.count, times), np.repeat(axis.divisor, times)
    return Axis(axis.size * times, times, start, count, 1, divisor, None, 0, axis.full)


def _divisor_up_to(n: int, limit: int) -> int:
    """The largest divisor of n up to `limit`; at least 1."""
    return next((d for d in range(min(n, limit), 1, -1) if n % d == 0), 1)


_ONE = _axis(Sliding(1, 1, 1, 1, 1, 0, 0), range(1))
