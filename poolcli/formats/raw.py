"""Files without a header: what is in them is said by who asks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from poolcli.dtypes import DTYPES, lookup, numpy_dtype
from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import byte_count, check_rank, human_bytes
from poolcli.formats.npy import Flat
from poolcli.formats.records import ArrayReader, Header, Source
from poolcli.message_fields import field

EXAMPLE = "1,3,64,64,uint8"


@dataclass(frozen=True, slots=True)
class Raw:
    """The array that a file holds from its first byte on, in C order; `order` is `<` or `>` as numpy has it."""

    shape: tuple[int, ...]
    dtype: str
    order: Literal["<", ">"] = "<"


def raw_from(text: str) -> Raw:
    """A shape and a type as they are typed: `1,3,64,64,uint8`, or `64x64,>f4` for numbers whose high bytes come first.

    >>> raw_from("64x64,>f4")
    Raw(shape=(64, 64), dtype='float32', order='>')
    """
    lengths, _, kind = text.replace(" ", "").rpartition(",")
    numbers = lengths.replace("x", ",").split(",")
    if kind.isdigit() or not all(number.isascii() and number.isdigit() for number in numbers):
        raise RequestError(f"{field('raw')} is {text[:60]!r}; write a shape and a type, such as {EXAMPLE}")
    high_first = kind.startswith(">")
    return Raw(tuple(map(int, numbers)), lookup(kind.lstrip(">")).name, ">" if high_first else "<")


@contextmanager
def open_array(source: Source, raw: Raw) -> Iterator[ArrayReader]:
    """The array, read region by region; refuses a file that is shorter."""
    path = source.path
    if path == "-":
        raise FileError(f"-: standard input is a .npy stream; {field('raw')} is for files; leave it out")
    check_rank(path, raw.shape)
    claimed = byte_count(raw.shape, DTYPES[raw.dtype].itemsize)
    with open(path, "rb", opener=_at_once) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{path}: is not a regular file")
        if claimed > status.st_size:
            raise FileError(
                f"{path}: {field('raw')} says {human_bytes(claimed)} of data, the file holds "
                f"{human_bytes(status.st_size)}"
            )
        rest = status.st_size - claimed
        notes = (f"{human_bytes(rest)} after the array are ignored",) if rest else ()
        header = Header("raw", raw.shape, raw.dtype, notes=notes)
        yield Flat(header, stream, numpy_dtype(raw.dtype).newbyteorder(raw.order), False, 0)


def _at_once(path: str, flags: int) -> int:
    """Opens a path without waiting for whoever writes into it, as a pipe would make one."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
