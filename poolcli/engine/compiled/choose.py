"""The choice of a kernel: from a region alone which loops compute it, over what, and in how many tasks.

Whatever decides about an order of additions asks the whole axes, so that every region of a plan is computed alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.call import Order
from poolcli.engine.choose import largest_divisor
from poolcli.engine.compiled.arithmetic import NONE, Arithmetic, compute, seen_as, without_division
from poolcli.engine.compiled.geometry import (
    APART,
    CACHE_LINE,
    LANES,
    LINE,
    SHORT,
    VECTORS,
    ColumnWindows,
    Geometry,
    RowWindows,
    Strides,
    Taps,
    flat,
)
from poolcli.engine.compiled.view import View, view_of
from poolcli.plan.plan import Region
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Choice:
    """Loops and their arithmetic, and what they are given beside the arrays: `dtype` is the type of the elements,
    `source` as which the kernel sees them, `made` that of what it writes.
    """

    dtype: str
    view: View
    how: Arithmetic
    source: np.dtype[Any]
    made: np.dtype[Any]
    geometry: Geometry
    loops: Loops

    @cached_property
    def variant(self) -> str:
        """What tells it from other kernels that are compiled for themselves, in one word."""
        divisor = [self.divisor.name] if self.divisor != NONE else []
        taps = self.loops.taps
        size = [] if taps is None else [f"{taps.kernel}by{taps.stride}" + f"x{taps.rows}" * (taps.rows > 1)]
        return "-".join([self.loops.kernel, *size, self.dtype, *self.how.words, self.made.name, *divisor])

    @property
    def totals(self) -> np.dtype[Any]:
        """The type of totals."""
        return self.how.nothing.dtype

    @property
    def divisor(self) -> np.dtype[Any]:
        """The type of divisors."""
        return self.geometry.divisors[0].dtype

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The integers that the kernel is given, and the divisors."""
        return flat(self.geometry, self.loops.more, self.how.result)

    def with_apart(self, apart: Strides) -> NDArray[np.int64]:
        """The integers for an array whose elements lie that far apart."""
        integers = self.numbers[0].copy()
        integers[APART : APART + len(apart)] = apart
        return integers

    @cached_property
    def lines_at(self) -> int:
        """Bytes of the buffer of totals, behind which that of lines is."""
        return ceil_div(self.loops.scratch * self.totals.itemsize, 64) * 64

    @cached_property
    def buffered(self) -> int:
        """Bytes of both."""
        return self.lines_at + self.loops.lines * 4

    @cached_property
    def work(self) -> int:
        """Elements that go through it, those of windows of several rows as often as they are read."""
        d, h, _ = self.view.axes
        joined = (
            prod(self.view.output_shape[:3]) * self.view.input_shape[3] * min(d.entire.longest * h.entire.longest, 8)
        )
        return max(prod(self.view.input_shape), prod(self.view.output_shape), joined)


class Limits(NamedTuple):
    """Where another kernel, or another way to share out its work, begins to pay."""

    run: int = 16  # elements of windows that do not overlap: from here on each is joined on its own
    merged: int = 4096  # elements; whole planes shorter than this are glued to rows of about this length
    row: int = 1 << 13  # bytes of a row buffer: those of a task stay in the first cache
    block_row: int = 1 << 15  # the same where rows are taken in blocks, which stay in the second
    short: int = 1 << 13  # bytes of the rows of a task's row buffer together, where rows are shorter than that
    short_fetched: int = 1 << 11  # the same for prefetched rows: reading and computing alternate in shorter bursts
    busy: int = 4  # rows of a window for each row of stride, from which computing takes longer than reading
    blocks: int = 8  # rows of a window for each row of stride, above which blocks pay
    constant: int = 1 << 16  # elements of an output; from here on a kernel of its own for a small window pays
    constant_at: int = 1 << 12  # the same where positions are wanted, which take the other kernel 10 times as long
    taps: int = 9  # the largest window along W that has a kernel of its own
    held: int = 16  # elements of a window, up to which all are taken at once: LLVM unrolls loops of so many steps
    by: int = 8  # the largest stride along W that has one
    map: int = 400  # elements of a task's planes, whose masks stay in the first cache
    short_row: int = 64  # elements of a row that hardly fills vectors
    voters: int = 27  # elements of a window; of more, sorting takes less time than comparing each with each
    prefetched_row: int = 1 << 12  # bytes of a row; for longer rows prefetching takes up to 1.3 times as long
    cached: int = 1 << 21  # bytes of an input that stays in the cache and needs no prefetching
    tile: int = 3  # rows and columns of the largest window read without a row buffer; 4x4 took 1.1 to 1.2 times as long
    short_tile: int = 2  # the same for short rows
    few_rows: int = 16  # of fewer, long ones are shared out among threads in pieces
    channels: int = 16  # inner elements, from which a row of them fills vectors


