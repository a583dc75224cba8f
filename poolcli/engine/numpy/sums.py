"""Sums, means and norms over windows: integers exactly, float64 with the rounding error of every addition.

Rounding to float64 and then to a shorter type is double rounding: a number near the midpoint of two short floats may be
rounded first to the midpoint, and then to the wrong side. To avoid that, the first rounding is to odd: an inexact
number becomes the neighbour whose last bit is set. That is never a midpoint, so the second rounding alone decides
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, inf, ldexp, nextafter, prod
from operator import truediv
from typing import Any

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.call import Array
from poolcli.engine.numpy.reduce import Combine, Parts, Steps, axis_steps, broadcast_along, gathered_reduction, reduce
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.plan import Region

SCALE_BITS = 64  # 2**64 exceeds the number of elements of any window
MAX_SPLIT = 2.0**900  # splitting larger numbers overflows
EXACT_TOTAL, EXACT_DIVISOR = 2**52, 2**24  # quotients of smaller numbers need no protection from double rounding


def mean_of(region: Region, divisor: Array | None = None) -> Callable[[Array], Array]:
    """The function that returns the sum of every window over its divisor, by default the plan's."""
    plan, steps = region.plan, axis_steps(region)
    by = divisors(region) if divisor is None else divisor
    if lookup(plan.dtype).kind != "float":
        return lambda x: _integer_mean(plan, _integer_total(plan, steps, x, by), by)
    wide, by_float = "float64" in (plan.dtype, plan.output_dtype), by.astype(np.float64)  # sums carry their errors
    odd = plan.output_dtype != "float64" and (wide or int(abs(by).max(initial=1)) >= EXACT_DIVISOR)
    sums = None if wide or odd or plan.is_weighted else gathered_reduction(region, np.float64, np.add, 0)
    if sums is not None:
        zero = np.zeros(())
        return lambda x: np.divide(sums(x) + zero, by_float)  # -0 becomes 0, as in sums that start from 0

    def mean(x: Array) -> Array:
        found = quotient(float_sums(steps, x.astype(np.float64), wide), by_float, odd)
        if wide and not np.isfinite(found).all():  # a sum may overflow although its mean does not
            scaled = quotient(float_sums(steps, np.ldexp(x.astype(np.float64), -SCALE_BITS), wide), by_float, odd)
            found = np.where(np.isfinite(found), found, np.ldexp(scaled, SCALE_BITS))
        return found

    return mean


def float_sums(steps: Steps, x: Array, wide: bool) -> Parts:
    """Sums of float64 numbers and, if `wide`, the accumulated rounding errors."""
    if not wide:
        return reduce(steps, (x,), add)
    return reduce(steps, (x, np.zeros_like(x)), _add_two_sums, weigh=_weigh_with_error)


def _weigh_with_error(parts: Parts, weights: Array) -> Parts:
    """Pairs (sum, error) times weights, with the exact rounding error of the product."""
    total, error = parts
    product, lost = _two_product(total, weights.astype(np.float64))
    return product, lost + error * weights


