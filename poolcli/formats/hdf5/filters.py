"""HDF5 filters, decoded here so that each chunk is limited to the bytes that it must have.

HDF5 itself believes them: what is too long it unpacks to its end, and what is too short it fills with whatever lies
behind it in memory.
"""

from __future__ import annotations

import bz2
import ctypes
import errno
import os
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import human_bytes
from poolcli.formats.hdf5.names import h5py
from poolcli.formats.unpacked_size import of_blosc, of_blosc2_frame, of_hdf5_lz4, of_zstd
from poolcli.system.lazy_imports import need
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


BITSHUFFLE = 32008  # which packs only where its fifth value says how
CLAIMED = {32001: of_blosc, 32004: of_hdf5_lz4, BITSHUFFLE: of_hdf5_lz4, 32015: of_zstd, 32026: of_blosc2_frame}
UNPACKING = 0x0100  # H5Z_FLAG_REVERSE
MOST = 2**63  # beyond it lie the errors of a library that the filter has not looked at
FILTER = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip


class _Class(ctypes.Structure):
    """H5Z_class2_t."""

    _fields_ = (
        ("version", ctypes.c_int), ("id", ctypes.c_int), ("encodes", ctypes.c_uint), ("decodes", ctypes.c_uint),
        ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p), ("set_local", ctypes.c_void_p), ("filter", FILTER),
    )  # fmt: skip


def unpacked_by_plugin(code: int, data: bytes, values: tuple[int, ...], most: int) -> bytes | int | None:
    """What a filter of hdf5plugin makes of a chunk; its length where it is more than `most`; b'' where it fails.

    None where hdf5plugin has no such filter, or its memory cannot be freed from here.
    """
    filter_of = _filters().get(code)
    if filter_of is None:
        return None
    packs = code != BITSHUFFLE or any(values[4:5])
    claimed = CLAIMED[code](data, most) if code in CLAIMED and packs else 0
    if claimed > most:
        return claimed
    system = ctypes.CDLL(None)
    system.malloc.restype, system.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    system.free.argtypes = [ctypes.c_void_p]
    taken, buffer = ctypes.c_size_t(len(data)), ctypes.c_void_p(system.malloc(max(len(data), 1)))
    if not buffer:
        raise MemoryError
    ctypes.memmove(buffer, data, len(data))
    try:
        numbers = (ctypes.c_uint * len(values))(*values)
        given = filter_of(UNPACKING, len(values), numbers, len(data), ctypes.byref(taken), ctypes.byref(buffer))
        if not buffer or given > MOST:
            return b""
        return ctypes.string_at(buffer, given) if given <= most else int(given)
    finally:
        system.free(buffer)


@cache
def _filters() -> dict[int, Callable[..., int]]:
    """The filters by their numbers; each stays loaded, for HDF5 has it too."""
    if os.name != "posix":
        return {}
    try:
        (plugin,) = need("hdf5plugin", why="filters")
    except RequestError:
        return {}
    found: dict[int, Callable[..., int]] = {}
    for path in plugin.get_config().registered_filters.values():
        library: Any = ctypes.CDLL(path)
        library.H5PLget_plugin_info.restype = ctypes.POINTER(_Class)
        about = library.H5PLget_plugin_info().contents
        found[about.id] = about.filter
    return found


Filter = tuple[int, tuple[int, ...]]  # its number and its values
MORE = 64  # bytes that a filter may add to the numbers before the next one packs them


def unpacked(where: str, data: bytes, filters: Sequence[Filter], size: int) -> bytes | None:
    """A chunk of `size` bytes, without its filters (numbers and values); None where h5py is to unpack it.

    A FileError for one that is more or less, or damaged.
    """
    found: Unpacked | None = data
    for code, values in reversed(filters):
        if not isinstance(found, bytes):
            return None  # of what h5py is to unpack, nothing is known before
        undo = BUILT_IN.get(code)
        found = undo(found, values, size + MORE) if undo else unpacked_by_plugin(code, found, values, size + MORE)
        if found == b"" or (isinstance(found, int) and found > size + MORE):
            break
    if found is None:
        return None
    length = found if isinstance(found, int) else len(found)
    if length != size:
        what = f"unpacks to {'more' if length > size else 'less'}" if length else "cannot be unpacked"
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that {what}")
    summed = any(code == FLETCHER32 for code, _ in filters)  # which h5py compares
    return found if isinstance(found, bytes) and not summed else None
