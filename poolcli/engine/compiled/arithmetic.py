"""What kernels do with numbers, as a record of named steps: each name is a type of its own, so that each combination is
compiled for itself (`numbers` says what the steps do).

An element is read, a term is made of it, terms are joined to a total, a result is made of the total, a root taken of
that, and written.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.choose import largest_divisor
from poolcli.errors import RequestError
from poolcli.plan import Plan
from poolcli.windows import AxisWindows, Bins

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scalar = np.generic


class Plain(NamedTuple):
    """Numbers are stored as they are."""


class Float16Bits(NamedTuple):
    """Numbers of float16 are stored by their bits in an int16."""


class BFloat16Bits(NamedTuple):
    """Numbers of bfloat16 are stored by their bits in a uint16."""


class Itself(NamedTuple):
    """A number as it is."""


class Size(NamedTuple):
    """A number without its sign."""


class Square(NamedTuple):
    """A number times itself."""


class Power(NamedTuple):
    """A number to a power; nan of a negative one where the power is not whole."""

    power: float


class PowerOfSize(NamedTuple):
    """A number without its sign to a power."""

    power: float


class Negated(NamedTuple):
    """A number with its sign turned."""


class Sum(NamedTuple):
    """Terms are added, in the type of `nothing`."""

    nothing: Scalar


class SumWithError(NamedTuple):
    """Terms of float64 are added, and so are the errors of the additions; a complex number holds both."""

    nothing: Scalar


class Largest(NamedTuple):
    """The largest term wins, NaN over every number."""

    nothing: Scalar


class Smallest(NamedTuple):
    """The smallest term wins, NaN over every number."""

    nothing: Scalar


class SmallestBits(NamedTuple):
    """The smallest term wins, NaN over every number, by the bits of both answers of a comparison."""

    nothing: Scalar


class MostOften(NamedTuple):
    """The term that occurs most often wins, the smallest of several; votes are counted from `nothing`, 0."""

    nothing: Scalar


class Element(NamedTuple):
    """The total, with one NaN for all of them."""


class Quotient(NamedTuple):
    """The total over the divisor."""


class Scaled(NamedTuple):
    """The quotient by the one divisor of all totals, a power of two: the total times its reciprocal, which has the same
    bits.
    """


class ByReciprocal(NamedTuple):
    """The quotient from a product with the reciprocal of the divisor, put right by what is left over: the same bits."""


class HalfEven(NamedTuple):
    """The nearest integer to the quotient, of two the even one, computed in the type of the divisor."""


class Shift(NamedTuple):
    """The nearest integer to the quotient by 2**bits, of two the even one, computed in the type of totals."""

    bits: int


class NearestQuotient(NamedTuple):
    """The quotient of a total that float64 may not hold, rounded to the nearest float64."""


class OddQuotient(NamedTuple):
    """The quotient rounded to odd, for a type that is shorter than float64 (`engine/rounding.py`)."""


class OfKernel(NamedTuple):
    """The quotient times the elements of a whole kernel."""

    elements: float


class SquareRoot(NamedTuple):
    """The square root."""


class Root(NamedTuple):
    """The root of any power."""

    power: float


class Arithmetic(NamedTuple):
    """From elements to what is stored."""

    read: Plain | Float16Bits | BFloat16Bits
    term: Itself | Negated | Size | Square | Power | PowerOfSize
    total: Sum | SumWithError | Largest | Smallest | SmallestBits | MostOften
    result: (
        Itself
        | Element
        | Negated
        | Quotient
        | Scaled
        | ByReciprocal
        | NearestQuotient
        | OddQuotient
        | HalfEven
        | Shift
        | OfKernel
    )
    root: Itself | SquareRoot | Root
    write: Plain | Float16Bits | BFloat16Bits


class Computed(NamedTuple):
    """An arithmetic, and as which types kernels see what they store and what they divide by."""

    how: Arithmetic
    made: np.dtype[Any]
    divisor: np.dtype[Any]


BEST: dict[Any, type[Largest | Smallest]] = {operator.gt: Largest, operator.lt: Smallest}
STORED: dict[str, Plain | Float16Bits | BFloat16Bits] = {"float16": Float16Bits(), "bfloat16": BFloat16Bits()}
SEEN_AS = {"bool": "uint8", "float16": "int16", "bfloat16": "uint16"}  # the types that kernels do not know
EXACT_32, EXACT_64 = 2**23, 2**52  # below, a quotient that is no half is further from one than it is rounded by
SMALL = 2**24  # below, no quotient by an integer is nearer to the middle of two floats than 2**-25 of their distance
NONE = np.dtype(np.int8)  # of divisors that nothing is divided by


def seen_as(dtype: str) -> np.dtype[Any]:
    """As which type kernels see numbers of a type."""
    return np.dtype(SEEN_AS.get(dtype, dtype))


def compute(plan: Plan, longest: int, indices: bool = False) -> Computed:
    """How the numbers of a plan are computed whose windows hold up to `longest` elements."""
    if plan.reducer.better is not None or plan.reducer.votes:
        computed = _element(plan)
        is_float = lookup(plan.dtype).kind == "float" and not plan.reducer.votes
        return computed._replace(how=_by_bits(computed.how)) if is_float and not indices else computed
    if plan.reducer.adds and plan.reducer.power is not None:
        return _root(plan)
    if not (plan.reducer.adds and plan.reducer.divides):
        raise RequestError(f"the numba engine does not know the reducer {plan.reducer.name!r}")
    return _float_mean(plan) if lookup(plan.dtype).kind == "float" else _integer_mean(plan, longest)


def _element(plan: Plan) -> Computed:
    """One of the elements as it is."""
    stored, reducer = STORED.get(plan.dtype, Plain()), plan.reducer
    dtype = seen_as(plan.dtype) if isinstance(stored, Plain) else np.dtype(np.float32)
    lowest = lookup(plan.dtype).ends[reducer.nothing]
    total = MostOften(dtype.type(0)) if reducer.votes else BEST[reducer.better](dtype.type(lowest))
    if plan.output_dtype == plan.dtype:
        return Computed(Arithmetic(stored, Itself(), total, Itself(), Itself(), stored), seen_as(plan.dtype), NONE)
    return Computed(Arithmetic(stored, Itself(), total, Itself(), Itself(), Plain()), dtype, NONE)


def _by_bits(how: Arithmetic) -> Arithmetic:
    """The best of floats in three operations where a comparison that minds NaN and the signs of zeros takes seven:
    maxima are minima of negated numbers.
    """
    if isinstance(how.total, Smallest):
        return how._replace(total=SmallestBits(how.total.nothing), result=Element())
    return how._replace(term=Negated(), total=SmallestBits(np.negative(how.total.nothing)), result=Negated())


def _sum_of_floats(plan: Plan) -> Sum | SumWithError:
    """Sums in float64, with their errors where float64 itself is read or made."""
    wide = "float64" in (plan.dtype, plan.output_dtype)
    return SumWithError(np.complex128(0)) if wide else Sum(np.float64(0))


def _float_mean(plan: Plan) -> Computed:
    read, write = (STORED.get(dtype, Plain()) for dtype in (plan.dtype, plan.output_dtype))
    total = _sum_of_floats(plan)
    is_twice = isinstance(total, SumWithError) or largest_divisor(plan) >= SMALL
    result = OddQuotient() if plan.output_dtype != "float64" and is_twice else Quotient()
    how = Arithmetic(read, Itself(), total, result, Itself(), write)
    return Computed(how, seen_as(plan.output_dtype), np.dtype(np.float64))


def _integer_mean(plan: Plan, longest: int) -> Computed:
    source, target = lookup(plan.dtype), lookup(plan.output_dtype)
    bits = _divisor_bits(plan) if target.is_integer else None
    largest = max(map(abs, source.limits)) * longest + (1 << bits if bits else 0)
    total = Sum(np.int16(0) if largest < 2**15 else np.int32(0) if largest < 2**31 else np.int64(0))
    made = seen_as(target.name)
    if target.kind == "float":
        write = STORED.get(target.name, Plain())
        result: Any = Quotient()
        if largest >= EXACT_64 or (target.bits < 64 and largest_divisor(plan) >= SMALL):
            result = NearestQuotient() if target.bits == 64 else OddQuotient()
        how = Arithmetic(Plain(), Itself(), total, result, Itself(), write)
        return Computed(how, made, np.dtype(np.float64))
    if bits is not None:
        return Computed(
            Arithmetic(Plain(), Itself(), total, Shift(bits) if bits else Itself(), Itself(), Plain()), made, NONE
        )
    largest = max(largest, largest_divisor(plan))
    divisor = np.float32 if largest < EXACT_32 else np.float64 if largest < EXACT_64 else np.int64
    return Computed(Arithmetic(Plain(), Itself(), total, HalfEven(), Itself(), Plain()), made, np.dtype(divisor))


def scaled(how: Arithmetic, plan: Plan) -> Arithmetic:
    """The same by a product for a quotient where that gives the same bits."""
    is_quotient = isinstance(how.result, Quotient) and isinstance(how.total, Sum)
    return how._replace(result=Scaled()) if is_quotient and _divisor_bits(plan) is not None else how


def by_reciprocal(how: Arithmetic, plan: Plan) -> Arithmetic:
    """The same without a division, which takes as long as twenty additions, where divisors are small."""
    is_small = (plan.divisor_override or 1) > 0 and largest_divisor(plan) < SMALL
    return how._replace(result=ByReciprocal()) if isinstance(how.result, Quotient) and is_small else how


def _divisor_bits(plan: Plan) -> int | None:
    """Of the one divisor of all sums, the power of two; None where there are several, or it is no such power."""
    factors = [lengths_of(windows)[1] for windows in plan.windows]
    if plan.divisor_override is None and any((factor != factor[0]).any() for factor in factors):
        return None
    divisor = plan.divisor_override or prod(int(factor[0]) for factor in factors)
    return divisor.bit_length() - 1 if divisor > 0 and divisor & (divisor - 1) == 0 else None


def lengths_of(windows: AxisWindows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths that windows of an axis have, and their factors of the divisor, each at least once.

    Windows are looked at where they reach over a border, and one of the others: an axis may be long.
    """
    if isinstance(windows, Bins):
        return np.array(windows.lengths), np.array(windows.lengths)
    inner = windows.interior
    first, behind = min(inner.start + 1, inner.stop), np.arange(inner.stop, windows.output)
    outputs = np.concatenate([np.arange(first), behind])
    return windows.inside(outputs), windows.divisor(outputs)


def _root(plan: Plan) -> Computed:
    read, write = (STORED.get(dtype, Plain()) for dtype in (plan.dtype, plan.output_dtype))
    power, signed = float(plan.reducer.power or 1), plan.reducer.signed
    term: Any = Power(power) if signed else PowerOfSize(power)
    if power in (1, 2):
        term = Square() if power == 2 else Itself() if signed else Size()
    root: Any = SquareRoot() if power == 2 else Itself() if power == 1 else Root(power)
    kernel = float(prod(windows.longest for windows in plan.windows))
    result: Any = OfKernel(kernel) if plan.reducer.divides else Itself()
    how = Arithmetic(read, term, _sum_of_floats(plan), result, root, write)
    return Computed(how, seen_as(plan.output_dtype), np.dtype(np.float64))
