"""Memory that outlasts a call where it is small: asking for it takes as long as a small kernel."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE = 64  # bytes of a line of the cache
MOST_KEPT = 1 << 22  # bytes
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


class Buffers(threading.local):
    """One buffer of each thread."""

    def __init__(self) -> None:
        self.kept: tuple[NDArray[np.uint8], int] = np.empty(0, np.uint8), 0

    def of(self, size: int) -> tuple[NDArray[np.uint8], int]:
        """At least so many bytes from the beginning of a line of the cache, given to the next call too; and where."""
        found = self.kept
        if found[0].size < size:
            buffer = np.empty(size + LINE, np.uint8)
            buffer = buffer[-address(buffer) % LINE :]
            found = buffer, address(buffer)
            if buffer.size <= MOST_KEPT:
                self.kept = found
        return found


def address(array: NDArray[Any]) -> int:
    """Where its first element is."""
    try:
        return ctypes.addressof(_first_byte(array))  # in a quarter of the time of what follows
    except (TypeError, ValueError, BufferError):  # without elements, strided, read-only, or of a type unknown there
        return int(array.__array_interface__["data"][0])
