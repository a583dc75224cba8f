"""The numpy engine: one axis after the other, one tap after the other, to be read beside the specification.

Sums and maxima are separable, so each spatial axis is reduced on its own, the last one first (which also
keeps the first maximum in row-major order). Integers are summed exactly; float16 and float32 in float64;
float64 in pairs of float64 that carry the rounding error of every addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.core.dtypes import lookup
from poolcli.core.windows import AxisWindows, Sliding
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]
Parts = tuple[Array, ...]
SCALE = 64  # a power of two above the number of elements that any window can hold


def pool(region: Region, x: Array, out: Array, *, indices: bool, threads: int) -> NDArray[np.int64] | None:
    """Writes the pooled values to `out`; returns positions inside the plane of `x` (-1: none) when asked."""
    with np.errstate(all="ignore"):
        if region.plan.reducer.divides:
            out[...] = _mean(region, x)
            return None
        values, positions = _maximum(region, x)
        out[...] = values
        return positions if indices else None


def _mean(region: Region, x: Array) -> Array:
    plan, divisor = region.plan, _divisors(region)
    if lookup(plan.dtype).kind == "float":
        if plan.dtype != "float64":
            (total,) = _reduce(region, (x.astype(np.float64),), _add)
            return np.asarray(total / divisor.astype(np.float64))
        return _float64_mean(region, x, divisor.astype(np.float64))
    return _integer_mean(plan.output_dtype, _exact_total(region, x, divisor), divisor)


def _float64_mean(region: Region, x: Array, divisor: Array) -> Array:
    """Means from error-carrying sums; where a sum overflows, from a sum of scaled elements."""
    mean = _float64_total(region, x) / divisor
    if not np.isfinite(mean).all():
        scaled = _float64_total(region, np.ldexp(x, -SCALE)) / divisor
        mean = np.where(np.isfinite(mean), mean, np.ldexp(scaled, SCALE))
    return np.asarray(mean)


def _float64_total(region: Region, x: Array) -> Array:
    x = x.astype(np.float64)
    total, error = _reduce(region, (x, np.zeros_like(x)), _add_with_error)
    return np.where(np.isfinite(total), total + error, total)


def _exact_total(region: Region, x: Array, divisor: Array) -> Array:
    """Sums of integers without overflow: int64, or Python integers where 64 bits may not be enough."""
    count = max(int(divisor.max(initial=1)), x.size)
    if lookup(region.plan.dtype).bits <= 32 and count < 2**30:
        (total,) = _reduce(region, (x.astype(np.int64),), _add)
        return total
    high = (x >> 32 if x.dtype.itemsize == 8 else x * 0).astype(np.int64)
    low = (x & 0xFFFFFFFF if x.dtype.itemsize == 8 else x).astype(np.int64)
    highs, lows = _reduce(region, (high, low), _add)
    return np.asarray(highs.astype(object) * 2**32 + lows.astype(object))


def _integer_mean(output_dtype: str, total: Array, divisor: Array) -> Array:
    """total / divisor, to the nearest integer with halves to even, or as a float where the output type is one."""
    total, divisor = np.broadcast_arrays(total * np.sign(divisor), abs(divisor))
    safe = np.where(divisor == 0, 1, divisor)
    if lookup(output_dtype).kind == "float":
        return np.where(divisor == 0, np.nan, (total / safe).astype(np.float64))
    quotient = total // safe
    twice = 2 * (total - quotient * safe)
    up = (twice > safe) | ((twice == safe) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def _divisors(region: Region) -> Array:
    """The divisor of every output, shaped to broadcast over the output; Python integers where int64 is too short."""
    plan = region.plan
    if plan.divisor_override is not None:
        return np.full((1,) * len(plan.layout), plan.divisor_override)
    factors = [axis.windows.divisor(_indices(region.outputs[axis.position])) for axis in plan.axes]
    largest = 1
    for factor in factors:
        largest *= int(factor.max(initial=1))
    product: Array = np.ones((1,) * len(plan.layout), np.int64 if largest < 2**31 else object)
    for axis, factor in zip(plan.axes, factors, strict=True):
        product = product * factor.reshape([-1 if i == axis.position else 1 for i in range(len(plan.layout))])
    return product


def _maximum(region: Region, x: Array) -> tuple[Array, NDArray[np.int64]]:
    """The maxima and their positions inside the plane; lowest value and -1 where a window holds no element."""
    if region.plan.dtype == "bfloat16":
        x = x.astype(np.float32)  # exact, and numpy's own comparisons
    plane: Array = np.zeros((1,) * x.ndim, np.int64)
    for axis in region.plan.axes:
        size = x.shape[axis.position]
        plane = plane * size + np.arange(size).reshape([-1 if i == axis.position else 1 for i in range(x.ndim)])
    values, positions = _reduce(region, (x, np.broadcast_to(plane, x.shape)), _take_larger, (_lowest(x.dtype), -1))
    return values, positions


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return -np.inf
    return lookup(dtype).limits[0]


def _reduce(
    region: Region, parts: Parts, combine: Callable[[Parts, Parts], None], start: Sequence[Any] = (0, 0)
) -> Parts:
    """`parts` with every spatial axis reduced over its windows, the last axis first."""
    for axis in reversed(region.plan.axes):
        wanted, shape = region.outputs[axis.position], list(parts[0].shape)
        shape[axis.position] = len(wanted)
        reduced = tuple(np.full(shape, value, part.dtype) for part, value in zip(parts, start, strict=False))
        sources = tuple(np.moveaxis(part, axis.position, 0) for part in parts)
        targets = tuple(np.moveaxis(part, axis.position, 0) for part in reduced)
        for outputs, inputs in _taps(axis.windows, wanted):
            combine_at(targets, sources, outputs, inputs, combine)
        parts = reduced
    return parts


def combine_at(
    targets: Parts, sources: Parts, outputs: Any, inputs: Any, combine: Callable[[Parts, Parts], None]
) -> None:
    """Combines rows `inputs` of the sources into rows `outputs` of the targets, in place."""
    rows = tuple(target[outputs] for target in targets)
    combine(rows, tuple(source[inputs] for source in sources))
    if not isinstance(outputs, slice):  # a selection by an array of indices is a copy
        for target, row in zip(targets, rows, strict=True):
            target[outputs] = row


def _taps(windows: AxisWindows, wanted: range) -> Iterator[tuple[Any, Any]]:
    """For each tap, which of the `wanted` outputs it belongs to and the elements that it reads of what they read, in
    rising order.
    """
    low = windows.reads(wanted).start
    if isinstance(windows, Sliding):
        for j in windows.taps(wanted):
            outputs = windows.outputs_of_tap(j, wanted)
            if outputs:
                first, last = (windows.start(o) + j * windows.dilation - low for o in (outputs[0], outputs[-1]))
                yield (
                    slice(outputs.start - wanted.start, outputs.stop - wanted.start),
                    slice(first, last + 1, windows.stride),
                )
        return
    bins = _indices(wanted)
    starts, stops = windows.start(bins), windows.stop(bins)
    for j in range(windows.lengths[1]):
        reached = starts + j < stops
        yield np.flatnonzero(reached), starts[reached] + j - low


def _indices(outputs: range) -> NDArray[np.int64]:
    return np.arange(outputs.start, outputs.stop)


def _add(target: Parts, source: Parts) -> None:
    for part, addend in zip(target, source, strict=True):
        part += addend


def _add_with_error(target: Parts, source: Parts) -> None:
    """Adds pairs (sum, error): the rounding error of the addition is computed exactly and kept (Knuth's two-sum)."""
    (total, error), (addend, addend_error) = target, source
    new = total + addend
    back = new - total
    error += (total - (new - back)) + (addend - back) + addend_error
    total[...] = new


def _take_larger(target: Parts, source: Parts) -> None:
    """Keeps the first largest value; the first NaN counts as larger than every number."""
    (best, best_at), (value, value_at) = target, source
    larger = value > best
    if value.dtype.kind == "f":
        larger |= np.isnan(value) & ~np.isnan(best)
    take = (value_at >= 0) & ((best_at < 0) | larger)
    np.copyto(best, value, where=take)
    np.copyto(best_at, value_at, where=take)
