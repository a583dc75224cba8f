"""From a total to what is stored: the last steps of an arithmetic as one function, `finish_of`. Quotients are taken
without a division where they have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from poolcli.engine.compiled.machine import fuses
from poolcli.engine.compiled.pointers import half_even_shift, inlined

Function = Callable[..., Any]  # compiled by numba, inlined where it is called


def _quotient_in(steps: int) -> Any:
    @intrinsic
    def quotient(typing, total, divisor, reciprocal):
        """total / divisor to the nearest float64, and 0 of -0, for an integer divisor up to 2**24 and totals far from
        the ends of the range; `reciprocal` is near that of the divisor.

        A product with the reciprocal is a few units in the last place away; what it leaves over is exact, and brings it
        so near that it is rounded to the nearest (Markstein), as no such quotient lies that near to the middle of two
        floats. With the nearest reciprocal, a second step does that for any divisor. Where something is not finite, or
        the divisor 0, the product is the quotient; in two steps it is NaN.
        """

        def generate(context, builder, signature, arguments):
            value, by, inverse = arguments
            if not fuses():
                return builder.fdiv(builder.fadd(value, value.type(0.0)), by)
            near = builder.fmul(value, inverse)
            for _ in range(steps):
                left = builder.fma(builder.fneg(near), by, value)
                better = builder.fma(left, inverse, near)
                near = better if steps > 1 else builder.select(builder.fcmp_ordered("ord", left, left), better, near)
            return near

        return types.float64(types.float64, types.float64, types.float64), generate

    return quotient


quotient, quotient_by_any = _quotient_in(1), _quotient_in(2)


@intrinsic
def residue(typing, total, found, divisor):
    """total - found * divisor, exactly, for the nearest quotient, in one step."""

    def generate(context, builder, signature, arguments):
        value, near, by = arguments
        return builder.fma(builder.fneg(near), by, value)

    return types.float64(types.float64, types.float64, types.float64), generate


@inlined
def residue_of_halves(total, found, divisor):
    """The same in several steps (Dekker): halves of 26 bits have exact products. Large numbers are scaled first."""
    scale = 2.0**-64 if abs(total) > 2.0**900 else 1.0
    total, found = total * scale, found * scale
    product = found * divisor
    wide_a, wide_b = found * 134217729.0, divisor * 134217729.0
    high_a, high_b = wide_a - (wide_a - found), wide_b - (wide_b - divisor)
    low_a, low_b = found - high_a, divisor - high_b
    lost = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    return ((total - product) - lost) / scale


def _nearest_of(residue_of):
    @inlined
    def nearest_quotient(total, error, divisor):
        """(total + error) / divisor to the nearest float64, with the quotient's own rounding error put right, and what
        that number is less than the quotient.
        """
        found = (total + 0.0) / divisor
        more = (residue_of(total, found, divisor) + error) / divisor
        better = found + more
        if not np.isfinite(better) or more == 0.0:
            return found, 0.0
        return better, more - (better - found)

    return nearest_quotient


@inlined
def rounded_to_odd(near, rest):
    """The same rounded to odd: of the neighbours of an inexact quotient the one whose last bit is set."""
    bits = np.float64(near).view(np.int64)
    if rest != 0.0 and bits & 1 == 0:
        bits += 1 if (rest > 0.0) == (near > 0.0) else -1
    return np.int64(bits).view(np.float64)


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
    """total / divisor to the nearest integer, halves to even, in integers."""
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
    """The bits of a float64 with `dropped` fraction bits rounded away and the exponent's bias changed; below the least
    normal number the number of least steps; the sign in bit 15.
    """
    size = abs(value)
    bits = np.float64(size).view(np.int64)
    rounded = ((bits + (np.int64(1) << (dropped - 1)) - 1 + ((bits >> dropped) & 1)) >> dropped) - bias
    small = np.int64(np.rint(min(size, least_normal) * scale))
    short = rounded if size >= least_normal else small
    short = nan if value != value else min(short, infinity)
    return short | (0x8000 if np.float64(value).view(np.int64) < 0 else 0)


def _result_of(steps, divisor):
    """result(total, share, w): what is made of the total of element w of a row, before its root."""
    total = steps.nothing.dtype.kind
    if steps.result == "byreciprocal":
        return _pair_by_reciprocal() if total == "c" else _by_reciprocal
    nan, bits = steps.nothing.dtype.type(np.nan) if total == "f" else 0, steps.bits
    whole = _sum_of_pair if total == "c" else inlined(lambda total: total)
    without_divisor = {
        "": inlined(lambda total, share, w: whole(total)),
        "element": inlined(lambda total, share, w: total if total == total else nan),
        "negated": inlined(lambda total, share, w: -total if total == total else nan),
        "scaled": inlined(lambda total, share, w: (float(total) + 0.0) * share.outer_reciprocal),
        "shift": inlined(lambda total, share, w: half_even_shift(total, bits)),
        "ofkernel": inlined(lambda total, share, w: whole(total) / (share.outer * share.along[w]) * share.elements),
    }
    if steps.result in without_divisor:
        return without_divisor[steps.result]
    divided = _division(steps.result, total, divisor)
    return inlined(lambda total, share, w: divided(total, share.outer * share.along[w]))


@inlined
def _by_reciprocal(total, share, w):
    divisor, reciprocal = share.outer * share.along[w], share.outer_reciprocal * share.reciprocals[w]
    return quotient(float(total), divisor, reciprocal)


def _pair_by_reciprocal():
    residue_of = residue if fuses() else residue_of_halves

    @inlined
    def by_reciprocal(total, share, w):
        """As the division of a pair: its second quotient alone is far from the ends of the range, or too small to
        matter.
        """
        divisor, reciprocal = share.outer * share.along[w], share.outer_reciprocal * share.reciprocals[w]
        found = total.real / divisor
        better = found + quotient(residue_of(total.real, found, divisor) + total.imag, divisor, reciprocal)
        return better if np.isfinite(better) else found

    return by_reciprocal


def _division(result, total, divisor):
    """divided(total, divisor), for totals of the kind `total` and divisors of the type `divisor`."""
    parts = {"c": _parts_of_pair, "f": _parts_of_float}.get(total, _parts_of_integer)
    nearest, exact = _nearest_of(residue if fuses() else residue_of_halves), divisor.type

    @inlined
    def to_nearest(total, divisor):
        high, low = parts(total)
        return nearest(high, low, divisor)[0]

    @inlined
    def to_odd(total, divisor):
        high, low = parts(total)
        near, rest = nearest(high, low, divisor)
        return rounded_to_odd(near, rest)

    @inlined
    def rounded(total, divisor):
        """In a type of floats, exact where totals and divisors stay below EXACT_32 or EXACT_64."""
        return np.rint(exact(total) / divisor)

    @inlined
    def divided(total, divisor):
        return (float(total) + 0.0) / divisor  # a sum that is -0 becomes 0, as sums from 0 on do

    ways = {"odd": to_odd, "nearest": to_nearest, "halfeven": rounded if divisor.kind == "f" else _half_even}
    return ways.get(result, to_nearest if total == "c" else divided)


def _root_of(power):
    """The root, as the numpy engine has it: a step of Newton's after the power."""

    @inlined
    def newton(value):
        near = value ** (1 / power)
        better = near - near * (near**power / value - 1) / power
        return better if np.isfinite(better) else near

    return {1: inlined(lambda value: value), 2: inlined(lambda value: np.sqrt(value))}.get(power, newton)


def finish_of(steps, made, divisor):
    """finish(total, share, w): what is stored as `made` of the total of element w of an output row."""
    result, root, store = _result_of(steps, divisor), _root_of(steps.root), made.type
    write = {"float16": float16_bits, "bfloat16": bfloat16_bits}.get(steps.write, inlined(lambda value: store(value)))
    return inlined(lambda total, share, w: write(root(result(total, share, w))))
