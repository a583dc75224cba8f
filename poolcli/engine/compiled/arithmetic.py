"""The arithmetic of a kernel: the steps from the elements of a window to its output, chosen for a plan.

A kernel reads an element, converts it to a term, combines the terms of a window in an accumulator, computes the result
from that, takes the root of the result, and writes it. `operations.py` and `finish.py` compile these steps.
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

SHORT_FLOATS = ("float16", "bfloat16")
KERNEL_DTYPES = {"bool": "uint8", "float16": "int16", "bfloat16": "uint16"}  # of types that LLVM or numba lack
EXACT_32, EXACT_64 = 2**23, 2**52  # of smaller totals, a float32 or float64 quotient is a half only if the exact one is
LARGEST_SUM = 2**62  # magnitude; sums of int64 and uint64 that may be larger are computed by numpy
SMALL = 2**24  # quotients by smaller integers are no nearer than 2**-25 of their distance to the middle of two floats
NO_DIVISOR = np.dtype(np.int8)


class Arithmetic(NamedTuple):
    """The steps of a kernel, each a word ("" for none), and the types between them. All are constants of the kernel.

    Parameters
    ----------
    accumulator
        "sum" (of integers or float64); "sum_with_error" (float64 with the sum of its rounding errors, as complex128);
        "max" and "min" of integers; "float_min", the IEEE 754-2019 minimum; "mode"; "median"; "exact_deviation" (from
        sums of integers and of their squares) and "deviation" (in two passes).
    identity
        The accumulator of an empty window, in the type of accumulators.
    output
        The type that is stored.
    divisor
        The type of divisors, or NO_DIVISOR.
    read, write
        "float16" or "bfloat16": kernels see these types as integers of 16 bits.
    term
        "negated", "abs", "square", "power" or "abs_power".
    result
        "element" or "negated", with the standard NaN; "quotient"; "by_reciprocal", the quotient, which may be computed
        with the reciprocal of the divisor; "scaled", the product with the reciprocal of a divisor that is a power of
        two; "half_even", the nearest integer to the quotient, computed in the type of the divisor; "shift", the same
        for a divisor 2**bits; "nearest" and "odd", the quotient of a total that float64 may not hold, rounded to
        nearest or to odd (`engine/rounding.py`); "times_kernel", the quotient times the number of elements of a whole
        kernel.
    power, root
        The exponent of terms, and the degree of the root that is taken of the result (1: none).
    ddof
        Delta degrees of freedom of standard deviations, as in numpy.std.
    """

    accumulator: str
    identity: Scalar
    output: np.dtype[Any]
    divisor: np.dtype[Any] = NO_DIVISOR
    read: str = ""
    term: str = ""
    result: str = ""
    write: str = ""
    power: float = 1
    root: float = 1
    bits: int = 0
    ddof: float = 0

    @property
    def steps(self) -> list[str]:
        """The steps as words, which are parts of the name of a kernel."""
        steps = self.read, self.term, self.accumulator, self.identity.dtype.name, self.result, self.write
        numbers = ("power", self.power, 1), ("root", self.root, 1), ("bits", self.bits, 0), ("ddof", self.ddof, 0)
        return [*filter(None, steps), *(f"{name}{value}" for name, value, none in numbers if value != none)]

    @property
    def is_float_sum(self) -> bool:
        """Whether accumulators are sums in float64, without their rounding errors."""
        return self.accumulator == "sum" and self.identity.dtype.kind == "f"


def kernel_dtype(dtype: str) -> np.dtype[Any]:
    """The type as which kernels see elements of `dtype`."""
    return np.dtype(KERNEL_DTYPES.get(dtype, dtype))


def arithmetic_for(plan: Plan, longest: int) -> Arithmetic:
    """The arithmetic of a plan whose windows have up to `longest` elements."""
    if plan.reducer.better is not None or plan.reducer.votes:
        return _selection(plan)
    if plan.reducer.statistic == "deviation":
        return _deviation(plan, longest)
    if plan.reducer.statistic == "median":
        return _median(plan)
    if plan.reducer.adds and plan.reducer.power is not None:
        return _norm(plan)
    if not plan.reducer.adds:
        raise RequestError(f"the numba engine does not know the reducer {plan.reducer.name!r}")
    return _float_mean(plan) if lookup(plan.dtype).kind == "float" else _integer_mean(plan, longest)


def _selection(plan: Plan) -> Arithmetic:
    """An element of each window: its maximum, minimum or mode.

    Maxima of floats are minima of negated numbers: `float_min` takes three operations, where a comparison that handles
    NaN and signed zeros takes seven.
    """
    stored, reducer = _short_float(plan.dtype), plan.reducer
    dtype = np.dtype(np.float32) if stored else kernel_dtype(plan.dtype)
    identity = dtype.type(0) if reducer.votes else dtype.type(lookup(plan.dtype).ends[reducer.nothing])
    is_same_type = plan.output_dtype == plan.dtype
    output, write = (kernel_dtype(plan.dtype), stored) if is_same_type else (dtype, "")
    found, is_max = Arithmetic("mode", identity, output, read=stored, write=write), reducer.better is operator.gt
    if reducer.votes:
        return found
    if lookup(plan.dtype).kind != "float":
        return found._replace(accumulator="max" if is_max else "min")
    if not is_max:
        return found._replace(accumulator="float_min", result="element")
    return found._replace(accumulator="float_min", identity=-identity, term="negated", result="negated")


def _short_float(dtype: str) -> str:
    """The word for reading and writing elements of `dtype`."""
    return dtype if dtype in SHORT_FLOATS else ""


def _reduction(plan: Plan, accumulator: str, identity: Scalar) -> Arithmetic:
    """Elements of the plan's type combined to an output of its type, without further steps."""
    read, write = _short_float(plan.dtype), _short_float(plan.output_dtype)
    return Arithmetic(accumulator, identity, kernel_dtype(plan.output_dtype), read=read, write=write)


