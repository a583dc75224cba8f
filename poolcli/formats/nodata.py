"""Which numbers a file says stand for no value, by the attributes of an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.nodata import Missing, can_hold

NAMES = ("_FillValue", "missing_value")
MOST = 16  # numbers of an attribute
UNREADABLE = (TypeError, ValueError, OSError, RuntimeError, KeyError)  # what reading an attribute may raise


def missing_in(attributes: Mapping[str, Any], dtype: str) -> Missing:
    """The numbers, as far as an array of the type can have them."""
    found: list[int | float] = []
    for name in NAMES:
        for number in _numbers(attributes, name) or ():
            if can_hold(DTYPES[dtype], number) and str(number) not in map(str, found):
                found.append(number)
    return tuple(found)


def notes_on(attributes: Mapping[str, Any]) -> Iterator[str]:
    """What is said of an attribute that names missing values, but no numbers."""
    for name in NAMES:
        if name in attributes and _numbers(attributes, name) is None:
            yield f"what the file calls missing ({name}) is no number, and nothing is left out for it"


def _numbers(attributes: Mapping[str, Any], name: str) -> Sequence[int | float] | None:
    """An attribute that holds numbers; () where there is none of the name, None where it holds something else."""
    import numpy as np

    if name not in attributes:
        return ()
    try:
        value = np.ravel(attributes[name])
    except UNREADABLE:
        return None
    if value.dtype.kind not in "iuf" or value.size > MOST:
        return None
    found: list[int | float] = value.tolist()
    return found
