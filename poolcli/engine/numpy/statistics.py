"""Reducers that need all elements of a window at once: mode, median and standard deviation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from poolcli.dtypes import numpy_dtype
from poolcli.engine.call import Array
from poolcli.engine.numpy.reduce import ArrayFunction, element_offsets
from poolcli.engine.numpy.sums import float_of_integers, quotient, storable
from poolcli.plan.attributes import Reducer
from poolcli.plan.plan import EXACT_SQUARES_ELEMENTS, Region

BLOCK_ELEMENTS = 1 << 18  # elements of the windows that are computed at once


def statistic_of(region: Region, mask: Array | None = None) -> ArrayFunction:
    """The function that computes the mode or statistic of every window, without the elements where `mask` is True."""
    plan, shape, offsets_per_axis = region.plan, region.output_shape, tuple(element_offsets(region))
    reducer = plan.reducer
    window = prod(each.shape[1] for each in offsets_per_axis)
    block = max(1, BLOCK_ELEMENTS // max(window, 1))
    compute = STATISTICS[reducer.statistic]

    def statistic(x: Array) -> Array:
        x = x.astype(np.float32) if plan.dtype == "bfloat16" else x  # which numpy cannot sort
        elements, found = np.ascontiguousarray(x).reshape(-1), np.empty(prod(shape), numpy_dtype(plan.output_dtype))
        for first in range(0, found.size, block):
            outputs = np.arange(first, min(first + block, found.size))
            at = np.unravel_index(outputs, shape)
            offsets = np.zeros((outputs.size, 1), np.int64)
            for along_axis, index in zip(offsets_per_axis, at, strict=True):
                offsets = (offsets[:, :, None] + along_axis[index][:, None, :]).reshape(outputs.size, -1)
            inside, offsets = offsets >= 0, np.maximum(offsets, 0)
            if mask is not None:
                inside &= ~mask.reshape(-1)[offsets]
            found[outputs] = storable(compute(elements[offsets], inside, reducer, plan.output_dtype), found.dtype)
        return found.reshape(shape)

    return statistic


# Each function reduces `elements`, [windows, elements], where `inside` is True, to one number per window, in a type
# that is rounded to the output's `dtype` only once.


def mode(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """The most frequent value of each row, the smallest of equally frequent ones."""
    ordered, places = np.sort(_with_largest_outside(elements, inside), axis=1), np.arange(elements.shape[1])
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    lengths = places - np.maximum.accumulate(places * starts, axis=1)
    longest = np.where(places < inside.sum(axis=1)[:, None], lengths, -1).argmax(axis=1)
    return np.asarray(ordered[np.arange(len(ordered)), longest])


def median(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """The median of each row, or the mean of the middle two. -0 becomes 0, as in sums."""
    counts, rows = inside.sum(axis=1), np.arange(len(elements))
    ordered = np.sort(_with_largest_outside(elements, inside), axis=1)
    low, high = ordered[rows, np.maximum(counts - 1, 0) // 2], ordered[rows, counts // 2]
    if elements.dtype.kind == "f":
        is_nan = (np.isnan(elements) & inside).any(axis=1) | (counts == 0)
        low, high = low.astype(np.float64) + 0.0, high.astype(np.float64)
        total = low + high
        back = total - low
        error = (low - (total - back)) + (high - back)
        mean = quotient((total, error), np.full(1, 2.0), dtype != "float64")
        overflows = np.isinf(total) & np.isfinite(low) & np.isfinite(high)
        return np.where(is_nan, np.nan, np.where(overflows, low / 2 + high / 2, mean))
    if "float" in dtype:
        wide = object if low.dtype.itemsize == 8 else np.int64
        total = low.astype(wide) + high.astype(wide)
        return np.where(counts == 0, np.nan, float_of_integers(total, np.full(1, 2), dtype == "float64"))
    below = (low & high) + ((low ^ high) >> 1)  # floor of the mean, without overflow
    return np.asarray(below + ((low ^ high) & below & 1))


def deviation(elements: Array, inside: Array, reducer: Reducer, dtype: str) -> Array:
    """The standard deviation of each row: from exact sums for short integers, in two passes for other types."""
    counts, elements = inside.sum(axis=1), elements.view(np.uint8) if elements.dtype == np.bool_ else elements
    divisor, kind, scale = counts - reducer.ddof, elements.dtype.kind, np.int64(0)
    if kind != "f" and elements.dtype.itemsize <= 2 and elements.shape[1] < EXACT_SQUARES_ELEMENTS:
        numbers = np.where(inside, elements, elements.dtype.type(0)).astype(np.int64)
        variance = (counts * (numbers * numbers).sum(axis=1) - numbers.sum(axis=1) ** 2) / (counts * divisor)
    else:
        if kind != "f":  # relative to the minimum, so that float64 keeps the differences of long integers
            least = _with_largest_outside(elements, inside).min(axis=1, keepdims=True)
            elements = (elements - least).view(f"u{elements.dtype.itemsize}")
        numbers = np.where(inside, elements.astype(np.float64), 0.0)
        scale = np.frexp(abs(numbers).max(axis=1))[1]  # so that squares neither overflow nor underflow
        numbers = np.ldexp(numbers, -scale[:, None])
        rest = np.where(inside, numbers - (_sequential_sum(numbers) / counts)[:, None], 0.0)
        variance = (_sequential_sum(rest * rest) - _sequential_sum(rest) ** 2 / counts) / divisor
    known = (divisor > 0) & ~np.isnan(variance)
    return np.where(known, np.ldexp(np.sqrt(np.maximum(variance, 0.0)), scale), np.nan)


def _sequential_sum(rows: Array) -> Array:
    """The sums of rows from left to right: unlike np.sum, zeros between the numbers do not change the order."""
    return np.asarray(np.add.accumulate(rows, axis=1)[:, -1])


def _with_largest_outside(elements: Array, inside: Array) -> Array:
    """The elements, with the largest number of the type in place of those outside the window."""
    kind = elements.dtype.kind
    highest = np.inf if kind == "f" else 1 if kind == "b" else np.iinfo(elements.dtype).max
    return np.where(inside, elements, elements.dtype.type(highest))


STATISTICS: dict[str | None, Callable[[Array, Array, Reducer, str], Any]] = {
    "mode": mode,
    "median": median,
    "deviation": deviation,
}
