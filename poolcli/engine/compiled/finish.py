"""From an accumulator to the output: quotients, roots and conversion to the output type, as one function, `finish_of`.

Quotients are computed without a division where that gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from poolcli.engine.compiled.codegen import divides_fast, fuses
from poolcli.engine.compiled.intrinsics import bits_as, half_even_shift, inlined

Function = Callable[..., Any]  # compiled by numba, inlined where it is called


def _quotient_in(steps: int) -> Any:
    @intrinsic
    def quotient(typing, total, divisor, reciprocal):
        """The correctly rounded total / divisor in float64, from a `reciprocal` that is a few ulp off; -0 becomes 0.

        For integer divisors up to 2**24 and totals far from the ends of the range. total * reciprocal is a few ulp off;
        its exact remainder corrects it (Markstein), because no such quotient is that near to the middle of two floats.
        With the nearest reciprocal, a second step gives the quotient for any divisor. If something is not finite or the
        divisor is 0, one step returns the product, two steps return NaN.
        """

        def generate(context, builder, signature, arguments):
            value, by, inverse = arguments
            if not fuses():
                return builder.fdiv(builder.fadd(value, value.type(0.0)), by)
            near = builder.fmul(value, inverse)
            for _ in range(steps):
                rest = builder.fma(builder.fneg(near), by, value)
                better = builder.fma(rest, inverse, near)
                near = better if steps > 1 else builder.select(builder.fcmp_ordered("ord", rest, rest), better, near)
            return near

        return types.float64(types.float64, types.float64, types.float64), generate

    return quotient


quotient, quotient_by_any = _quotient_in(1), _quotient_in(2)


@intrinsic
def remainder(typing, total, found, divisor):
    """total - found * divisor by one fused operation; exact if `found` is the rounded quotient."""

    def generate(context, builder, signature, arguments):
        value, near, by = arguments
        return builder.fma(builder.fneg(near), by, value)

    return types.float64(types.float64, types.float64, types.float64), generate


@inlined
def remainder_without_fma(total, found, divisor):
    """The same by Dekker's product: halves of 26 bits have exact products. Large numbers are scaled first."""
    scale = 2.0**-64 if abs(total) > 2.0**900 else 1.0
    total, found = total * scale, found * scale
    product = found * divisor
    wide_a, wide_b = found * 134217729.0, divisor * 134217729.0
    high_a, high_b = wide_a - (wide_a - found), wide_b - (wide_b - divisor)
    low_a, low_b = found - high_a, divisor - high_b
    lost = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    return ((total - product) - lost) / scale


def _nearest_quotient_by(remainder_of):
    @inlined
    def nearest_quotient(total, error, divisor):
        """(total + error) / divisor rounded to nearest, and the part of the quotient that was rounded off."""
        found = (total + 0.0) / divisor
        more = (remainder_of(total, found, divisor) + error) / divisor
        better = found + more
        if not np.isfinite(better) or more == 0.0:
            return found, 0.0
        return better, more - (better - found)

    return nearest_quotient


@inlined
def round_to_odd(near, rest):
    """near + rest rounded to odd: the neighbour whose last bit is set, unless `rest` is 0."""
    bits = bits_as(np.float64(near), np.int64)
    if rest != 0.0 and bits & 1 == 0:
        bits += 1 if (rest > 0.0) == (near > 0.0) else -1
    return bits_as(np.int64(bits), np.float64)


@inlined
def _parts_of_float(total):
    return float(total), 0.0


@inlined
def _parts_of_integer(total):
    high = float(total)
    return high, float(total - np.int64(high))


@inlined
def _parts_of_pair(total):
    return total.real, total.imag


@inlined
def _sum_of_pair(total):
    return total.real + total.imag if np.isfinite(total.real) else total.real


@inlined
def _half_even(total, divisor):
    """The nearest integer to total / divisor, halves to even, by integer arithmetic."""
    sign = -1 if divisor < 0 else 1
    total, divisor = sign * total, sign * divisor
    quotient = total // divisor
    twice = 2 * (total - quotient * divisor)
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


@inlined
def float16_bits(value):
    """The nearest float16, halves to even, as int16."""
    return np.int16(_short_bits(np.float64(value), 42, 1008 << 10, 2.0**-14, 2.0**24, 0x7C00, 0x7E00))


@inlined
def bfloat16_bits(value):
    """The nearest bfloat16, halves to even, as uint16."""
    return np.uint16(_short_bits(np.float64(value), 45, 896 << 7, 2.0**-126, 2.0**133, 0x7F80, 0x7FC0))


