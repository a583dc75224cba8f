"""From elements to totals: the functions of an arithmetic that kernels call, all of them inlined, as one record.

Totals are int16, int32 and int64 for integers (wide enough for every sum, so exact), float64 for floats of 16 and 32
bits, and a complex number for float64, whose imaginary part is the sum of the rounding errors. The best of elements is
of the type of the input, and float32 for floats of 16 bits.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.arithmetic import NONE, Arithmetic, Scalar
from poolcli.engine.compiled.geometry import LANES
from poolcli.engine.compiled.pointers import behind, inlined, sum_of_lanes
from poolcli.engine.compiled.results import Function, finish_of, rounded_to_odd


class How(NamedTuple):
    """An arithmetic as functions and constants; kernels get it as an argument, and pass it on.

    lift(element) is a total of one element, join(a, b) one of two: their sum, or the better one, where NaN goes before
    all numbers and one zero before the other. finish(total, share, w) is what is stored of the total of element w of an
    output row. join_elements and join_totals(values, first, count, step) join a run of elements `step` apart, or of
    totals. fills_lanes: whether totals are joined in LANES sums, which fill vectors; is_own_total: whether elements can
    be joined as they are read, or need no lanes; divides: whether results depend on divisors; adds_bytes: whether
    uint8 are added in int16. weight(number) is a number that totals are multiplied by; ddof is how much
    less than the number of elements a standard deviation is divided by. middle(a, b, is_known) is
    the mean of two elements, or NaN, which `finish` rounds once.

    Where positions are asked for, beats(a, b) says whether a is better than b (NaN is better than every number, and
    zeros are equal), rank(value) is an integer that grows with how good a value is, and is_worse_zero(value) says
    whether it is the zero that loses against the other one. vote(a, b) is 1 where two totals are equal, else 0.
    """

    nothing: Scalar
    lift: Function
    join: Function
    finish: Function
    join_elements: Function
    join_totals: Function
    beats: Function
    rank: Function
    is_worse_zero: Function
    vote: Function
    fills_lanes: bool
    is_own_total: bool
    divides: bool
    adds_bytes: bool
    weight: Function
    ddof: float
    middle: Function


def functions_of(steps: Arithmetic, source: np.dtype[Any], made: np.dtype[Any], divisor: np.dtype[Any]) -> How:
    """The functions for elements seen as `source`; outputs are stored as `made`, divisors are of the type `divisor`."""
    kind: Any = type(steps.nothing)
    lift, join, is_own = _lift(steps), _join(steps), not (steps.read or steps.term)
    return How(
        steps.nothing,
        lift,
        join,
        finish_of(steps, made, divisor),
        _run_over(lift, join, steps, steps.sums_floats and is_own and source.kind == "f"),
        _run_over(_as_it_is, join, steps, steps.sums_floats),
        _beats(steps),
        _rank(steps),
        _is_worse_zero(steps),
        inlined(lambda a, b: kind(a == b)),
        steps.sums_floats,
        is_own or not steps.sums_floats,
        divisor != NONE and steps.result != "scaled",
        steps.total == "sum" and source == np.uint8 and kind is np.int16,
        inlined(lambda weight: kind(weight)),
        steps.ddof,
        _middle(steps, made),
    )


# From an element to a total


@inlined
def _float_of_half(raw):
    """float16 from its bits: exponent and fraction moved into place of float32, then rescaled."""
    bits = np.int32(raw)
    moved = ((bits & np.int32(0x7FFF)) << np.int32(13)) | (bits & np.int32(-0x80000000))
    special = np.int32(0x7F800000) if bits & np.int32(0x7C00) == np.int32(0x7C00) else np.int32(0)
    return np.int32(moved | special).view(np.float32) * np.float32(2.0**112)


@inlined
def _float_of_bfloat(raw):
    return np.uint32(np.uint32(raw) << np.uint32(16)).view(np.float32)


@inlined
def _as_it_is(value):
    return value


READ = {"": _as_it_is, "float16": _float_of_half, "bfloat16": _float_of_bfloat}


def _lift(steps):
    """One input element as a total."""
    read, kind, power = READ[steps.read], type(steps.nothing), steps.power
    terms = {
        "": _as_it_is,
        "negated": inlined(lambda value: -value),
        "size": inlined(lambda value: abs(np.float64(value))),
        "square": inlined(lambda value: np.float64(value) * np.float64(value)),
        "power": inlined(lambda value: np.float64(value) ** power),
        "powerofsize": inlined(lambda value: abs(np.float64(value)) ** power),
    }
    term = terms[steps.term]
    if kind is np.complex128:
        return inlined(lambda raw: complex(np.float64(term(read(raw))), 0.0))
    return inlined(lambda raw: kind(term(read(raw))))


# Totals


def _join(steps):
    if steps.total == "smallestbits":
        return _smallest_of_floats(steps.nothing)
    joins = {
        "sum": inlined(lambda a, b: a + b),
        "sumwitherror": _two_sum,
        "largest": inlined(lambda a, b: a if a > b else b),
        "smallest": inlined(lambda a, b: a if a < b else b),
        "moments": inlined(lambda a, b: a + b),
        **dict.fromkeys(("mostoften", "deviations", "median")),  # which join no totals
    }
    return joins[steps.total]


def _smallest_of_floats(nothing):
    """The smaller of two numbers in three operations. Of two numbers a processor gives the second one where one of them
    is NaN, or both are zeros; asked both ways round, the bits of both answers together are a NaN or -0 there, and
    elsewhere the same number twice.
    """
    number, bits, _, _ = _parts_of(nothing)

    @inlined
    def smallest(a, b):
        low, again = a if a < b else b, b if b < a else a
        return bits(number(low).view(bits) | number(again).view(bits)).view(number)

    return smallest


@inlined
def _two_sum(a, b):
    """a + b with the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


