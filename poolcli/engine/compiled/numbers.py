"""What the kernels do with single numbers, chosen by type at compile time.

Accumulators: int16, int32 and int64 for integers (wide enough for every sum, so exact), float64 for floats of
16 and 32 bits, and for float64 itself a complex number, whose real part is the sum and whose imaginary part
is the sum of the rounding errors. Maxima use the type of the input, and float32 for floats of 16 bits.

`lowest` is the value below all others for maxima and None for sums; `like` is an array of the wanted type.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload


def lift(raw, like):
    """One input element as an accumulator. int16 given for a float is float16 by its bits, uint16 is bfloat16."""
    raise NotImplementedError


@overload(lift)
def _lift(raw, like):
    dtype = like.dtype
    if raw == dtype:
        return lambda raw, like: raw
    if isinstance(dtype, types.Complex):
        return lambda raw, like: complex(raw, 0.0)
    if isinstance(dtype, types.Float) and raw == types.int16:
        return _half
    if isinstance(dtype, types.Float) and raw == types.uint16:
        return lambda raw, like: like.dtype.type(np.uint32(np.uint32(raw) << np.uint32(16)).view(np.float32))
    return lambda raw, like: like.dtype.type(raw)


def _half(raw, like):
    """float16 from its bits: exponent and fraction moved into place of float32, then rescaled."""
    bits = np.int32(raw)
    moved = ((bits & np.int32(0x7FFF)) << np.int32(13)) | (bits & np.int32(-0x80000000))
    special = np.int32(0x7F800000) if bits & np.int32(0x7C00) == np.int32(0x7C00) else np.int32(0)
    return like.dtype.type(np.int32(moved | special).view(np.float32) * np.float32(2.0**112))


@njit(forceinline=True)
def float16_bits(value):
    """The nearest float16, halves to even, as int16."""
    return np.int16(_short_bits(value, 42, 1008 << 10, 2.0**-14, 2.0**24, 0x7C00, 0x7E00))


@njit(forceinline=True)
def bfloat16_bits(value):
    """The nearest bfloat16, halves to even, as uint16."""
    return np.uint16(_short_bits(value, 45, 896 << 7, 2.0**-126, 2.0**133, 0x7F80, 0x7FC0))


@njit(forceinline=True)
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


def identity(like, lowest):
    """What joins with any number to that number."""
    raise NotImplementedError


@overload(identity)
def _identity(like, lowest):
    if isinstance(lowest, types.NoneType):
        return lambda like, lowest: like.dtype.type(0)
    return lambda like, lowest: lowest


def join(a, b, lowest):
    """The sum of two accumulators, or their maximum; NaN wins over every number."""
    raise NotImplementedError


@overload(join)
def _join(a, b, lowest):
    if not isinstance(lowest, types.NoneType):
        if isinstance(a, types.Float):
            return lambda a, b, lowest: a if (a > b) | (a != a) else b
        return lambda a, b, lowest: max(a, b)
    if isinstance(a, types.Complex):
        return _two_sum
    return lambda a, b, lowest: a + b


def _two_sum(a, b, lowest):
    """a + b with the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


def reduce_run(values, first, count, step, like, lowest):
    """The join of `count` elements, `step` apart."""
    raise NotImplementedError


@overload(reduce_run)
def _reduce_run(values, first, count, step, like, lowest):
    if isinstance(lowest, types.NoneType) and isinstance(like.dtype, types.Float):
        return _sum_of_floats
    return _join_of_run


def _join_of_run(values, first, count, step, like, lowest):
    total = identity(like, lowest)
    for i in range(count):
        total = join(total, lift(values[np.uint64(first + i * step)], like), lowest)
    return total


def _sum_of_floats(values, first, count, step, like, lowest):
    if step == 1:
        return _sum_of_neighbours(values, np.uint64(first), np.uint64(count), like)
    return _sum_of_others(values, first, count, step, like)


@njit(fastmath={"reassoc"}, forceinline=True)
def _sum_of_neighbours(values, first, count, like):
    """In the order that suits vectors, which is the same for all runs of one length."""
    total = like.dtype.type(0)
    for i in range(count):
        total += lift(values[first + i], like)
    return total


@njit(forceinline=True)
def _sum_of_others(values, first, count, step, like):
    total = like.dtype.type(0)
    for i in range(count):
        total += lift(values[np.uint64(first + i * step)], like)
    return total


def finish(total, outer_divisor, divisor, like, lowest):
    """From a sum to the mean; for floats of 32 bits and fewer the divisors are given as reciprocals.

    Integers are rounded half to even: exactly by float32 where sums stay below 2**24 and by float64 below
    2**53, because a quotient that is no half is then further from one than the division's rounding error.
    """
    raise NotImplementedError


@overload(finish)
def _finish(total, outer_divisor, divisor, like, lowest):
    is_maximum, is_float = not isinstance(lowest, types.NoneType), isinstance(total, types.Float)
    if is_maximum and is_float and like.dtype == types.int16:
        return lambda total, outer_divisor, divisor, like, lowest: float16_bits(np.float64(total))
    if is_maximum and is_float and like.dtype == types.uint16:
        return lambda total, outer_divisor, divisor, like, lowest: bfloat16_bits(np.float64(total))
    if is_maximum:
        return lambda total, outer_divisor, divisor, like, lowest: total
    if isinstance(total, types.Complex):
        return _finish_pair
    if is_float and like.dtype == types.int16:
        return lambda total, outer_divisor, divisor, like, lowest: float16_bits(total * (outer_divisor * divisor))
    if is_float and like.dtype == types.uint16:
        return lambda total, outer_divisor, divisor, like, lowest: bfloat16_bits(total * (outer_divisor * divisor))
    if is_float and like.dtype == types.float32:
        return lambda total, outer_divisor, divisor, like, lowest: total * (outer_divisor * divisor)
    if isinstance(like.dtype, types.Float):
        return lambda total, outer_divisor, divisor, like, lowest: float(total) / (outer_divisor * divisor)
    if divisor == types.float32:
        return lambda total, outer_divisor, divisor, like, lowest: like.dtype.type(
            np.rint(np.float32(total) / (outer_divisor * divisor))
        )
    if divisor == types.float64:
        return lambda total, outer_divisor, divisor, like, lowest: like.dtype.type(
            np.rint(float(total) / (outer_divisor * divisor))
        )
    return _half_even


def _finish_pair(total, outer_divisor, divisor, like, lowest):
    exact = total.real + total.imag if np.isfinite(total.real) else total.real
    return exact / (outer_divisor * divisor)


def _half_even(total, outer_divisor, divisor, like, lowest):
    """total / divisor to the nearest integer, halves to even, in integers."""
    whole = outer_divisor * divisor
    sign = -1 if whole < 0 else 1
    total, whole = sign * total, sign * whole
    quotient = total // whole
    twice = 2 * (total - quotient * whole)
    return quotient + (twice > whole or (twice == whole and quotient & 1 == 1))
