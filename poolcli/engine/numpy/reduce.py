"""Windows of every axis taken together: one axis after the other, the last first, one tap after the other.

Whatever is combined element by element (sums, pairs of sums, maxima with their places) is separable, so that each
spatial axis is reduced on its own. Taps come in rising order and the last axis first, so what is found first is the
first in row-major order. Weighted sums begin with the first axis, whose rows they then add whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.rounding import Array
from poolcli.plan.region import Ranges, Region
from poolcli.windows import AxisWindows, Cells, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

Parts = tuple[Array, ...]
Combine = Callable[[Parts, Parts], None]  # joins the second parts to the first, in place
Weigh = Callable[[Parts, Array], Parts]  # parts times weights, which broadcast over them
Joined = Callable[[Array], Array]


FEW = 100  # taps; as many are kept from call to call


class AxisSteps(NamedTuple):
    """How one axis of `position` is reduced to `length` outputs: for each tap, which outputs it belongs to, which
    elements it reads, and by which weights they count (None: 1). `first` is an order of the axes in which this one
    comes first.
    """

    position: int
    length: int
    first: tuple[int, ...]
    taps: Callable[[], Iterable[tuple[Any, Any, Array | None]]]


def steps_of(region: Region) -> tuple[AxisSteps, ...]:
    """The steps for every spatial axis, the last one first; where elements have weights, the first one."""
    axes = region.plan.axes if region.plan.is_weighted else region.plan.axes[::-1]
    return tuple(_axis_steps(axis.windows, region.outputs, axis.position) for axis in axes)


def _axis_steps(windows: AxisWindows, outputs: Ranges, position: int) -> AxisSteps:
    wanted, first = outputs[position], (position, *(i for i in range(len(outputs)) if i != position))
    kept = list(islice(taps_of(windows, wanted), FEW + 1))
    return AxisSteps(position, len(wanted), first, lambda: taps_of(windows, wanted) if len(kept) > FEW else kept)


def _weigh(parts: Parts, weights: Array) -> Parts:
    return tuple(part * weights for part in parts)


def reduce(
    steps: tuple[AxisSteps, ...],
    parts: Parts,
    combine: Combine,
    start: Sequence[Any] = (0, 0),
    weigh: Weigh = _weigh,
) -> Parts:
    """`parts` with every spatial axis reduced over its windows, beginning with the values of `start`."""
    for axis in steps:
        shape = list(parts[0].shape)
        shape[axis.position] = axis.length
        reduced = tuple(np.full(shape, value, part.dtype) for part, value in zip(parts, start, strict=False))
        sources, targets = ([part.transpose(axis.first) for part in some] for some in (parts, reduced))
        for outputs, inputs, weights in axis.taps():
            rows, taken = tuple(target[outputs] for target in targets), tuple(source[inputs] for source in sources)
            combine(rows, taken if weights is None else weigh(taken, along(weights, 0, taken[0].ndim)))
            if not isinstance(outputs, slice):  # a selection by an array of indices is a copy
                for target, row in zip(targets, rows, strict=True):
                    target[outputs] = row
        parts = reduced
    return parts


def taps_of(windows: AxisWindows, wanted: range) -> Iterator[tuple[Any, Any, Array | None]]:
    """For each tap, which of the `wanted` outputs it belongs to, which elements it reads of what they read, and
    by which weights they count.
    """
    low = windows.reads(wanted).start
    if isinstance(windows, Sliding):
        for j in windows.taps(wanted):
            outputs = windows.outputs_of_tap(j, wanted)
            if outputs:
                first, last = (windows.start(o) + j * windows.dilation - low for o in (outputs[0], outputs[-1]))
                reached = slice(outputs.start - wanted.start, outputs.stop - wanted.start)
                yield reached, slice(first, last + 1, windows.stride), None
        return
    bins = indices(wanted)
    starts, stops = windows.start(bins), windows.stop(bins)
    for j in range(windows.lengths[1]):
        inside = starts + j < stops
        elements = starts[inside] + j
        weights = windows.weight(bins[inside], elements) if isinstance(windows, Cells) else None
        yield np.flatnonzero(inside), elements - low, weights


def indices(outputs: range) -> NDArray[np.int64]:
    """The indices of a range as an array."""
    return np.arange(outputs.start, outputs.stop)


def along(values: Array, axis: int, rank: int) -> Array:
    """A row of values shaped to broadcast along one axis of `rank`."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


# Few windows of few elements are gathered at once, because a step of numpy takes longer than joining them.
FEW_ELEMENTS = 1 << 12  # of all windows, and of what they read; of more, a table of their places takes longer to read


def gathered(region: Region, dtype: Any, join: Callable[[Array, Array], Array], nothing: Any) -> Joined | None:
    """What makes of an array the join of every window in that type, in the order of `reduce`: along the last axis
    first, one tap after the other. Taps outside of the input give `nothing`. None where there are more than few.
    """
    longest, size = prod(axis.windows.longest for axis in region.plan.axes), prod(region.input_shape)
    if size > FEW_ELEMENTS or prod(region.output_shape) * longest > FEW_ELEMENTS:
        return None
    places = _places(region, nowhere=size)
    counts = places.shape[: len(region.plan.axes)]  # of taps
    behind = (np.full(1, nothing, dtype),) if (places == size).any() else ()

    def joined(x: Array) -> Array:
        numbers = x.astype(dtype, copy=False).ravel()
        total = (np.concatenate((numbers, *behind)) if behind else numbers)[places]
        for taps in counts:
            terms, total = total, total[0]
            for i in range(1, taps):  # by number: an array gives its parts in turn in twice the time
                total = join(total, terms[i])
        return total

    return joined


def _places(region: Region, nowhere: int) -> NDArray[np.int64]:
    """Where in the flat input the elements of windows lie: [taps of the last axis, ..., of the first one, *outputs]."""
    tables = [np.arange(len(outputs))[None] for outputs in region.outputs]  # of each axis: [taps, outputs]
    for planned in region.plan.axes:
        tables[planned.position] = _table(planned.windows, region.outputs[planned.position])
    rank, steps = len(tables), np.cumprod((1, *region.input_shape[:0:-1]))[::-1]
    places, inside = np.zeros((1,) * 2 * rank, np.int64), np.ones((1,) * 2 * rank, np.bool_)
    for axis, (table, step) in enumerate(zip(tables, steps, strict=True)):
        shape = [1] * 2 * rank
        shape[rank - 1 - axis], shape[rank + axis] = table.shape
        places, inside = places + table.reshape(shape) * step, inside & (table.reshape(shape) >= 0)
    taps = [len(tables[planned.position]) for planned in reversed(region.plan.axes)]
    return np.where(inside, places, nowhere).reshape((*taps, *region.output_shape))


def _table(windows: AxisWindows, outputs: range) -> NDArray[np.int64]:
    """Where along an axis each tap of each window lies in what they read; -1 outside of the input."""
    table = np.full((windows.longest, len(outputs)), -1)
    elements = np.arange(len(windows.reads(outputs)))
    for row, (reached, read, _) in zip(table, taps_of(windows, outputs), strict=False):
        row[reached] = elements[read]
    return table
