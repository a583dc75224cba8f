"""The canonical view of the kernels: any layout and rank as (outer, D, H, W * inner)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.core.windows import AxisWindows, Sliding, ceil_div
from poolcli.plan.region import Ranges, Region

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Array = np.ndarray[Any, np.dtype[Any]]
LONG_RUN = 16  # windows that do not overlap are summed each on its own from this length on
MERGED_ROW = 4096  # elements; whole planes shorter than this are glued to rows of about this length
LONG_ROW = 1 << 15  # bytes of a row buffer: the three of a task stay in the second cache
SHORT_ROWS = 512  # elements of a task's row buffers together, where rows are shorter than that
WORTH_BLOCKS = 4  # rows of a window for each row of stride, above which blocks pay


@dataclass(frozen=True)
class Axis:
    """One axis of the view: window o reads begin[o] + j * step for j < count[o].

    Where they are regular they are `windows`, of which the first begins `pad` before what is read. `entire` is of the
    whole axis, whatever the region: everything that chooses a kernel, and with it an order of additions, asks there.
    """

    size: int
    output: int
    begin: NDArray[np.int64]
    count: NDArray[np.int64]
    step: int
    divisor: NDArray[np.int64]
    windows: Sliding | None
    pad: int
    entire: Entire

    @property
    def is_whole(self) -> bool:
        """Whether the one window is the axis itself."""
        return not self.entire.is_cut and (
            self.output == 1 and self.step == 1 and self.begin[0] == 0 and self.count[0] == self.size
        )


class Entire(NamedTuple):
    """A whole axis: its length, its longest window, whether all windows read one element, and whether a region takes
    only some of them.
    """

    size: int
    longest: int
    is_single: bool
    is_cut: bool


class Across(NamedTuple):
    """Regular windows along W; rows are taken in pieces of `piece` outputs, which reach over `reach` inputs."""

    kernel: int
    stride: int
    dilation: int
    pad: int
    reach: int
    outputs: int
    piece: int


@dataclass(frozen=True)
class View:
    """How a plan's arrays are seen by the kernels."""

    order: tuple[int, ...]  # the layout's axes as outer, spatial, inner
    ordered_shape: tuple[int, ...]  # of the output
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

    def of_input(self, x: Array) -> Array:
        """`x` in this view, contiguous and native; no copy where it lies so already. 16-bit floats become bits."""
        x = x.astype(x.dtype.newbyteorder("="), copy=False)
        x = x.view(_kernel_dtype(x.dtype))
        source = np.ascontiguousarray(x.transpose(self.order)).reshape(self.input_shape).view()
        source.flags.writeable = False  # one compiled variant serves writable and read-only arrays
        return source

    def target(self, out: Array, dtype: DTypeLike) -> Array:
        """`out` itself in this view where it is of that type and lies so; a new array otherwise."""
        seen = out.transpose(self.order)
        if seen.dtype.itemsize == np.dtype(dtype).itemsize and _kernel_dtype(seen.dtype) == np.dtype(dtype):
            seen = seen.view(dtype)
        if seen.dtype == np.dtype(dtype) and seen.dtype.isnative and seen.flags.c_contiguous:
            return seen.reshape(self.output_shape)
        return np.empty(self.output_shape, dtype)

    def store(self, out: Array, values: Array) -> None:
        """Brings values made in this view to `out`, where they are not there already."""
        if not np.may_share_memory(out, values):
            with np.errstate(all="ignore"):
                if values.dtype != out.dtype and values.dtype == _kernel_dtype(out.dtype):
                    values = values.view(out.dtype)
                out[...] = self.to_layout(values)

    def to_layout(self, array: Array) -> Array:
        """An array of the canonical output shape, back in the order of the layout; a view."""
        return array.reshape(self.ordered_shape).transpose(np.argsort(self.order))

    def geometry(self, spread: bool = False) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[int, ...]]:
        """For each axis: the first input index and the number of inputs of every window, and the step between them;
        `spread`: along W one for each inner element, and the index is that of the element.
        """
        begins, counts = [axis.begin for axis in self.axes], [axis.count for axis in self.axes]
        if spread:
            begins[2] = (begins[2][:, None] * self.inner + np.arange(self.inner)).reshape(-1)
            counts[2] = np.repeat(counts[2], self.inner)
        return tuple(begins), tuple(counts), tuple(axis.step for axis in self.axes)

    def divisors(self, dtype: Any, reciprocal: bool = False) -> tuple[Array, ...]:
        """Each axis' factors of the divisor (or what to multiply by); along W one for each inner element."""
        found = [axis.divisor.astype(dtype) for axis in self.axes]
        if reciprocal:
            with np.errstate(divide="ignore"):
                found = [1 / factor for factor in found]
        found[2] = np.repeat(found[2], self.inner)
        return tuple(found)

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """(D, H, W * inner) of the input, (D, H) of the output, W * inner of the output."""
        return self.input_shape[1:], self.output_shape[1:3], self.output_shape[3]

    @property
    def is_halving(self) -> bool:
        """Whether windows along W are pairs side by side, all of them inside the input."""
        w = self.axes[2].windows
        if w is None or self.inner not in (1, 3):
            return False
        return (w.kernel, w.stride, w.dilation, w.pad_begin) == (2, 2, 1, 0) and 2 * w.output <= w.size

    def across(self, itemsize: int) -> Across | None:
        """The windows along W where they are regular; None where they are better taken each on its own. Accumulators
        are of `itemsize` bytes.
        """
        axis = self.axes[2]
        w = axis.windows
        if w is None or (w.stride >= w.extent and w.kernel >= LONG_RUN):
            return None
        if (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + MERGED_ROW:
            return None
        reach = (axis.output - 1) * w.stride + w.extent
        piece = axis.output
        most = LONG_ROW // itemsize // self.inner
        if reach > most:
            piece = min(axis.output, max(1, (most + w.extent) // w.stride))
        return Across(w.kernel, w.stride, w.dilation, axis.pad, (piece - 1) * w.stride + w.extent, axis.output, piece)

    def down(self) -> tuple[int, int, int, int] | None:
        """Along H, where blocks of rows beat joining each window's: (kernel, stride, rows of padding, blocks)."""
        axis = self.axes[1]
        h = axis.windows
        if h is None or h.dilation > 1 or h.kernel <= WORTH_BLOCKS * h.stride or h.kernel > h.size + MERGED_ROW:
            return None
        if not self.axes[0].entire.is_single:
            return None
        return h.kernel, h.stride, axis.pad, ceil_div((axis.output - 1) * h.stride + 1, h.kernel)


def _kernel_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """As which type kernels see a native array: bool as uint8, float16 and bfloat16 as their bits."""
    return np.dtype({"bool": np.uint8, "float16": np.int16, "bfloat16": np.uint16}.get(dtype.name, dtype))


def view_of(region: Region) -> View:
    """The view in which the kernels work on this region."""
    plan = region.plan
    positions = tuple(axis.position for axis in plan.axes)
    return _view_of(plan.windows, positions, region.outputs, region.input_shape, plan.divisor_override)


@lru_cache(maxsize=16)
def _view_of(
    windows: tuple[AxisWindows, ...],
    spatial: tuple[int, ...],
    outputs: Ranges,
    input_shape: tuple[int, ...],
    override: int | None,
) -> View:
    others = [i for i in range(len(input_shape)) if i not in spatial]
    in_place = list(spatial) == list(range(spatial[0], spatial[0] + len(spatial)))
    outside = [i for i in others if i < spatial[0]] if in_place else others
    inside = [i for i in others if i not in outside]
    order = (*outside, *spatial, *inside)
    axes = [_ONE] * (3 - len(spatial)) + [_axis_of(w, outputs[i]) for w, i in zip(windows, spatial, strict=True)]
    if override is not None:
        axes = [replace(axis, divisor=np.ones_like(axis.divisor)) for axis in axes]
        axes[0] = replace(axes[0], divisor=axes[0].divisor * override)
    while axes[2].is_whole and axes[1].step == 1 and axes[0].entire.size * axes[1].entire.size > 1:
        axes = [_ONE, axes[0], _merged(axes[1], axes[2])]
    outer, inner = prod(input_shape[i] for i in outside), prod(input_shape[i] for i in inside)
    if inner == 1 and all(axis.is_whole for axis in axes):
        glued = _divisor_up_to(outer, MERGED_ROW // axes[2].size)
        outer, axes[2] = outer // glued, _repeated(axes[2], glued)
    return View(order, tuple(len(outputs[i]) for i in order), outer, inner, (axes[0], axes[1], axes[2]))


def _axis_of(windows: AxisWindows, outputs: range) -> Axis:
    o, reads = np.arange(outputs.start, outputs.stop), windows.reads(outputs)
    begin, step, sliding = windows.start(o) - reads.start, 1, None
    pad = -int(begin[0])
    if isinstance(windows, Sliding):
        begin, step, sliding = begin + windows.first_tap(o) * windows.dilation, windows.dilation, windows
    entire = _entire(windows)._replace(is_cut=len(outputs) < windows.output)
    return Axis(len(reads), len(outputs), begin, windows.inside(o), step, windows.divisor(o), sliding, pad, entire)


@lru_cache(maxsize=16)
def _entire(windows: AxisWindows) -> Entire:
    count = windows.inside(np.arange(windows.output))
    return Entire(windows.size, int(count.max(initial=0)), bool((count == 1).all()), False)


def _merged(lines: Axis, whole: Axis) -> Axis:
    """Windows of whole lines as windows of one long row."""
    n, entire = whole.size, lines.entire
    divisor = lines.divisor * whole.divisor[0]
    entire = Entire(entire.size * n, entire.longest * n, entire.is_single and n == 1, entire.is_cut)
    return Axis(lines.size * n, lines.output, lines.begin * n, lines.count * n, 1, divisor, None, 0, entire)


def _repeated(whole: Axis, times: int) -> Axis:
    """One whole window, and the next planes' after it in the same row."""
    begin = np.arange(times) * whole.size
    count, divisor = np.repeat(whole.count, times), np.repeat(whole.divisor, times)
    entire = whole.entire._replace(size=whole.size * times)
    return Axis(whole.size * times, times, begin, count, 1, divisor, None, 0, entire)


def _divisor_up_to(n: int, most: int) -> int:
    """The largest divisor of n that is at most `most`, and at least 1."""
    return next((d for d in range(min(n, most), 1, -1) if n % d == 0), 1)


_ONE = _axis_of(Sliding(1, 1, 1, 1, 1, 0, 0), range(1))
