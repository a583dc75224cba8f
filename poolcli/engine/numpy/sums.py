"""Sums over windows, and what they are divided by: exact for integers, with the error of every addition for float64."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import truediv

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.numpy.reduce import AxisSteps, Combine, Parts, along, gathered, indices, reduce, steps_of
from poolcli.engine.rounding import Array, nudged, quotient_to_odd
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.region import Region

Steps = tuple[AxisSteps, ...]
SCALE = 64  # a power of two above the number of elements that any window can hold
LARGE = 2.0**900  # of products with halves of larger numbers the halves overflow
EXACT, SMALL = 2**52, 2**24  # below: a quotient of such a total by such a divisor is never rounded twice


def mean_of(region: Region, divisor: Array | None = None) -> Callable[[Array], Array]:
    """What makes of an array the sum of every window over its divisor: that of the plan where none is given."""
    plan, steps = region.plan, steps_of(region)
    by = divisors(region) if divisor is None else divisor
    if lookup(plan.dtype).kind != "float":
        return lambda x: _integer_mean(plan, _exact_total(plan, steps, x, by), by)
    wide, by_float = is_wide(plan), by.astype(np.float64)
    odd = plan.output_dtype != "float64" and (wide or int(abs(by).max(initial=1)) >= SMALL)
    sums, zero = None if wide or odd or plan.is_weighted else gathered(region, np.float64, np.add, 0), np.zeros(())
    if sums is not None:
        return lambda x: np.divide(sums(x) + zero, by_float)  # a sum that is -0 becomes 0, as sums from 0 on do

    def mean(x: Array) -> Array:
        found = quotient(float_sums(steps, x.astype(np.float64), wide), by_float, odd)
        if wide and not np.isfinite(found).all():  # a sum may leave the range that its mean lies in
            scaled = quotient(float_sums(steps, np.ldexp(x.astype(np.float64), -SCALE), wide), by_float, odd)
            found = np.where(np.isfinite(found), found, np.ldexp(scaled, SCALE))
        return found

    return mean


def is_wide(plan: Plan) -> bool:
    """Whether float64 itself is read or written, so that sums in float64 alone would lose digits."""
    return "float64" in (plan.dtype, plan.output_dtype)


def float_sums(steps: Steps, x: Array, wide: bool) -> Parts:
    """Sums of float64 numbers and, where digits would be lost, the errors of the additions."""
    if not wide:
        return reduce(steps, (x,), add)
    return reduce(steps, (x, np.zeros_like(x)), _add_with_error, weigh=_weigh_with_error)


def _weigh_with_error(parts: Parts, weights: Array) -> Parts:
    """Pairs (sum, error) times weights: the rounding error of the product is computed exactly and kept."""
    total, error = parts
    product, lost = _product(total, weights.astype(np.float64))
    return product, lost + error * weights


def quotient(sums: Parts, divisor: Array, odd: bool) -> Array:
    """The sums over the divisor; where they carry errors, the quotient's own rounding error is put right. Rounded to
    odd for a type that is shorter than float64.
    """
    if len(sums) == 1 and not odd:
        return np.asarray(sums[0] / divisor)
    total, error = sums[0], sums[1] if len(sums) > 1 else 0.0
    found = np.asarray(total / divisor)
    scale = np.where(abs(total) > LARGE, 2.0**-SCALE, 1.0)
    product, lost = _product(found * scale, np.broadcast_to(divisor, found.shape))
    more = (((total * scale - product) - lost) / scale + error) / divisor
    better = np.where(np.isfinite(more) & (more != 0), found + more, found)
    if odd:
        rest = more - (better - found)
        better = nudged(better, np.where(np.signbit(better), -rest, rest))
    return np.where(np.isfinite(better), better, found)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b and its exact rounding error (Dekker): halves of 26 bits have exact products."""
    product = a * b
    (high_a, low_a), (high_b, low_b) = _halves(a), _halves(b)
    return product, low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)


def _halves(a: Array) -> tuple[Array, Array]:
    wide = a * (2.0**27 + 1)
    high = wide - (wide - a)
    return high, a - high


def _exact_total(plan: Plan, steps: Steps, x: Array, divisor: Array) -> Array:
    """Sums of integers without overflow: int64, or Python integers where 64 bits may not be enough."""
    count = max(int(divisor.max(initial=1)), x.size)
    fits, weighted = lookup(plan.dtype).bits + count.bit_length() <= 62, plan.is_weighted
    if fits or (weighted and count >= 2**30):
        (total,) = reduce(steps, (x.astype(np.int64 if fits else object),), add)
        return total
    high = (x >> 32 if x.dtype.itemsize == 8 else x * 0).astype(np.int64)
    low = (x & 0xFFFFFFFF if x.dtype.itemsize == 8 else x).astype(np.int64)
    highs, lows = reduce(steps, (high, low), add)
    return np.asarray(highs.astype(object) * 2**32 + lows.astype(object))


