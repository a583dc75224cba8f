"""Reductions over windows, one axis after the other and one tap after the other; maxima and minima with positions.

Reductions that combine elements (sums, pairs of sums, maxima with positions) are separable, so each spatial axis is
reduced on its own. The last axis comes first and taps in rising order, so the first of equal maxima is the first in
row-major order. Weighted sums begin with the first axis instead, so that whole rows are added.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.call import Array
from poolcli.plan.plan import Region
from poolcli.windows import AxisWindows, Cells, Sliding

Parts = tuple[Array, ...]  # the arrays of one accumulator: a sum, (sum, error), or (maximum, position)
Combine = Callable[[Parts, Parts], None]  # accumulates the second parts into the first, in place
Weigh = Callable[[Parts, Array], Parts]  # parts times weights, which broadcast over them
ArrayFunction = Callable[[Array], Array]
Better = Callable[[Any, Any], Any]  # whether the first value wins over the second
Steps = tuple["AxisSteps", ...]  # of the spatial axes

CACHED_TAPS = 100  # the slices of up to as many taps are kept from call to call
# Few elements are gathered at once, as each call of numpy takes longer than reducing them. For more, reading the table
# of their positions takes longer.
MAX_GATHERED = 1 << 12  # elements of all windows, and of the input


class AxisSteps(NamedTuple):
    """How the axis at `position` is reduced to `length` outputs: for each tap, the indices of its outputs, of the
    elements that it reads, and their weights (None: 1).
    """

    position: int
    length: int
    taps: Callable[[], Iterable[tuple[Any, Any, Array | None]]]


def axis_steps(region: Region) -> Steps:
    """The steps of each spatial axis, the last axis first; with weights the first axis first."""
    steps = []
    for axis in region.plan.axes if region.plan.is_weighted else region.plan.axes[::-1]:
        at, wanted = axis.position, region.outputs[axis.position]
        taps = partial(taps_of, axis.windows, wanted)
        kept = list(islice(taps(), CACHED_TAPS + 1))
        steps.append(AxisSteps(at, len(wanted), taps if len(kept) > CACHED_TAPS else partial(iter, kept)))
    return tuple(steps)


def reduce(
    steps: Steps, parts: Parts, combine: Combine, start: Sequence[Any] = (0, 0), weigh: Weigh | None = None
) -> Parts:
    """Reduce `parts` over the windows of each spatial axis; `start` has the initial values of the accumulator."""
    for axis in steps:
        shape = list(parts[0].shape)
        shape[axis.position] = axis.length
        reduced = tuple(np.full(shape, value, part.dtype) for part, value in zip(parts, start, strict=False))
        sources, targets = ([part.swapaxes(0, axis.position) for part in some] for some in (parts, reduced))
        for outputs, inputs, weights in axis.taps():
            rows, taken = tuple(target[outputs] for target in targets), tuple(source[inputs] for source in sources)
            if weights is not None:
                factors = broadcast_along(weights, 0, taken[0].ndim)
                taken = weigh(taken, factors) if weigh else tuple(part * factors for part in taken)
            combine(rows, taken)
            if not isinstance(outputs, slice):  # indexing with an array makes a copy
                for target, row in zip(targets, rows, strict=True):
                    target[outputs] = row
        parts = reduced
    return parts


def taps_of(windows: AxisWindows, wanted: range) -> Iterator[tuple[Any, Any, Array | None]]:
    """For each tap: the indices of its outputs within `wanted`, of its elements within what these read, and weights."""
    low = windows.reads(wanted).start
    if isinstance(windows, Sliding):
        for j in windows.taps(wanted):
            outputs = windows.outputs_of_tap(j, wanted)
            if outputs:
                first, last = (windows.start(o) + j * windows.dilation - low for o in (outputs[0], outputs[-1]))
                within = slice(outputs.start - wanted.start, outputs.stop - wanted.start)
                yield within, slice(first, last + 1, windows.stride), None
        return
    bins = np.arange(wanted.start, wanted.stop)
    starts, stops = windows.start(bins), windows.stop(bins)
    for j in range(windows.lengths[1]):
        inside = starts + j < stops
        elements = starts[inside] + j
        weights = windows.weight(bins[inside], elements) if isinstance(windows, Cells) else None
        yield np.flatnonzero(inside), elements - low, weights


def broadcast_along(values: Array, axis: int, rank: int) -> Array:
    """Reshape a 1-d array to broadcast along one axis of `rank`."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def gathered_reduction(
    region: Region, dtype: Any, ufunc: Callable[[Array, Array], Array], identity: Any
) -> ArrayFunction | None:
    """The function that reduces all windows at once, in the order of `reduce`, or None if they are too large. Windows
    with fewer elements than the longest one are filled with `identity`.
    """
    longest, size = prod(axis.windows.longest for axis in region.plan.axes), prod(region.input_shape)
    if size > MAX_GATHERED or prod(region.output_shape) * longest > MAX_GATHERED:
        return None
    found: Array = np.zeros((), np.int64)
    for offsets in element_offsets(region):  # to [taps of the last axis, ..., taps of the first axis, *outputs]
        found = found[None, ..., None] + np.expand_dims(offsets.T, tuple(range(1, found.ndim + 1)))
    taps_per_axis = [n for n in found.shape[: len(region.outputs)] if n > 1]
    positions = np.maximum(found, -1, order="C").reshape((*taps_per_axis, *region.output_shape))
    padding = (np.full(1, identity, dtype),) if (positions < 0).any() else ()  # the last element, so at -1

    def reduced(x: Array) -> Array:
        numbers = x.astype(dtype, copy=False).ravel()
        total = (np.concatenate((numbers, *padding)) if padding else numbers)[positions]
        for taps in taps_per_axis:
            terms, total = total, total[0]
            for i in range(1, taps):  # iterating over the array itself takes twice the time
                total = ufunc(total, terms[i])
        return total

    return reduced


