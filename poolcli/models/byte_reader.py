"""The bytes of a large file, read where they are asked for."""

from __future__ import annotations

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
