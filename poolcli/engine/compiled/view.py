"""The canonical view of the kernels: any layout and rank as (outer, D, H, W * inner)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.call import Order
from poolcli.engine.compiled.arithmetic import lengths_of, seen_as
from poolcli.engine.compiled.geometry import Geometry, in_order
from poolcli.engine.rounding import Array, storable
from poolcli.plan import Plan
from poolcli.plan.plan import Region
from poolcli.windows import AxisWindows, Cells, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Axis:
    """One axis of the view: window o reads begin[o] + j * step for j < count[o].

    Where they are regular they are `windows`, of which the first begins `pad` before what is read. `entire` is of the
    whole axis, whatever the region: everything that chooses a kernel, and with it an order of additions, asks there.
    `weights` are those of each window where elements count in part, as many as the longest one has elements.
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
    weights: NDArray[np.int64] | None = None

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

    @cached_property
    def is_plain(self) -> bool:
        """Whether the axes of the layout are in the order of the view."""
        return self.order == tuple(range(len(self.order)))

    @property
    def rows(self) -> int:
        """The number of output rows."""
        return prod(self.output_shape[:3])

    def is_contiguous(self, x: Array) -> bool:
        """Whether an array in the order of the layout lies in memory as the kernels go through it."""
        return (x if self.is_plain else x.transpose(self.order)).flags.c_contiguous

    def of_input(self, x: Array) -> Array:
        """`x` in the order of this view, not copied."""
        return x if self.is_plain else x.transpose(self.order)

    def target(self, out: Array, dtype: np.dtype[Any], as_bits: bool) -> Array:
        """`out` itself as numbers of that type in the order of this view; a new array where it is of another type.
        `as_bits`: whether numbers of that type are the bits of those of `out`, where kernels see these so.
        """
        if as_bits and out.dtype != dtype and out.dtype.isnative and seen_as(out.dtype.name) == dtype:
            out = out.view(dtype)
        if out.dtype != dtype:
            return np.empty(self.ordered_shape, dtype)
        return out if self.is_plain else out.transpose(self.order)

    def store(self, out: Array, values: Array, as_bits: bool) -> None:
        """Brings values made in this view to `out`, where they are not there already."""
        if not np.may_share_memory(out, values):
            with np.errstate(all="ignore"):
                if as_bits and values.dtype != out.dtype and values.dtype == seen_as(out.dtype.name):
                    values = values.view(out.dtype)
                out[...] = storable(self.to_layout(values), out.dtype)

    def to_layout(self, array: Array) -> Array:
        """An array of the canonical output shape, back in the order of the layout; a view."""
        return array.reshape(self.ordered_shape).transpose(np.argsort(self.order))

    def geometry(self, divisor: np.dtype[Any], spread: bool = False) -> Geometry:
        """Where kernels read and write; divisors, of that type, are given along W for each inner element, and so with
        `spread` are the windows themselves.
        """
        d, h, w = self.axes
        begin, count = w.begin, w.count
        if spread:
            begin = (begin[:, None] * self.inner + np.arange(self.inner)).reshape(-1)
            count = np.repeat(count, self.inner)
        across = np.repeat(w.divisor, self.inner).astype(divisor)
        return Geometry(
            self.rows,
            self.inner,
            (d.size, h.size, w.size * self.inner),
            (d.output, h.output),
            w.output * self.inner,
            (d.begin, h.begin, begin),
            (d.count, h.count, count),
            (d.step, h.step, w.step),
            (d.divisor.astype(divisor), h.divisor.astype(divisor), across),
            in_order(*self.input_shape[1:]),
            weights=() if h.weights is w.weights is None else (_flat_weights(h), _flat_weights(w)),
        )


def view_of(region: Region, row: int, given: Order | None = None) -> View:
    """The view in which the kernels work on this region, of the axes in the order that is given (without it, in that of
    the layout); short planes are glued to rows of about `row` elements.
    """
    plan, outputs, input_shape = region.plan, region.outputs, region.input_shape
    order, override = given or _order_of_layout(plan), 1 if plan.reducer.is_sum else plan.divisor_override
    windows = {axis.position: axis.windows for axis in plan.axes}
    axes = [_ONE] * (3 - len(windows)) + [_axis_of(windows[i], outputs[i]) for i in order.spatial]
    if override is not None:
        axes = [replace(axis, divisor=np.ones_like(axis.divisor)) for axis in axes]
        axes[0] = replace(axes[0], divisor=axes[0].divisor * override)
    unweighted = not plan.is_weighted
    while unweighted and axes[2].is_whole and axes[1].step == 1 and axes[0].entire.size * axes[1].entire.size > 1:
        axes = [_ONE, axes[0], _merged(axes[1], axes[2])]
    outer, many = prod(input_shape[i] for i in order.outside), prod(input_shape[i] for i in order.inside)
    if many == 1 and all(axis.is_whole for axis in axes):
        glued = _divisor_up_to(outer, row // axes[2].size)
        outer, axes[2] = outer // glued, _repeated(axes[2], glued)
    return View(
        order.axes,
        tuple(len(outputs[i]) for i in order.axes),
        outer,
        many,
        (axes[0], axes[1], axes[2]),
    )


def _order_of_layout(plan: Plan) -> Order:
    """Inside are the axes behind those that windows slide along, where these are neighbours; none otherwise."""
    spatial = tuple(axis.position for axis in plan.axes)
    others = [i for i in range(len(plan.input_shape)) if i not in spatial]
    in_place = spatial == tuple(range(spatial[0], spatial[0] + len(spatial)))
    inside = [i for i in others if in_place and i > spatial[0]]
    return Order(tuple(i for i in others if i not in inside), spatial, tuple(inside))


def _axis_of(windows: AxisWindows, outputs: range) -> Axis:
    o, reads = np.arange(outputs.start, outputs.stop), windows.reads(outputs)
    begin, step, sliding = windows.start(o) - reads.start, 1, None
    pad = -int(begin[0])
    if isinstance(windows, Sliding):
        begin, step, sliding = begin + windows.first_tap(o) * windows.dilation, windows.dilation, windows
    entire = _entire(windows)._replace(is_cut=len(outputs) < windows.output)
    axis = Axis(len(reads), len(outputs), begin, windows.inside(o), step, windows.divisor(o), sliding, pad, entire)
    if not isinstance(windows, Cells):
        return axis
    elements = windows.start(o)[:, None] + np.arange(windows.longest)
    return replace(axis, weights=windows.weight(o[:, None], elements))


def _flat_weights(axis: Axis) -> NDArray[np.int64]:
    """The weights of each window, as many as the longest one has elements."""
    weights = np.ones((axis.output, axis.entire.longest), np.int64) if axis.weights is None else axis.weights
    return weights.reshape(-1)


@lru_cache(maxsize=16)
def _entire(windows: AxisWindows) -> Entire:
    count = lengths_of(windows)[0]
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
