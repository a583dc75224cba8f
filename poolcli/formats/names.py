"""The gate for names: text from a file, a manifest or a template is data until a function here has made a name of it.

Whatever becomes a path, or the name of an array in a file, passes before the first byte is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.table import Naming, output_format
from poolcli.message_fields import field

LONGEST_STEP = 255  # bytes, of a name in a folder of any common file system
LONGEST_NAME = 1024  # bytes, of a key in an object store
_ELSEWHERE = re.compile(r"[A-Za-z]:[/\\]|\\")  # how a path begins that another system takes for an absolute one


def below(name: str) -> str:
    """A relative path that leads to something below the folder that it is put in, without slashes around it.

    Raises a ValueError that says what is wrong with any other text.

    >>> below("/a/b")
    'a/b'
    >>> below("a/../../b")
    Traceback (most recent call last):
        ...
    ValueError: it has the path component '..'
    """
    steps = name.strip("/").split("/")
    if "\0" in name:
        raise ValueError("it holds a NUL character")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte: no path can have it
        raise ValueError("it is not valid UTF-8") from None
    for step in steps:
        if step in ("", ".", ".."):
            raise ValueError(f"it has the path component {step!r}" if step else "it has an empty path component")
    return "/".join(steps)


def array_names(path: str, keys: Sequence[str | None], error: type[PoolError] = FileError) -> list[str]:
    """What arrays of these keys are called in the output at `path`, each checked; None is an array without a name.

    Raises `error` for a key that cannot be a name there, and a RequestError for two that would be the same.
    """
    row = output_format(path)
    if not row.is_container:
        return ["" for _ in keys]
    names = [_array_name(path, key, row.naming, error) for key in keys]
    _refuse_clashes(path, names, row.naming.nested)
    return names


def _array_name(path: str, key: str | None, naming: Naming, error: type[PoolError]) -> str:
    if not key:
        return naming.default
    try:
        name = below(key)
        _check(name, naming)
    except ValueError as reason:
        remedy = f"name it yourself: {field('output', f'{path}:/NAME')}"
        quoted = ascii(key) if len(key) <= LONGEST_STEP else f"{key[:LONGEST_STEP]!a}..."
        raise error(f"{path}: cannot hold an array called {quoted}: {reason}; {remedy}") from None
    return name


def _check(name: str, naming: Naming) -> None:
    """Raises a ValueError for a name that files of a format do not hold, or that others could not unpack."""
    steps = name.split("/")
    if _ELSEWHERE.match(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError("other systems read it as a path out of the folder")
    try:
        encoded = name.encode("utf-8", "surrogateescape" if naming.any_bytes else "strict")
    except UnicodeEncodeError:
        raise ValueError("it is not valid UTF-8") from None
    if len(encoded) > LONGEST_NAME:
        raise ValueError(f"it has {len(encoded):,} bytes, at most {LONGEST_NAME:,} are possible")
    longest = max(len(step.encode("utf-8", "surrogateescape")) for step in steps)
    if longest > LONGEST_STEP:
        raise ValueError(f"it has a path component of {longest} bytes, at most {LONGEST_STEP} are possible")
    own = next((step for step in steps if step in naming.reserved), None)
    if own is not None:
        raise ValueError(f"the format reserves the name {own}")


def _refuse_clashes(path: str, names: Sequence[str], nested: bool) -> None:
    """Refuses two arrays of one name, and where names have groups an array that would be the group of another."""
    seen = set(names)
    if len(seen) < len(names):
        doubled = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{path}: two arrays would both be called {doubled}; name the arrays, one file for each")
    inner = next((name for name in names if nested and _groups(name) & seen), None)
    if inner is not None:
        outer = min(_groups(inner) & seen, key=len)
        raise RequestError(
            f"{path}: {outer or 'the whole file'} would be both an array and the group of {inner}; pool one of them"
        )


def _groups(name: str) -> set[str]:
    """The groups on the way to a name, the root among them."""
    steps = name.split("/") if name else []
    return {"/".join(steps[:depth]) for depth in range(len(steps))}
