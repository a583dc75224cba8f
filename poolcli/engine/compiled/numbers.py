"""From elements to a total: what the first steps of an arithmetic do, chosen by their types at compile time. `lift` and
`join` are what the kernels call.

Totals are int16, int32 and int64 for integers (wide enough for every sum, so exact), float64 for floats of 16 and 32
bits, and a complex number for float64, whose imaginary part is the sum of the rounding errors. The best of elements is
of the type of the input, and float32 for floats of 16 bits.
"""

from __future__ import annotations

import operator

import numpy as np
from numba import njit, types
from numba.extending import overload

from poolcli.engine.compiled import arithmetic as names
from poolcli.engine.compiled.geometry import LANES
from poolcli.engine.compiled.pointers import INLINED, behind, inlined, sum_of_lanes

BETTER = {total: better for better, total in names.BEST.items()}


def step_of(how, name):
    """The class of one step of an arithmetic, from the type of the arithmetic."""
    return how.types[how.fields.index(name)].instance_class


def scalar_of(kind):
    """The numpy class of a type of numbers, which bear the same names in numba."""
    return np.dtype(str(kind)).type


def _total_type(how):
    """The type of totals, from the type of an arithmetic."""
    return how.types[how.fields.index("total")].types[0]


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


READ = {names.Plain: _as_it_is, names.Float16Bits: _float_of_half, names.BFloat16Bits: _float_of_bfloat}


@inlined
def itself(value, how):
    return value


@inlined
def negated(value, how):
    return -value


@inlined
def _size(value, how):
    return abs(np.float64(value))


@inlined
def _square(value, how):
    return np.float64(value) * np.float64(value)


@inlined
def _power(value, how):
    return np.float64(value) ** how.term.power


@inlined
def _power_of_size(value, how):
    return abs(np.float64(value)) ** how.term.power


TERM = {
    names.Itself: itself,
    names.Negated: negated,
    names.Size: _size,
    names.Square: _square,
    names.Power: _power,
    names.PowerOfSize: _power_of_size,
}


def lift(raw, how):
    """One input element as a total."""
    raise NotImplementedError


@overload(lift, jit_options=INLINED)
def _lift(raw, how):
    read, term = READ[step_of(how, "read")], TERM[step_of(how, "term")]
    if isinstance(_total_type(how), types.Complex):
        return lambda raw, how: complex(np.float64(term(read(raw), how)), 0.0)
    enter = scalar_of(_total_type(how))
    return lambda raw, how: enter(term(read(raw), how))


# Totals


def join(a, b, how):
    """Two totals as one: their sum, or the better one; NaN goes before all numbers, one zero before the other."""
    raise NotImplementedError


@overload(join, jit_options=INLINED)
def _join(a, b, how):
    if step_of(how, "total") is names.Sum:
        return lambda a, b, how: a + b
    if step_of(how, "total") is names.SumWithError:
        return _two_sum
    if step_of(how, "total") is names.SmallestBits:
        return _smallest_bits_of(a)
    better = BETTER[step_of(how, "total")]
    if isinstance(a, types.Float):
        return lambda a, b, how: a if a != a else one_of_equals(a, b, how) if a == b else a if better(a, b) else b
    return lambda a, b, how: a if better(a, b) else b


def _smallest_bits_of(total):
    """The smaller of two numbers in three operations. Of two numbers a processor gives the second one where one of them
    is NaN, or both are zeros; asked both ways round, the bits of both answers together are a NaN or -0 there, and
    elsewhere the same number twice.
    """
    number, bits, _, _ = _parts_of(total)

    def smallest(a, b, how):
        low, again = a if a < b else b, b if b < a else a
        return bits(number(low).view(bits) | number(again).view(bits)).view(number)

    return smallest


