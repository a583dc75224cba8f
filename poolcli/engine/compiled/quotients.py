"""Quotients without a division, and what a quotient leaves over, by multiplying and adding with one rounding where the
processor does; elsewhere by other steps with the same bits.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic, overload

from poolcli.engine.compiled.machine import fuses
from poolcli.engine.compiled.pointers import INLINED


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
