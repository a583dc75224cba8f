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
from poolcli.engine.compiled.view import AT_ROWS, CACHE_LINE, MARGIN, Sizes, View, strides_of, view_of
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
    map_row_bytes: int = 288  # of the totals of a row of a small map
    map_elements: int = 1 << 12  # of the largest map
    mask_elements: int = 256  # of a part of small maps
    row_bytes: int = 1 << 16  # of a row buffer, beyond which rows are divided into pieces
    pass_bytes: int = 1 << 13  # the same where it is passed over several times
    block_bytes: int = 1 << 15  # the same of blocks of rows
    fetched_bytes: int = 1 << 13  # of the longest rows that are fetched ahead
    cached_bytes: int = 1 << 21  # of an input that stays in the cache and needs no fetching
    unrolled: int = 16  # elements of windows of standard deviations with loops of their own
    short: int = 4  # elements along W, up to which irregular windows have constant taps


LIMITS = Limits()
PIECE_OUTPUTS = 16  # the fewest outputs of a piece of statistics
RGB, RGB_OUTPUTS = 3, 12  # elements of a pixel, and the fewest of an output row
MAX_INT32 = 2**31 - 1
MAX_CACHED_LENGTH = 2**13  # outputs along an axis; longer tables are not cached


@dataclass(frozen=True)
class Kernel:
    """A kernel: `maker`, its function as module.name, which is given the arithmetic and `constants`. `source`, `work`:
    the types of its input and of its work array.
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
    """What a family of kernels needs: its maker and constants, elements of its work array, fields of `Sizes`, numbers
    behind its tables, and factors along W. Tasks are pieces of output rows.
    """

    maker: str
    constants: tuple[Any, ...] = ()
    work: int = 0
    sizes: dict[str, int] = {}  # noqa: RUF012
    tasks: int | None = None  # of each plane of x, if tasks are not pieces of output rows
    weights: tuple[NDArray[np.int64], ...] = ()
    along_w: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Prepared:
    """A kernel and what it is given besides the arrays; `family` names kernels that add in the same order. `search` is
    the kernel that finds the positions of its outputs, if they are requested.

    The tasks of `units` equal parts, output rows or planes of x, are run at once.
    """

    kernel: Kernel
    search: Kernel | None
    family: str
    view: View
    table: NDArray[np.int64]
    factors: NDArray[np.float64]
    tasks: int
    units: int
    work_bytes: int
    bytes_read: int


def choose_kernel(region: Region, indices: bool = False, order: Order | None = None) -> Prepared:
    """The kernel that computes a region, with indices if requested.

    `order` is the order of the axes in memory, if it is not that of the layout.
    """
    choose = _choose.__wrapped__ if max(map(len, region.outputs)) > MAX_CACHED_LENGTH else _choose
    return choose(region, indices, order, LIMITS)


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
    sums_integers = arithmetic.total == "sum" and arithmetic.identity.dtype.kind == "i"
    source = np.dtype(np.int64) if sums_integers and plan.dtype == "uint64" else kernel_dtype(plan.dtype)
    case = _Case(region, view, arithmetic, source.itemsize, is_small, limits)
    family, launch = case.launch()
    kernel = Kernel(launch.maker, launch.constants, plan.dtype, source, arithmetic.identity.dtype, arithmetic)
    table, factors = _tables(view, launch, arithmetic.result == "scaled")
    pieces, search, work = launch.sizes.get("pieces", 1), None, launch.work * kernel.work.itemsize
    tasks, units = view.rows * pieces, view.rows
    if launch.tasks is not None:
        tasks, units = view.outer * launch.tasks, view.outer
    read = case.bytes_read
    if indices:
        search = Kernel("search.search", case.searched, plan.dtype, source, kernel.work, arithmetic)
        d, h, _ = view.axes
        rows = 0 if d.is_single and h.is_single else view.input_shape[3] * (kernel.work.itemsize + 4)
        work, read = max(work, rows, 4 * (view.output_shape[3] + MARGIN)), 2 * read
    return Prepared(kernel, search, family, view, table, factors, tasks, units, work, read)


def _tables(view: View, launch: Launch, is_scaled: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    (d, h, w), channels = view.axes, view.channels
    width, high, outputs = view.input_shape[3], h.size, w.output
    top = d.start[:, None] * high + h.start
    rows = np.stack(np.broadcast_arrays(top * width, d.count[:, None], h.count, top), axis=-1)
    by_row, along_w = np.outer(d.divisor, h.divisor), np.repeat(w.divisor, channels)
    taps, stride = (w.windows.kernel, w.windows.stride) if w.windows else (w.longest, 1)
    first, last = w.whole_windows
    own = {"reach": 0, "piece": outputs, "pieces": 1, "stride": stride} | launch.sizes
    begins = np.arange(own["pieces"]) * own["piece"]
    low = np.clip(begins * stride - w.pad, 0, w.size)
    end = np.clip(begins * stride - w.pad + own["reach"], low, w.size)
    before = np.clip(low - (begins * stride - w.pad), 0, own["reach"])
    ends = (np.clip(at - begins, 0, np.minimum(own["piece"], outputs - begins)) for at in (first, last, outputs))
    lower, upper, many = ends
    pieces = np.stack((begins, many, low, end - low, before, lower, upper), axis=1) * channels
    parts = rows, np.stack((w.start, w.count), axis=1), pieces, *launch.weights
    _, at_w, at_piece, *at_weights = np.cumsum([AT_ROWS, *(part.size for part in parts)]).tolist()
    sizes: dict[str, int] = {
        "split": 1, "far": d.size * high * width, "near": 0, "step_d": d.dilation * high * width,
        "step_h": h.dilation * width, "limit": prod(view.input_shape), "rows": d.output * h.output,
        "height": h.output, "columns": outputs, "size": outputs * channels, "high": high, "width": width,
        "channels": channels, "gap_d": d.dilation, "gap_h": h.dilation, "gap_w": w.dilation, "at_w": at_w,
        "of_w": by_row.size, "taps": taps, "pad": w.pad, "at_piece": at_piece, "first": first, "last": last,
    }  # fmt: skip
    if launch.weights:
        own |= {"c": at_weights[0], "e": at_weights[1]}
    table = np.concatenate((np.array(Sizes(**(sizes | own)), np.int64), *(part.ravel() for part in parts)))
    factors = np.concatenate((by_row.ravel(), along_w if launch.along_w is None else launch.along_w), dtype=np.float64)
    with np.errstate(divide="ignore"):
        return table, 1 / factors if is_scaled else factors


@dataclass(frozen=True)
class _Case:
    """A region, and what the choice of its kernel depends on."""

    region: Region
    view: View
    arithmetic: Arithmetic
    source_bytes: int  # of an element
    is_small: bool
    limits: Limits

    @cached_property
    def itemsize(self) -> int:
        """Bytes of a total."""
        return self.arithmetic.identity.itemsize

    @cached_property
    def rows(self) -> int:
        """The rows of a whole window."""
        d, h, _ = self.view.axes
        return (d.windows.kernel if d.windows else 1) * (h.windows.kernel if h.windows else 1)

    def launch(self) -> tuple[str, Launch]:
        """The family, whose kernels add in one order, and the kernel."""
        plan, h = self.region.plan, self.view.axes[1].windows
        if plan.is_weighted:
            return "areas", self.areas()
        if self.arithmetic.total in ("mode", "median", "deviation"):
            return "statistic", self.statistic()
        w = self.sliding_windows
        if w is None:
            return "bins", self.bins()
        if h is not None and self.is_tall(h):
            return "tall", self.tall(w, h)
        return "sliding", self.sliding(w)

    @cached_property
    def sliding_windows(self) -> Sliding | None:
        """The windows along W; None if they are irregular, or better joined one by one."""
        w = self.view.axes[2].windows
        if w is None or (w.stride >= w.extent and w.kernel >= self.limits.long_window):
            return None
        is_padding = (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + 4096  # mostly
        return None if is_padding else w

    def has_constant_windows(self, w: Sliding, rows: int) -> bool:
        """Whether a kernel for windows of this size alone pays."""
        limits, channels = self.limits, self.view.channels
        is_adjacent = w.stride == 1 or channels == 1 or channels >= limits.channels
        is_short = w.kernel <= limits.kernel and w.stride <= limits.stride and rows <= limits.rows
        return is_adjacent and is_short and not self.is_small

    def pieces(self, w: Sliding, most: int) -> dict[str, int]:
        """The pieces of a row, whose buffers take `most` bytes, or a little more."""
        outputs, limit = self.view.axes[2].output, max(1, most // self.itemsize // self.view.channels)
        reach = (outputs - 1) * w.stride + w.extent
        piece = outputs if reach <= limit else min(outputs, max(1, (limit + w.extent) // w.stride))
        return {"reach": (piece - 1) * w.stride + w.extent, "piece": piece, "pieces": ceil_div(outputs, piece)}

    def is_tall(self, h: Sliding) -> bool:
        """Whether rows are joined by blocks."""
        if self.is_small or h.dilation > 1 or not self.view.axes[0].is_single:
            return False
        return self.limits.tall * h.stride < h.kernel <= h.size + 4096

    def tall(self, w: Sliding, h: Sliding) -> Launch:
        """Windows of many overlapping rows."""
        d, axis, _ = self.view.axes
        pieces, channels = self.pieces(w, self.limits.block_bytes), self.view.channels
        blocks = ceil_div((axis.output - 1) * h.stride + 1, h.kernel)
        work = (h.kernel + 5) * pieces["reach"] * channels
        sizes = pieces | {"a": h.kernel, "b": h.stride, "c": axis.pad, "e": blocks}
        return Launch("long.tall", work=work, sizes=sizes, tasks=d.output * blocks * pieces["pieces"])

    def sliding(self, w: Sliding) -> Launch:
        """Sums, maxima and minima of other regular windows."""
        view, limits, h, rows, channels = self.view, self.limits, self.view.axes[1], self.rows, self.view.channels
        if self.is_rgb(w):
            return Launch("rgb.rgb", work=view.output_shape[3] + MARGIN)
        if not self.has_constant_windows(w, rows):
            pieces = self.pieces(w, limits.pass_bytes)
            work = 3 * pieces["reach"] * channels
            return Launch("long.long", work=work, sizes=pieces | {"a": rows})
        lines, line, fetched = self.fetched(h.windows)
        if self.is_small_map(w):
            return self.maps(w, line)
        is_inside = w.pad_begin == 0 and (w.output - 1) * w.stride + w.extent <= w.size
        is_direct = is_inside and w.dilation == channels == 1 and w.kernel <= w.stride
        is_direct = is_direct and max(rows, w.kernel) <= limits.direct
        is_direct = is_direct and (self.arithmetic.total == "sum" or view.axes[2].output >= limits.direct_outputs)
        gap, form = 0 if channels > 1 else w.dilation, "direct" if is_direct else "buffer"
        constants = rows, h.windows.kernel if h.windows else 1, w.kernel, w.stride, gap, line, form
        pieces = self.pieces(w, limits.row_bytes)
        work = (pieces["reach"] + MARGIN * w.stride) * channels + CACHE_LINE
        return Launch("sliding.sliding", constants, work, pieces | {"a": lines, "b": fetched})

    def is_rgb(self, w: Sliding) -> bool:
        """Whether all windows are 2x2 pixels of three bytes."""
        d, h, columns = self.view.axes
        is_whole = bool((h.count == 2).all() and (columns.count == 2).all()) and d.is_single and h.dilation == 1
        is_halved = w.kernel == w.stride == 2 and w.dilation == 1 and w.pad_begin == 0 and self.view.channels == RGB
        is_long = not self.is_small and self.view.output_shape[3] >= RGB_OUTPUTS and byteorder == "little"
        steps = self.arithmetic  # of bytes: no other sums of int16 are divided by shifts
        is_sum = steps.total == "sum" and steps.identity.dtype == np.int16 and steps.result == "shift"
        return is_whole and is_halved and is_long and is_sum and not steps.term

    def fetched(self, h: Sliding | None) -> tuple[int, int, int]:
        """The cache lines that a kernel fetches ahead, the elements of one, and where they begin; 0 if none pays."""
        row, size = self.view.input_shape[3], prod(self.view.input_shape) * self.source_bytes
        if h is None or row * self.source_bytes > self.limits.fetched_bytes or size < self.limits.cached_bytes:
            return 0, 0, 0
        line, step = CACHE_LINE // self.source_bytes, h.stride * row
        if h.kernel < h.stride:  # rows between windows are not read
            return ceil_div(h.kernel * row, line), line, ceil_div(h.kernel * row + 1024, step) * step
        return ceil_div(step, line), line, h.kernel * row + 1024

    def is_small_map(self, columns: Sliding) -> bool:
        """Whether windows slide by one over planes of short rows, and output rows are as long as input rows."""
        (d, h, w), limits = self.view.axes, self.limits
        if self.view.channels > 1 or d.size > 1 or not d.is_global or h.windows is None or w.is_cut:
            return False
        if self.arithmetic.identity.dtype.kind == "c" or h.windows.stride > 1 or columns.stride > 1:
            return False
        is_short = w.output == w.size and w.size * self.itemsize <= limits.map_row_bytes
        return is_short and h.output * w.output <= limits.map_elements

    def maps(self, w: Sliding, line: int) -> Launch:
        """Whole planes."""
        d, h, columns = self.view.axes
        width, plane = columns.size, h.output * columns.output
        step, size = max(1, min(h.output, self.limits.mask_elements // width)), h.size * width
        fetched = {"b": ceil_div(size, line), "c": size + 1024} if line else {}
        work = 2 * w.kernel * w.dilation + plane + step * width * (1 + w.kernel) + 2 * MARGIN
        products = np.outer(d.divisor * h.divisor, columns.divisor).ravel() if self.arithmetic.divides else None
        constants = self.rows, w.kernel, w.dilation, line
        return Launch("maps.maps", constants, work, {"a": step, **fetched}, tasks=1, along_w=products)

    def bins(self) -> Launch:
        """Sums, maxima and minima of windows that are joined one by one."""
        (d, h, w), width, channels = self.view.axes, self.view.input_shape[3], self.view.channels
        if self.is_small:
            return Launch("bins.bins", (0, True, False), width)
        taps = w.longest if w.longest <= self.limits.short else 0
        in_place = not taps and channels == 1 and d.is_single and h.is_single
        work = 0 if in_place else width + taps * w.dilation * channels
        return Launch("bins.bins", (taps, channels > 1, in_place), work)

    def areas(self) -> Launch:
        """Weighted means."""
        _, h, w = self.view.axes
        weights = tuple(
            np.ones((axis.output, axis.longest), np.int64) if axis.weights is None else axis.weights for axis in (h, w)
        )
        sizes = {"a": h.longest, "b": w.longest}
        return Launch("bins.areas", work=self.view.input_shape[3], sizes=sizes, weights=weights)

    @cached_property
    def searched(self) -> tuple[int, int, int]:
        """The elements, stride and distance of elements along W, if all windows of a row are searched at once."""
        w, (d, h, axis) = self.sliding_windows, self.view.axes
        if w is None or not self.has_constant_windows(w, 1) or d.size * h.size * axis.size > MAX_INT32:
            return 0, 0, 0
        return w.kernel, w.stride, w.dilation if self.view.channels == 1 else 0

    def statistic(self) -> Launch:
        """Modes, medians and standard deviations, in pieces of `piece` windows. Their work array has a row for each
        element of a window, and a few more; that of deviations, which read elements twice, only those.
        """
        total, w, limits, channels = self.arithmetic.total, self.view.axes[2].windows, self.limits, self.view.channels
        elements, sizes = prod(axis.longest for axis in self.view.axes), self.whole_windows
        maker, constants, rows = f"{total}.{total}", tuple[Any, ...](), elements + 1
        if total == "mode":
            stride = sizes["stride"]  # another one than that of `w` if all windows are cut short
            is_constant = w is not None and channels == 1 and stride == w.stride <= limits.stride
            constants, rows = (stride if is_constant else 0,), elements + 3
        elif total == "deviation":
            constants, rows, lines = (0, 0, 0, 0), 4, prod(axis.longest for axis in self.view.axes[:2])
            is_float = kernel_dtype(self.region.plan.dtype).kind == "f" or self.arithmetic.read
            is_few = is_float and elements <= limits.unrolled
            is_adjacent = w is not None and (w.stride == 1 or channels == w.dilation == 1)
            if w is not None and is_few and is_adjacent and self.has_constant_windows(w, lines):
                constants = lines, self.view.axes[1].longest, w.kernel, w.stride
        piece = max(1, max(PIECE_OUTPUTS, limits.pass_bytes // self.itemsize // rows) // channels)
        return Launch(maker, constants, piece * channels * rows, {"piece": piece} | sizes)

    @cached_property
    def whole_windows(self) -> dict[str, int]:
        """The first run of windows along W that have all elements, and one distance: the first of them, the one after
        the last, and the distance. Windows that reach over both ends of the input may have fewer elements.
        """
        axis = self.view.axes[2]
        is_whole = axis.count == axis.longest
        if not is_whole.any():
            return {"first": 0, "last": 0, "stride": 1}
        first = int(is_whole.argmax())
        steps = np.diff(axis.start[first:], append=axis.start[-1])  # the last one is 0
        continues = np.append(is_whole[first + 1 :], False) & (steps == steps[0]) & (steps > 0)
        return {"first": first, "last": first + 1 + int(continues.argmin()), "stride": max(int(steps[0]), 1)}

    @cached_property
    def bytes_read(self) -> int:
        """Bytes that the kernel reads or writes, as a measure of its time: each takes 0.03 to 0.4 ns.

        Rows of windows count, or all elements where windows share nothing, and some as often as they are compared.
        """
        view, total = self.view, self.arithmetic.total
        d, h, w = view.axes
        lines = d.longest * h.longest
        elements = lines * w.longest
        read = prod(view.output_shape[:3]) * view.input_shape[3] * min(lines, 8)
        if total == "sum_and_squares":
            read *= 6  # totals of 16 bytes
        elif total in ("median", "mode", "deviation"):
            read = prod(view.output_shape) * elements * (max(1, elements // 8) if total == "median" else 2)
        return max(prod(view.input_shape), prod(view.output_shape), read) * self.source_bytes
