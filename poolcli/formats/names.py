"""Validation of names from files, manifests and templates, before they become paths or names of arrays in outputs.

A name such as `../../x` in an input must not lead to a write outside the output (path traversal, CWE-22).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import accumulate

from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.table import Naming, output_format
from poolcli.message_fields import field

MAX_COMPONENT = 255  # bytes of a file name on common file systems
MAX_NAME = 1024  # bytes of a key in S3
_WINDOWS_ABSOLUTE = re.compile(r"[A-Za-z]:[/\\]|\\")  # how a path begins that another system takes for an absolute one


def relative_path(name: str) -> str:
    """The path without slashes around it, if it stays in the folder that it is joined to; otherwise a ValueError.

    >>> relative_path("/a/b")
    'a/b'
    >>> relative_path("a/../../b")
    Traceback (most recent call last):
        ...
    ValueError: it has the path component '..'
    """
    parts = name.strip("/").split("/")
    if "\0" in name:
        raise ValueError("it holds a NUL character")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate outside U+DC80..U+DCFF, which stand for bytes (PEP 383)
        raise ValueError("it is not valid UTF-8") from None
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"it has the path component {part!r}" if part else "it has an empty path component")
    return "/".join(parts)


def array_names(path: str, keys: Sequence[str | None], error: type[PoolError] = FileError) -> list[str]:
    """The validated names of arrays with these keys in the output at `path`; None stands for the default name.

    Raises `error` for a key that is not a valid name there, and a RequestError if two arrays would have the same name.
    """
    row = output_format(path)
    if not row.is_container:
        return ["" for _ in keys]
    names = list[str]()
    for key in keys:
        try:
            names.append(_checked(key, row.naming) if key else row.naming.default)
        except ValueError as reason:
            remedy = f"name it yourself: {field('output', f'{path}:/NAME')}"
            quoted = ascii(key) if len(key or "") <= MAX_COMPONENT else f"{str(key)[:MAX_COMPONENT]!a}..."
            raise error(f"{path}: cannot hold an array called {quoted}: {reason}; {remedy}") from None
    seen = set(names)
    if len(seen) < len(names):
        doubled = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{path}: two arrays would both be called {doubled}; name the arrays, one file for each")
    for name in names if row.naming.nested else ():
        groups = {"", *accumulate(name.split("/")[:-1], "{}/{}".format)} if name else set()
        if groups & seen:
            outer = min(groups & seen, key=len) or "the whole file"
            raise RequestError(f"{path}: {outer} would be both an array and the group of {name}; pool one of them")
    return names


def _checked(key: str, naming: Naming) -> str:
    """The name of an array; a ValueError if the format does not allow it, or other systems could not extract it."""
    name = relative_path(key)
    parts = name.split("/")
    if _WINDOWS_ABSOLUTE.match(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError("other systems read it as a path out of the folder")
    try:
        encoded = name.encode("utf-8", "surrogateescape" if naming.any_bytes else "strict")
    except UnicodeEncodeError:
        raise ValueError("it is not valid UTF-8") from None
    if len(encoded) > MAX_NAME:
        raise ValueError(f"it has {len(encoded):,} bytes, at most {MAX_NAME:,} are possible")
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in parts)
    if longest > MAX_COMPONENT:
        raise ValueError(f"it has a path component of {longest} bytes, at most {MAX_COMPONENT} are possible")
    reserved = next((part for part in parts if part in naming.reserved), None)
    if reserved is not None:
        raise ValueError(f"the format reserves the name {reserved}")
    return name
