"""From a total to what is stored: what the last steps of an arithmetic do, chosen by their types at compile time.
`finish` is what the kernels call. Quotients are taken without a division where they have the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from poolcli.engine.compiled import arithmetic as names
from poolcli.engine.compiled.machine import fuses
from poolcli.engine.compiled.numbers import itself, scalar_of, step_of
from poolcli.engine.compiled.pointers import INLINED, half_even_shift, inlined


@intrinsic
def quotient(typing, total, divisor, reciprocal):
    """total / divisor to the nearest float64, and 0 of -0, for an integer divisor up to 2**24 and totals far from the
    ends of the range; `reciprocal` is near that of the divisor.

    A product with the reciprocal is a few units in the last place away; what it leaves over is exact, and brings it so
    near that it is rounded to the nearest (Markstein), as no such quotient lies that near to the middle of two floats.
    Where something is not finite, or the divisor 0, the product is the quotient.
    """

    def generate(context, builder, signature, arguments):
        value, by, inverse = arguments
        if not fuses():
            return builder.fdiv(builder.fadd(value, value.type(0.0)), by)
        near = builder.fmul(value, inverse)
        left = builder.fma(builder.fneg(near), by, value)
        better = builder.fma(left, inverse, near)
        return builder.select(builder.fcmp_ordered("ord", left, left), better, near)

    return types.float64(types.float64, types.float64, types.float64), generate


@intrinsic
def _fused_residue(typing, total, found, divisor):
    def generate(context, builder, signature, arguments):
        value, near, by = arguments
        return builder.fma(builder.fneg(near), by, value)

    return types.float64(types.float64, types.float64, types.float64), generate


def residue(total, found, divisor):
    """total - found * divisor, exactly, for the nearest quotient."""
    raise NotImplementedError


@overload(residue, jit_options=INLINED)
def _residue(total, found, divisor):
    if fuses():
        return lambda total, found, divisor: _fused_residue(total, found, divisor)
    return residue_of_halves


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


@inlined
def _whole(total, divisor, how):
    return total


@inlined
def _divided(total, divisor, how):
    return (float(total) + 0.0) / divisor  # a sum that is -0 becomes 0, as sums from 0 on do


@inlined
def _by_reciprocal(total, divisor, reciprocal):
    return quotient(float(total), divisor, reciprocal)


@inlined
def _by_reciprocal_pair(total, divisor, reciprocal):
    """As `_divided_pair`, whose second quotient alone is far from the ends of the range, or too small to matter."""
    found = total.real / divisor
    better = found + quotient(residue(total.real, found, divisor) + total.imag, divisor, reciprocal)
    return better if np.isfinite(better) else found


@inlined
def _scaled(total, reciprocal, how):
    return (float(total) + 0.0) * reciprocal


@inlined
def _divided_pair(total, divisor, how):
    """The quotient of a sum and its error, with the quotient's own rounding error put right."""
    found = (total.real + 0.0) / divisor  # as above
    better = found + (residue(total.real, found, divisor) + total.imag) / divisor
    return better if np.isfinite(better) else found


@inlined
def nearest_quotient(total, error, divisor):
    """(total + error) / divisor to the nearest float64, with the quotient's own rounding error put right, and what that
    number is less than the quotient.
    """
    found = (total + 0.0) / divisor
    more = (residue(total, found, divisor) + error) / divisor
    better = found + more
    if not np.isfinite(better) or more == 0.0:
        return found, 0.0
    return better, more - (better - found)


@inlined
def odd_quotient(total, error, divisor):
    """The same rounded to odd: of the neighbours of an inexact quotient the one whose last bit is set."""
    near, rest = nearest_quotient(total, error, divisor)
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


def _exact(quotient_of, total):
    """The quotient of the parts of a total of that type."""
    pair, whole = isinstance(total, types.Complex), isinstance(total, types.Integer)
    parts = _parts_of_pair if pair else _parts_of_integer if whole else _parts_of_float

    @inlined
    def exact(total, divisor, how):
        high, low = parts(total)
        return quotient_of(high, low, divisor)

    return exact


