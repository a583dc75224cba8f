"""Nodata values: numbers that stand for missing elements, and whether a type has them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from math import isnan

from poolcli.arguments import numbers_of
from poolcli.dtypes import DType
from poolcli.errors import RequestError
from poolcli.message_fields import field

Missing = tuple[int | float, ...]
MinCount = int | str
MAX_WHOLE_NUMBER = 2**64  # larger numbers must be floats


def missing_from(value: object) -> Missing:
    """The nodata values as a tuple, from one number, several or None; refuses other values.

    >>> missing_from(None), missing_from(-9999), missing_from([0, 1e20])
    ((), (-9999,), (0, 1e+20))
    """
    if value is None:
        return ()
    found = numbers_of("missing", value)
    if any(isinstance(number, int) and abs(number) > MAX_WHOLE_NUMBER for number in found):
        raise RequestError(f"{field('missing')} is a whole number beyond 2**64; give larger ones as floats")
    return found


def min_count_from(value: object) -> MinCount | None:
    """The least number of valid elements of a window, or their least share as text such as "50%".

    >>> min_count_from(None), min_count_from("4"), min_count_from("62.50%")
    (None, 4, '62.5%')
    """
    if value is None:
        return None
    text, share = str(value).strip(), None
    with suppress(ValueError):
        if text.endswith("%"):
            share = float(text[:-1])
        elif not isinstance(value, float | bool) and int(text) >= 1:
            return int(text)
    if share is None or not 0 < share <= 100:
        wanted = "a whole number of at least 1, or a share above 0% and up to 100%"
        raise RequestError(f"{field('min_count')} is {text[:40]!r}, {wanted}, is needed")
    return f"{share:.15g}%"


def check_missing(missing: Iterable[int | float], dtype: DType) -> Missing:
    """The nodata values; refuses one that no element of the type can equal."""
    found = tuple(missing)
    for number in found:
        if not can_hold(dtype, number):
            low, high = dtype.limits
            raise RequestError(
                f"{field('missing', number)} is not a number of {dtype.name}, which has whole numbers from {low} to "
                f"{high}"
            )
    return found


def can_hold(dtype: DType, number: float) -> bool:
    """Whether an element of the type can equal the number, which is rounded for float types."""
    if dtype.kind == "float":
        return True
    low, high = dtype.limits
    return not isnan(number) and low <= number <= high and number == int(number)
