"""Reads bytes of large files on demand, and flatbuffers in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO

from poolcli.errors import RequestError

AT_ONCE = 1 << 16  # bytes that are read where some are needed


class TruncatedError(RequestError):
    """The bytes are not what the format has there."""


class ByteReader:
    """Random access to an open file of `length` bytes; what is not asked for is not read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._start, self._piece = stream, 0, b""
        self.length = stream.seek(0, SEEK_END)

    def bytes(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`; TornError where the file does not have them."""
        if not self._start <= start <= stop <= self._start + len(self._piece):
            if not 0 <= start <= stop <= self.length:
                raise TruncatedError(f"nothing lies at byte {max(start, stop):,}")
            self._stream.seek(start)
            self._start, self._piece = start, self._stream.read(max(AT_ONCE, stop - start))
            if stop - start > len(self._piece):
                raise TruncatedError("the file became shorter while it was read")
        return self._piece[start - self._start : stop - self._start]


MOST = 1 << 24  # items of a vector


@dataclass(frozen=True, slots=True)
class Table:
    """A table at a place in the file; fields are called by the numbers of the schema."""

    data: ByteReader
    at: int

    def _place(self, number: int) -> int | None:
        """Where a field lies; None where the table leaves it out."""
        described = self.at - _unpack(self.data, "i", self.at)
        offset = 4 + 2 * number
        if offset >= _unpack(self.data, "H", described):
            return None
        found = _unpack(self.data, "H", described + offset)
        return self.at + found if found else None

    def number(self, number: int, code: str = "i", default: int = 0) -> int:
        """A field that is a number of the struct code."""
        place = self._place(number)
        return default if place is None else _unpack(self.data, code, place)

    def numbers(self, number: int, code: str = "i") -> tuple[int, ...] | None:
        """A field that is a vector of numbers; None where it is left out."""
        start, count = self._vector(number)
        if start is None:
            return None
        size = struct.calcsize("<" + code)
        return struct.unpack(f"<{count}{code}", self.data.bytes(start, start + count * size))

    def text(self, number: int) -> str:
        """A field that is a text."""
        start, count = self._vector(number)
        return "" if start is None else self.data.bytes(start, start + count).decode(errors="replace")

    def raw(self, number: int, most: int) -> bytes:
        """A field that is a vector of bytes, empty where it is longer than `most`."""
        start, count = self._vector(number)
        return b"" if start is None or count > most else self.data.bytes(start, start + count)

    def table(self, number: int) -> Table | None:
        """A field that is a table."""
        place = self._place(number)
        return None if place is None else Table(self.data, place + _unpack(self.data, "I", place))

    def tables(self, number: int) -> list[Table]:
        """A field that is a vector of tables."""
        start, count = self._vector(number)
        if start is None:
            return []
        offsets = struct.unpack(f"<{count}I", self.data.bytes(start, start + 4 * count))
        return [Table(self.data, start + 4 * i + offset) for i, offset in enumerate(offsets)]

    def _vector(self, number: int) -> tuple[int | None, int]:
        """Where the items of a vector begin, and how many there are."""
        place = self._place(number)
        if place is None:
            return None, 0
        start = place + _unpack(self.data, "I", place)
        count = _unpack(self.data, "I", start)
        if count > MOST:
            raise TruncatedError(f"a list of {count:,} items at byte {start:,}")
        return start + 4, count


def root(data: ByteReader) -> Table:
    """The table that the file begins with."""
    return Table(data, _unpack(data, "I", 0))


def _unpack(data: ByteReader, code: str, at: int) -> int:
    found: int = struct.unpack("<" + code, data.bytes(at, at + struct.calcsize("<" + code)))[0]
    return found
