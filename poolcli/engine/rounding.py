"""Rounds exact quotients and float64 to the output type only once, by rounding to odd.

Rounding to float64 and then to a shorter type is double rounding: a number near the midpoint of two short floats may be
rounded first to the midpoint, and then to the wrong side. To avoid that, the first rounding is to odd: an inexact
number becomes the neighbour whose last bit is set. That is never a midpoint, so the second rounding alone decides
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from math import frexp, inf, ldexp, nextafter
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def storable(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values that an assignment to the type rounds only once: ml_dtypes converts to bfloat16 via float32."""
    if dtype.kind == "V" and dtype.name == "bfloat16" and values.dtype.itemsize > 2 and values.dtype != np.float32:
        return _float32_to_odd(values if values.dtype.kind == "f" else _float64_to_odd(values))
    return values


def _float64_to_odd(integers: Array) -> Array:
    """Integers as float64; beyond 2**52 rounded to odd, with one bit in place of the last 16."""
    low = (integers & 0xFFFF).astype(np.bool_)
    short = ((integers >> 16) | low.astype(integers.dtype)).astype(np.float64) * 2.0**16
    nearest = integers.astype(np.float64)
    return np.where(abs(nearest) < 2.0**52, nearest, short)


def _float32_to_odd(values: Array) -> Array:
    short = np.asarray(values.astype(np.float32))
    with np.errstate(invalid="ignore"):
        difference = np.asarray(abs(values) - abs(short))
    return round_to_odd(short, difference)


def round_to_odd(near: Array, rest: Array) -> Array:
    """Numbers rounded to odd, from the nearest floats `near` and the sign of `rest`: whether the magnitude is larger
    (1), smaller (-1) or equal (0).
    """
    bits = near.view(f"i{near.itemsize}")  # as an integer, it grows with the magnitude
    is_even = (bits & 1 == 0) & (rest != 0) & ~np.isnan(rest)
    return np.where(is_even, bits + np.where(rest > 0, 1, -1).astype(bits.dtype), bits).view(near.dtype)


def quotient_to_odd(total: int, divisor: int) -> float:
    """total / divisor as float64, rounded to odd.

    >>> quotient_to_odd(3, 2), quotient_to_odd(0, -7), quotient_to_odd(2**60 + 1, 1) == 2**60 + 2**8
    (1.5, -0.0, True)
    """
    near = total / divisor  # correctly rounded: Python divides integers exactly
    numerator, denominator = near.as_integer_ratio()
    rest = total * denominator - numerator * divisor
    if rest == 0 or int(ldexp(frexp(near)[0], 53)) & 1:
        return near
    return nextafter(near, inf if (rest > 0) == (divisor > 0) else -inf)
