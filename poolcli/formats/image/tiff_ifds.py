"""How many pages a TIFF has: its directories lead one to the next, in a damaged file for ever."""

from __future__ import annotations

import struct
from typing import BinaryIO

from poolcli.errors import FileError


def count_pages(path: str, stream: BinaryIO) -> int:
    """The directories from the first to the last; refuses those that lead in a circle."""
    stream.seek(0)
    head = stream.read(16)
    order = "<" if head[:2] == b"II" else ">"
    big = 43 in head[2:4]
    number, place, entry, at = (f"{order}Q", f"{order}Q", 20, 8) if big else (f"{order}H", f"{order}I", 12, 4)
    seen = set[int]()
    try:
        (following,) = struct.unpack_from(place, head, at)
        while following and following not in seen:
            stream.seek(following)
            (count,) = struct.unpack(number, stream.read(struct.calcsize(number)))
            seen.add(following)
            stream.seek(count * entry, 1)
            (following,) = struct.unpack(place, stream.read(struct.calcsize(place)))
    except (struct.error, OSError, OverflowError):  # the file ends before the chain does
        return len(seen)
    if following:
        raise FileError(f"{path}: is damaged: its pages lead in a circle")
    return len(seen)
