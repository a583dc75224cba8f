"""What kernels are given: arrays of any layout and rank as (outer, D, H, W * channels), and numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from poolcli.engine.call import Array, Order
from poolcli.engine.compiled.arithmetic import distinct_windows
from poolcli.plan.plan import Plan, Region
from poolcli.windows import AxisWindows, Cells, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

MERGED_ROW = 4096  # elements of the rows that are made of whole planes
CACHE_LINE = 64  # bytes
VECTOR, MARGIN = 8, 16  # elements: rows are rounded up to whole vectors, buffers are longer by a margin
LANES = 8  # partial sums of a long window, which fill vectors: element i is added to sum i % LANES
# Of an output row: the position in its plane of the first row of its windows, their numbers of planes and of rows in
# each, and the number of that first row.
ROW_FIELDS = 4
# Of a piece of a row, in elements: the first output and their number, the first element of the input row and their
# number, the position of that in the row buffer, and the ends of the outputs that have the divisor of whole windows.
PIECE_FIELDS = 7


class Sizes(NamedTuple):
    """The numbers before the tables of a kernel. Strides and positions count elements, windows along W pixels."""

    far: int  # elements of a plane of x
    step_d: int  # the distances in x of the planes of a window, and of its rows
    step_h: int
    limit: int  # elements that may be read from the first one of x on; 0: none beyond the end of a row
    rows: int  # output rows of a plane of x, each with ROW_FIELDS numbers from AT_ROWS on
    height: int  # of the output
    columns: int
    size: int  # elements of an output row
    high: int  # of the input
    width: int  # elements of an input row
    channels: int  # elements of a pixel
    gap_d: int  # the distances of the elements of a window along each axis
    gap_h: int
    gap_w: int
    at_w: int  # where the windows along W are in the table: pairs of the first element and the number of elements
    of_w: int  # where the factors of the divisor along W are, for each channel; those of the rows come first
    taps: int  # of regular windows along W
    stride: int
    pad: int  # from the first window to the first element
    reach: int  # pixels that a piece reads
    piece: int  # outputs of a piece of a row
    pieces: int
    at_piece: int  # where the pieces are in the table, with PIECE_FIELDS numbers each
    first: int  # the outputs first to last - 1 along W have the divisor of whole windows
    last: int
    a: int = 0  # what a kernel needs of its own
    b: int = 0
    c: int = 0
    e: int = 0


AT = Sizes(*range(len(Sizes._fields)))
AT_ROWS = len(AT)


@dataclass(frozen=True)
class Axis:
    """One spatial axis of the view. Window o reads the elements start[o] + j * dilation, j < count[o], of the slab.

    Only the whole axis, whatever the region, may decide on a kernel, because kernels differ in their order of
    additions: so `longest`, the elements of the longest window, and `is_single`, whether all windows have one, are its.
    """

    size: int
    output: int
    start: NDArray[np.int64]
    count: NDArray[np.int64]
    divisor: NDArray[np.int64]  # factors
    longest: int
    is_single: bool
    is_cut: bool  # whether the region is a part of the axis
    dilation: int = 1
    windows: Sliding | None = None  # if they are regular
    pad: int = 0  # from the first of them to the slab
    weights: NDArray[np.int64] | None = None  # for as many elements as the longest window has; None: all 1

    @property
    def is_global(self) -> bool:
        """Whether its one window is the whole axis."""
        is_whole = self.output == 1 and self.dilation == 1 and self.start[0] == 0 and self.count[0] == self.size
        return is_whole and not self.is_cut


@dataclass(frozen=True)
class View:
    """The arrays of a region as (outer, D, H, W * channels)."""

    order: tuple[int, ...]  # of the array's axes: outer, spatial, inner
    ordered_shape: tuple[int, ...]  # of the output, in that order
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
        most = min(outer, MERGED_ROW // axes[2].size) if channels == 1 else 1
        planes = next((n for n in range(most, 1, -1) if outer % n == 0), 1)
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
    start, count, divisor = windows.start(o) - reads.start, windows.inside(o), windows.divisor(o)
    is_cut = len(outputs) < windows.output
    axis = Axis(len(reads), len(outputs), start, count, divisor, *_whole_axis(windows), is_cut)
    if isinstance(windows, Sliding):
        inside = start + windows.first_tap(o) * windows.dilation
        return replace(axis, start=inside, dilation=windows.dilation, windows=windows, pad=-int(start[0]))
    if isinstance(windows, Cells):
        elements = windows.start(o)[:, None] + np.arange(windows.longest)
        return replace(axis, weights=windows.weight(o[:, None], elements))
    return axis


@lru_cache(maxsize=16)
def _whole_axis(windows: AxisWindows) -> tuple[int, bool]:
    count = distinct_windows(windows)[0]
    return int(count.max(initial=0)), bool((count == 1).all())


def _merged(rows: Axis, columns: Axis) -> Axis:
    """Windows of whole rows, as windows of one long row."""
    n, is_single, divisor = columns.size, rows.is_single and columns.size == 1, rows.divisor * columns.divisor[0]
    size, start, count, longest = rows.size * n, rows.start * n, rows.count * n, rows.longest * n
    return Axis(size, rows.output, start, count, divisor, longest, is_single, rows.is_cut)


def _repeated(axis: Axis, times: int) -> Axis:
    """The one window of each of several planes, one after the other in a row."""
    start, count, divisor = np.arange(times) * axis.size, np.repeat(axis.count, times), np.repeat(axis.divisor, times)
    return Axis(axis.size * times, times, start, count, divisor, axis.longest, axis.is_single, axis.is_cut)


def first_run(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """The first True, and the False after it."""
    first = int(flags.argmax())
    return first, first + int(np.append(flags[first:], False).argmin())


_ONE = _axis(Sliding(1, 1, 1, 1, 1, 0, 0), range(1))


def with_strides(table: NDArray[np.int64], source: Array) -> NDArray[np.int64]:
    """The numbers of a kernel for an array in the shape of the view, whose rows are contiguous."""
    changed, steps = table.copy(), [step // source.itemsize for step in source.strides]
    far, plane, row, _ = steps
    limit = 1 + sum((n - 1) * step for n, step in zip(source.shape, steps, strict=True)) if min(steps) >= 0 else 0
    changed[: AT.rows] = far, table[AT.gap_d] * plane, table[AT.gap_h] * row, limit
    rows = changed[AT_ROWS : AT_ROWS + ROW_FIELDS * int(table[AT.rows])].reshape(-1, ROW_FIELDS)
    planes, lines = np.divmod(rows[:, 3], table[AT.high])
    rows[:, 0] = planes * plane + lines * row
    return changed
