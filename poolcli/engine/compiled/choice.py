"""The choice of a kernel for a region, the numbers that it is given, and the number of its tasks.

Whatever decides on the order of additions depends on whole axes, so that all regions of a plan give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.call import Array, Order, is_exact, order_of
from poolcli.engine.compiled.arithmetic import Arithmetic, arithmetic_for, kernel_dtype
from poolcli.engine.compiled.view import AT_ROWS, CACHE_LINE, MARGIN, Sizes, View, first_run, view_of
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
    channels: int = 8  # side by side, from which they fill vectors; fewer are constants of kernels with a stride
    long_window: int = 16  # elements along W of windows that do not overlap; longer ones are joined one by one
    tall: int = 8  # kernel_h / stride_h above which rows are joined by blocks
    direct: int = 2  # rows, columns and stride of the largest windows without a row buffer
    map_row_bytes: int = 288  # of the totals of a row of a small map
    map_elements: int = 1 << 12  # of the largest map
    mask_elements: int = 256  # of a part of small maps
    row_bytes: int = 1 << 16  # of a row buffer, beyond which rows are divided into pieces
    pass_bytes: int = 1 << 13  # the same where it is passed over several times
    block_bytes: int = 1 << 15  # the same of blocks of rows
    fetched_bytes: int = 1 << 13  # of the most that is fetched ahead at once; more takes 1.05 to 1.3 times as long
    cached_bytes: int = 1 << 21  # of an input that stays in the cache and needs no fetching
    short: int = 4  # elements along W, up to which irregular windows have constant taps


LIMITS = Limits()
UNROLLED = 16  # elements of windows of standard deviations with loops of their own
PIECE_OUTPUTS = 16  # the fewest outputs of a piece of statistics; others are multiples of 32, whole vectors
MAX_CACHED_LENGTH = 2**13  # outputs along an axis; longer tables are not cached


@dataclass(frozen=True)
class Kernel:
    """A kernel: `maker`, its function as module.name, is given the arithmetic and `constants`."""

    maker: str
    constants: tuple[Any, ...]
    dtype: str
    source: np.dtype[Any]  # of its input
    work: np.dtype[Any]  # of its work array
    arithmetic: Arithmetic

    @cached_property
    def name(self) -> str:
        """Its name in the cache, which has everything that is constant in it."""
        return "-".join([self.maker.rpartition(".")[2], *map(str, self.constants), self.dtype, self.arithmetic.name])


class Launch(NamedTuple):
    """What a family of kernels needs."""

    maker: str
    constants: tuple[Any, ...] = ()
    work: int = 0  # elements of its work array
    sizes: dict[str, int] = {}  # noqa: RUF012  # fields of `Sizes`
    tasks: int | None = None  # of each plane of x, if tasks are not pieces of output rows
    weights: tuple[NDArray[np.int64], ...] = ()  # numbers behind its tables
    along_w: NDArray[np.float64] | None = None  # factors, if not those of the windows


@dataclass(frozen=True)
class Prepared:
    """A kernel and what it is given besides the arrays."""

    kernel: Kernel
    search: Kernel | None  # which finds the positions of its outputs, if they are requested
    family: str  # of kernels that add in the same order
    view: View
    table: NDArray[np.int64]
    factors: NDArray[np.float64]
    tasks: int
    units: int  # equal parts, output rows or planes of x, whose tasks are run at once
    work_bytes: int
    bytes_read: int


def choose_kernel(region: Region, indices: bool = False, order: Order | None = None) -> Prepared:
    """The kernel that computes a region, with indices if requested; `order`: that of memory, if not the layout's."""
    choose = _choose.__wrapped__ if max(map(len, region.outputs)) > MAX_CACHED_LENGTH else _choose
    return choose(region, indices, order, LIMITS)


def choose_for_memory_order(region: Region, indices: bool, default: Prepared, x: Array) -> Prepared:
    """The kernel that needs no copy of `x`; `default`, that for C order, if the other adds floats in another order."""
    order = order_of(region.plan, x, indices)
    other = choose_kernel(region, indices, order)
    return other if is_exact(region.plan) or other.family == default.family else default


