"""The choice of a kernel for a region, its parameters and the number of its tasks.

Whatever decides on the order of additions depends on whole axes, so that all regions of a plan give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.call import Order
from poolcli.engine.choose import largest_divisor
from poolcli.engine.compiled.arithmetic import NO_DIVISOR, Arithmetic, arithmetic_for, kernel_dtype, without_division
from poolcli.engine.compiled.canonical_view import Axis, CanonicalView, canonical_view
from poolcli.engine.compiled.geometry import (
    ARGMAX_BLOCK,
    CACHE_LINE,
    LANES,
    SHORT_WINDOW,
    VECTOR_ELEMENTS,
    ColumnWindows,
    FixedWindow,
    Geometry,
    ReadAhead,
    RowWindows,
    Strides,
)
from poolcli.engine.compiled.launch import address
from poolcli.plan.plan import Region
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Thresholds(NamedTuple):
    """The sizes from which another kernel, or another division of its work, is faster."""

    long_window: int = 16  # elements along W of windows that do not overlap; longer ones are combined one by one
    merged_row: int = 4096  # elements of the rows that are made of whole planes
    row_bytes: int = 1 << 13  # of a row buffer: a task's buffers stay in the first-level cache
    block_row_bytes: int = 1 << 15  # the same for `slide_blocks`, whose buffers stay in the second-level cache
    group_bytes: int = 1 << 13  # of the rows of a task, if they are shorter than `row_bytes`
    waiting_group_bytes: int = 1 << 11  # the same for short rows beyond the cache: shorter bursts of reading
    shared_rows: int = 4  # kernel_h / stride_h from which computing takes longer than reading
    block_rows: int = 8  # kernel_h / stride_h above which `slide_blocks` is faster
    fixed_outputs: int = 1 << 16  # elements of an output from which kernels are compiled for one window size
    fixed_outputs_argmax: int = 1 << 12  # the same with indices: the general kernel takes ten times as long
    fixed_kernel: int = 9  # the largest kernel_w with kernels of its own
    fixed_stride: int = 8  # the largest stride_w with kernels of its own
    unrolled: int = 16  # elements of a window, up to which LLVM unrolls its loop
    mask_elements: int = 400  # outputs of a part of small planes, whose masks stay in the first-level cache
    short_row: int = 64  # elements of a row that is too short to fill vectors well
    short_row_bytes: int = 320  # of its accumulators
    mode_elements: int = 27  # of a window; for more, sorting takes less time than comparing all pairs
    prefetched_row_bytes: int = 1 << 13  # of the longest rows that are asked for before they are read
    touched_row_bytes: int = 1 << 11  # for longer rows, loads are faster than prefetches if windows do not overlap
    touched_bytes: int = 1 << 16  # of the rows of a window; with more, touching takes up to 1.8 times as long
    cached_bytes: int = 1 << 21  # of an input that stays in the cache and needs no prefetching
    burst: int = 128  # cache lines to prefetch times rows of a window, beyond which they are prefetched in two bursts
    tile: int = 3  # rows and columns of the largest window read without a row buffer; 4x4 took 1.1 to 1.2 times as long
    short_tile: int = 2  # the same for short rows
    few_rows: int = 16  # fewer long rows are divided among threads in pieces
    channels: int = 16  # inner elements from which they fill vectors


THRESHOLDS = Thresholds()
HALVING = FixedWindow(2, 2, rows=2)
RGB = 3  # inner elements
MAX_INT32 = 2**31 - 1
MAX_CACHED_LENGTH = 2**13  # outputs along an axis; longer tables, of about 100 bytes an output, are not cached
# Kernels whose windows along W are repeated for every inner element.
REPEATED = ("irregular", "irregular_short", "irregular_row", "argmax", "argmax_row")
BY_WINDOW = ("median", "mode_pairs", "mode_sort", "deviation")  # kernels whose windows share no results


class Launch(NamedTuple):
    """A kernel by its name, its own parameters and the number of its tasks.

    `work` is the size of its work array in accumulators, `iwork` that of its work array of int32. `fixed` are the
    constants of a kernel that is compiled for one window size.
    """

    kernel: str
    params: tuple[Any, ...]
    tasks: int
    work: int
    iwork: int = 0
    fixed: FixedWindow | None = None


@dataclass(frozen=True)
class KernelSpec:
    """A kernel and its arguments besides the arrays.

    `dtype` is the type of the elements, and `source` the type as which the kernel sees them.
    """

    dtype: str
    view: CanonicalView
    arithmetic: Arithmetic
    source: np.dtype[Any]
    geometry: Geometry
    launch: Launch

    @cached_property
    def name(self) -> str:
        """The name of the compiled kernel, which has everything that is constant in it."""
        fixed, divisor = self.launch.fixed, self.arithmetic.divisor
        size = [] if fixed is None else [f"{fixed.kernel}by{fixed.stride}" + f"x{fixed.rows}" * (fixed.rows > 1)]
        types = [self.arithmetic.output.name] + [divisor.name] * (divisor != NO_DIVISOR)
        return "-".join([self.launch.kernel, *size, self.dtype, *self.arithmetic.steps, *types])

    @cached_property
    def params(self) -> NDArray[np.int64]:
        """The geometry and the kernel's own parameters as the kernel reads them: numbers, and addresses of arrays."""
        return np.array([*_flat((self.geometry, self.launch.params))], np.int64)

    def params_for(self, strides: Strides) -> NDArray[np.int64]:
        """The same for an array with these strides."""
        params = self.params.copy()
        params[: len(strides)] = strides
        return params

    @cached_property
    def iwork_offset(self) -> int:
        """The bytes of the work array, after which that of int32 begins."""
        return ceil_div(self.launch.work * self.arithmetic.identity.itemsize, CACHE_LINE) * CACHE_LINE

    @cached_property
    def work_bytes(self) -> int:
        """The bytes of both work arrays."""
        return self.iwork_offset + self.launch.iwork * 4

    @cached_property
    def bytes_read(self) -> int:
        """Bytes that the kernel reads or writes, as a measure of its time: each takes 0.03 to 0.4 ns.

        Rows of windows count, or all elements where windows share nothing, and some as often as they are compared.
        """
        d, h, w = self.view.axes
        lines = d.full.longest * h.full.longest
        elements = lines * w.full.longest
        read = prod(self.view.output_shape[:3]) * self.view.input_shape[3] * min(lines, 8)
        if self.launch.kernel == "exact_deviation":
            read *= 6  # of sums and of squares, which are combined along W, too
        elif self.launch.kernel in BY_WINDOW:
            times = max(1, elements // 8) if self.launch.kernel == "median" else 2
            read = prod(self.view.output_shape) * elements * times
        return max(prod(self.view.input_shape), prod(self.view.output_shape), read) * self.source.itemsize


def _flat(value: Any) -> Iterator[int]:
    """The numbers in a tuple and in the tuples in it, with the addresses of arrays."""
    if isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield address(value) if isinstance(value, np.ndarray) else value


def choose_kernel(region: Region, indices: bool = False, order: Order | None = None) -> KernelSpec:
    """The kernel that computes a region, with indices if requested.

    `order` is the order of the axes in memory, if it is not that of the layout.
    """
    if max(map(len, region.outputs)) > MAX_CACHED_LENGTH:
        return _choose.__wrapped__(region, indices, order, THRESHOLDS)
    return _choose(region, indices, order, THRESHOLDS)


@lru_cache(maxsize=16)
def _choose(region: Region, indices: bool, order: Order | None, limits: Thresholds) -> KernelSpec:
    plan, view = region.plan, canonical_view(region, limits.merged_row, order)
    longest = prod(axis.full.longest for axis in view.axes)
    total = arithmetic_for(plan, max(longest, largest_divisor(plan)) if plan.is_weighted else longest)
    arithmetic, itemsize = without_division(total, plan), total.identity.itemsize
    if plan.is_weighted:
        longest_h, longest_w = view.axes[1].full.longest, view.axes[2].full.longest
        launch = Launch("weighted_sum", (longest_h, longest_w), view.rows, view.input_shape[3] + view.output_shape[3])
    elif plan.reducer.votes:
        launch = _mode(view, itemsize, limits)
    elif plan.reducer.statistic:
        launch = _statistic(view, arithmetic.accumulator, itemsize, lookup(plan.dtype).kind != "float", limits)
    elif indices:
        launch = _argmax(view, limits)
    else:
        launch = _sum_or_max(view, arithmetic, kernel_dtype(plan.dtype).itemsize, limits)
    geometry = view.geometry(total.divisor, repeat=launch.kernel in REPEATED)
    if launch.kernel == "slide_planes":
        _, _, rows, has_whole_planes, *_ = launch.params
        geometry = geometry.with_joined_planes(rows) if has_whole_planes else geometry.with_joined_rows(rows)
    if arithmetic.result in ("scaled", "by_reciprocal"):
        geometry = geometry.with_reciprocals(arithmetic.result == "scaled")
    if arithmetic.result == "times_kernel":
        geometry = geometry._replace(kernel_elements=prod(windows.longest for windows in plan.windows))
    sums_integers = arithmetic.accumulator == "sum" and not arithmetic.is_float_sum
    source = np.dtype(np.int64) if sums_integers and plan.dtype == "uint64" else kernel_dtype(plan.dtype)
    return KernelSpec(plan.dtype, view, arithmetic, source, geometry, launch)


def _argmax(view: CanonicalView, limits: Thresholds) -> Launch:
    """Maxima or minima with their positions."""
    width, size, fixed = view.input_shape[3], view.output_shape[3], fixed_window(view, limits)
    w = row_windows(view, limits)
    is_strided = fixed is not None and fixed.stride > 1 and view.inner > 1
    has_many_rows = prod(view.input_shape[1:3]) > MAX_INT32
    if (
        w is None
        or fixed is None
        or is_strided
        or has_many_rows
        or prod(view.output_shape) < limits.fixed_outputs_argmax
    ):
        d, h, _ = view.axes
        in_one_row = view.inner == view.axes[2].dilation == d.full.longest == h.full.longest == 1
        row = (min(width, ARGMAX_BLOCK) if in_one_row else width) + VECTOR_ELEMENTS
        return Launch("argmax_row" if in_one_row else "argmax", (), view.rows, row, iwork=0 if in_one_row else row)
    w = in_whole_strides(w)
    length, padded = 2 * w.reach * view.inner + VECTOR_ELEMENTS, ceil_div(size, VECTOR_ELEMENTS) * VECTOR_ELEMENTS
    return Launch("slide_argmax", (w,), view.rows, length + padded, iwork=length + 2 * padded, fixed=fixed)


def _sum_or_max(view: CanonicalView, arithmetic: Arithmetic, source_itemsize: int, limits: Thresholds) -> Launch:
    """Sums, maxima and minima."""
    w, h, itemsize = row_windows(view, limits), column_windows(view, limits), arithmetic.identity.itemsize
    size, ahead = view.output_shape[3], _read_ahead(view, source_itemsize, limits)
    if w is None:
        return _irregular(view, arithmetic, limits)
    fixed = fixed_window(view, limits) if prod(view.output_shape) >= limits.fixed_outputs else None
    tile = fixed_tile(view, source_itemsize, limits)
    if tile is not None and (fixed is not None or tile == HALVING) and not is_single_row(view, fixed):
        return Launch("tiles", (ahead,), view.rows, size * tile.stride, fixed=tile)
    if view.inner == RGB and is_tiled(view) and w.kernel == w.stride == HALVING.kernel:
        return Launch("rgb_tiles", (), view.rows, 3 * size + 2)
    buffer = limits.row_bytes if h is None else limits.block_row_bytes
    if not any(ahead):  # pieces of rows are no ascending stream
        w = in_pieces(w, buffer // itemsize // view.inner)
    w = w if fixed is None else in_whole_strides(w)
    pieces, length, sampled = ceil_div(w.outputs, w.piece), w.reach * view.inner, w.piece * view.inner
    if is_single_row(view, fixed):
        return Launch("slide_row", (w,), view.rows * pieces, 0, fixed=fixed)
    if h is not None:
        tasks, work = view.rows // view.axes[1].output * h.blocks * pieces, 4 * length + sampled
        work += (h.kernel + 1) * length
        return Launch("slide_blocks", (w, h), tasks, work, fixed=fixed)
    if fixed is not None and is_small_plane(view, itemsize, limits):
        return _small_planes(w, fixed, view, itemsize, limits)
    waits_for_memory = is_beyond_cache(view, source_itemsize, limits) and not shares_rows(view, limits)
    bytes_of_group = limits.waiting_group_bytes if waits_for_memory else limits.group_bytes
    group = max(1, bytes_of_group // itemsize // length)
    tasks, work = ceil_div(view.rows, group) * pieces, 3 * length * group + sampled
    return Launch("slide", (w, group, ahead), tasks, work, fixed=fixed)


def _read_ahead(view: CanonicalView, itemsize: int, limits: Thresholds) -> ReadAhead:
    """What to ask for before a window's rows are combined; `itemsize` is that of an element in bytes.

    Prefetched are the rows that the windows are the first to read, and skipped ones where these are few, since one
    ascending stream is fastest (2x2 windows, stride 3: 0.4 of the time); where most rows are skipped, those of the next
    windows. Windows that overlap prefetch those of the next ones, or of later ones if they share most rows (5x5, stride
    1: 0.9 of the time). Others with stride 1 read one new row each, a stream that needs no prefetching: 0.8 to 0.95
    without.

    Windows that overlap prefetch half of many lines after combining: the processor stops when it waits for too many at
    once (5x5 to 9x9: 0.65 to 0.98 of the time). If there is little to combine, the second half comes too late (maxima
    of 3x3 with stride 2: 1.27).
    """
    h, row, is_shared = view.axes[1].windows, view.input_shape[3], shares_rows(view, limits)
    if h is None or not is_beyond_cache(view, itemsize, limits) or (h.stride == 1 and not is_shared):
        return ReadAhead()
    if h.kernel == h.stride and row * itemsize > limits.touched_row_bytes:
        is_low = h.kernel * row * itemsize <= limits.touched_bytes
        return ReadAhead(elements=CACHE_LINE // itemsize, touches=1) if is_low else ReadAhead()
    rows, first = (h.stride, 0) if h.stride <= 2 * h.kernel else (h.kernel, h.stride)
    if h.kernel > h.stride:
        first = h.kernel + (limits.shared_rows * h.stride if is_shared else 0)
    lines = row * rows * itemsize // CACHE_LINE
    late = lines // 2 if h.kernel > h.stride and lines * h.kernel > limits.burst else 0
    return ReadAhead(lines - late, CACHE_LINE // itemsize, row * first, late)


def is_beyond_cache(view: CanonicalView, itemsize: int, limits: Thresholds) -> bool:
    """Whether regular windows of one plane read short rows of an input that does not stay in the cache."""
    row, size = view.input_shape[3] * itemsize, prod(view.input_shape) * itemsize
    is_regular = view.axes[0].size == 1 and view.axes[1].windows is not None
    return is_regular and row <= limits.prefetched_row_bytes and size >= limits.cached_bytes


def shares_rows(view: CanonicalView, limits: Thresholds) -> bool:
    """Whether windows share so many rows that computing them takes longer than reading."""
    h = view.axes[1].windows
    return h is not None and h.kernel >= limits.shared_rows * h.stride


def _irregular(view: CanonicalView, arithmetic: Arithmetic, limits: Thresholds) -> Launch:
    """Sums, maxima and minima of windows that are combined one by one."""
    (d, h, w), size = view.axes, view.output_shape[3]
    if w.full.longest <= SHORT_WINDOW:
        work = view.input_shape[3] + w.full.longest * w.dilation * view.inner
        return Launch("irregular_short", (), view.rows, work, fixed=FixedWindow(w.full.longest, 1))
    if view.inner >= limits.channels:
        reach = (w.full.longest - 1) * w.dilation + 1
        return Launch("irregular_inner", (), view.rows, (LANES + reach) * view.inner)
    is_converted = bool(arithmetic.read or arithmetic.term)
    if d.full.is_single and h.full.is_single and not (arithmetic.is_float_sum and is_converted):
        return Launch("irregular_row", (), view.rows, size)
    return Launch("irregular", (), view.rows, view.input_shape[3] + size)  # as fast as in place for converted floats


def is_single_row(view: CanonicalView, fixed: FixedWindow | None) -> bool:
    """Whether windows have one row, and share none, one or half of their elements with the next one."""
    d, h, _ = view.axes
    return fixed is not None and view.inner == 1 and d.full.is_single and h.full.is_single and fixed.shares_part


def is_small_plane(view: CanonicalView, itemsize: int, limits: Thresholds) -> bool:
    """Whether windows slide by one over planes of short rows, and output rows are as long as input rows."""
    d, h, w = view.axes
    if view.inner > 1 or d.size > 1 or not d.is_global or h.windows is None or w.windows is None:
        return False
    longest = min(limits.short_row, limits.short_row_bytes // itemsize)
    return h.windows.stride == w.windows.stride == 1 and w.output == w.size <= longest


def _small_planes(w: RowWindows, fixed: FixedWindow, view: CanonicalView, itemsize: int, limits: Thresholds) -> Launch:
    """Planes of short rows. A task has planes of up to `group_bytes` of accumulators, in parts of up to `mask_elements`
    outputs: whole planes if they are small.

    Three rows of windows over small planes are combined in one pass; pairs of sums and errors (of float64) took 1.4
    times as long that way.
    """
    h, row, planes = view.axes[1], view.axes[2].output, view.outer
    size = h.output * row
    group, has_whole_planes = max(1, limits.group_bytes // itemsize // size), size <= limits.mask_elements
    has_three_rows = h.windows is not None and h.windows.kernel == 3 and h.output == h.size
    joins_three = has_three_rows and has_whole_planes and itemsize < np.complex128().itemsize
    rows = limits.mask_elements // row
    if has_whole_planes:
        rows = min(group, limits.mask_elements // size) * h.output
    work = (w.kernel + 3 * joins_three + 1) * rows * row + 2 * w.kernel * w.dilation
    params, tasks = (w, group, rows, int(has_whole_planes), int(joins_three), h.pad), ceil_div(planes, group)
    return Launch("slide_planes", params, tasks, work, fixed=fixed)


def _mode(view: CanonicalView, itemsize: int, limits: Thresholds) -> Launch:
    """Modes: by comparing all pairs if windows are small and regular, else by sorting."""
    elements, fixed = prod(axis.full.longest for axis in view.axes), fixed_window(view, limits)
    if fixed is None or view.inner > 1 or elements > limits.mode_elements:
        return Launch("mode_sort", (1, 0, 0, 1), view.rows, elements)
    piece = max(VECTOR_ELEMENTS, limits.row_bytes // itemsize // (elements + 3))
    return Launch(
        "mode_pairs",
        (piece, *_whole_windows(view.axes[2], fixed.kernel)),
        view.rows,
        piece * (elements + 3),
        fixed=fixed,
    )


def _statistic(view: CanonicalView, kernel: str, itemsize: int, is_integer: bool, limits: Thresholds) -> Launch:
    """Medians and standard deviations, in pieces of `piece` windows.

    The work array has `rows` rows, of an element of each window or of what the windows read.
    """
    d, h, w = view.axes
    lines = d.full.longest * h.full.longest
    kept = lines * w.full.longest // 2 + 2  # candidates for the median, of which one is replaced at a time
    rows, own = {"exact_deviation": (8, 0), "deviation": (5, int(is_integer)), "median": (kept + 1, kept)}[kernel]
    fixed = _unrolled_window(view, lines, limits) if kernel == "deviation" and not is_integer else None
    rows = rows if fixed is None else max(rows, lines * fixed.stride + 1)
    buffer = limits.row_bytes if kernel == "deviation" else 2 * limits.row_bytes  # the others use half of it at once
    piece = max(1, max(VECTOR_ELEMENTS, buffer // itemsize // rows) // view.inner)
    stride = int(np.diff(w.start).max(initial=1)) if kernel == "exact_deviation" else 1
    length = min(view.input_shape[3], (piece * stride + (w.full.longest - 1) * w.dilation) * view.inner) + CACHE_LINE
    params = piece, *_whole_windows(w, w.full.longest), own
    return Launch(kernel, params, view.rows, rows * length, iwork=rows, fixed=fixed)


def _whole_windows(w: Axis, length: int) -> tuple[int, int, int]:
    """The first run of windows along W that have `length` elements and one distance: the first of them, the one after
    the last, and the distance.

    Windows that reach over both ends of the input may have fewer elements than those beside them.
    """
    is_whole = w.count == length
    if not is_whole.any():
        return 0, 0, 1
    first = int(is_whole.argmax())
    steps = np.diff(w.start[first:], append=w.start[-1])  # the last one is 0
    continues = np.append(is_whole[first + 1 :], False) & (steps == steps[0]) & (steps > 0)
    return first, first + 1 + int(continues.argmin()), max(int(steps[0]), 1)


def _unrolled_window(view: CanonicalView, lines: int, limits: Thresholds) -> FixedWindow | None:
    """The constants of a kernel that unrolls all taps of a window; None if it is too large, or the output too small."""
    fixed = fixed_window(view, limits) if prod(view.output_shape) >= limits.fixed_outputs else None
    if fixed is None or lines * fixed.kernel > limits.unrolled or (fixed.stride > 1 and view.inner > 1):
        return None
    return fixed._replace(rows=lines)


def fixed_window(view: CanonicalView, limits: Thresholds) -> FixedWindow | None:
    """The constants of a kernel that is compiled for one size of windows along W; None if that does not pay."""
    w = view.axes[2].windows
    if w is None or w.kernel > limits.fixed_kernel or w.stride > limits.fixed_stride:
        return None
    is_adjacent = w.stride == 1 or (w.dilation == 1 and (view.inner == 1 or view.inner >= limits.channels))
    return FixedWindow(w.kernel, w.stride) if is_adjacent else None


def is_tiled(view: CanonicalView) -> bool:
    """Whether windows along W do not overlap and are inside the input."""
    w = view.axes[2].windows
    if w is None or w.dilation > 1 or w.pad_begin or w.kernel > w.stride:
        return False
    return (w.output - 1) * w.stride + w.kernel <= w.size


def fixed_tile(view: CanonicalView, itemsize: int, limits: Thresholds) -> FixedWindow | None:
    """The constants of a kernel for small windows that do not overlap along W and have one plane, or one row of each
    plane; None otherwise.
    """
    fixed, longest = fixed_window(view, limits), [axis.full.longest for axis in view.axes]
    is_short = view.input_shape[3] * itemsize <= limits.prefetched_row_bytes
    largest = limits.short_tile if is_short else limits.tile
    if fixed is None or view.inner > 1 or not is_tiled(view) or min(longest[:2]) > 1 or max(longest) > largest:
        return None
    if is_short and fixed.kernel > 1 and fixed.stride > limits.short_tile:
        return None  # loads three and more elements apart are gathers: 2x2 with stride 3 took 1.2 to 1.35 times as long
    if view.rows < limits.few_rows and view.output_shape[3] > limits.merged_row:
        return None
    return fixed._replace(rows=max(longest[:2]))


def row_windows(view: CanonicalView, limits: Thresholds) -> RowWindows | None:
    """The windows along W, a row as one piece; None if they are irregular, or better combined one by one."""
    axis = view.axes[2]
    w = axis.windows
    if w is None or (w.stride >= w.extent and w.kernel >= limits.long_window):
        return None
    if (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + limits.merged_row:  # mostly padding
        return None
    reach = (axis.output - 1) * w.stride + w.extent
    first = int(axis.divisor.argmax())
    stop = first + int(np.append(axis.divisor[first:] == axis.divisor[first], False).argmin())
    return RowWindows(w.kernel, w.stride, w.dilation, axis.pad, reach, axis.output, axis.output, first, stop)


def in_pieces(w: RowWindows, limit: int) -> RowWindows:
    """The same in pieces that read about `limit` elements, if a row reads more."""
    extent = (w.kernel - 1) * w.dilation + 1
    piece = w.piece if w.reach <= limit else min(w.outputs, max(1, (limit + extent) // w.stride))
    return w._replace(piece=piece, reach=(piece - 1) * w.stride + extent)


def in_whole_strides(w: RowWindows) -> RowWindows:
    """The same with a reach of whole strides, so that pieces can be sorted by their residue modulo the stride."""
    return w._replace(reach=ceil_div(w.reach, w.stride) * w.stride)


def column_windows(view: CanonicalView, limits: Thresholds) -> ColumnWindows | None:
    """The windows along H if `slide_blocks` is faster; None otherwise."""
    axis = view.axes[1]
    h = axis.windows
    if h is None or h.dilation > 1 or h.kernel <= limits.block_rows * h.stride or h.kernel > h.size + limits.merged_row:
        return None
    if not view.axes[0].full.is_single:
        return None
    return ColumnWindows(h.kernel, h.stride, axis.pad, ceil_div((axis.output - 1) * h.stride + 1, h.kernel))