LIMITS = Limits()


def choose_kernel(region: Region, indices: bool = False, order: Order | None = None) -> Choice:
    """The kernel that computes a region (with positions where `indices` is true), and all that it is given; `order` is
    that of the axes in memory, where it is not the order of the layout.
    """
    if max(map(len, region.outputs)) > LONGEST_KEPT:
        return _choose.__wrapped__(region, indices, order, LIMITS)
    return _choose(region, indices, order, LIMITS)


LONGEST_KEPT = 2**13  # outputs along an axis; the tables of longer ones, about 100 bytes each, are not kept


@lru_cache(maxsize=16)
def _choose(region: Region, indices: bool, order: Order | None, limits: Limits) -> Choice:
    plan, view = region.plan, view_of(region, limits.merged, order)
    longest = prod(axis.entire.longest for axis in view.axes)
    computed = compute(plan, max(longest, largest_divisor(plan)) if plan.is_weighted else longest)
    how, itemsize = without_division(computed.how, plan), computed.how.nothing.itemsize
    if plan.is_weighted:
        wide = view.axes[1].entire.longest, view.axes[2].entire.longest
        loops = Loops("weighed", wide, view.rows, view.input_shape[3] + view.output_shape[3])
    elif plan.reducer.votes:
        loops = _votes(view, itemsize, limits)
    elif plan.reducer.statistic:
        loops = _statistic(view, how.total, itemsize, lookup(plan.dtype).kind != "float", limits)
    else:
        read = seen_as(plan.dtype).itemsize
        loops = _best_at(view, limits) if indices else _loops(view, itemsize, read, limits)
    geometry = view.geometry(computed.divisor, spread=loops.kernel in SPREAD)
    if loops.kernel == "slide_maps":
        geometry = geometry.of_planes(loops.more[1])
    if how.result == "ofkernel":
        geometry = geometry._replace(elements=prod(windows.longest for windows in plan.windows))
    sums_integers = how.total == "sum" and not how.sums_floats
    source = np.dtype(np.int64) if sums_integers and plan.dtype == "uint64" else seen_as(plan.dtype)
    return Choice(plan.dtype, view, how, source, computed.made, geometry, loops)


class Loops(NamedTuple):
    """A kernel by its name, what it alone is given, and how many tasks it has. A run of them needs row buffers of
    `scratch` totals, and of `lines` numbers. `taps` are constants of a kernel that is made for one size of windows.
    """

    kernel: str
    more: tuple[Any, ...]
    tasks: int
    scratch: int
    lines: int = 0
    taps: Taps | None = None


LARGEST_INT32 = 2**31 - 1
SPREAD = ("each", "best_at", "mode_each")  # kernels to which windows along W are given for every inner element