def element_offsets(region: Region) -> Iterator[Array]:
    """For each axis the offsets of its elements in the flat input: [outputs, elements of the longest window].

    Shorter windows are filled with offsets so negative that their sum over all axes is negative too.
    """
    stride = size = prod(region.input_shape)
    spatial = {axis.position: axis.windows for axis in region.plan.axes}
    for position, (outputs, length) in enumerate(zip(region.outputs, region.input_shape, strict=True)):
        stride //= max(length, 1)
        if position not in spatial:
            yield np.arange(length)[:, None] * stride
            continue
        spans, low = [spatial[position].span(o) for o in outputs], region.reads[position].start
        offsets = np.full((len(spans), max([1, *map(len, spans)])), -size)
        for row, span in zip(offsets, spans, strict=True):
            row[: len(span)] = (np.arange(span.start, span.stop, span.step) - low) * stride
        yield offsets


def winners_with_positions(region: Region, better: Better) -> Callable[..., tuple[Array, Array]]:
    """The function that returns the winners and their flat positions in the plane of the whole input; -1 for an empty
    window. Its second argument is an optional mask of elements that cannot win.
    """
    plan, steps = region.plan, axis_steps(region)
    rank = len(region.outputs)
    identity, dtype = lookup(plan.dtype).ends[plan.reducer.nothing], comparison_dtype(plan.dtype)

    def best(x: Array, mask: Array | None = None) -> tuple[Array, Array]:
        x = x.astype(dtype, copy=False)
        plane: Array = np.zeros((1,) * rank, np.int64)
        for axis in plan.axes:
            read = region.reads[axis.position]
            plane = plane * axis.windows.size + broadcast_along(np.arange(read.start, read.stop), axis.position, rank)
        combine = _keep_better(better, signs=dtype.kind == "f" and _has_negative_zeros(x))
        where = np.broadcast_to(plane, x.shape) if mask is None else np.where(mask, -1, plane)
        values, positions = reduce(steps, (x, where), combine, (identity, -1))
        return values, positions

    return best


def winners(region: Region, better: Better) -> ArrayFunction:
    """The function that returns the winners, by np.maximum or np.minimum. If zeros of both signs compete, of which
    numpy may return either, it also tracks positions, in ten times the time.
    """
    best, ufunc = winners_with_positions(region, better), {operator.gt: np.maximum, operator.lt: np.minimum}[better]
    plan, steps = region.plan, axis_steps(region)
    identity, dtype = lookup(plan.dtype).ends[plan.reducer.nothing], comparison_dtype(plan.dtype)
    gathered, has_signs = gathered_reduction(region, dtype, ufunc, identity), dtype.kind == "f"

    def combine(target: Parts, source: Parts) -> None:
        ufunc(target[0], source[0], out=target[0])

    def pick(x: Array) -> Array:
        found = gathered(x) if gathered else reduce(steps, (x.astype(dtype, copy=False),), combine, (identity,))[0]
        return best(x)[0] if has_signs and not found.all() and _has_negative_zeros(x) else found

    return pick


def comparison_dtype(dtype: str) -> np.dtype[Any]:
    """The type in which elements are compared: float32 for bfloat16, which numpy cannot compare."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _has_negative_zeros(x: Array) -> bool:
    return bool((np.signbit(x) & (x == 0)).any())


def _keep_better(better: Better, signs: bool) -> Combine:
    """Keep the first of the best values; the first NaN wins over every number.

    The first of two zeros gives the position, but (with `signs`) the value is -0 or +0 as in maximum and minimum of
    IEEE 754-2019.
    """

    def combine(target: Parts, source: Parts) -> None:
        (value, value_at), (other, other_at) = target, source
        wins = better(other, value)
        if other.dtype.kind == "f":
            wins |= np.isnan(other) & ~np.isnan(value)
        replaces = (other_at >= 0) & ((value_at < 0) | wins)
        if signs:
            sign = (other == value) & better(np.copysign(1, other), np.copysign(1, value))
            np.copyto(value, other, where=sign & (other_at >= 0))
        np.copyto(value, other, where=replaces)
        np.copyto(value_at, other_at, where=replaces)

    return combine
