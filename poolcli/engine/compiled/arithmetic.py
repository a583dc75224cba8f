"""The arithmetic of a kernel: the steps from the elements of a window to its output, chosen for a plan.

A kernel reads an element, lifts it to a total, joins the totals of a window, and stores the quotient of that or what
else the operator makes of it. `operations.py` compiles these steps.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.choose import largest_divisor
from poolcli.plan import Plan
from poolcli.windows import AxisWindows, Bins, Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORT_FLOATS = ("float16", "bfloat16")
KERNEL_DTYPES = {"bool": "uint8", "float16": "int16", "bfloat16": "uint16"}  # of types that LLVM or numba lack
EXACT_32, EXACT_64 = 2**23, 2**52  # of smaller totals, a float32 or float64 quotient is a half only if the exact one is
LARGEST_SUM = 2**62  # magnitude; sums of int64 and uint64 that may be larger are computed by numpy
SMALL = 2**24  # quotients by smaller integers are no nearer than 2**-25 of their distance to the middle of two floats


class Arithmetic(NamedTuple):
    """The steps of a kernel, each a word ("" for none), and the types between them. All are constants of the kernel."""

    # "sum" (of integers or float64); "sum_with_error" (float64 with the sum of its rounding errors, as complex128);
    # "sum_and_squares" (exact, as complex128, or of bytes as int64, the squares in the upper half); "max" and "min", of
    # floats those of IEEE 754-2019; "mode"; "median"; "deviation" (in two passes).
    total: str
    identity: np.generic  # the total of an empty window, in the type of totals
    output: np.dtype[Any]  # the type that is stored
    read: str = ""  # "float16" or "bfloat16": kernels see these types as integers of 16 bits
    term: str = ""  # "abs", "square" or "negated"
    # "element", with the standard NaN; "negated", the same, negated; "quotient"; "scaled", the product with the
    # reciprocal of a power of two; "half_even_float32", "_float64" and "_int64", the nearest integer to the quotient,
    # computed in that type; "shift", the same for a divisor 2**bits; "nearest" and "odd", the quotient of a total that
    # float64 may not hold, rounded to nearest or to odd (`engine/numpy/sums.py`); "times", the quotient times `times`;
    # "deviation".
    result: str = ""
    write: str = ""  # as `read`
    root: bool = False  # whether the square root is taken of the result
    bits: int = 0
    times: int = 1
    ddof: float = 0  # delta degrees of freedom, as in numpy.std

    @property
    def name(self) -> str:
        """All of it, as a part of the name of a kernel."""
        words = self.read, self.term, self.total, self.identity.dtype.name, self.result, self.write
        numbers = ("root", self.root, 0), ("bits", self.bits, 0), ("ddof", self.ddof, 0), ("times", self.times, 1)
        more = [f"{name}{value}" for name, value, none in numbers if value != none]
        return "-".join([*filter(None, words), *more, self.output.name])

    @property
    def divides(self) -> bool:
        """Whether outputs are divided by the divisors of their windows."""
        return self.result not in ("", "element", "negated", "shift")


def kernel_dtype(dtype: str) -> np.dtype[Any]:
    """The type as which kernels see elements of `dtype`."""
    return np.dtype(KERNEL_DTYPES.get(dtype, dtype))


def arithmetic_for(plan: Plan, is_small: bool) -> Arithmetic:
    """The arithmetic of a plan; if `is_small`, without special divisors and types, so that one kernel serves all."""
    reducer, is_float = plan.reducer, lookup(plan.dtype).kind == "float"
    longest = prod(windows.longest for windows in plan.windows)
    if reducer.result == "element":
        return _selection(plan)
    if reducer.result == "deviation":
        ddof = float(reducer.ddof)
        if plan.has_exact_squares:
            identity = np.int64(0) if lookup(plan.dtype).bits <= 8 else np.complex128(0)
            return _of_plan(plan, "sum_and_squares", identity, result="deviation", ddof=ddof)
        return _of_plan(plan, "deviation", np.float64(0), ddof=ddof)
    if reducer.statistic:
        return _of_plan(plan, reducer.statistic, _comparable(plan).type(0))
    if is_float or reducer.power is not None:
        return _float_sum(plan, is_small)
    return _integer_mean(plan, max(longest, largest_divisor(plan)) if plan.is_weighted else longest, is_small)


def _comparable(plan: Plan) -> np.dtype[Any]:
    """The type in which elements are compared."""
    return np.dtype(np.float32) if plan.dtype in SHORT_FLOATS else kernel_dtype(plan.dtype)


def _of_plan(plan: Plan, total: str, identity: np.generic, **more: Any) -> Arithmetic:
    read, write = (dtype if dtype in SHORT_FLOATS else "" for dtype in (plan.dtype, plan.output_dtype))
    return Arithmetic(total, identity, kernel_dtype(plan.output_dtype), read=read, write=write, **more)


def _selection(plan: Plan) -> Arithmetic:
    """An element of each window: its maximum, minimum or mode. Numpy converts elements that become another type."""
    dtype, reducer, is_float = _comparable(plan), plan.reducer, lookup(plan.dtype).kind == "float"
    total = reducer.statistic or ("max" if reducer.better is operator.gt else "min")
    identity = dtype.type(0 if reducer.statistic else lookup(plan.dtype).ends[reducer.nothing])
    found = _of_plan(plan, total, identity, result="element" if is_float else "")
    if is_float and total == "max":
        found = found._replace(total="min", identity=-identity, term="negated", result="negated")
    return found if plan.output_dtype == plan.dtype else found._replace(output=dtype, write="")


def _float_sum(plan: Plan, is_small: bool) -> Arithmetic:
    """Sums, means and norms in float64, with rounding errors if float64 is read or written."""
    reducer, has_errors = plan.reducer, "float64" in (plan.dtype, plan.output_dtype)
    total, identity = ("sum_with_error", np.complex128(0)) if has_errors else ("sum", np.float64(0))
    if reducer.power is not None:
        is_square, times = reducer.power == 2, prod(windows.longest for windows in plan.windows)
        term, result = "square" if is_square else "" if reducer.signed else "abs", "times" if reducer.divides else ""
        times = times if reducer.divides else 1
        return _of_plan(plan, total, identity, term=term, root=is_square, result=result, times=times)
    is_odd = plan.output_dtype != "float64" and (has_errors or largest_divisor(plan) >= SMALL)
    is_scaled = not has_errors and not is_small and divisor_bits(plan) is not None
    return _of_plan(plan, total, identity, result="odd" if is_odd else "scaled" if is_scaled else "quotient")


def _integer_mean(plan: Plan, longest: int, is_small: bool) -> Arithmetic:
    """Means of integers; the sums of 64-bit integers must stay below LARGEST_SUM."""
    source, target = lookup(plan.dtype), lookup(plan.output_dtype)
    bits = divisor_bits(plan) if target.is_integer and (not is_small or plan.reducer.is_sum) else None
    largest = min(max(map(abs, source.limits)) * longest, LARGEST_SUM) + (1 << bits if bits else 0)
    identity = np.int16(0) if largest < 2**15 else np.int32(0) if largest < 2**31 else np.int64(0)
    total = _of_plan(plan, "sum", np.int64(0) if is_small else identity)
    if target.kind == "float":
        result = "quotient"
        if largest >= EXACT_64 or (target.bits < 64 and largest_divisor(plan) >= SMALL):
            result = "nearest" if target.bits == 64 else "odd"
        return total._replace(result=result)
    if bits is not None:
        return total._replace(result="shift" if bits else "", bits=bits)
    kind = "float64" if largest < EXACT_64 else "int64"
    return total._replace(result=f"half_even_{'float32' if largest < EXACT_32 and not is_small else kind}")


def divisor_bits(plan: Plan) -> int | None:
    """log2 of the divisor; None if outputs have different divisors, or theirs is no power of two."""
    if plan.reducer.is_sum:
        return 0
    factors = [distinct_windows(windows)[1] for windows in plan.windows]
    if plan.divisor_override is None and any((factor != factor[0]).any() for factor in factors):
        return None
    divisor = plan.divisor_override or prod(int(factor[0]) for factor in factors)
    return divisor.bit_length() - 1 if divisor > 0 and divisor & (divisor - 1) == 0 else None


def distinct_windows(windows: AxisWindows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of windows and their divisors, each distinct one at least once: a long axis has too many windows."""
    if isinstance(windows, Cells):
        return np.array(windows.lengths), np.array([windows.parts[0]] * 2)
    if isinstance(windows, Bins):
        return np.array(windows.lengths), np.array(windows.lengths)
    inner = windows.interior
    # Those that cross a border, and one in between.
    first, last = min(inner.start + 1, inner.stop), np.arange(inner.stop, windows.output)
    outputs = np.concatenate([np.arange(first), last])
    return windows.inside(outputs), windows.divisor(outputs)
