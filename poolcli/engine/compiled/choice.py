"""The choice of a kernel for a region, the numbers that it is given, and the number of its tasks.

Whatever decides on the order of additions depends on whole axes, so that all regions of a plan give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from sys import byteorder
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.call import Order, is_exact, order_of
from poolcli.engine.compiled.arithmetic import Arithmetic, arithmetic_for, kernel_dtype
from poolcli.engine.compiled.launch import address
from poolcli.engine.compiled.view import CACHE_LINE, LANES, MARGIN, Axis, Sizes, View, strides_of, view_of
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Region
from poolcli.windows import Sliding, ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Limits(NamedTuple):
    """The sizes from which another kernel is faster, or its work is divided otherwise (AMD EPYC Zen 3)."""

    outputs: int = 1 << 13  # from which kernels are compiled for one size of windows, however small a gain
    kernel: int = 9  # the widest of those windows
    stride: int = 8  # and their largest stride
    rows: int = 27  # and their most rows
    channels: int = 8  # side by side, from which they fill vectors in kernels for one size with a stride
    long_window: int = 16  # elements along W of windows that do not overlap; longer ones are joined one by one
    tall: int = 8  # kernel_h / stride_h above which rows are joined by blocks
    direct: int = 3  # rows and columns of the largest windows without a row buffer
    direct_outputs: int = 64  # of a row, below which maxima without a row buffer leave vectors empty
    map_row_bytes: int = 240  # of the totals of a row of a small map
    map_elements: int = 1 << 12  # of the largest map
    mask_elements: int = 256  # of a part of small maps
    row_bytes: int = 1 << 16  # of a row buffer, beyond which rows are divided into pieces
    pass_bytes: int = 1 << 13  # the same where it is passed over several times
    block_bytes: int = 1 << 15  # the same of blocks of rows
    fetched_bytes: int = 1 << 13  # of the longest rows that are fetched ahead
    cached_bytes: int = 1 << 21  # of an input that stays in the cache and needs no fetching
    short: int = 4  # elements along W, up to which irregular windows have constant taps
    mode_elements: int = 27  # of a window; for more, sorting takes less time than comparing all pairs
    unrolled: int = 16  # elements of windows of standard deviations with loops of their own


LIMITS = Limits()
PIECE_OUTPUTS = 16  # the fewest outputs of a piece of statistics
RGB = 3
MAX_INT32 = 2**31 - 1
BLOCK, PADDED = 1 << 12, 16  # of best.py
MAX_CACHED_LENGTH = 2**13  # outputs along an axis; longer tables are not cached


@dataclass(frozen=True)
class Kernel:
    """A kernel: `maker`, its function as module.name, which is given the arithmetic and `constants`. `source`, `work`:
    the types of its input and of its first work array.
    """

    maker: str
    constants: tuple[Any, ...]
    dtype: str
    source: np.dtype[Any]
    work: np.dtype[Any]
    arithmetic: Arithmetic

    @cached_property
    def name(self) -> str:
        """Its name in the cache, which has everything that is constant in it."""
        words = self.maker.rpartition(".")[2], *(str(constant) for constant in self.constants), self.dtype
        return "-".join([*words, self.arithmetic.name])


class Launch(NamedTuple):
    """What a family of kernels needs: its maker and constants, the number of tasks, elements of its work arrays, fields
    of `Sizes`, and tables and factors of its own.
    """

    maker: str
    constants: tuple[Any, ...] = ()
    tasks: int | None = None  # None: output rows
    work: int = 0
    spare: int = 0
    sizes: dict[str, int] = {}  # noqa: RUF012
    table: tuple[NDArray[np.int64], ...] = ()
    along_w: NDArray[np.float64] | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Prepared:
    """A kernel and what it is given besides the arrays; `family` names kernels that add in the same order."""

    kernel: Kernel
    family: str
    view: View
    table: NDArray[np.int64]
    factors: NDArray[np.float64]
    tasks: int
    work_bytes: int
    spare_at: int
    bytes_read: int


def choose_kernel(region: Region, indices: bool = False, order: Order | None = None) -> Prepared:
    """The kernel that computes a region, with indices if requested.

    `order` is the order of the axes in memory, if it is not that of the layout.
    """
    if max(map(len, region.outputs)) > MAX_CACHED_LENGTH:
        return _choose.__wrapped__(region, indices, order, LIMITS)
    return _choose(region, indices, order, LIMITS)


def choose_for_memory_order(region: Region, indices: bool, default: Prepared, x: Array) -> Prepared:
    """The kernel for the axes of `x` in memory order, so that `x` is not copied; `default`, the kernel for C order, if
    there is none or it would add floats in another order.
    """
    order = order_of(region.plan, x, indices)
    if order.axes == default.view.order:
        return default
    other = choose_kernel(region, indices, order)
    if not (is_exact(region.plan) or other.family == default.family):
        return default
    if strides_of(other.view, x.transpose(other.view.order)) is not None:
        return other
    needs_copy = strides_of(default.view, x.transpose(default.view.order)) is None
    return other if other.view.channels >= LIMITS.channels and needs_copy else default


@lru_cache(maxsize=16)
def _choose(region: Region, indices: bool, order: Order | None, limits: Limits) -> Prepared:
    plan, view = region.plan, view_of(region, order)
    is_small = prod(plan.output_shape) < limits.outputs
    arithmetic = arithmetic_for(plan, is_small)
    family, launch = _launch(region, view, arithmetic, indices, is_small, limits)
    sums_integers = arithmetic.total == "sum" and arithmetic.identity.dtype.kind == "i"
    source = np.dtype(np.int64) if sums_integers and plan.dtype == "uint64" else kernel_dtype(plan.dtype)
    work = launch.dtype or arithmetic.identity.dtype
    kernel = Kernel(launch.maker, launch.constants, plan.dtype, source, work, arithmetic)
    table, factors = _tables(view, launch, arithmetic.result == "scaled")
    spare_at = ceil_div(launch.work * work.itemsize, CACHE_LINE) * CACHE_LINE
    tasks = view.rows if launch.tasks is None else launch.tasks
    read = _bytes_read(view, arithmetic.total, source.itemsize)
    return Prepared(kernel, family, view, table, factors, tasks, spare_at + 4 * launch.spare, spare_at, read)


def _bytes_read(view: View, total: str, itemsize: int) -> int:
    """Bytes that the kernel reads or writes, as a measure of its time: each takes 0.03 to 0.4 ns.

    Rows of windows count, or all elements where windows share nothing, and some as often as they are compared.
    """
    d, h, w = view.axes
    lines = d.longest * h.longest
    elements = lines * w.longest
    read = prod(view.output_shape[:3]) * view.input_shape[3] * min(lines, 8)
    if total == "exact_deviation":
        read *= 6  # of sums and of squares, which are joined along W, too
    elif total in ("median", "mode", "deviation"):
        read = prod(view.output_shape) * elements * (max(1, elements // 8) if total == "median" else 2)
    return max(prod(view.input_shape), prod(view.output_shape), read) * itemsize


def _tables(view: View, launch: Launch, is_scaled: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    d, h, w = view.axes
    width, high, channels = view.input_shape[3], h.size, view.channels
    pairs = [np.stack((axis.start, axis.count), axis=1).ravel() for axis in view.axes]
    ends = np.cumsum([len(Sizes._fields), *map(len, pairs), *map(len, launch.table)]).tolist()
    along_w = np.repeat(w.divisor, channels) if launch.along_w is None else launch.along_w
    factors = np.concatenate((d.divisor, h.divisor, along_w)).astype(np.float64)
    first = int(w.divisor.argmax())
    last = first + int(np.append(w.divisor[first:] == w.divisor[first], False).argmin())
    taps, stride = (w.windows.kernel, w.windows.stride) if w.windows else (w.longest, 1)
    sizes: dict[str, int] = {
        "split": 1, "far": d.size * high * width, "near": 0, "plane": high * width, "row": width,
        "limit": prod(view.input_shape), "depth": d.output, "height": h.output, "columns": w.output,
        "size": w.output * channels, "high": high, "width": width, "channels": channels, "gap_d": d.dilation,
        "gap_h": h.dilation, "gap_w": w.dilation, "at_d": ends[0], "at_h": ends[1], "at_w": ends[2],
        "of_h": d.output, "of_w": d.output + h.output, "taps": taps, "stride": stride, "pad": w.pad, "reach": 0,
        "piece": w.output, "pieces": 1, "first": first, "last": last,
    }  # fmt: skip
    own = {
        name: ends[3 + int(value)] if name in ("c", "e") and launch.table else value
        for name, value in launch.sizes.items()
    }
    table = np.concatenate((np.array(Sizes(**(sizes | own)), np.int64), *pairs, *launch.table))
    with np.errstate(divide="ignore"):
        return table, 1 / factors if is_scaled else factors


def _launch(
    region: Region, view: View, arithmetic: Arithmetic, indices: bool, is_small: bool, limits: Limits
) -> tuple[str, Launch]:
    """The family, whose kernels add in one order, and the kernel."""
    plan = region.plan
    if plan.is_weighted:
        return "areas", _areas(view)
    if plan.reducer.votes:
        return "mode", _mode(view, arithmetic.identity.itemsize, limits)
    if plan.reducer.statistic:
        return "statistic", _statistic(region, view, arithmetic, is_small, limits)
    if indices:
        return "best", _best(view, arithmetic, is_small, limits)
    w = _sliding_windows(view, limits)
    if w is None:
        return "bins", _bins(view, is_small, limits)
    h = view.axes[1].windows
    if h is not None and not is_small and _is_tall(h, view, limits):
        return "tall", _tall(w, h, view, arithmetic.identity.itemsize, limits)
    return "sliding", _sliding(w, region, view, arithmetic, is_small, limits)


def _sliding_windows(view: View, limits: Limits) -> Sliding | None:
    """The windows along W; None if they are irregular, or better joined one by one."""
    w = view.axes[2].windows
    if w is None or (w.stride >= w.extent and w.kernel >= limits.long_window):
        return None
    if (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + 4096:  # mostly padding
        return None
    return w


def _pieces(w: Sliding, view: View, itemsize: int, most: int) -> dict[str, int]:
    """The pieces of a row, whose buffers take `most` bytes, or a little more."""
    outputs, limit = view.axes[2].output, max(1, most // itemsize // view.channels)
    reach = (outputs - 1) * w.stride + w.extent
    piece = outputs if reach <= limit else min(outputs, max(1, (limit + w.extent) // w.stride))
    return {"reach": (piece - 1) * w.stride + w.extent, "piece": piece, "pieces": ceil_div(outputs, piece)}


def _is_tall(h: Sliding, view: View, limits: Limits) -> bool:
    if h.dilation > 1 or h.kernel <= limits.tall * h.stride or h.kernel > h.size + 4096:
        return False
    return view.axes[0].is_single


def _tall(w: Sliding, h: Sliding, view: View, itemsize: int, limits: Limits) -> Launch:
    axis = view.axes[1]
    pieces = _pieces(w, view, itemsize, limits.block_bytes)
    blocks = ceil_div((axis.output - 1) * h.stride + 1, h.kernel)
    length, sampled = pieces["reach"] * view.channels, pieces["piece"] * view.channels
    sizes = pieces | {"a": h.kernel, "b": h.stride, "c": axis.pad, "e": blocks}
    work = 4 * length + sampled + (h.kernel + 1) * length
    return Launch("long.tall", (), view.rows // axis.output * blocks * pieces["pieces"], work, sizes=sizes)


def _sliding(w: Sliding, region: Region, view: View, arithmetic: Arithmetic, is_small: bool, limits: Limits) -> Launch:
    """Sums, maxima and minima of regular windows."""
    d, h, _ = view.axes
    kd, kh = (axis.windows.kernel if axis.windows else 1 for axis in (d, h))
    rows, channels, itemsize = kd * kh, view.channels, arithmetic.identity.itemsize
    if not is_small and _is_rgb(w, view, arithmetic):
        return Launch("rgb.rgb", work=view.output_shape[3] + PADDED)
    if is_small or not _has_constant_windows(w, rows, channels, limits):
        pieces = _pieces(w, view, itemsize, limits.pass_bytes)
        work = (3 * pieces["reach"] + pieces["piece"]) * channels
        return Launch("long.long", (), view.rows * pieces["pieces"], work, sizes=pieces | {"a": rows})
    lines, line, fetched = _fetched(view, kh, kernel_dtype(region.plan.dtype).itemsize, limits)
    if _is_small_map(view, arithmetic, limits):
        return _maps(w, view, rows, line, arithmetic.divides, limits)
    is_inside = w.pad_begin == 0 and (w.output - 1) * w.stride + w.extent <= w.size
    is_direct = is_inside and w.dilation == channels == 1 and w.kernel <= w.stride
    is_direct = is_direct and max(rows, w.kernel) <= limits.direct
    is_direct = is_direct and (arithmetic.total == "sum" or view.axes[2].output >= limits.direct_outputs)
    pieces = _pieces(w, view, itemsize, limits.row_bytes)
    constants = (
        rows,
        kh,
        w.kernel,
        w.stride,
        0 if channels > 1 else w.dilation,
        line,
        "direct" if is_direct else "buffer",
    )
    work = (pieces["reach"] + MARGIN * w.stride) * channels + CACHE_LINE
    sizes = pieces | {"a": lines, "b": fetched}
    return Launch("sliding.sliding", constants, view.rows * pieces["pieces"], work, sizes=sizes)


def _has_constant_windows(w: Sliding, rows: int, channels: int, limits: Limits) -> bool:
    is_adjacent = w.stride == 1 or channels == 1 or channels >= limits.channels
    return is_adjacent and w.kernel <= limits.kernel and w.stride <= limits.stride and rows <= limits.rows


def _is_rgb(w: Sliding, view: View, arithmetic: Arithmetic) -> bool:
    """Whether all windows are 2x2 pixels of three bytes."""
    d, h, columns = view.axes
    is_whole = bool((h.count == 2).all() and (columns.count == 2).all()) and d.is_single and h.dilation == 1
    is_sum = arithmetic.total == "sum" and arithmetic.identity.dtype == np.int16 and not arithmetic.term
    is_halved = w.kernel == w.stride == 2 and w.dilation == 1 and w.pad_begin == 0 and view.channels == RGB
    sums = arithmetic.result == "shift" and view.output_shape[3] >= 12  # of bytes, which no other sums of int16 are
    return is_whole and is_sum and is_halved and sums and byteorder == "little"


def _fetched(view: View, kernel: int, itemsize: int, limits: Limits) -> tuple[int, int, int]:
    """The cache lines that a kernel fetches ahead, the elements of one, and where they begin; 0 if none pays."""
    row, h = view.input_shape[3], view.axes[1].windows
    is_short, is_large = (
        row * itemsize <= limits.fetched_bytes,
        prod(view.input_shape) * itemsize >= limits.cached_bytes,
    )
    if h is None or not is_short or not is_large:
        return 0, 0, 0
    line = CACHE_LINE // itemsize
    return ceil_div(h.stride * row, line), line, kernel * row + 1024


def _is_small_map(view: View, arithmetic: Arithmetic, limits: Limits) -> bool:
    """Whether windows slide by one over planes of short rows, and output rows are as long as input rows."""
    d, h, w = view.axes
    if view.channels > 1 or d.size > 1 or not d.is_global or h.windows is None or w.windows is None or w.is_cut:
        return False
    if arithmetic.identity.dtype.kind == "c" or h.windows.stride > 1 or w.windows.stride > 1:
        return False
    is_short = w.output == w.size and w.size * arithmetic.identity.itemsize <= limits.map_row_bytes
    return is_short and h.output * w.output <= limits.map_elements


def _maps(w: Sliding, view: View, rows: int, line: int, divides: bool, limits: Limits) -> Launch:
    _, h, columns = view.axes
    width, plane, step = (
        columns.size,
        h.output * columns.output,
        max(1, min(h.output, limits.mask_elements // columns.size)),
    )
    size, margin = h.size * width, w.kernel * w.dilation
    fetched = {"b": ceil_div(size, line), "c": size + 1024} if line else {}
    work = 2 * margin + plane + step * width * (1 + w.kernel) + 2 * PADDED
    products = (
        np.outer(view.axes[0].divisor * h.divisor, columns.divisor).ravel().astype(np.float64) if divides else None
    )
    constants = rows, w.kernel, w.dilation, line
    return Launch("maps.maps", constants, view.outer, work, sizes={"a": step, **fetched}, along_w=products)


def _bins(view: View, is_small: bool, limits: Limits) -> Launch:
    """Sums, maxima and minima of windows that are joined one by one."""
    (d, h, w), width, channels = view.axes, view.input_shape[3], view.channels
    if is_small:
        return Launch("bins.bins", (0, True, False), work=width + LANES * channels)
    taps = w.longest if w.longest <= limits.short else 0
    in_place = not taps and channels == 1 and d.is_single and h.is_single
    more = taps * w.dilation * channels if taps else LANES * channels
    return Launch("bins.bins", (taps, channels > 1, in_place), work=0 if in_place else width + more)


def _areas(view: View) -> Launch:
    _, h, w = view.axes
    weights = tuple(
        (np.ones((axis.output, axis.longest), np.int64) if axis.weights is None else axis.weights).ravel()
        for axis in (h, w)
    )
    sizes = {"a": h.longest, "b": w.longest, "c": 0, "e": 1}
    return Launch("bins.areas", work=view.input_shape[3], sizes=sizes, table=weights)


def _best(view: View, arithmetic: Arithmetic, is_small: bool, limits: Limits) -> Launch:
    """Maxima or minima with their positions."""
    (d, h, axis), width, size, channels = view.axes, view.input_shape[3], view.output_shape[3], view.channels
    w = _sliding_windows(view, limits)
    is_sliding = w is not None and not is_small and _has_constant_windows(w, 1, channels, limits)
    if (
        w is None
        or not is_sliding
        or (w.stride > 1 and (w.dilation > 1 or channels > 1))
        or h.size * d.size > MAX_INT32
    ):
        ranks = arithmetic.identity.dtype
        ranks = ranks if ranks.kind != "f" else np.dtype(f"i{ranks.itemsize}")
        in_place = not is_small and channels == axis.dilation == 1 and d.is_single and h.is_single
        row = (min(width, BLOCK) if in_place else width) + PADDED
        return Launch("best.best_of_any", (in_place,), work=row, spare=0 if in_place else row, dtype=ranks)
    reach = ceil_div((axis.output - 1) * w.stride + w.extent, w.stride) * w.stride
    length, padded = reach * channels, ceil_div(size, PADDED) * PADDED
    more = 2 * length + PADDED
    sizes = {"a": length}
    return Launch("best.best_sliding", (w.kernel, w.stride), work=more + padded, spare=more + 2 * padded, sizes=sizes)


def _mode(view: View, itemsize: int, limits: Limits) -> Launch:
    """Modes: by comparing all pairs if windows are small and regular, else by sorting."""
    elements, w = prod(axis.longest for axis in view.axes), _sliding_windows(view, limits)
    if w is None or not _has_constant_windows(w, 1, 1, limits) or view.channels > 1 or elements > limits.mode_elements:
        return Launch("mode.mode_sort", work=elements, sizes={"piece": 1, "first": 0, "last": 0, "stride": 1})
    piece = max(PIECE_OUTPUTS, limits.pass_bytes // itemsize // (elements + 3))
    sizes = {"piece": piece} | _whole_windows(view.axes[2], w.kernel)
    return Launch("mode.mode_pairs", (w.stride,), work=piece * (elements + 3), sizes=sizes)


def _statistic(region: Region, view: View, arithmetic: Arithmetic, is_small: bool, limits: Limits) -> Launch:
    """Medians and standard deviations, in pieces of `piece` windows.

    The work array has `rows` rows, of an element of each window or of what the windows read.
    """
    (d, h, axis), total = view.axes, arithmetic.total
    constants: tuple[Any, ...] = ()
    lines, w = d.longest * h.longest, _sliding_windows(view, limits)
    kept = lines * axis.longest // 2 + 2  # candidates for the median, of which one is replaced at a time
    rows = {"exact_deviation": 8, "deviation": 5, "median": kept + 1}[total]
    if total == "deviation":
        has_least = kernel_dtype(region.plan.dtype).kind != "f" and not arithmetic.read
        is_constant = not is_small and not has_least and lines * axis.longest <= limits.unrolled
        constants = has_least, 0, 0, 0
        is_adjacent = w is not None and (w.stride == 1 or view.channels == w.dilation == 1)
        if w is not None and is_constant and is_adjacent and _has_constant_windows(w, lines, view.channels, limits):
            constants, rows = (False, lines, w.kernel, w.stride), max(rows, lines * w.stride + 1)
    itemsize = arithmetic.identity.itemsize
    buffer = limits.pass_bytes if total == "deviation" else 2 * limits.pass_bytes  # the others use half of it at once
    piece = max(1, max(PIECE_OUTPUTS, buffer // itemsize // rows) // view.channels)
    stride = int(np.diff(axis.start).max(initial=1)) if total == "exact_deviation" else 1
    reach = (piece * stride + (axis.longest - 1) * axis.dilation) * view.channels
    length = min(view.input_shape[3], reach) + CACHE_LINE
    sizes = {"piece": piece, "a": kept} | _whole_windows(axis, axis.longest)
    maker = "median.median" if total == "median" else f"deviation.{total}"
    return Launch(maker, constants, work=rows * length, spare=rows, sizes=sizes)


def _whole_windows(axis: Axis, length: int) -> dict[str, int]:
    """The first run of windows along W that have `length` elements and one distance: the first of them, the one after
    the last, and the distance. Windows that reach over both ends of the input may have fewer elements.
    """
    is_whole = axis.count == length
    if not is_whole.any():
        return {"first": 0, "last": 0, "stride": 1}
    first = int(is_whole.argmax())
    steps = np.diff(axis.start[first:], append=axis.start[-1])  # the last one is 0
    continues = np.append(is_whole[first + 1 :], False) & (steps == steps[0]) & (steps > 0)
    return {"first": first, "last": first + 1 + int(continues.argmin()), "stride": max(int(steps[0]), 1)}


def addresses(prepared: Prepared) -> tuple[int, int]:
    """The addresses of its table and of its factors."""
    return address(prepared.table), address(prepared.factors)
