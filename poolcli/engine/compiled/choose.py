"""The choice of a kernel: from a region alone which loops compute it, over what, and in how many tasks.

Whatever decides about an order of additions asks the whole axes, so that every region of a plan is computed alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.core.dtypes import lookup
from poolcli.core.windows import ceil_div
from poolcli.engine.compiled.arithmetic import NONE, Arithmetic, Itself, OfKernel, Plain, compute, seen_as
from poolcli.engine.compiled.geometry import Across, Down, Geometry, Wide, flat
from poolcli.engine.compiled.view import View, view_of
from poolcli.plan import Plan
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Limits(NamedTuple):
    """Where another kernel, or another way to share out its work, begins to pay."""

    run: int = 16  # elements of windows that do not overlap: from here on each is joined on its own
    merged: int = 4096  # elements; whole planes shorter than this are glued to rows of about this length
    row: int = 1 << 15  # bytes of a row buffer: the three of a task stay in the second cache
    short: int = 512  # elements of a task's row buffers together, where rows are shorter than that
    blocks: int = 4  # rows of a window for each row of stride, above which blocks pay


LIMITS = Limits()


@dataclass(frozen=True)
class Choice:
    """A kernel by its name, and what it is given beside the arrays.

    `dtype` is the type of the elements, `source` as which the kernel sees them, `made` that of what it writes, `more`
    what this kernel alone is given. A run of its tasks needs row buffers of `scratch` totals, and of `lines` numbers.
    """

    kernel: str
    dtype: str
    view: View
    how: Arithmetic | Wide
    source: np.dtype[Any]
    made: np.dtype[Any]
    geometry: Geometry
    more: tuple[Any, ...]
    tasks: int
    scratch: int
    lines: int

    @cached_property
    def variant(self) -> str:
        """What tells it from other kernels that are compiled for themselves, in one word."""
        steps = [_word(step) for step in self.how if isinstance(step, tuple) and not isinstance(step, Plain | Itself)]
        types = [self.made.name, *([self.divisor.name] if self.divisor != NONE else [])]
        return "-".join([self.kernel, self.dtype, *steps, *types])

    @property
    def totals(self) -> np.dtype[Any]:
        """The type of totals."""
        return np.dtype(np.int64) if isinstance(self.how, Wide) else self.how.total.nothing.dtype

    @property
    def divisor(self) -> np.dtype[Any]:
        """The type of divisors."""
        return self.geometry.divisors[0].dtype

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The integers that the kernel is given, and the divisors."""
        result = None if isinstance(self.how, Wide) else self.how.result
        return flat(self.geometry, self.more, int(result.elements) if isinstance(result, OfKernel) else 0)


def choose_kernel(region: Region, indices: bool = False) -> Choice:
    """The kernel that computes a region (with positions where `indices` is true), and all that it is given."""
    return _choose(region, indices, LIMITS)


@lru_cache(maxsize=16)
def _choose(region: Region, indices: bool, limits: Limits) -> Choice:
    plan, view = region.plan, view_of(region, limits.merged)
    if plan.reducer.divides and plan.reducer.power is None and plan.dtype in ("int64", "uint64"):
        return _wide(plan, view)
    computed = compute(plan, prod(axis.entire.longest for axis in view.axes))
    width, source = view.input_shape[3], seen_as(plan.dtype)
    how, itemsize = computed.how, computed.how.total.nothing.itemsize
    loops = Loops("best_at", (), view.rows, width, lines=width) if indices else _loops(view, itemsize, limits)
    geometry = view.geometry(computed.divisor, spread=loops.kernel == "each")
    return Choice(loops.kernel, plan.dtype, view, how, source, computed.made, geometry, *loops[1:])


class Loops(NamedTuple):
    """A kernel by its name, what it alone is given, how many tasks it has, and the row buffers of a run of them."""

    kernel: str
    more: tuple[Any, ...]
    tasks: int
    scratch: int
    lines: int = 0


def _loops(view: View, itemsize: int, limits: Limits) -> Loops:
    """The loops that suit the windows, where totals are of `itemsize` bytes."""
    w, h = across(view, itemsize, limits), down(view, limits)
    width, size = view.input_shape[3], view.output_shape[3]
    if w is None:
        return Loops("each", (view.axes[2].entire.longest,), view.rows, width + size)
    if is_halving(view):
        return Loops("halve", (), view.rows, 2 * size)
    pieces, length, sampled = ceil_div(w.outputs, w.piece), w.reach * view.inner, w.piece * view.inner
    if h is not None:
        tasks = view.rows // view.axes[1].output * h.blocks * pieces
        return Loops("slide_blocks", (w, h), tasks, 3 * length + sampled + length + (h.kernel + 1) * length)
    group = max(1, limits.short // length)
    return Loops("slide", (w, group), ceil_div(view.rows, group) * pieces, 3 * length * group + sampled)


def _wide(plan: Plan, view: View) -> Choice:
    """Means of 64-bit integers; the rounded ones are made as int64, which has the bits of those of uint64."""
    rounded = lookup(plan.output_dtype).is_integer
    how, made = Wide(plan.dtype.startswith("u"), rounded), np.dtype(np.int64 if rounded else np.float64)
    source, geometry, scratch = np.dtype(np.int64), view.geometry(np.dtype(np.int64)), 2 * view.input_shape[3]
    return Choice("mean_wide", plan.dtype, view, how, source, made, geometry, (), view.rows, scratch, 0)


def is_halving(view: View) -> bool:
    """Whether windows along W are pairs side by side, all of them inside the input."""
    w = view.axes[2].windows
    if w is None or view.inner not in (1, 3):
        return False
    return (w.kernel, w.stride, w.dilation, w.pad_begin) == (2, 2, 1, 0) and 2 * w.output <= w.size


def across(view: View, itemsize: int, limits: Limits) -> Across | None:
    """The windows along W where they are regular; None where they are better taken each on its own. Totals are of
    `itemsize` bytes.
    """
    axis = view.axes[2]
    w = axis.windows
    if w is None or (w.stride >= w.extent and w.kernel >= limits.run):
        return None
    if (w.output - 1) * w.stride + w.extent + w.pad_begin > 4 * w.size + limits.merged:
        return None
    reach = (axis.output - 1) * w.stride + w.extent
    piece = axis.output
    most = limits.row // itemsize // view.inner
    if reach > most:
        piece = min(axis.output, max(1, (most + w.extent) // w.stride))
    reach = (piece - 1) * w.stride + w.extent
    return Across(w.kernel, w.stride, w.dilation, axis.pad, reach, axis.output, piece)


def down(view: View, limits: Limits) -> Down | None:
    """The windows along H, where blocks of rows beat joining each window's."""
    axis = view.axes[1]
    h = axis.windows
    if h is None or h.dilation > 1 or h.kernel <= limits.blocks * h.stride or h.kernel > h.size + limits.merged:
        return None
    if not view.axes[0].entire.is_single:
        return None
    return Down(h.kernel, h.stride, axis.pad, ceil_div((axis.output - 1) * h.stride + 1, h.kernel))


def _word(step: Any) -> str:
    """The name of a step, the type of totals and the power of terms, as constants of the kernel."""
    name = type(step).__name__.lower()
    constant = step.nothing.dtype.name if hasattr(step, "nothing") else getattr(step, "power", None)
    return name if constant is None else f"{name}-{constant}"
