"""The filters of hdf5plugin, called by themselves: HDF5 never asks how much of a chunk one of them has given back.

What a plug-in hands over, and how its filter is called, is in HDF5's H5PLextern.h and H5Zpublic.h.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.unpacked_size import of_blosc, of_blosc2_frame, of_hdf5_lz4, of_zstd
from poolcli.system.lazy_imports import need

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