@lru_cache(maxsize=16)
def _choose(region: Region, indices: bool, order: Order | None, limits: Limits) -> Prepared:
    plan, view = region.plan, view_of(region, order)
    is_small = prod(plan.output_shape) < limits.outputs
    arithmetic = arithmetic_for(plan, is_small)
    sums_integers = arithmetic.total == "sum" and arithmetic.identity.dtype.kind == "i"
    source = np.dtype(np.int64) if sums_integers and plan.dtype == "uint64" else kernel_dtype(plan.dtype)
    totals = arithmetic.identity.dtype
    case = _Case(region, view, arithmetic, source.itemsize, totals.itemsize, is_small, limits)
    family, launch = case.launch()
    kernel, search = Kernel(launch.maker, launch.constants, plan.dtype, source, totals, arithmetic), None
    table, factors = _tables(view, launch, arithmetic.result == "scaled")
    units, each = (view.rows, launch.sizes.get("pieces", 1)) if launch.tasks is None else (view.outer, launch.tasks)
    tasks, work, read = units * each, launch.work * case.itemsize, case.bytes_read()
    if indices:
        plain = arithmetic._replace(term="")  # also of negated totals
        search = Kernel("search.search", case.searched(), plan.dtype, source, np.dtype(np.int32), plain)
        work, read = max(work, 4 * (view.output_shape[3] + MARGIN)), 2 * read
    return Prepared(kernel, search, family, view, table, factors, tasks, units, work, read)