def _two_sum(a, b, how):
    """a + b with the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


def beats(a, b, how):
    """Whether a is better than b; NaN is better than every number, and zeros are equal."""
    raise NotImplementedError


@overload(beats, jit_options=INLINED)
def _beats(a, b, how):
    better = BETTER[step_of(how, "total")]
    if isinstance(a, types.Float):
        return lambda a, b, how: better(a, b) | ((a != a) & (b == b))
    return lambda a, b, how: better(a, b)


def one_of_equals(a, b, how):
    """One of two equal numbers: of zeros the better, by its sign. Other numbers that are equal have the same bits."""
    raise NotImplementedError


@overload(one_of_equals, jit_options=INLINED)
def _one_of_equals(a, b, how):
    number, bits = (np.float32, np.int32) if a.bitwidth == 32 else (np.float64, np.int64)
    both = operator.and_ if BETTER[step_of(how, "total")](1, 0) else operator.or_  # the sign's bit is that of -0
    return lambda a, b, how: bits(both(number(a).view(bits), number(b).view(bits))).view(number)


def vote(a, b, how):
    """1 where two totals are equal, else 0, in the type of totals."""
    raise NotImplementedError


@overload(vote, jit_options=INLINED)
def _vote(a, b, how):
    kind = scalar_of(_total_type(how))
    return lambda a, b, how: kind(a == b)


def rank(value, how):
    """An integer that grows with how good a value is: highest for NaN, the same for zeros of both signs."""
    raise NotImplementedError


@overload(rank, jit_options=INLINED)
def _rank(value, how):
    turned = BETTER[step_of(how, "total")](0, 1)  # the smallest is best
    if not isinstance(value, types.Float):
        kind = scalar_of(value)
        return (lambda value, how: kind(~value)) if turned else (lambda value, how: value)
    number, bits, sign, highest = _parts_of(value)

    def ranked(value, how):
        raw = number(number(value) + number(0)).view(bits)  # -0 becomes 0
        rising = bits(raw ^ bits(bits(raw >> sign) & highest))
        return highest if value != value else bits(~rising) if turned else rising

    return ranked


def is_worse_zero(value, how):
    """Whether a value is the zero that loses against the other one."""
    raise NotImplementedError


@overload(is_worse_zero, jit_options=INLINED)
def _is_worse_zero(value, how):
    if not isinstance(value, types.Float):
        return lambda value, how: False
    number, bits, _, _ = _parts_of(value)
    worse = number(0) if BETTER[step_of(how, "total")](0, 1) else number(-0.0)
    return lambda value, how: number(value).view(bits) == number(worse).view(bits)


def _parts_of(total):
    """Of a type of floats: its class, that of integers of its size, the place of its sign, the largest such integer."""
    number, bits = (np.float32, np.int32) if total.bitwidth == 32 else (np.float64, np.int64)
    return number, bits, bits(total.bitwidth - 1), bits(np.iinfo(bits).max)


def _run_over(take):
    """The join of `count` elements of which `take` makes totals, `step` apart, and the same for sums of floats."""

    @inlined
    def in_turn(values, first, count, step, how):
        total = how.total.nothing
        for i in range(count):
            total = join(total, take(values[np.uint64(first + i * step)], how), how)
        return total

    @inlined
    def in_lanes(values, first, count, step, how):
        if step > 1:
            return in_turn(values, first, count, step, how)
        total, done = sum_of_lanes(behind(values, first), count // LANES), count // LANES * LANES
        for i in range(np.uint64(first + done), np.uint64(first + count)):
            total += take(values[i], how)
        return total

    def choose(values, first, count, step, how):
        if _fills_lanes(how) and isinstance(values.dtype, types.Float):
            return lambda values, first, count, step, how: in_lanes(values, first, count, step, how)
        return lambda values, first, count, step, how: in_turn(values, first, count, step, how)

    return choose


def _fills_lanes(how):
    """Whether totals are sums of floats, which are added in lanes."""
    return step_of(how, "total") is names.Sum and isinstance(_total_type(how), types.Float)


def lanes_of(are_neighbours, how):
    """In how many sums the elements of a run are added, every so many in one."""
    raise NotImplementedError


@overload(lanes_of, jit_options=INLINED)
def _lanes_of(are_neighbours, how):
    if _fills_lanes(how):
        return lambda are_neighbours, how: LANES if are_neighbours else 1
    return lambda are_neighbours, how: 1


def divides(how):
    """Whether totals are divided."""
    raise NotImplementedError


@overload(divides, jit_options=INLINED)
def _divides(how):
    found = step_of(how, "result") not in (names.Itself, names.Element, names.Negated, names.Shift, names.Scaled)
    return lambda how: found


def is_own_total(how):
    """Whether elements can be added as they are read, or need no lanes."""
    raise NotImplementedError


@overload(is_own_total, jit_options=INLINED)
def _is_own_total(how):
    own = step_of(how, "read") is names.Plain and step_of(how, "term") is names.Itself
    found = own or not _fills_lanes(how)
    return lambda how: found


def join_elements(values, first, count, step, how):
    """The total of `count` elements, `step` apart."""
    raise NotImplementedError


def join_totals(values, first, count, step, how):
    """The total of `count` totals, `step` apart."""
    raise NotImplementedError


# Inlined by force: the mean of 7x7 elements took a tenth longer where runs were calls.
overload(join_elements, jit_options=INLINED)(_run_over(njit(lambda raw, how: lift(raw, how), **INLINED)))
overload(join_totals, jit_options=INLINED)(_run_over(itself))
