"""The operations of a kernel on elements and accumulators, compiled from the steps of its arithmetic.

Accumulators are int16, int32 or int64 for integers (wide enough for every sum, so sums are exact), float64 for floats
of 16 and 32 bits, and complex128 for float64: its imaginary part is the sum of the rounding errors. Maxima and minima
have the type of the input, and float32 for floats of 16 bits.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.arithmetic import NO_DIVISOR, Arithmetic, Scalar
from poolcli.engine.compiled.finish import Function, composed, finish_of, round_to_odd
from poolcli.engine.compiled.geometry import LANES
from poolcli.engine.compiled.intrinsics import inlined, offset, sum_of_lanes


class Operations(NamedTuple):
    """The functions and constants of an arithmetic, which kernels inline.

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
    combine_elements, combine_accumulators
        combine_elements(x, first, count, step), combine_accumulators(work, first, count, step): the total of `count`
        elements, or of accumulators, `step` apart.
    beats
        beats(a, b): whether a replaces b as the maximum or minimum. NaN beats every number, and zeros are equal.
    rank
        rank(value): an integer of the size of value; the larger it is, the better is value.
    is_worse_zero
        is_worse_zero(value): whether value is the zero that loses against the other zero.
    vote
        vote(a, b): 1 if a == b, else 0, in the type of accumulators.
    uses_lanes
        Whether long windows are summed in LANES partial sums, which fill vectors.
    combines_elements
        Whether `combine_elements` is as fast as `combine_accumulators`.
    divides
        Whether outputs depend on the divisors of their windows.
    adds_bytes
        Whether elements are uint8 and accumulators int16.
    weight
        weight(number): a weight in the type of accumulators.
    ddof
        Delta degrees of freedom of standard deviations.
    middle
        middle(a, b, is_known): the mean of two elements (NaN unless is_known), which `finish` rounds only once.
    """

    identity: Scalar
    lift: Function
    pair: Function
    combine: Function
    finish: Function
    combine_elements: Function
    combine_accumulators: Function
    beats: Function
    rank: Function
    is_worse_zero: Function
    vote: Function
    uses_lanes: bool
    combines_elements: bool
    divides: bool
    adds_bytes: bool
    weight: Function
    ddof: float
    middle: Function


def operations_of(steps: Arithmetic, source: np.dtype[Any]) -> Operations:
    """The operations for elements that kernels see as `source`."""
    kind: Any = type(steps.identity)
    lift, combine, is_converted = _lift(steps), _combine(steps), bool(steps.read or steps.term)
    return Operations(
        steps.identity,
        lift,
        _pair(steps, lift, combine),
        combine,
        finish_of(steps),
        _run_of(lift, combine, steps, steps.is_float_sum and not is_converted and source.kind == "f"),
        _run_of(kind, combine, steps, steps.is_float_sum),
        _beats(steps),
        _rank(steps),
        _is_worse_zero(steps),
        inlined(lambda a, b: kind(a == b)),
        steps.is_float_sum,
        not (steps.is_float_sum and is_converted),
        steps.divisor != NO_DIVISOR and steps.result != "scaled",
        steps.accumulator == "sum" and source == np.uint8 and kind is np.int16,
        inlined(lambda weight: kind(weight)),
        steps.ddof,
        _middle(steps),
    )


@inlined
def _from_float16(raw):
    """float32 from the bits of a float16: exponent and fraction moved to their places, then rescaled."""
    bits = np.int32(raw)
    moved = ((bits & np.int32(0x7FFF)) << np.int32(13)) | (bits & np.int32(-0x80000000))
    special = np.int32(0x7F800000) if bits & np.int32(0x7C00) == np.int32(0x7C00) else np.int32(0)
    return np.int32(moved | special).view(np.float32) * np.float32(2.0**112)


@inlined
def _from_bfloat16(raw):
    return np.uint32(np.uint32(raw) << np.uint32(16)).view(np.float32)


READ = {"float16": _from_float16, "bfloat16": _from_bfloat16}


def _lift(steps):
    """The accumulator of one element: its term, in the type of accumulators."""
    kind, power = type(steps.identity), steps.power
    terms = {
        "negated": inlined(lambda value: -value),
        "abs": inlined(lambda value: abs(np.float64(value))),
        "square": inlined(lambda value: np.float64(value) * np.float64(value)),
        "power": inlined(lambda value: np.float64(value) ** power),
        "abs_power": inlined(lambda value: abs(np.float64(value)) ** power),
    }
    convert = inlined(lambda value: complex(np.float64(value), 0.0)) if kind is np.complex128 else kind
    return composed(READ.get(steps.read), terms.get(steps.term), convert)


def _combine(steps):
    if steps.accumulator == "float_min":
        return _float_min(steps.identity)
    functions = {
        "sum": inlined(lambda a, b: a + b),
        "sum_with_error": _two_sum,
        "max": inlined(lambda a, b: a if a > b else b),
        "min": inlined(lambda a, b: a if a < b else b),
        "exact_deviation": inlined(lambda a, b: a + b),
        **dict.fromkeys(("mode", "deviation", "median")),  # which combine no accumulators
    }
    return functions[steps.accumulator]


def _float_min(identity):
    """The IEEE 754-2019 minimum (NaN wins, -0 < 0) in three operations.

    The processor's minimum returns its second argument if one is NaN or both are zeros. The bitwise or of both orders
    is then NaN or -0; otherwise both orders give the same number.
    """
    number, bits, _, _ = _float_parts(identity)

    @inlined
    def smallest(a, b):
        low, again = a if a < b else b, b if b < a else a
        return bits(number(low).view(bits) | number(again).view(bits)).view(number)

    return smallest


def _pair(steps, lift, combine):
    """The accumulator of two elements: `combine` of both.

    Floats that are negated for `_float_min` are negated last: LLVM would compare them before the negation and no longer
    use the processor's minimum: 7 operations instead of 3 with AVX-512, 9 instead of 5 with AVX2.
    """
    if steps.term != "negated":
        return inlined(lambda a, b: combine(lift(a), lift(b)))
    number, bits, _, _ = _float_parts(steps.identity)
    value_of = composed(READ.get(steps.read), number)

    @inlined
    def largest(a, b):
        a, b = value_of(a), value_of(b)
        high, again = a if a > b else b, b if b > a else a
        return bits(number(-high).view(bits) | number(-again).view(bits)).view(number)

    return largest


@inlined
def _two_sum(a, b):
    """a + b, and the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


