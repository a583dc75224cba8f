"""What kernels do with numbers, as a record of named steps, which are constants of a kernel.

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
from poolcli.windows import AxisWindows, Bins, Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scalar = np.generic


class Arithmetic(NamedTuple):
    """From elements to what is stored: each step by a word, "" for none (`numbers` and `results` have the functions).

    read, write: "float16" or "bfloat16", which kernels see by their bits.
    term: "negated", "size" (without its sign), "square", "power" or "powerofsize".
    total: "sum"; "sumwitherror", of float64, whose total is a complex number of the sum and of the errors of the
    additions; "largest", "smallest", of integers; "smallestbits", of floats; "mostoften"; "moments" and "deviations",
    which make standard deviations; "median".
    nothing: what a window of no elements gives, of the type of totals.
    result: "element" or "negated", with one NaN for all; "quotient"; "byreciprocal", the quotient from a product with
    the reciprocal of the divisor, put right by what is left over; "scaled", the quotient by the one divisor of all
    totals, a power of two, as a product; "halfeven", the integer nearest to the quotient, computed in the type of the
    divisor; "shift", the same by 2**bits in the type of totals; "nearest" and "odd", the quotient of a total that
    float64 may not hold, rounded to the nearest or to odd (`engine/rounding.py`); "ofkernel", the quotient times the
    elements of a whole kernel.
    power: that of terms; root: that of the root which is taken of the result, 1 for none.
    ddof: how much less than the number of elements a standard deviation is divided by.
    """

    total: str
    nothing: Scalar
    read: str = ""
    term: str = ""
    result: str = ""
    write: str = ""
    power: float = 1
    root: float = 1
    bits: int = 0
    ddof: float = 0

    @property
    def words(self) -> list[str]:
        """What tells it from others, as parts of a kernel's name."""
        steps = self.read, self.term, self.total, self.nothing.dtype.name, self.result, self.write
        numbers = ("power", self.power, 1), ("root", self.root, 1), ("bits", self.bits, 0), ("ddof", self.ddof, 0)
        return [*filter(None, steps), *(f"{name}{value}" for name, value, none in numbers if value != none)]

    @property
    def sums_floats(self) -> bool:
        """Whether totals are sums in float64."""
        return self.total == "sum" and self.nothing.dtype.kind == "f"


class Computed(NamedTuple):
    """An arithmetic, and as which types kernels see what they store and what they divide by."""

    how: Arithmetic
    made: np.dtype[Any]
    divisor: np.dtype[Any]


BEST: dict[Any, str] = {operator.gt: "largest", operator.lt: "smallest"}
SHORT_FLOATS = ("float16", "bfloat16")
SEEN_AS = {"bool": "uint8", "float16": "int16", "bfloat16": "uint16"}  # the types that kernels do not know
EXACT_32, EXACT_64 = 2**23, 2**52  # below, a quotient that is no half is further from one than it is rounded by
LARGEST_SUM = 2**62  # in size; sums of int64 and uint64 that may be larger are computed by numpy
SMALL = 2**24  # below, no quotient by an integer is nearer to the middle of two floats than 2**-25 of their distance
NONE = np.dtype(np.int8)  # of divisors that nothing is divided by


def seen_as(dtype: str) -> np.dtype[Any]:
    """As which type kernels see numbers of a type."""
    return np.dtype(SEEN_AS.get(dtype, dtype))


def compute(plan: Plan, longest: int) -> Computed:
    """How the numbers of a plan are computed whose windows hold up to `longest` elements."""
    if plan.reducer.better is not None or plan.reducer.votes:
        return _element(plan)
    if plan.reducer.statistic == "deviation":
        return _deviation(plan, longest)
    if plan.reducer.statistic == "median":
        return _median(plan)
    if plan.reducer.adds and plan.reducer.power is not None:
        return _root(plan)
    if not plan.reducer.adds:
        raise RequestError(f"the numba engine does not know the reducer {plan.reducer.name!r}")
    return _float_mean(plan) if lookup(plan.dtype).kind == "float" else _integer_mean(plan, longest)


def _element(plan: Plan) -> Computed:
    """One of the elements as it is. The best of floats takes three operations where a comparison that minds NaN and the
    signs of zeros takes seven: maxima are minima of negated numbers.
    """
    stored, reducer = _stored(plan.dtype), plan.reducer
    dtype = np.dtype(np.float32) if stored else seen_as(plan.dtype)
    nothing = dtype.type(0) if reducer.votes else dtype.type(lookup(plan.dtype).ends[reducer.nothing])
    is_own = plan.output_dtype == plan.dtype
    how = Arithmetic("mostoften" if reducer.votes else BEST[reducer.better], nothing, stored)
    if lookup(plan.dtype).kind == "float" and not reducer.votes:
        is_largest = how.total == "largest"
        how = how._replace(total="smallestbits", result="element")
        if is_largest:
            how = how._replace(term="negated", nothing=np.negative(nothing), result="negated")
    return Computed(how._replace(write=stored if is_own else ""), seen_as(plan.dtype) if is_own else dtype, NONE)


def _stored(dtype: str) -> str:
    """The word for how numbers of a type are read and written."""
    return dtype if dtype in SHORT_FLOATS else ""