def _integer_mean(plan: Plan, total: Array, divisor: Array) -> Array:
    """total / divisor, to the nearest integer with halves to even, or as a float where the output type is one."""
    if lookup(plan.output_dtype).kind == "float":
        return float_of_integers(total, divisor, plan.output_dtype == "float64")
    if plan.reducer.result == "total":
        low, high = lookup(plan.output_dtype).limits
        for end in (total.min(initial=0), total.max(initial=0)):
            if not low <= end <= high:
                held = f"a sum is {end}, and {plan.output_dtype} holds {low} to {high}"
                raise RequestError(f"{held}; use {field('dtype', 'float64')}")
        return total
    total, divisor = np.broadcast_arrays(total * np.sign(divisor), abs(divisor))
    safe = np.where(divisor == 0, 1, divisor)
    quotient = total // safe
    twice = 2 * (total - quotient * safe)
    up = (twice > safe) | ((twice == safe) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def float_of_integers(total: Array, divisor: Array, is_float64: bool) -> Array:
    """total / divisor as float64: the nearest, or for a shorter type rounded to odd where it would be rounded twice."""
    is_exact = total.dtype != object and int(abs(total).max(initial=0)) < EXACT
    if is_exact and (is_float64 or int(abs(divisor).max(initial=0)) < SMALL):
        return np.asarray(total.astype(np.float64) / divisor.astype(np.float64))
    total, divisor = np.broadcast_arrays(total.astype(object), divisor.astype(object))
    divide = np.frompyfunc(truediv if is_float64 else quotient_to_odd, 2, 1)
    quotients = divide(total, np.where(divisor == 0, 1, divisor)).astype(np.float64)
    return np.where(divisor == 0, np.nan, quotients)


def divisors(region: Region) -> Array:
    """The divisor of every output (1 where the reducer does not divide), shaped to broadcast over the output; Python
    integers where int64 is too short.
    """
    plan, rank = region.plan, len(region.outputs)
    if plan.divisor_override is not None or not plan.reducer.divides:
        return np.full((1,) * rank, plan.divisor_override or 1)
    factors = [axis.windows.divisor(indices(region.outputs[axis.position])) for axis in plan.axes]
    largest = prod(int(factor.max(initial=1)) for factor in factors)
    product: Array = np.ones((1,) * rank, np.int64 if largest < 2**31 else object)
    for axis, factor in zip(plan.axes, factors, strict=True):
        product = product * along(factor, axis.position, rank)
    return product


def add(target: Parts, source: Parts) -> None:
    """Adds the second parts to the first, in place."""
    for part, addend in zip(target, source, strict=True):
        part += addend


def _add_with_error(target: Parts, source: Parts) -> None:
    """Adds pairs (sum, error): the rounding error of the addition is computed exactly and kept (Knuth's two-sum)."""
    (total, error), (addend, addend_error) = target, source
    new = total + addend
    back = new - total
    error += (total - (new - back)) + (addend - back) + addend_error
    total[...] = new


# Roots of sums of powers stay within float64 wherever the result does: sums that leave its range are taken of ratios.
# What float64 loses of a term below its range is nothing beside a sum of LEAST, and a sum up to MOST has lost nothing
# above it.
LEAST, MOST = 2.0**-900, 2.0**1000
NORMAL = 2.0**-1022  # a term below it has lost digits, or is 0


def power_mean_of(region: Region, divisor: Array | None = None) -> Callable[[Array], Array]:
    """What makes of an array the root of the sum of powers of every window.

    A window whose terms leave the range is computed once more from its own elements: those of others change nothing.
    Where the reducer divides, it is by `divisor`, or by that of the plan where none is given.
    """
    reducer, steps, wide = region.plan.reducer, steps_of(region), is_wide(region.plan)
    power = reducer.power or 1

    def power_mean(x: Array) -> Array:
        x = x.astype(np.float64)
        terms = _raised(x if reducer.signed else abs(x), power)
        sums = float_sums(steps, terms, wide)
        total = np.where(np.isfinite(sums[0]), sum(sums[1:], sums[0]), sums[0])
        found = _root(_counted(region, total, divisor), power)
        lost, vanishing = ~(abs(total) <= MOST), (abs(terms) < NORMAL) & (x != 0)
        if vanishing.any():
            (some,) = reduce(steps, (vanishing.astype(np.float64),), add)
            lost |= (abs(total) < LEAST) & (some > 0)
        if not lost.any():
            return found
        unit = np.sign(x) ** power if reducer.signed else np.ones_like(x)
        largest, ratios = reduce(steps, (abs(x), unit), _add_ratios(power))
        lost &= (abs(total) >= LEAST) | (_raised(largest, power) < LEAST) | np.isnan(total)
        return np.where(lost, largest * _root(_counted(region, ratios, divisor), power), found)

    return power_mean


def _raised(x: Array, power: float) -> Array:
    if power == 1:
        return x
    return x * x if power == 2 else x**power


def _root(total: Array, power: float) -> Array:
    if power in (1, 2):
        return total if power == 1 else np.sqrt(total)
    near = total ** (1 / power)  # of an exponent that is rounded: a large total makes many digits of that
    better = near - near * (near**power / total - 1) / power  # a step of Newton's
    return np.where(np.isfinite(better), better, near)


def _counted(region: Region, total: Array, divisor: Array | None) -> Array:
    """The sum itself, or where the reducer divides, its average over the window times the whole kernel."""
    if not region.plan.reducer.divides:
        return total
    kernel = prod(windows.longest for windows in region.plan.windows)
    divisor = divisors(region) if divisor is None else divisor
    return np.asarray(total / divisor.astype(np.float64) * kernel)


def _add_ratios(power: float) -> Combine:
    """Adds pairs (largest size, sum of the powers of every size's ratio to it)."""

    def ratio(size: Array, largest: Array) -> Array:
        return np.asarray(np.where(size == largest, 1.0, size / largest) ** power)

    def combine(target: Parts, source: Parts) -> None:
        (largest, total), (size, addend) = target, source
        new = np.maximum(largest, size)
        total *= ratio(largest, new)
        total += addend * ratio(size, new)
        largest[...] = new

    return combine