def _beats(steps):
    if steps.identity.dtype.kind == "f":
        return inlined(lambda a, b: (a < b) | ((a != a) & (b == b)))
    better = operator.gt if steps.accumulator == "max" else operator.lt
    return inlined(lambda a, b: better(a, b))


def _rank(steps):
    """Ranks of integers: themselves, or their complements for minima. Ranks of floats, of which the minimum is wanted:
    their bits, transformed to fall as numbers grow; -0 + 0 is 0, so both zeros have one rank.
    """
    if steps.identity.dtype.kind != "f":
        kind = type(steps.identity)
        return kind if steps.accumulator == "max" else inlined(lambda value: kind(~value))
    number, bits, sign_shift, highest = _float_parts(steps.identity)

    @inlined
    def rank(value):
        raw = number(number(value) + number(0)).view(bits)
        rising = bits(raw ^ bits(bits(raw >> sign_shift) & highest))
        return highest if value != value else bits(~rising)

    return rank


def _is_worse_zero(steps):
    """Floats are compared for their minimum, in which +0 loses."""
    if steps.identity.dtype.kind != "f":
        return inlined(lambda value: False)
    number, bits, _, _ = _float_parts(steps.identity)
    return inlined(lambda value: number(value).view(bits) == bits(0))


def _float_parts(number):
    """The class of a float, the class of integers of its size, the bit of its sign and the largest such integer."""
    kind, bits = (np.float32, np.int32) if number.dtype.itemsize == 4 else (np.float64, np.int64)
    return kind, bits, bits(8 * number.dtype.itemsize - 1), bits(np.iinfo(bits).max)


def _middle(steps):
    """The mean of two elements. The mean of floats is rounded to odd if `finish` rounds it to a shorter type."""
    kind, one = type(steps.identity), type(steps.identity)(1)
    is_float = steps.identity.dtype.kind == "f"
    is_rounded_here = not is_float or (steps.output == np.float64 and not steps.write)

    @inlined
    def of_integers(a, b, is_known):
        below = kind(kind(a & b) + kind(kind(a ^ b) >> one))  # floor of the mean, without overflow
        return kind(below + kind(kind(a ^ b) & below & one))  # halves to even

    @inlined
    def of_floats(a, b, is_known):
        low, high = np.float64(a) + 0.0, np.float64(b)
        total = low + high
        back = total - low
        error = (low - (total - back)) + (high - back)
        half = 0.5 * (total if is_rounded_here or error != error else round_to_odd(total, error))
        overflows = (abs(total) == np.inf) & (abs(low) < np.inf) & (abs(high) < np.inf)
        found = low / 2 + high / 2 if overflows else half
        return found if is_known else np.nan

    return of_floats if is_float or steps.output.kind == "f" or steps.write else of_integers


def _run_of(convert, combine, steps, uses_lanes):
    """run(values, first, count, step): the total of `count` values, `step` apart, which `convert` makes accumulators.

    If `uses_lanes`, neighbours are summed in LANES partial sums. Inlined, because calls took a tenth longer (means of
    7x7 windows).
    """
    identity = steps.identity

    @inlined
    def in_turn(values, first, count, step):
        total = identity
        for i in range(count):
            total = combine(total, convert(values[np.uint64(first + i * step)]))
        return total

    if not uses_lanes:
        return in_turn

    @inlined
    def in_lanes(values, first, count, step):
        if step > 1:
            return in_turn(values, first, count, step)
        total, done = sum_of_lanes(offset(values, first), count // LANES), count // LANES * LANES
        for i in range(np.uint64(first + done), np.uint64(first + count)):
            total += convert(values[i])
        return total

    return in_lanes
