"""Attributes as JSON holds them."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from poolcli.formats.nodata import NAMES

DEEPEST = 64


def plain(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes whose values are JSON; the names of those that cannot be go to `lost`.

    >>> plain({"title": b"a", "of": object()}, "/x", lost := [])
    {'title': 'a'}
    >>> lost
    ['/x@of']
    """
    found = {}
    for name, value in attributes.items():
        try:
            found[str(name)] = _plain(value, 0)
        except (TypeError, ValueError):
            lost.append(f"{owner}@{name}")
    return found


def _plain(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist(), depth + 1)
    if isinstance(value, Mapping):
        return {str(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")


def with_numbers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, a missing number that xarray wrote as the base64 of its eight bytes as that number.

    >>> with_numbers({"_FillValue": "AAAAAAAA+H8=", "title": "AAAAAAAA+H8="})
    {'_FillValue': nan, 'title': 'AAAAAAAA+H8='}
    """
    found = dict(attributes)
    for name in NAMES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found