def quotient(sums: Parts, divisor: Array, odd: bool) -> Array:
    """The sums over the divisor, corrected by their errors and that of the division; rounded to odd if `odd`."""
    if len(sums) == 1 and not odd:
        return np.asarray(sums[0] / divisor)
    total, error = sums[0], sums[1] if len(sums) > 1 else 0.0
    found = np.asarray(total / divisor)
    scale = np.where(abs(total) > MAX_SPLIT, 2.0**-SCALE_BITS, 1.0)
    product, lost = _two_product(found * scale, np.broadcast_to(divisor, found.shape))
    more = (((total * scale - product) - lost) / scale + error) / divisor
    better = np.where(np.isfinite(more) & (more != 0), found + more, found)
    if odd:
        rest = more - (better - found)
        better = round_to_odd(better, np.where(np.signbit(better), -rest, rest))
    return np.where(np.isfinite(better), better, found)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b and its exact rounding error (Dekker's product): halves of 26 bits have exact products."""
    product = a * b
    (high_a, low_a), (high_b, low_b) = _split(a), _split(b)
    return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def _split(a: Array) -> tuple[Array, Array]:
    wide = a * (2.0**27 + 1)
    high = wide - (wide - a)
    return high, a - high


def _integer_total(plan: Plan, steps: Steps, x: Array, divisor: Array) -> Array:
    """Sums of integers without overflow, as int64, or as Python integers if 64 bits may not suffice."""
    bits, count = lookup(plan.dtype).bits, max(int(divisor.max(initial=1)), x.size)
    if bits == 64:  # most numbers are far shorter
        bits = max(int(x.max(initial=0)), -int(x.min(initial=0))).bit_length()
    (total,) = reduce(steps, (x.astype(np.int64 if bits + count.bit_length() <= 62 else object),), add)
    return total


def _integer_mean(plan: Plan, total: Array, divisor: Array) -> Array:
    """total / divisor, rounded half to even, or as a float if the output type is one; refuses sums that overflow it."""
    if lookup(plan.output_dtype).kind == "float":
        return float_of_integers(total, divisor, plan.output_dtype == "float64")
    if plan.reducer.result == "total":
        low, high = lookup(plan.output_dtype).limits
        for end in (total.min(initial=0), total.max(initial=0)):
            if not low <= end <= high:
                problem = f"a sum is {end}, and {plan.output_dtype} holds {low} to {high}"
                raise RequestError(f"{problem}; use {field('dtype', 'float64')}")
        return total
    total, divisor = np.broadcast_arrays(total * np.sign(divisor), abs(divisor))
    safe = np.where(divisor == 0, 1, divisor)
    quotient = total // safe
    twice = 2 * (total - quotient * safe)
    up = (twice > safe) | ((twice == safe) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def float_of_integers(total: Array, divisor: Array, is_float64: bool) -> Array:
    """total / divisor as float64: correctly rounded, or rounded to odd for a shorter output type."""
    is_exact = int(abs(total).max(initial=0)) < EXACT_TOTAL
    if is_exact and (is_float64 or int(abs(divisor).max(initial=0)) < EXACT_DIVISOR):
        return np.asarray(total.astype(np.float64) / divisor.astype(np.float64))
    total, divisor = np.broadcast_arrays(total.astype(object), divisor.astype(object))
    divide = np.frompyfunc(truediv if is_float64 else quotient_to_odd, 2, 1)
    quotients = divide(total, np.where(divisor == 0, 1, divisor)).astype(np.float64)
    return np.where(divisor == 0, np.nan, quotients)


def divisors(region: Region) -> Array:
    """The divisor of every output, shaped to broadcast over the output: 1 if the reducer does not divide, and Python
    integers if int64 may overflow.
    """
    plan, rank = region.plan, len(region.outputs)
    if plan.divisor_override is not None or not plan.reducer.divides:
        return np.full((1,) * rank, plan.divisor_override or 1)
    spans = [region.outputs[axis.position] for axis in plan.axes]
    factors = [w.divisor(np.arange(span.start, span.stop)) for w, span in zip(plan.windows, spans, strict=True)]
    largest = prod(int(factor.max(initial=1)) for factor in factors)
    product: Array = np.ones((1,) * rank, np.int64 if largest < 2**31 else object)
    for axis, factor in zip(plan.axes, factors, strict=True):
        product = product * broadcast_along(factor, axis.position, rank)
    return product


def add(target: Parts, source: Parts) -> None:
    """Add the second parts to the first, in place."""
    for part, addend in zip(target, source, strict=True):
        part += addend


def _add_two_sums(target: Parts, source: Parts) -> None:
    """Add pairs (sum, error) in place, with the exact rounding error of the addition (Knuth's two-sum)."""
    (total, error), (addend, addend_error) = target, source
    new = total + addend
    back = new - total
    error += (total - (new - back)) + (addend - back) + addend_error
    total[...] = new


# A norm may fit into float64 although its powers overflow or underflow. Sums outside these limits are therefore
# computed from the ratios to the largest element; for sums inside, terms that underflow are negligible.
MIN_SAFE_SUM, MAX_SAFE_SUM = 2.0**-900, 2.0**1000
MIN_NORMAL = 2.0**-1022  # smaller terms have lost digits, or are 0


def power_mean_of(region: Region, divisor: Array | None = None) -> Callable[[Array], Array]:
    """The function that returns the root of the sum of powers of every window, over `divisor` if the reducer divides.

    Windows whose sums are unsafe are computed again from ratios; each depends on its own elements alone.
    """
    plan, steps = region.plan, axis_steps(region)
    reducer, wide = plan.reducer, "float64" in (plan.dtype, plan.output_dtype)
    power = reducer.power or 1

    def power_mean(x: Array) -> Array:
        x = x.astype(np.float64)
        terms = (x if reducer.signed else abs(x)) ** power
        sums = float_sums(steps, terms, wide)
        total = np.where(np.isfinite(sums[0]), sum(sums[1:], sums[0]), sums[0])
        found = _root(_mean_times_kernel(region, total, divisor), power)
        lost, vanishing = ~(abs(total) <= MAX_SAFE_SUM), (abs(terms) < MIN_NORMAL) & (x != 0)
        if vanishing.any():
            (some,) = reduce(steps, (vanishing.astype(np.float64),), add)
            lost |= (abs(total) < MIN_SAFE_SUM) & (some > 0)
        if not lost.any():
            return found
        unit = np.sign(x) ** power if reducer.signed else np.ones_like(x)
        largest, ratios = reduce(steps, (abs(x), unit), _add_ratios(power))
        lost &= (abs(total) >= MIN_SAFE_SUM) | (largest**power < MIN_SAFE_SUM) | np.isnan(total)
        lost &= np.isfinite(largest)  # sums of infinities have not left the range
        return np.where(lost, largest * _root(_mean_times_kernel(region, ratios, divisor), power), found)

    return power_mean


def _root(total: Array, power: float) -> Array:
    if power in (1, 2):
        return total if power == 1 else np.sqrt(total)
    near = total ** (1 / power)  # 1 / power is rounded, which matters for a large total
    better = near - near * (near**power / total - 1) / power  # one step of Newton's method
    return np.where(np.isfinite(better), better, near)


def _mean_times_kernel(region: Region, total: Array, divisor: Array | None) -> Array:
    """The sum, or if the reducer divides, the mean of the window times the size of the whole kernel."""
    if not region.plan.reducer.divides:
        return total
    kernel = prod(windows.longest for windows in region.plan.windows)
    divisor = divisors(region) if divisor is None else divisor
    return np.asarray(total / divisor.astype(np.float64) * kernel)


def _add_ratios(power: float) -> Combine:
    """Add pairs (largest magnitude, sum of the powers of the ratios to it)."""

    def ratio(size: Array, largest: Array) -> Array:
        return np.asarray(np.where(size == largest, 1.0, size / largest) ** power)

    def combine(target: Parts, source: Parts) -> None:
        (largest, total), (size, addend) = target, source
        new = np.maximum(largest, size)
        total *= ratio(largest, new)
        total += addend * ratio(size, new)
        largest[...] = new

    return combine


def storable(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values that an assignment to the type rounds only once: ml_dtypes converts to bfloat16 via float32."""
    if dtype.kind == "V" and dtype.name == "bfloat16" and values.dtype.itemsize > 2 and values.dtype != np.float32:
        return _float32_to_odd(values if values.dtype.kind == "f" else _float64_to_odd(values))
    return values


def _float64_to_odd(integers: Array) -> Array:
    """Integers as float64; beyond 2**52 rounded to odd, with one bit in place of the last 16."""
    low = (integers & 0xFFFF).astype(np.bool_)
    short = ((integers >> 16) | low.astype(integers.dtype)).astype(np.float64) * 2.0**16
    nearest = integers.astype(np.float64)
    return np.where(abs(nearest) < 2.0**52, nearest, short)


def _float32_to_odd(values: Array) -> Array:
    short = np.asarray(values.astype(np.float32))
    with np.errstate(invalid="ignore"):
        difference = np.asarray(abs(values) - abs(short))
    return round_to_odd(short, difference)


def round_to_odd(near: Array, rest: Array) -> Array:
    """Numbers rounded to odd, from the nearest floats `near` and the sign of `rest`: whether the magnitude is larger
    (1), smaller (-1) or equal (0).
    """
    bits = near.view(f"i{near.itemsize}")  # as an integer, it grows with the magnitude
    is_even = (bits & 1 == 0) & (rest != 0) & ~np.isnan(rest)
    return np.where(is_even, bits + np.where(rest > 0, 1, -1).astype(bits.dtype), bits).view(near.dtype)


def quotient_to_odd(total: int, divisor: int) -> float:
    """total / divisor as float64, rounded to odd."""
    near = total / divisor  # correctly rounded: Python divides integers exactly
    numerator, denominator = near.as_integer_ratio()
    rest = total * denominator - numerator * divisor
    if rest == 0 or int(ldexp(frexp(near)[0], 53)) & 1:
        return near
    return nextafter(near, inf if (rest > 0) == (divisor > 0) else -inf)
