"""The operations of a kernel on elements and accumulators, compiled from the steps of its arithmetic.

Accumulators are int16, int32 or int64 for integers (wide enough for every sum, so sums are exact), float64 for floats
of 16 and 32 bits, and complex128 for float64: its imaginary part is the sum of the rounding errors. Maxima and minima
have the type of the input, and float32 for floats of 16 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poolcli.engine.compiled.arithmetic import Arithmetic, Scalar
from poolcli.engine.compiled.finish import Function, composed, finish_of
from poolcli.engine.compiled.intrinsics import bits_as, inlined


class Operations(NamedTuple):
    """The functions of an arithmetic, which kernels inline.

    Functions of kernels take it as an argument. So it has few fields: numba handles each of them in every call.

    Parameters
    ----------
    identity
        The accumulator of no elements.
    lift
        lift(element): the accumulator of one element.
    pair
        pair(a, b): the accumulator of two elements.
    combine
        combine(a, b): their sum, maximum or minimum. NaN wins, and so does one of the two zeros.
    finish
        finish(total, divisors, w): the output of the total of element w of an output row.
    """

    identity: Scalar
    lift: Function
    pair: Function
    combine: Function
    finish: Function


def operations_of(steps: Arithmetic) -> Operations:
    """The operations of an arithmetic."""
    lift, combine = _lift(steps), _combine(steps)
    return Operations(steps.identity, lift, _pair(steps, lift, combine), combine, finish_of(steps))


@inlined
def _from_float16(raw):
    """float32 from the bits of a float16: exponent and fraction moved to their places, then rescaled."""
    bits = np.int32(raw)
    moved = ((bits & np.int32(0x7FFF)) << np.int32(13)) | (bits & np.int32(-0x80000000))
    special = np.int32(0x7F800000) if bits & np.int32(0x7C00) == np.int32(0x7C00) else np.int32(0)
    return bits_as(np.int32(moved | special), np.float32) * np.float32(2.0**112)


@inlined
def _from_bfloat16(raw):
    return bits_as(np.uint32(np.uint32(raw) << np.uint32(16)), np.float32)


READ = {"float16": _from_float16, "bfloat16": _from_bfloat16}


def _lift(steps):
    """The accumulator of one element: its term, in the type of accumulators."""
    power, in_pairs = steps.power, steps.identity.dtype.kind == "c"
    kind = np.float64 if in_pairs else type(steps.identity)
    terms = {
        "": kind,
        "negated": inlined(lambda value: kind(-value)),
        "abs": inlined(lambda value: kind(abs(np.float64(value)))),
        "square": inlined(lambda value: kind(np.float64(value) * np.float64(value))),
        "power": inlined(lambda value: kind(np.float64(value) ** power)),
        "abs_power": inlined(lambda value: kind(abs(np.float64(value)) ** power)),
    }
    pair = inlined(lambda value: complex(value, 0.0)) if in_pairs else None
    return composed(READ.get(steps.read), terms[steps.term], pair)


def _combine(steps):
    if steps.accumulator == "float_min":
        return _float_min(steps.identity)
    kind = type(steps.identity)
    total = inlined(lambda a, b: kind(a + b))  # numba adds integers in 64 bits
    functions = {
        "sum": total,
        "sum_with_error": _two_sum,
        "max": inlined(lambda a, b: a if a > b else b),
        "min": inlined(lambda a, b: a if a < b else b),
        "exact_deviation": total,
        **dict.fromkeys(("mode", "deviation", "median")),  # which combine no accumulators
    }
    return functions[steps.accumulator]


def _float_min(identity):
    """The IEEE 754-2019 minimum (NaN wins, -0 < 0) in three operations.

    The processor's minimum returns its second argument if one is NaN or both are zeros. The bitwise or of both orders
    is then NaN or -0; otherwise both orders give the same number.
    """
    number, bits, _, _ = float_parts(identity)

    @inlined
    def smallest(a, b):
        low, again = a if a < b else b, b if b < a else a
        return bits_as(bits(bits_as(number(low), bits) | bits_as(number(again), bits)), number)

    return smallest


def _pair(steps, lift, combine):
    """The accumulator of two elements: `combine` of both.

    Floats that are negated for `_float_min` are negated last: LLVM would compare them before the negation and no longer
    use the processor's minimum: 7 operations instead of 3 with AVX-512, 9 instead of 5 with AVX2.
    """
    if steps.term != "negated":
        return inlined(lambda a, b: combine(lift(a), lift(b)))
    number, bits, _, _ = float_parts(steps.identity)
    value_of = composed(READ.get(steps.read), number)

    @inlined
    def largest(a, b):
        a, b = value_of(a), value_of(b)
        high, again = a if a > b else b, b if b > a else a
        return bits_as(bits(bits_as(number(-high), bits) | bits_as(number(-again), bits)), number)

    return largest


@inlined
def _two_sum(a, b):
    """a + b, and the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


def float_parts(number):
    """The class of a float, the class of integers of its size, the bit of its sign and the largest such integer."""
    kind, bits = (np.float32, np.int32) if number.dtype.itemsize == 4 else (np.float64, np.int64)
    return kind, bits, bits(8 * number.dtype.itemsize - 1), bits(np.iinfo(bits).max)