@inlined
def _short_bits(value, dropped, bias, least_normal, scale, infinity, nan):
    """The bits of a float of 16 bits.

    Normal numbers: the bits of the float64 without `dropped` fraction bits, minus the difference of the exponent
    `bias`; subnormal numbers: the multiple of 1 / `scale`.
    """
    size = abs(value)
    bits = bits_as(np.float64(size), np.int64)
    rounded = ((bits + (np.int64(1) << (dropped - 1)) - 1 + ((bits >> dropped) & 1)) >> dropped) - bias
    small = np.int64(np.rint((size if size < least_normal else least_normal) * scale))
    short = rounded if size >= least_normal else small
    short = nan if value != value else infinity if short > infinity else short
    return short | (0x8000 if bits_as(np.float64(value), np.int64) < 0 else 0)


def _pair_ratio():
    remainder_of = remainder if fuses() else remainder_without_fma

    @inlined
    def ratio(total, divisor, reciprocal):
        """As `to_nearest`, with one division instead of two: the quotient of the remainder alone is far from the ends
        of the range, or too small to matter.
        """
        found = total.real / divisor
        better = found + quotient(remainder_of(total.real, found, divisor) + total.imag, divisor, reciprocal)
        return better if np.isfinite(better) else found

    return ratio


def _division(result, kind, divisor):
    """divided(total, divisor), for accumulators of `kind` ("i", "f" or "c") and divisors of the dtype `divisor`."""
    parts = {"c": _parts_of_pair, "f": _parts_of_float}.get(kind, _parts_of_integer)
    nearest, exact = _nearest_quotient_by(remainder if fuses() else remainder_without_fma), divisor.type

    @inlined
    def to_nearest(total, divisor):
        high, low = parts(total)
        return nearest(high, low, divisor)[0]

    @inlined
    def to_odd(total, divisor):
        high, low = parts(total)
        near, rest = nearest(high, low, divisor)
        return round_to_odd(near, rest)

    @inlined
    def rounded(total, divisor):
        """In a float type, exact if totals are below EXACT_32 or EXACT_64, whatever the divisors."""
        return np.rint(exact(total) / divisor)

    @inlined
    def divided(total, divisor):
        return (float(total) + 0.0) / divisor  # -0 becomes 0, as in sums that start from 0

    ways = {"odd": to_odd, "nearest": to_nearest, "half_even": rounded if divisor.kind == "f" else _half_even}
    return ways.get(result, to_nearest if kind == "c" else divided)


def _root_of(degree):
    """The root as the numpy engine computes it: a power and one step of Newton's method."""

    @inlined
    def newton(value):
        near = value ** (1 / degree)
        better = near - near * (near**degree / value - 1) / degree
        return better if np.isfinite(better) else near

    return {1: None, 2: inlined(lambda value: np.sqrt(value))}.get(degree, newton)


def composed(*functions):
    """One function of one value that applies all in turn; None is left out, because each function costs 15 ms."""
    first, *rest = filter(None, functions)
    for function in rest:
        first = _one_after_another(first, function)
    return first


def _one_after_another(first, then):
    return inlined(lambda value: then(first(value)))


def finish_of(steps):
    """finish(total, divisors, w): the output for the total of element w of an output row; `divisors` may be None where
    the result is no quotient.
    """
    kind, bits, number, write = steps.identity.dtype.kind, steps.bits, float, steps.output.type
    store = composed(_root_of(steps.root), {"float16": float16_bits, "bfloat16": bfloat16_bits}.get(steps.write, write))
    store_total, whole, ratio = store, float, quotient
    if kind == "c":
        store_total, whole, number, ratio = composed(_sum_of_pair, store), _sum_of_pair, np.complex128, _pair_ratio()
    nan = steps.identity.dtype.type(np.nan) if kind == "f" else 0
    finishes = {
        "": inlined(lambda total, divisors, w: store_total(total)),
        "element": inlined(lambda total, divisors, w: store(total if total == total else nan)),
        "negated": inlined(lambda total, divisors, w: store(-total if total == total else nan)),
        "scaled": inlined(lambda total, divisors, w: store((float(total) + 0.0) * divisors.outer_reciprocal)),
        "shift": inlined(lambda total, divisors, w: store(half_even_shift(total, bits))),
        "times_kernel": inlined(lambda total, d, w: store(whole(total) / (d.outer * d.along_w[w]) * d.kernel_elements)),
        "by_reciprocal": inlined(
            lambda total, d, w: store(
                ratio(number(total), d.outer * d.along_w[w], d.outer_reciprocal * d.reciprocals[w])
            )
        ),
    }
    result = "quotient" if steps.result == "by_reciprocal" and kind != "c" and divides_fast() else steps.result
    if result in finishes:
        return finishes[result]
    divided = _division(result, kind, steps.divisor)
    return inlined(lambda total, divisors, w: store(divided(total, divisors.outer * divisors.along_w[w])))