def _float_sum(plan: Plan) -> Arithmetic:
    """Sums in float64, with their rounding errors if float64 is read or written."""
    has_errors = "float64" in (plan.dtype, plan.output_dtype)
    accumulator, identity = ("sum_with_error", np.complex128(0)) if has_errors else ("sum", np.float64(0))
    return _reduction(plan, accumulator, identity)._replace(divisor=np.dtype(np.float64))


def _float_mean(plan: Plan) -> Arithmetic:
    total = _float_sum(plan)
    rounds_twice = total.accumulator == "sum_with_error" or largest_divisor(plan) >= SMALL
    return total._replace(result="odd" if plan.output_dtype != "float64" and rounds_twice else "quotient")


def _integer_mean(plan: Plan, longest: int) -> Arithmetic:
    """Means of integers; the sums of 64-bit integers must stay below LARGEST_SUM."""
    source, target = lookup(plan.dtype), lookup(plan.output_dtype)
    bits = _divisor_bits(plan) if target.is_integer else None
    largest = min(max(map(abs, source.limits)) * longest, LARGEST_SUM) + (1 << bits if bits else 0)
    identity = np.int16(0) if largest < 2**15 else np.int32(0) if largest < 2**31 else np.int64(0)
    total = _reduction(plan, "sum", identity)
    if target.kind == "float":
        result = "quotient"
        if largest >= EXACT_64 or (target.bits < 64 and largest_divisor(plan) >= SMALL):
            result = "nearest" if target.bits == 64 else "odd"
        return total._replace(divisor=np.dtype(np.float64), result=result)
    if bits is not None:
        return total._replace(result="shift" if bits else "", bits=bits)
    divisor = np.float32 if largest < EXACT_32 else np.float64 if largest < EXACT_64 else np.int64
    return total._replace(divisor=np.dtype(divisor), result="half_even")


def without_division(arithmetic: Arithmetic, plan: Plan) -> Arithmetic:
    """The arithmetic without a division, which takes as long as twenty additions, where that gives the same bits."""
    if arithmetic.result != "quotient":
        return arithmetic
    if arithmetic.accumulator == "sum" and _divisor_bits(plan) is not None:
        return arithmetic._replace(result="scaled")
    is_small = (plan.divisor_override or 1) > 0 and largest_divisor(plan) < SMALL
    return arithmetic._replace(result="by_reciprocal") if is_small else arithmetic


def _divisor_bits(plan: Plan) -> int | None:
    """log2 of the divisor; None if outputs have different divisors, or theirs is no power of two."""
    if plan.reducer.is_sum:
        return 0
    factors = [distinct_windows(windows)[1] for windows in plan.windows]
    if plan.divisor_override is None and any((factor != factor[0]).any() for factor in factors):
        return None
    divisor = plan.divisor_override or prod(int(factor[0]) for factor in factors)
    return divisor.bit_length() - 1 if divisor > 0 and divisor & (divisor - 1) == 0 else None


def distinct_windows(windows: AxisWindows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of the windows of an axis and their divisors, each distinct one at least once.

    Only windows that cross a border and one interior window are computed, because an axis may be long.
    """
    if isinstance(windows, Cells):
        return np.array(windows.lengths), np.array([windows.largest_divisor] * 2)
    if isinstance(windows, Bins):
        return np.array(windows.lengths), np.array(windows.lengths)
    inner = windows.interior
    first, last = min(inner.start + 1, inner.stop), np.arange(inner.stop, windows.output)
    outputs = np.concatenate([np.arange(first), last])
    return windows.inside(outputs), windows.divisor(outputs)


def _median(plan: Plan) -> Arithmetic:
    dtype = np.dtype(np.float32) if _short_float(plan.dtype) else kernel_dtype(plan.dtype)
    return _reduction(plan, "median", dtype.type(0))


def _deviation(plan: Plan, longest: int) -> Arithmetic:
    """Standard deviations: of short integers from exact sums, of others in two passes in float64."""
    accumulator: str = "deviation"
    identity: Scalar = np.float64(0)
    if plan.has_exact_squares:
        largest = longest * max(map(abs, lookup(plan.dtype).limits))
        accumulator, identity = "exact_deviation", np.int32(0) if largest**2 < 2**31 else np.int64(0)
    return _reduction(plan, accumulator, identity)._replace(ddof=float(plan.reducer.ddof))


def _norm(plan: Plan) -> Arithmetic:
    """Roots of sums of powers."""
    exponent, signed = float(plan.reducer.power or 1), plan.reducer.signed
    term, power = "power" if signed else "abs_power", exponent
    if exponent in (1, 2):
        term, power = "square" if exponent == 2 else "" if signed else "abs", 1.0
    result = "times_kernel" if plan.reducer.divides else ""
    return _float_sum(plan)._replace(term=term, result=result, power=power, root=exponent)
