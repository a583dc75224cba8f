"""Reducers that take all elements of a window at once: modes and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.numpy.sums import float_of_integers, quotient
from poolcli.engine.rounding import Array, storable
from poolcli.plan.attributes import Reducer
from poolcli.plan.plan import EXACT
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

ELEMENTS = 1 << 18  # of windows that are taken at once


def statistic_of(region: Region, gone: NDArray[np.bool_] | None = None) -> Pool:
    """What makes of an array the mode or the statistic of every window, without the elements that are `gone`."""
    plan, shape, places = region.plan, region.output_shape, tuple(_places(region))
    reducer = plan.reducer
    window = prod(place.shape[1] for place in places)
    block = max(1, ELEMENTS // max(window, 1))
    take = STATISTICS["mode" if reducer.votes else reducer.statistic or ""]

    def pool(x: Array, out: Array, threads: int | None) -> None:
        x = x.astype(np.float32) if plan.dtype == "bfloat16" else x  # exact, and numpy sorts them
        elements, found = np.ascontiguousarray(x).reshape(-1), np.empty(prod(shape), out.dtype)
        for first in range(0, found.size, block):
            outputs = np.arange(first, min(first + block, found.size))
            at = np.unravel_index(outputs, shape)
            offsets = np.zeros((outputs.size, 1), np.int64)
            for place, index in zip(places, at, strict=True):
                offsets = (offsets[:, :, None] + place[index][:, None, :]).reshape(outputs.size, -1)
            inside, offsets = offsets >= 0, np.maximum(offsets, 0)
            if gone is not None:
                inside &= ~gone.reshape(-1)[offsets]
            with np.errstate(all="ignore"):
                found[outputs] = storable(take(elements[offsets], inside, reducer, plan.output_dtype), out.dtype)
        out[...] = found.reshape(shape)

    return pool


def _places(region: Region) -> Iterator[NDArray[np.int64]]:
    """For each axis and each of its outputs, how far its elements lie from the array's first; outside so far below 0
    that no sum of them over the axes comes back."""
    unit = prod(region.input_shape)
    spatial = {axis.position: axis.windows for axis in region.plan.axes}
    nowhere = -unit
    for position, (outputs, length) in enumerate(zip(region.outputs, region.input_shape, strict=True)):
        unit //= max(length, 1)
        if position not in spatial:
            yield np.arange(length)[:, None] * unit
            continue
        spans, low = [spatial[position].span(o) for o in outputs], region.reads[position].start
        places = np.full((len(spans), max([1, *map(len, spans)])), nowhere)
        for row, span in zip(places, spans, strict=True):
            row[: len(span)] = (np.arange(span.start, span.stop, span.step) - low) * unit
        yield places


# Each makes of [windows, elements], and of which elements are inside the window, one number a window, in a type that
# rounds to the `dtype` of the output once.


def mode(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """Of each row the value that occurs most often, the smallest of such."""
    ordered, places = _ordered(elements, inside), np.arange(elements.shape[1])
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    lengths = places - np.maximum.accumulate(places * starts, axis=1)
    longest = np.where(places < inside.sum(axis=1)[:, None], lengths, -1).argmax(axis=1)
    return np.asarray(ordered[np.arange(len(ordered)), longest])


def median(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """The middle of each row, or the mean of the middle two. -0 becomes 0, as in sums."""
    counts, ordered, rows = inside.sum(axis=1), _ordered(elements, inside), np.arange(len(elements))
    low, high = ordered[rows, np.maximum(counts - 1, 0) // 2], ordered[rows, counts // 2]
    if elements.dtype.kind == "f":
        is_nan = (np.isnan(elements) & inside).any(axis=1) | (counts == 0)
        low, high = low.astype(np.float64) + 0.0, high.astype(np.float64)
        return np.where(is_nan, np.nan, _mean_of_two(low, high, dtype))
    if low.dtype == np.bool_:
        low, high = low.astype(np.uint8), high.astype(np.uint8)
    if "float" in dtype:
        wide = object if low.dtype.itemsize == 8 else np.int64
        total = low.astype(wide) + high.astype(wide)
        return np.where(counts == 0, np.nan, float_of_integers(total, np.full(1, 2), dtype == "float64"))
    below = (low & high) + ((low ^ high) >> 1)  # which never leaves the type
    return np.asarray(below + ((low ^ high) & below & 1))


def _mean_of_two(low: Array, high: Array, dtype: str) -> Array:
    total = low + high
    back = total - low
    error = (low - (total - back)) + (high - back)
    found = quotient((total, error), np.full(1, 2.0), dtype != "float64")
    return np.where(np.isinf(total) & np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, found)


def deviation(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """The standard deviation of each row: of short integers exactly up to the division and the root, of others in two
    passes.
    """
    counts, elements = inside.sum(axis=1), elements.view(np.uint8) if elements.dtype == np.bool_ else elements
    divisor, kind, scale = counts - reducer.ddof, elements.dtype.kind, np.int64(0)
    if kind != "f" and elements.dtype.itemsize <= 2 and elements.shape[1] < EXACT:
        numbers = np.where(inside, elements, elements.dtype.type(0)).astype(np.int64)
        variance = (counts * (numbers * numbers).sum(axis=1) - numbers.sum(axis=1) ** 2) / (counts * divisor)
    else:
        if kind != "f":  # from the smallest on, so that long integers lose nothing that matters
            least = _with_last(elements, inside).min(axis=1, keepdims=True)
            elements = (elements - least).view(f"u{elements.dtype.itemsize}")
        numbers = np.where(inside, elements.astype(np.float64), 0.0)
        scale = np.frexp(abs(numbers).max(axis=1))[1]  # so that no square leaves the range
        numbers = np.ldexp(numbers, -scale[:, None])
        rest = np.where(inside, numbers - (_in_turn(numbers) / counts)[:, None], 0.0)
        variance = (_in_turn(rest * rest) - _in_turn(rest) ** 2 / counts) / divisor
    known = (divisor > 0) & ~np.isnan(variance)
    return np.where(known, np.ldexp(np.sqrt(np.maximum(variance, 0.0)), scale), np.nan)


def _in_turn(rows: Array) -> Array:
    """The sums of rows, added from left to right, so that zeros between the numbers change nothing."""
    return np.asarray(np.add.accumulate(rows, axis=1)[:, -1])


def _ordered(elements: Array, inside: Array) -> Array:
    """Each row in rising order, with what is not inside behind the others, or equal to them."""
    return np.sort(_with_last(elements, inside), axis=1)


def _with_last(elements: Array, inside: Array) -> Array:
    """The elements, with the largest number in the place of those that are not inside."""
    kind = elements.dtype.kind
    highest = np.inf if kind == "f" else 1 if kind == "b" else np.iinfo(elements.dtype).max
    return np.where(inside, elements, elements.dtype.type(highest))


STATISTICS: dict[str, Callable[[Array, Array, Reducer, str], Any]] = {
    "mode": mode,
    "median": median,
    "deviation": deviation,
}