def _beats(steps):
    if steps.nothing.dtype.kind == "f":
        return inlined(lambda a, b: (a < b) | ((a != a) & (b == b)))
    better = operator.gt if steps.total == "largest" else operator.lt
    return inlined(lambda a, b: better(a, b))


def _rank(steps):
    """Of floats, the bits of the sum with 0 (which -0 becomes 0 by), turned so that they fall as numbers grow."""
    if steps.nothing.dtype.kind != "f":
        kind = type(steps.nothing)
        return _as_it_is if steps.total == "largest" else inlined(lambda value: kind(~value))
    number, bits, sign, highest = _parts_of(steps.nothing)

    @inlined
    def rank(value):
        raw = number(number(value) + number(0)).view(bits)
        rising = bits(raw ^ bits(bits(raw >> sign) & highest))
        return highest if value != value else bits(~rising)

    return rank


def _is_worse_zero(steps):
    """Of floats the smallest is best."""
    if steps.nothing.dtype.kind != "f":
        return inlined(lambda value: False)
    number, bits, _, _ = _parts_of(steps.nothing)
    return inlined(lambda value: number(value).view(bits) == bits(0))


def _parts_of(number):
    """Of a float: its class, that of integers of its size, the place of its sign, the largest such integer."""
    kind, bits = (np.float32, np.int32) if number.dtype.itemsize == 4 else (np.float64, np.int64)
    return kind, bits, bits(8 * number.dtype.itemsize - 1), bits(np.iinfo(bits).max)


def _middle(steps, made):
    """The mean of two elements: integers to the nearest, halves to even, and floats so that they are rounded once."""
    kind, one = type(steps.nothing), type(steps.nothing)(1)
    is_float = steps.nothing.dtype.kind == "f"
    is_exact = not is_float or (made == np.float64 and not steps.write)  # rounded to the type of the output here

    @inlined
    def of_integers(a, b, is_known):
        below = kind(kind(a & b) + kind(kind(a ^ b) >> one))
        return kind(below + kind(kind(a ^ b) & below & one))

    @inlined
    def of_floats(a, b, is_known):
        low, high = np.float64(a) + 0.0, np.float64(b)
        total = low + high
        back = total - low
        error = (low - (total - back)) + (high - back)
        half = 0.5 * (total if is_exact or error != error else rounded_to_odd(total, error))
        overflows = (abs(total) == np.inf) & (abs(low) < np.inf) & (abs(high) < np.inf)
        found = low / 2 + high / 2 if overflows else half
        return found if is_known else np.nan

    return of_floats if is_float or made.kind == "f" or steps.write else of_integers


def _run_over(take, join, steps, in_sums):
    """The join of `count` elements, `step` apart, of which `take` makes totals; of neighbours in lanes if `in_sums`.
    Inlined by force: the mean of 7x7 elements took a tenth longer where runs were calls.
    """
    nothing = steps.nothing

    @inlined
    def in_turn(values, first, count, step):
        total = nothing
        for i in range(count):
            total = join(total, take(values[np.uint64(first + i * step)]))
        return total

    if not in_sums:
        return in_turn

    @inlined
    def in_lanes(values, first, count, step):
        if step > 1:
            return in_turn(values, first, count, step)
        total, done = sum_of_lanes(behind(values, first), count // LANES), count // LANES * LANES
        for i in range(np.uint64(first + done), np.uint64(first + count)):
            total += take(values[i])
        return total

    return in_lanes
