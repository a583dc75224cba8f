"""The view of arrays that kernels work on: any layout and rank as (outer, D, H, W * channels), its strides, and the
numbers that a kernel is given beside the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from poolcli.engine.call import Order
from poolcli.engine.compiled.arithmetic import distinct_windows
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Plan, Region
from poolcli.windows import AxisWindows, Cells, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

MERGED_ROW = 4096  # elements of the rows that are made of whole planes
CACHE_LINE = 64  # bytes
VECTOR, MARGIN = 4, 16  # elements to which rows are rounded up: at least, and at most
LANES = 8  # partial sums of a long window, which fill vectors: element i is added to sum i % LANES
NO_LINE = 2**31 - 1  # the row of no element


class Sizes(NamedTuple):
    """The numbers that a kernel is given; the windows of each axis follow them. Strides and positions count
    elements, windows along W pixels.

    Parameters
    ----------
    split, far, near, plane, row, limit
        Of x in memory: plane p is at p // split * far + p % split * near, the strides along D and H, and the number of
        elements that may be read from its first one on (0: none beyond the end of a row).
    depth, height, columns, size
        D, H and W of the output, and the elements of an output row.
    high, width, channels
        H of the input, its elements in a row, and of a pixel.
    gap_d, gap_h, gap_w
        The distances of the elements of a window along D, H and W.
    at_d, at_h, at_w
        Where the windows of each axis are in the table: pairs of the first element and the number of elements.
    of_h, of_w
        Where the factors of the divisor along H and W are in the factors, behind those along D. Those along W are
        repeated for each channel.
    taps, stride, pad, reach
        Of regular windows along W; `pad` is from the first window to the first element, `reach` the pixels that a piece
        reads.
    piece, pieces
        Outputs of a piece of a row, and their number.
    first, last
        The outputs first to last - 1 along W have the divisor of whole windows.
    a, b, c, e
        What a kernel needs of its own.
    """

    split: int
    far: int
    near: int
    plane: int
    row: int
    limit: int
    depth: int
    height: int
    columns: int
    size: int
    high: int
    width: int
    channels: int
    gap_d: int
    gap_h: int
    gap_w: int
    at_d: int
    at_h: int
    at_w: int
    of_h: int
    of_w: int
    taps: int
    stride: int
    pad: int
    reach: int
    piece: int
    pieces: int
    first: int
    last: int
    a: int = 0
    b: int = 0
    c: int = 0
    e: int = 0


AT = Sizes(*range(len(Sizes._fields)))


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
    longest, is_single, is_cut
        Of the whole axis, whatever the region: the elements of the longest window, whether all windows have one, and
        whether the region is a part of it. Only the whole axis may decide on a kernel, because kernels differ in their
        order of additions.
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
    longest: int
    is_single: bool
    is_cut: bool
    weights: NDArray[np.int64] | None = None

    @property
    def is_global(self) -> bool:
        """Whether its one window is the whole axis."""
        is_whole = self.output == 1 and self.dilation == 1 and self.start[0] == 0 and self.count[0] == self.size
        return is_whole and not self.is_cut


@dataclass(frozen=True)
class View:
    """The arrays of a region as (outer, D, H, W * channels).

    `order` is the order of the array's axes: outer, spatial, inner; `ordered_shape` is the output's shape in it.
    """

    order: tuple[int, ...]
    ordered_shape: tuple[int, ...]
    outer: int
    channels: int
    axes: tuple[Axis, Axis, Axis]

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """(outer, D, H, W * channels) of the input."""
        d, h, w = self.axes
        return self.outer, d.size, h.size, w.size * self.channels

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """(outer, D, H, W * channels) of the output."""
        d, h, w = self.axes
        return self.outer, d.output, h.output, w.output * self.channels

    @property
    def rows(self) -> int:
        """The number of output rows."""
        return prod(self.output_shape[:3])

    def to_layout(self, array: Array) -> Array:
        """An output of the view in the order of the layout, without a copy."""
        return array.reshape(self.ordered_shape).transpose(np.argsort(self.order))


def view_of(region: Region, order: Order | None = None) -> View:
    """The view of a region, with its axes in an `order` (default: that of the layout).

    Axes that the windows of others cover are merged. If every window is a whole plane, it has no sliding windows, and
    without channels beside each other planes are joined to rows of up to MERGED_ROW elements.
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
    outer, channels = prod(input_shape[i] for i in order.outside), prod(input_shape[i] for i in order.inside)
    if all(axis.is_global for axis in axes):  # whatever `channels` is, which may be larger for the whole region
        planes = _divisor_up_to(outer, MERGED_ROW // axes[2].size) if channels == 1 else 1
        outer, axes[2] = outer // planes, _repeated(axes[2], planes)
    ordered_shape = tuple(len(outputs[i]) for i in order.axes)
    return View(order.axes, ordered_shape, outer, channels, (axes[0], axes[1], axes[2]))


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
    longest, is_single = _whole_axis(windows)
    parts = windows.inside(o), dilation, windows.divisor(o), sliding, pad, longest, is_single
    axis = Axis(len(reads), len(outputs), start, *parts, len(outputs) < windows.output)
    if not isinstance(windows, Cells):
        return axis
    elements = windows.start(o)[:, None] + np.arange(windows.longest)
    return replace(axis, weights=windows.weight(o[:, None], elements))


@lru_cache(maxsize=16)
def _whole_axis(windows: AxisWindows) -> tuple[int, bool]:
    count = distinct_windows(windows)[0]
    return int(count.max(initial=0)), bool((count == 1).all())


def _merged(rows: Axis, columns: Axis) -> Axis:
    """Windows of whole rows, as windows of one long row."""
    n, divisor = columns.size, rows.divisor * columns.divisor[0]
    whole = rows.longest * n, rows.is_single and n == 1, rows.is_cut
    return Axis(rows.size * n, rows.output, rows.start * n, rows.count * n, 1, divisor, None, 0, *whole)


def _repeated(axis: Axis, times: int) -> Axis:
    """The one window of each of several planes, one after the other in a row."""
    start = np.arange(times) * axis.size
    count, divisor = np.repeat(axis.count, times), np.repeat(axis.divisor, times)
    whole = axis.longest, axis.is_single, axis.is_cut
    return Axis(axis.size * times, times, start, count, 1, divisor, None, 0, *whole)


def _divisor_up_to(n: int, limit: int) -> int:
    """The largest divisor of n up to `limit`; at least 1."""
    return next((d for d in range(min(n, limit), 1, -1) if n % d == 0), 1)


_ONE = _axis(Sliding(1, 1, 1, 1, 1, 0, 0), range(1))


class Strides(NamedTuple):
    """The first numbers of `Sizes`."""

    split: int
    far: int
    near: int
    plane: int
    row: int
    limit: int


def strides_of(view: View, source: Array) -> Strides | None:
    """The strides of an array whose axes are in the order of the view, in elements; None if its rows are not
    contiguous, or its outer axes need more than two strides.
    """
    if any(stride % source.itemsize for stride in source.strides):
        return None
    steps = [(n, stride // source.itemsize) for n, stride in zip(source.shape, source.strides, strict=True)]
    axes, (_, depth, height, width) = _joined(steps), view.input_shape
    along_w, along_h, along_d = (_split_last(axes, count) for count in (width, height, depth))
    if (along_w != 1 and width > 1) or along_h is None or along_d is None or len(axes) > 2:
        return None
    (_, far), (split, near) = [(1, 0)] * (2 - len(axes)) + axes
    limit = 1 + sum((n - 1) * step for n, step in steps) if all(step >= 0 for _, step in steps) else 0
    return Strides(split, far, near, along_d, along_h, limit)


def _joined(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The (length, stride) of axes with more than one element; axes that continue each other are merged."""
    joined: list[tuple[int, int]] = []
    for length, stride in axes:
        if joined and joined[-1][1] == stride * length:
            joined[-1] = joined[-1][0] * length, stride
        elif length > 1:
            joined.append((length, stride))
    return joined


def _split_last(axes: list[tuple[int, int]], count: int) -> int | None:
    """Remove an axis of `count` elements from the end of `axes` and return its stride; None if there is none."""
    if count == 1:
        return 0
    length, stride = axes.pop()
    if length % count:
        return None
    if length > count:
        axes.append((length // count, stride * count))
    return stride