def _sum_of_floats(plan: Plan) -> Arithmetic:
    """Sums in float64, with their errors where float64 itself is read or made."""
    is_wide = "float64" in (plan.dtype, plan.output_dtype)
    total, nothing = ("sumwitherror", np.complex128(0)) if is_wide else ("sum", np.float64(0))
    return Arithmetic(total, nothing, _stored(plan.dtype), write=_stored(plan.output_dtype))


def _float_mean(plan: Plan) -> Computed:
    how = _sum_of_floats(plan)
    is_twice = how.total == "sumwitherror" or largest_divisor(plan) >= SMALL
    how = how._replace(result="odd" if plan.output_dtype != "float64" and is_twice else "quotient")
    return Computed(how, seen_as(plan.output_dtype), np.dtype(np.float64))


def _integer_mean(plan: Plan, longest: int) -> Computed:
    """Sums of 64-bit integers are computed here where they stay below LARGEST_SUM."""
    source, target = lookup(plan.dtype), lookup(plan.output_dtype)
    bits = _divisor_bits(plan) if target.is_integer else None
    largest = min(max(map(abs, source.limits)) * longest, LARGEST_SUM) + (1 << bits if bits else 0)
    how = Arithmetic("sum", np.int16(0) if largest < 2**15 else np.int32(0) if largest < 2**31 else np.int64(0))
    made = seen_as(target.name)
    if target.kind == "float":
        result = "quotient"
        if largest >= EXACT_64 or (target.bits < 64 and largest_divisor(plan) >= SMALL):
            result = "nearest" if target.bits == 64 else "odd"
        return Computed(how._replace(result=result, write=_stored(target.name)), made, np.dtype(np.float64))
    if bits is not None:
        return Computed(how._replace(result="shift" if bits else "", bits=bits), made, NONE)
    largest = max(largest, largest_divisor(plan))
    divisor = np.float32 if largest < EXACT_32 else np.float64 if largest < EXACT_64 else np.int64
    return Computed(how._replace(result="halfeven"), made, np.dtype(divisor))


def without_division(how: Arithmetic, plan: Plan) -> Arithmetic:
    """The same without a division, which takes as long as twenty additions, where that gives the same bits."""
    if how.result != "quotient":
        return how
    if how.total == "sum" and _divisor_bits(plan) is not None:
        return how._replace(result="scaled")
    is_small = (plan.divisor_override or 1) > 0 and largest_divisor(plan) < SMALL
    return how._replace(result="byreciprocal") if is_small else how


def _divisor_bits(plan: Plan) -> int | None:
    """Of the one divisor of all sums, the power of two; None where there are several, or it is no such power."""
    if plan.reducer.is_sum:
        return 0
    factors = [lengths_of(windows)[1] for windows in plan.windows]
    if plan.divisor_override is None and any((factor != factor[0]).any() for factor in factors):
        return None
    divisor = plan.divisor_override or prod(int(factor[0]) for factor in factors)
    return divisor.bit_length() - 1 if divisor > 0 and divisor & (divisor - 1) == 0 else None


def lengths_of(windows: AxisWindows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths that windows of an axis have, and their factors of the divisor, each at least once.

    Windows are looked at where they reach over a border, and one of the others: an axis may be long.
    """
    if isinstance(windows, Cells):
        return np.array(windows.lengths), np.array([windows.largest_divisor] * 2)
    if isinstance(windows, Bins):
        return np.array(windows.lengths), np.array(windows.lengths)
    inner = windows.interior
    first, behind = min(inner.start + 1, inner.stop), np.arange(inner.stop, windows.output)
    outputs = np.concatenate([np.arange(first), behind])
    return windows.inside(outputs), windows.divisor(outputs)


def _median(plan: Plan) -> Computed:
    dtype = np.dtype(np.float32) if _stored(plan.dtype) else seen_as(plan.dtype)
    how = Arithmetic("median", dtype.type(0), _stored(plan.dtype), write=_stored(plan.output_dtype))
    return Computed(how, seen_as(plan.output_dtype), NONE)


def _deviation(plan: Plan, longest: int) -> Computed:
    """Standard deviations: of short integers from exact sums, of others in two passes in float64."""
    total: str = "deviations"
    nothing: Scalar = np.float64(0)
    if plan.has_exact_squares:
        largest = longest * max(map(abs, lookup(plan.dtype).limits))
        total, nothing = "moments", np.int32(0) if largest**2 < 2**31 else np.int64(0)
    write, ddof = _stored(plan.output_dtype), float(plan.reducer.ddof)
    how = Arithmetic(total, nothing, _stored(plan.dtype), write=write, ddof=ddof)
    return Computed(how, seen_as(plan.output_dtype), NONE)


def _root(plan: Plan) -> Computed:
    power, signed = float(plan.reducer.power or 1), plan.reducer.signed
    term = "power" if signed else "powerofsize"
    if power in (1, 2):
        term, power_of_terms = "square" if power == 2 else "" if signed else "size", 1.0
    else:
        power_of_terms = power
    result = "ofkernel" if plan.reducer.divides else ""
    how = _sum_of_floats(plan)._replace(term=term, result=result, power=power_of_terms, root=power)
    return Computed(how, seen_as(plan.output_dtype), np.dtype(np.float64))