def _best_at(view: View, limits: Limits) -> Loops:
    """The loops of positions."""
    width, size, taps = view.input_shape[3], view.output_shape[3], constant_taps(view, limits)
    w = across(view, limits)
    is_apart = taps is not None and taps.stride > 1 and view.inner > 1
    has_many_rows = prod(view.input_shape[1:3]) > LARGEST_INT32
    if w is None or taps is None or is_apart or has_many_rows or prod(view.output_shape) < limits.constant_at:
        d, h, _ = view.axes
        in_line = view.inner == view.axes[2].step == d.entire.longest == h.entire.longest == 1
        some = (min(width, LINE) if in_line else width) + VECTORS
        return Loops("best_at", (), view.rows, some, lines=0 if in_line else some)
    w = by_strides(w)
    length, padded = 2 * w.reach * view.inner + VECTORS, ceil_div(size, VECTORS) * VECTORS
    return Loops("slide_at", (w,), view.rows, length + padded, lines=length + 2 * padded, taps=taps)


def _loops(view: View, itemsize: int, source: int, limits: Limits) -> Loops:
    """The loops that suit the windows, where totals are of `itemsize` bytes and elements of `source`."""
    w, h = across(view, limits), down(view, limits)
    size, prefetched = view.output_shape[3], _prefetched(view, source, limits)
    if w is None:
        return _each(view, limits)
    taps = constant_taps(view, limits) if prod(view.output_shape) >= limits.constant else None
    tile = tile_of(view, source, limits)
    if tile is not None and (taps is not None or tile == HALVING) and not is_line(view, taps):
        return Loops("tiles", prefetched, view.rows, size * tile.stride, taps=tile)
    if view.inner == PIXEL and is_tiled(view) and w.kernel == w.stride == HALVING.kernel:
        return Loops("tiles_of_pixels", (), view.rows, 3 * size + 2)
    most = limits.row if h is None else limits.block_row
    w = in_pieces(w, most // itemsize // view.inner)
    w = w if taps is None else by_strides(w)
    if is_line(view, taps):
        pieces = ceil_div(w.outputs, w.piece)
        return Loops("slide_line", (w,), view.rows * pieces, 0, taps=taps)
    pieces, length, sampled = ceil_div(w.outputs, w.piece), w.reach * view.inner, w.piece * view.inner
    if h is not None:
        tasks, scratch = view.rows // view.axes[1].output * h.blocks * pieces, 4 * length + sampled
        scratch += (h.kernel + 1) * length
        return Loops("slide_blocks", (w, h), tasks, scratch, taps=taps)
    if taps is not None and is_small_map(view, limits):
        return _planes(w, taps, view, limits.short // itemsize, limits)
    is_slow = prefetched[0] > 0 and not is_busy(view, limits)
    group = max(1, (limits.short_fetched if is_slow else limits.short) // itemsize // length)
    tasks, scratch = ceil_div(view.rows, group) * pieces, 3 * length * group + sampled
    return Loops("slide", (w, group, *prefetched), tasks, scratch, taps=taps)


def _prefetched(view: View, itemsize: int, limits: Limits) -> tuple[int, int, int]:
    """The cache lines to prefetch for each output row: their number, the elements of `itemsize` bytes in each, and the
    first one, in elements from the first row of the windows.

    They hold the rows that the windows are the first to read, and skipped ones where these are few, since one ascending
    stream is fastest (2x2 windows, stride 3: 0.4 of the time); where most rows are skipped, those of the next windows.
    Windows that overlap prefetch those of the next ones (5x5, stride 1: 0.9 of the time), or of later ones.
    """
    row, size, h = view.input_shape[3], prod(view.input_shape), view.axes[1].windows
    if row * itemsize > limits.prefetched_row or size * itemsize < limits.cached or view.axes[0].size > 1 or h is None:
        return 0, 0, 0
    rows, first = (h.stride, 0) if h.stride <= 2 * h.kernel else (h.kernel, h.stride)
    if h.kernel > h.stride:
        first = h.kernel + (limits.busy * h.stride if is_busy(view, limits) else 0)
    return row * rows * itemsize // CACHE_LINE, CACHE_LINE // itemsize, row * first


def is_busy(view: View, limits: Limits) -> bool:
    """Whether windows share so many rows that computing them takes longer than reading."""
    h = view.axes[1].windows
    return h is not None and h.kernel >= limits.busy * h.stride


def _each(view: View, limits: Limits) -> Loops:
    """The loops of windows that are joined each on its own."""
    w = view.axes[2]
    if view.inner >= limits.channels and w.entire.longest > SHORT:
        reach = (w.entire.longest - 1) * w.step + 1
        return Loops("each_inner", (), view.rows, (LANES + reach) * view.inner)
    return Loops("each", (w.entire.longest,), view.rows, view.input_shape[3] + view.output_shape[3])


def is_line(view: View, taps: Taps | None) -> bool:
    """Whether windows are of one row, and pass something on."""
    d, h, _ = view.axes
    return taps is not None and view.inner == 1 and d.entire.is_single and h.entire.is_single and taps.pass_on


def is_small_map(view: View, limits: Limits) -> bool:
    """Whether windows slide by one over planes of short rows, and output rows are as long as those of the input."""
    d, h, w = view.axes
    if view.inner > 1 or d.size > 1 or not d.is_whole or h.windows is None or w.windows is None:
        return False
    return h.windows.stride == w.windows.stride == 1 and w.output == w.size <= limits.short_row


def _planes(w: RowWindows, taps: Taps, view: View, short: int, limits: Limits) -> Loops:
    """Whole planes, some of them in a task: of up to `short` elements where rows are joined first."""
    planes, size = view.outer, view.axes[1].output * view.axes[2].output
    group, row = max(1, short // size), view.axes[2].output
    masked = min(group * size, max(1, limits.map // row) * row)
    whole = group * size
    return Loops(
        "slide_maps",
        (w, group, planes, masked),
        ceil_div(planes, group),
        whole + 2 * w.kernel * w.dilation + 64,
        lines=w.kernel * masked,
        taps=taps,
    )


def _votes(view: View, itemsize: int, limits: Limits) -> Loops:
    """The loops of modes: of all windows of a row at once where comparing each element with each costs little."""
    elements, taps = prod(axis.entire.longest for axis in view.axes), constant_taps(view, limits)
    if taps is None or view.inner > 1 or elements > limits.voters:
        return Loops("mode_each", (), view.rows, elements)
    piece = max(VECTORS, limits.row // itemsize // (elements + 3))
    return Loops("mode_few", (piece,), view.rows, piece * (elements + 3), taps=taps)


def _statistic(view: View, kernel: str, itemsize: int, is_integer: bool, limits: Limits) -> Loops:
    """The loops of statistics, which a word names; rows of `piece` windows lie side by side in a row buffer, or of what
    they reach over.
    """
    d, h, w = view.axes
    lines = d.entire.longest * h.entire.longest
    held = lines * w.entire.longest // 2 + 2  # elements at once, of which a median is one
    rows, own = {"moments": (8, 0), "deviations": (5, int(is_integer)), "median": (held + 1, held)}[kernel]
    taps = _held_at_once(view, lines, limits) if kernel == "deviations" and not is_integer else None
    rows = rows if taps is None else max(rows, lines * taps.stride + 1)
    most = limits.row if kernel == "deviations" else 2 * limits.row  # the others use half of it at once
    piece = max(1, max(VECTORS, most // itemsize // rows) // view.inner)
    gap = int(np.diff(w.begin).max(initial=1)) if kernel == "moments" else 1
    length = min(view.input_shape[3], (piece * gap + (w.entire.longest - 1) * w.step) * view.inner) + CACHE_LINE
    return Loops(kernel, (w.entire.longest, piece, own), view.rows, rows * length, lines=rows, taps=taps)


def _held_at_once(view: View, lines: int, limits: Limits) -> Taps | None:
    """The size of windows whose elements are all taken at once, where a kernel for that size alone pays."""
    taps = constant_taps(view, limits) if prod(view.output_shape) >= limits.constant else None
    if taps is None or lines * taps.kernel > limits.held or (taps.stride > 1 and view.inner > 1):
        return None
    return taps._replace(rows=lines)


def constant_taps(view: View, limits: Limits) -> Taps | None:
    """The size of regular windows along W, where a kernel for that size alone pays."""
    w = view.axes[2].windows
    if w is None or w.kernel > limits.taps or w.stride > limits.by:
        return None
    side_by_side = w.stride == 1 or (w.dilation == 1 and (view.inner == 1 or view.inner >= limits.channels))
    return Taps(w.kernel, w.stride) if side_by_side else None


def is_tiled(view: View) -> bool:
    """Whether windows along W do not overlap and lie inside the input."""
    w = view.axes[2].windows
    if w is None or w.dilation > 1 or w.pad_begin or w.kernel > w.stride:
        return False
    return (w.output - 1) * w.stride + w.kernel <= w.size


def tile_of(view: View, itemsize: int, limits: Limits) -> Taps | None:
    """The size of small windows that do not overlap along W, of one plane or one row of each plane; None otherwise."""
    taps, longest = constant_taps(view, limits), [axis.entire.longest for axis in view.axes]
    is_short = view.input_shape[3] * itemsize <= limits.prefetched_row
    most = limits.short_tile if is_short else limits.tile
    if taps is None or view.inner > 1 or not is_tiled(view) or min(longest[:2]) > 1 or max(longest) > most:
        return None
    if is_short and taps.kernel > 1 and taps.stride > limits.short_tile:
        return None  # loads three and more elements apart are gathers: 2x2 with stride 3 took 1.2 to 1.35 times as long
    if view.rows < limits.few_rows and view.output_shape[3] > limits.merged:
        return None
    return taps._replace(rows=max(longest[:2]))


HALVING = Taps(2, 2, rows=2)
PIXEL = 3  # inner elements


def across(view: View, limits: Limits) -> RowWindows | None:
    """The windows along W, a row as one piece, where they are regular; None where each is better taken on its own."""
    axis = view.axes[2]
    w = axis.windows
    if w is None or (w.stride >= w.extent and w.kernel >= limits.run):
        return None
    if (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + limits.merged:
        return None
    reach = (axis.output - 1) * w.stride + w.extent
    whole = int(axis.divisor.argmax())
    cut = whole + int(np.append(axis.divisor[whole:] == axis.divisor[whole], False).argmin())
    return RowWindows(w.kernel, w.stride, w.dilation, axis.pad, reach, axis.output, axis.output, whole, cut)


def in_pieces(w: RowWindows, most: int) -> RowWindows:
    """The same in pieces that reach over about `most` inputs, where a row reaches over more."""
    extent = (w.kernel - 1) * w.dilation + 1
    piece = w.piece if w.reach <= most else min(w.outputs, max(1, (most + extent) // w.stride))
    return w._replace(piece=piece, reach=(piece - 1) * w.stride + extent)


def by_strides(w: RowWindows) -> RowWindows:
    """The same with a reach of whole strides, so that elements of one residue can be brought side by side."""
    return w._replace(reach=ceil_div(w.reach, w.stride) * w.stride)


def down(view: View, limits: Limits) -> ColumnWindows | None:
    """The windows along H, where blocks of rows beat joining each window's."""
    axis = view.axes[1]
    h = axis.windows
    if h is None or h.dilation > 1 or h.kernel <= limits.blocks * h.stride or h.kernel > h.size + limits.merged:
        return None
    if not view.axes[0].entire.is_single:
        return None
    return ColumnWindows(h.kernel, h.stride, axis.pad, ceil_div((axis.output - 1) * h.stride + 1, h.kernel))