@inlined
def _nearest(total, error, divisor):
    return nearest_quotient(total, error, divisor)[0]


EXACT = {names.NearestQuotient: _nearest, names.OddQuotient: odd_quotient}


@inlined
def _of_kernel(total, divisor, how):
    return total / divisor * how.result.elements


@inlined
def _of_kernel_pair(total, divisor, how):
    return _sum_of_pair(total) / divisor * how.result.elements


@inlined
def _sum_of_pair(total):
    return total.real + total.imag if np.isfinite(total.real) else total.real


@inlined
def _whole_pair(total, divisor, how):
    return _sum_of_pair(total)


def _rounded_in(exact):
    """To the nearest integer by a type of floats, exact where totals and divisors stay below EXACT_32 or EXACT_64."""
    return inlined(lambda total, divisor, how: np.rint(exact(total) / divisor))


@inlined
def _half_even(total, divisor, how):
    """total / divisor to the nearest integer, halves to even, in integers."""
    sign = -1 if divisor < 0 else 1
    total, divisor = sign * total, sign * divisor
    quotient = total // divisor
    twice = 2 * (total - quotient * divisor)
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


@inlined
def _shifted(total, divisor, how):
    return half_even_shift(total, how.result.bits)


RESULT = {
    names.Itself: _whole,
    names.Quotient: _divided,
    names.Scaled: _scaled,
    names.OfKernel: _of_kernel,
    names.Shift: _shifted,
}
RESULT_OF_PAIR = {names.Itself: _whole_pair, names.Quotient: _divided_pair, names.OfKernel: _of_kernel_pair}


@inlined
def _square_root(value, how):
    return np.sqrt(value)


@inlined
def _root(value, how):
    """As the numpy engine has it: a step of Newton's after the power."""
    power = how.root.power
    near = value ** (1 / power)
    better = near - near * (near**power / value - 1) / power
    return better if np.isfinite(better) else near


ROOT = {names.Itself: itself, names.SquareRoot: _square_root, names.Root: _root}


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


WRITE = {names.Float16Bits: float16_bits, names.BFloat16Bits: bfloat16_bits}


def finish(total, share, w, how, out):
    """What is stored in `out` of the total of element w of an output row."""
    raise NotImplementedError


@overload(finish, jit_options=INLINED)
def _finish(total, share, w, how, out):
    root = ROOT[step_of(how, "root")]
    write = WRITE.get(step_of(how, "write"), scalar_of(out.dtype))
    if step_of(how, "result") is names.ByReciprocal:
        of = _by_reciprocal_pair if isinstance(total, types.Complex) else _by_reciprocal

        def by_reciprocal(total, share, w, how, out):
            divisor, reciprocal = share.outer * share.along[w], share.outer_reciprocal * share.reciprocals[w]
            return write(root(of(total, divisor, reciprocal), how))

        return by_reciprocal
    result = _result(total, share.types[0], how)
    if step_of(how, "result") is names.Scaled:
        return lambda total, share, w, how, out: write(root(result(total, share.outer, how), how))
    return lambda total, share, w, how, out: write(root(result(total, share.outer * share.along[w], how), how))


def _result(total, divisor, how):
    step = step_of(how, "result")
    if step in (names.Element, names.Negated):
        return _element_of(total, step is names.Negated)
    if step is names.HalfEven and isinstance(divisor, types.Float):
        return _rounded_in(scalar_of(divisor))
    if step is names.HalfEven:
        return _half_even
    if step in EXACT:
        return _exact(EXACT[step], total)
    return (RESULT_OF_PAIR if isinstance(total, types.Complex) else RESULT)[step]


def _element_of(total, negated):
    """A total as it is or with its sign turned; one NaN for all, since the bits of several may have been joined."""
    nan = scalar_of(total)(np.nan)
    if negated:
        return inlined(lambda total, divisor, how: -total if total == total else nan)
    return inlined(lambda total, divisor, how: total if total == total else nan)
