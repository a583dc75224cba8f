"""The filters of HDF5 and h5py, and bzip2, each undone within so much memory as the chunk may take.

Each takes what is stored, its values and the most bytes that may come of it, and gives those; or their number, where
they are too many or h5py is to unpack them; b'' where they are damaged; None where nothing can be known of them. How
each stores is said in HDF5's H5Z*.c.
"""

from __future__ import annotations

import bz2
import ctypes
import errno
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from poolcli.formats.hdf5.library import h5py
from poolcli.windows import ceil_div

Unpacked = bytes | int
Values = tuple[int, ...]
FLETCHER32 = 3
CHECKSUM = 4  # bytes behind what fletcher32 has summed
SCALED_HEADER = 21  # bytes before the numbers of scale-offset
PACKED_ATOMS = 1  # the kind of numbers of n-bit that are no structures


def _deflate(data: bytes, values: Values, most: int) -> Unpacked:
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, most + 1)
    except zlib.error:
        return b""
    return _within(found, most) if inflater.eof or len(found) > most else b""


def _bzip2(data: bytes, values: Values, most: int) -> Unpacked:
    unpacker = bz2.BZ2Decompressor()
    try:
        found = unpacker.decompress(data, most + 1)
    except OSError:
        return b""
    return _within(found, most) if unpacker.eof or len(found) > most else b""


def _within(found: bytes, most: int) -> Unpacked:
    return found if len(found) <= most else len(found)


def _shuffle(data: bytes, values: Values, most: int) -> Unpacked:
    """Bytes of a number side by side again; what is left over at the end was never moved."""
    import numpy as np

    size = values[0] if values else 1
    count = len(data) // size if size else 0
    if count <= 1 or size <= 1:
        return data
    moved = np.frombuffer(data, np.uint8, size * count).reshape(size, count)
    return moved.T.tobytes() + data[size * count :]


def _fletcher32(data: bytes, values: Values, most: int) -> Unpacked:
    return data[:-CHECKSUM]


def _nbit(data: bytes, values: Values, most: int) -> Unpacked:
    _, whole, count, kind, size, _, bits, *_ = (*values, *[0] * 8)
    if whole:
        return data
    enough = kind == PACKED_ATOMS and len(data) >= ceil_div(count * bits, 8)
    return count * size if enough else b""


def _scale_offset(data: bytes, values: Values, most: int) -> Unpacked:
    _, _, count, _, size, *_ = (*values, *[0] * 5)
    bits = int.from_bytes(data[:4], "little")
    most_packed = SCALED_HEADER + count * bits // 8 + 1
    whole = bits <= 8 * size and SCALED_HEADER + ceil_div(count * bits, 8) <= len(data) <= most_packed
    return count * size if whole else b""


def _szip(data: bytes, values: Values, most: int) -> Unpacked | None:
    """By the library that HDF5 does it with."""
    library, size = _library(), int.from_bytes(data[:4], "little")
    if not hasattr(library, "SZ_BufftoBuffDecompress"):
        return None
    if size > most:
        return size
    mask, block, bits, line = values[:4]
    out, made = ctypes.create_string_buffer(size or 1), ctypes.c_size_t(size)
    how, stored = (ctypes.c_int * 4)(mask, bits, block, line), ctypes.c_size_t(len(data) - 4)
    failed = library.SZ_BufftoBuffDecompress(out, ctypes.byref(made), data[4:], stored, how)
    return b"" if failed else out.raw[: made.value]


def _lzf(data: bytes, values: Values, most: int) -> Unpacked | None:
    """By h5py's own routine."""
    library = _library()
    if not hasattr(library, "lzf_decompress"):
        return None
    out = ctypes.create_string_buffer(most + 1)
    made = library.lzf_decompress(data, ctypes.c_uint(len(data)), out, ctypes.c_uint(most))
    if not made and ctypes.get_errno() == errno.E2BIG:
        return most + 1
    return out.raw[:made]


@cache
def _library() -> Any:
    """h5py's part for filters, with the libraries that it stands on."""
    return ctypes.CDLL(h5py.h5z.__file__, use_errno=True)


BUILT_IN: dict[int, Callable[[bytes, Values, int], Unpacked | None]] = {
    1: _deflate, 2: _shuffle, FLETCHER32: _fletcher32, 4: _szip, 5: _nbit, 6: _scale_offset, 307: _bzip2, 32000: _lzf,
}  # fmt: skip
