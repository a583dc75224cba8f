"""From exact quotients and float64 to the type of the output, rounded once.

Rounding to float64 and then to a shorter type rounds some numbers twice: one beside the middle of two short floats is
first rounded to the middle, and then to the wrong side. Where that can happen, the first rounding is to odd: an inexact
number becomes that one of its two neighbours whose last bit is set, which is never such a middle, so that the second
rounding alone decides (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from math import frexp, inf, ldexp, nextafter
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def storable(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values that an assignment to an array of the type rounds once: ml_dtypes makes bfloat16 of others by way of
    float32.
    """
    if dtype.name == "bfloat16" and values.dtype.itemsize > 2 and values.dtype != np.float32:
        return _float32_to_odd(values if values.dtype.kind == "f" else _float64_to_odd(values))
    return values


def _float64_to_odd(integers: Array) -> Array:
    """Integers beyond 2**52 without their last 16 bits, of which only is kept whether any is set."""
    low = (integers & 0xFFFF).astype(np.bool_)
    short = ((integers >> 16) | low.astype(integers.dtype)).astype(np.float64) * 2.0**16
    nearest = integers.astype(np.float64)
    return np.where(abs(nearest) < 2.0**52, nearest, short)


def _float32_to_odd(values: Array) -> Array:
    short = np.asarray(values.astype(np.float32))
    with np.errstate(invalid="ignore"):
        difference = np.asarray(abs(values) - abs(short))
    return nudged(short, difference)


def nudged(near: Array, rest: Array) -> Array:
    """The numbers rounded to odd: `near` is the nearest to each, and the sign of `rest` says on which side of it the
    number's size lies, 0 that it is `near` itself.
    """
    bits = near.view(f"i{near.itemsize}")
    is_even = (bits & 1 == 0) & (rest != 0) & ~np.isnan(rest)  # the bits of sizes grow with them
    return np.where(is_even, bits + np.where(rest > 0, 1, -1).astype(bits.dtype), bits).view(near.dtype)


def quotient_to_odd(total: int, divisor: int) -> float:
    """total / divisor as float64, rounded to odd.

    >>> quotient_to_odd(3, 2), quotient_to_odd(0, -7), quotient_to_odd(2**60 + 1, 1) == 2**60 + 2**8
    (1.5, -0.0, True)
    """
    near = total / divisor  # the nearest: Python divides integers exactly
    numerator, denominator = near.as_integer_ratio()
    rest = total * denominator - numerator * divisor
    if rest == 0 or int(ldexp(frexp(near)[0], 53)) & 1:
        return near
    return nextafter(near, inf if (rest > 0) == (divisor > 0) else -inf)