def _tables(view: View, launch: Launch, is_scaled: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    (d, h, w), channels = view.axes, view.channels
    width, high, outputs = view.input_shape[3], h.size, w.output
    top = d.start[:, None] * high + h.start
    rows = np.stack(np.broadcast_arrays(top * width, d.count[:, None], h.count, top), axis=-1)
    by_row, along_w = np.outer(d.divisor, h.divisor), np.repeat(w.divisor, channels)
    taps, stride = (w.windows.kernel, w.windows.stride) if w.windows else (w.longest, 1)
    first, last = first_run(w.divisor == w.divisor.max())
    own = {"reach": 0, "piece": outputs, "pieces": 1, "stride": stride} | launch.sizes
    begins = np.arange(own["pieces"]) * own["piece"]
    many, at = np.minimum(own["piece"], outputs - begins), begins * stride - w.pad
    low = np.clip(at, 0, w.size)
    used, before = np.clip(at + own["reach"], low, w.size) - low, np.clip(low - at, 0, own["reach"])
    lower, upper = (np.clip(end - begins, 0, many) for end in (first, last))
    pieces = np.stack((begins, many, low, used, before, lower, upper), axis=1) * channels
    parts = rows, np.stack((w.start, w.count), axis=1), pieces, *launch.weights
    _, at_w, at_piece, *at_weights = np.cumsum([AT_ROWS, *(part.size for part in parts)]).tolist()
    sizes: dict[str, int] = {
        "far": d.size * high * width, "step_d": d.dilation * high * width,
        "step_h": h.dilation * width, "limit": prod(view.input_shape), "rows": d.output * h.output,
        "height": h.output, "columns": outputs, "size": outputs * channels, "high": high, "width": width,
        "channels": channels, "gap_d": d.dilation, "gap_h": h.dilation, "gap_w": w.dilation, "at_w": at_w,
        "of_w": by_row.size, "taps": taps, "pad": w.pad, "at_piece": at_piece, "first": first, "last": last,
    }  # fmt: skip
    own |= dict(zip("ce", at_weights[: len(launch.weights)], strict=False))
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
    itemsize: int  # of a total
    is_small: bool
    limits: Limits

    def launch(self) -> tuple[str, Launch]:
        """The family, whose kernels add in one order, and the kernel."""
        h, w = self.view.axes[1].windows, self.sliding_windows
        if self.region.plan.is_weighted:
            return "areas", self.areas()
        if self.region.plan.reducer.statistic and self.arithmetic.total != "sum_and_squares":
            return "statistic", self.statistic()
        if w is None:
            return "bins", self.bins()
        is_flat = not self.is_small and self.view.axes[0].is_single
        if h is not None and is_flat and h.dilation == 1 and self.limits.tall * h.stride < h.kernel <= h.size + 4096:
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
        is_short = w.kernel <= self.limits.kernel and w.stride <= self.limits.stride and rows <= self.limits.rows
        return is_short and not self.is_small

    def pieces(self, w: Sliding, most: int) -> dict[str, int]:
        """The pieces of a row, whose buffers take `most` bytes, or a little more."""
        outputs, limit = self.view.axes[2].output, max(1, most // self.itemsize // self.view.channels)
        reach = (outputs - 1) * w.stride + w.extent
        piece = outputs if reach <= limit else min(outputs, max(1, (limit + w.extent) // w.stride))
        return {"reach": (piece - 1) * w.stride + w.extent, "piece": piece, "pieces": ceil_div(outputs, piece)}

    def tall(self, w: Sliding, h: Sliding) -> Launch:
        d, axis, _ = self.view.axes
        pieces, blocks = self.pieces(w, self.limits.block_bytes), ceil_div((axis.output - 1) * h.stride + 1, h.kernel)
        work = (h.kernel + 5) * pieces["reach"] * self.view.channels
        sizes = pieces | {"a": h.kernel, "b": h.stride, "c": axis.pad, "e": blocks}
        return Launch("long.tall", work=work, sizes=sizes, tasks=d.output * blocks * pieces["pieces"])

    def sliding(self, w: Sliding) -> Launch:
        view, limits, channels, steps = self.view, self.limits, self.view.channels, self.arithmetic
        d, h, columns = view.axes
        rows = prod(axis.windows.kernel for axis in (d, h) if axis.windows)  # of a whole window
        if not self.has_constant_windows(w, rows):
            pieces = self.pieces(w, limits.pass_bytes)
            return Launch("long.long", work=3 * pieces["reach"] * channels, sizes=pieces | {"a": rows})
        of_plane, stride_h = (h.windows.kernel, h.windows.stride) if h.windows else (1, 0)
        lines, line, fetched = self.fetched(of_plane, stride_h)
        is_map = channels == d.size == stride_h == w.stride == 1 and d.is_global and not columns.is_cut
        is_short = w.size * self.itemsize <= limits.map_row_bytes and h.output * w.output <= limits.map_elements
        if is_map and is_short and w.output == w.size and steps.identity.dtype.kind != "c":
            return self.maps(w, rows)
        is_inside = all(axis.windows and len(axis.windows.interior) == axis.windows.output for axis in view.axes)
        is_constant = channels == 1 or (channels < limits.channels and w.stride > 1)
        is_small = max(rows, w.stride) <= limits.direct and w.kernel <= w.stride and w.dilation == 1
        is_row = rows == 1 and w.kernel < 3 * w.stride  # whose elements are not converted too often
        form = "direct" if channels == 1 and is_inside and (is_small or is_row) else "buffer"
        adds_bytes = self.region.plan.dtype == "uint8" and steps.identity.dtype == np.int16 and channels <= 4
        if adds_bytes and is_inside and is_small and rows == w.kernel == of_plane == 2:
            form = "bytes"
        in_passes = is_constant and channels > 1 and steps.total == "sum"
        pieces = self.pieces(w, limits.pass_bytes if in_passes else limits.row_bytes)
        work = (pieces["reach"] + MARGIN * w.stride) * channels + CACHE_LINE
        constants = rows, of_plane, w.kernel, w.stride, w.dilation, line, form, channels if is_constant else 0
        return Launch("sliding.sliding", constants, work, pieces | {"a": lines, "b": fetched})

    def fetched(self, kernel: int, stride: int) -> tuple[int, int, int]:
        """Half of the cache lines to fetch ahead, the elements of one, and where they begin; 0 if none pays."""
        row = self.view.input_shape[3]
        step, read = stride * row, min(kernel, stride) * row  # rows between windows are not read
        if not stride or not self.is_streamed(read):
            return 0, 0, 0
        line = CACHE_LINE // self.source_bytes
        return ceil_div(read, 2 * line), line, ceil_div(kernel * row + 1024, step) * step

    def is_streamed(self, elements: int) -> bool:
        """Whether so many elements of an input beyond the cache are few enough to be fetched at once."""
        is_short = elements * self.source_bytes <= self.limits.fetched_bytes
        return is_short and prod(self.view.input_shape) * self.source_bytes >= self.limits.cached_bytes

    def maps(self, w: Sliding, rows: int) -> Launch:
        d, h, columns = self.view.axes
        width, plane = columns.size, h.output * columns.output
        step = max(1, min(h.output, self.limits.mask_elements // width))
        work = 2 * w.kernel * w.dilation + plane + step * width * (1 + w.kernel) + 2 * MARGIN
        products = np.outer(d.divisor * h.divisor, columns.divisor).ravel() if self.arithmetic.divides else None
        return Launch("sliding.maps", (rows, w.kernel, w.dilation), work, {"a": step}, tasks=1, along_w=products)

    def bins(self) -> Launch:
        (d, h, w), width, channels = self.view.axes, self.view.input_shape[3], self.view.channels
        if self.is_small:
            return Launch("bins.bins", (0, True, False, 0), width)
        taps = w.longest if w.longest <= self.limits.short else 0
        in_place = not taps and channels == w.dilation == 1 and d.is_single and h.is_single
        if not in_place:
            return Launch("bins.bins", (taps, channels > 1, False, 0), width + taps * w.dilation * channels)
        line = CACHE_LINE // self.source_bytes
        sizes = {"b": ceil_div(w.longest, line), "c": w.longest + 1024}
        return Launch("bins.bins", (0, False, True, line if self.is_streamed(w.longest) else 0), sizes=sizes)

    def areas(self) -> Launch:
        _, h, w = self.view.axes
        weights = tuple(
            np.ones((axis.output, axis.longest), np.int64) if axis.weights is None else axis.weights for axis in (h, w)
        )
        work, sizes = self.view.input_shape[3] + self.view.output_shape[3], {"a": h.longest, "b": w.longest}
        return Launch("bins.areas", work=work, sizes=sizes, weights=weights)

    def searched(self) -> tuple[int, int, int]:
        """The elements, stride and distance of elements along W, if all windows of a row are searched at once."""
        w = self.sliding_windows
        is_long = prod(axis.size for axis in self.view.axes) >= 2**31
        if w is None or is_long or not self.has_constant_windows(w, 1):
            return 0, 0, 0
        return w.kernel, w.stride, w.dilation if self.view.channels == 1 else 0

    def statistic(self) -> Launch:
        """Modes, medians and standard deviations, in pieces of `piece` windows. Their work array has a row for each
        element of a window, and a few more; that of deviations, which read elements twice, only those.
        """
        (depth, height, axis), channels, total = self.view.axes, self.view.channels, self.arithmetic.total
        w, lines = axis.windows, depth.longest * height.longest
        elements = lines * axis.longest
        rows = {"mode": elements + 3, "median": elements + 1}.get(total, 4)
        first, last = first_run(axis.count == axis.longest)  # windows that have all their elements
        steps = np.diff(axis.start[first:last])
        if (steps != steps[:1]).any():
            last = first + 1
        stride = int(steps[0]) if last - first > 1 else 1
        constants = (0, 0, 0, 0) if total == "deviation" else ()
        is_near = w is not None and (w.stride == 1 or channels == w.dilation == 1) and elements <= UNROLLED
        if w is not None and total == "deviation" and is_near and self.has_constant_windows(w, lines):
            constants = lines, height.longest, w.kernel, w.stride
        piece = max(1, max(PIECE_OUTPUTS, self.limits.pass_bytes // self.itemsize // rows // 32 * 32) // channels)
        sizes = {"piece": piece, "first": first, "last": last, "stride": stride}
        return Launch(f"statistics.{total}", constants, piece * channels * rows, sizes)

    def bytes_read(self) -> int:
        """Bytes that the kernel reads or writes, as a measure of its time: each takes 0.03 to 0.4 ns.

        Rows of windows count, or all elements where windows share nothing, and some as often as they are compared.
        """
        view, total = self.view, self.arithmetic.total
        lines = prod(axis.longest for axis in view.axes[:2])
        elements = lines * view.axes[2].longest
        read = prod(view.output_shape[:3]) * view.input_shape[3] * min(lines, 8)
        if total == "sum_and_squares":
            read *= 6  # totals of 16 bytes
        elif total in ("median", "mode", "deviation"):
            read = prod(view.output_shape) * elements * (max(1, elements // 8) if total == "median" else 2)
        return max(prod(view.input_shape), prod(view.output_shape), read) * self.source_bytes
