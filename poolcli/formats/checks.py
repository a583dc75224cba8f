"""Checks shared by all formats: dtypes, sizes before and after decompression, nodata values, choice of an array."""

from __future__ import annotations

import bz2
import lzma
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.records import ArrayContainer, ArrayReader, Header, Source
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field, hint
from poolcli.nodata import Missing, can_hold
from poolcli.suggestions import did_you_mean


@contextmanager
def one_line(where: str, known: Callable[[Exception], bool], say: Callable[[Exception], str]) -> Iterator[None]:
    """Turns exceptions of a library into a FileError that starts with `where`.

    Exceptions that are not `known` to come from it stay: they may be bugs of poolcli.
    """
    try:
        yield
    except PoolError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or not known(error):
            raise
        raise FileError(f"{where}: {say(error)}") from error


FEWEST_AXES = 3  # of an array whose layout is not given
SHOWN = 20  # names in a list
LARGEST_EXPANSION = 2**28  # bytes that data of any size may expand to
HIGHEST_RATIO = 1000
SMALL_FILE = 2**20  # bytes
MEMORY_OF_SMALL = 3 * 2**28  # bytes of memory for a small file, unless --max-memory is given
LEAST = 2**20  # bytes that readers may take beside the array uncounted
MEMORY_OF_JSON = 2**30  # bytes that a JSON document may take as Python objects, unless --max-memory is given
LONGEST_END = 2**16 + 42  # bytes at the end of a zip archive that say where the list of its members is
LEAST_OF_MEMBER, MEMORY_OF_MEMBER = 46, 1000  # bytes in that list, and as Python objects
# Upper bounds of the bytes of Python objects, by the characters that start or separate them in JSON.
OBJECTS = {b"{": 64, b"[": 56, b":": 120, b",": 72}


def check_dtype(where: str, name: str) -> str:
    """Returns `name` if arrays of that dtype can be pooled; refuses objects, structures, strings, complex numbers."""
    if name not in DTYPES:
        raise FileError(f"{where}: holds {name[:60]}; poolcli pools bool, integers and floats of 16, 32 or 64 bits")
    return name


def check_rank(where: str, shape: Sequence[int]) -> None:
    """Refuses a scalar."""
    if not shape:
        raise FileError(f"{where}: holds a single number; an array with at least one axis is needed")


def choose(source: Source, headers: Sequence[Header], axes: int | None = None) -> Header:
    """The array that the source names, or the only usable one; refuses a choice among several with a list of them.

    Usable are arrays of so many `axes`; if that is None, of 3 and more (N, C and a spatial one).
    """
    if source.key is not None:
        wanted = source.key.strip("/")
        for header in headers:
            if (header.key or "").strip("/") == wanted:
                return header
        meant = did_you_mean(wanted, [(header.key or "").strip("/") for header in headers])
        raise RequestError(f"{source.path}: has no array {source.key!r}; it holds {listing(headers)}{meant}")
    if not headers:
        raise FileError(f"{source.path}: holds no array that can be pooled")
    able = usable(headers, axes)
    if len(able) == 1:
        return able[0]
    if len(headers) > 1:
        first = (able or headers)[0].key
        raise RequestError(
            f"{source.path}: holds {len(headers)} arrays: {listing(headers)}; "
            f"choose one: {source.path}:{first}"
            + hint(f" or {field('dataset', first)}")
            + hint(f", or take {field('all')}")
        )
    return headers[0]


def chosen(file: ArrayContainer, source: Source, axes: int | None) -> ArrayReader:
    """Opens the array that `choose` returns."""
    return file.array(str(choose(source, file.headers, axes).key))


def usable(headers: Sequence[Header], axes: int | None) -> list[Header]:
    """The arrays of so many `axes`; if that is None, of 3 and more."""
    return [h for h in headers if len(h.shape) == axes or (axes is None and len(h.shape) >= FEWEST_AXES)]


def named(names: Sequence[str], most: int = SHOWN) -> str:
    """The first names of a list, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listing(headers: Sequence[Header]) -> str:
    """Names, shapes and types: `a (1,3,8,8 float32), b (2,2 int8)`."""
    names = [h.key or "one array without a name" for h in headers]
    arrays = zip(names, headers, strict=True)
    return named([f"{name} ({','.join(map(str, h.shape))} {h.dtype})" for name, h in arrays]) or "none"


def tensor_layout(layout: str) -> str:
    """The layout in which a tensor file stores an image: N, C and spatial axes."""
    return "NC" + "".join(layout[i] for i in spatial_axes(layout))


def human_bytes(count: int) -> str:
    """A size with its unit: `3.6 TiB`."""
    step = min(max(count.bit_length() - 1, 0) // 10, 5)
    if count >= 10**6 * 1024**5:
        return "more than 1,000,000 PiB"
    return f"{count / 1024**step:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[step]}"


def check_expansion(where: str, stored: int, claimed: int, allowed: int | None) -> None:
    """Refuses data that expands out of proportion, unless --max-memory (`allowed`) permits so much."""
    if claimed <= max(LARGEST_EXPANSION, allowed or 0) or claimed <= HIGHEST_RATIO * stored:
        return
    raise FileError(
        f"{where}: expands from {human_bytes(stored)} to {human_bytes(claimed)} when it is read, which may be a "
        f"decompression bomb; to allow it, use {field('max_memory')}"
    )


def check_memory(
    what: str, needed: int, limit: int | None, purpose: str = "", remedy: str = "", *, unit: str = " of memory"
) -> None:
    """Refuses what takes more memory than the limit; `what` and a verb begin the message: `x.npy: needs`."""
    if limit is not None and needed > limit:
        raise FileError(
            f"{what} {human_bytes(needed)}{unit}{purpose}, but the limit is {human_bytes(limit)}; "
            f"raise {field('max_memory')}{remedy}"
        )


def memory_limit_of(path: str, limit: int | None, allowed: int | None) -> int | None:
    """The memory limit for the file at `path` in bytes: --max-memory if given (`allowed`), else `limit`, for a small
    file less.
    """
    if allowed is None and os.path.isfile(path) and os.path.getsize(path) < SMALL_FILE:
        return MEMORY_OF_SMALL if limit is None else min(limit, MEMORY_OF_SMALL)
    return limit


def beside(count: int) -> int:
    """The bytes to count in a header's `beside`: 0 for little."""
    return count if count > LEAST else 0


def most_of_json(limit: int | None, allowed: int | None) -> int:
    """The bytes that a JSON document may take in memory; `allowed` is --max-memory if given."""
    most = MEMORY_OF_JSON if limit is None else limit if allowed is not None else min(limit, MEMORY_OF_JSON)
    return max(most, LEAST)


def check_json(where: str, text: bytes, limit: int | None, allowed: int | None) -> None:
    """Refuses JSON that may take more memory as Python objects than `most_of_json`."""
    needed = len(text) + sum(size * text.count(sign) for sign, size in OBJECTS.items())
    what = f"{where}: {human_bytes(len(text))} of JSON, which may take"
    check_memory(what, needed, most_of_json(limit, allowed))


def check_members(path: str, limit: int | None) -> None:
    """Refuses a zip archive whose list of members takes more memory than the limit: zipfile reads all of it at once.

    What is no archive is left to zipfile.
    """
    with open(path, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - LONGEST_END))
        tail = stream.read()
        at = tail.rfind(b"PK\5\6")
        (size,) = struct.unpack_from("<L", tail, at + 12) if 0 <= at <= len(tail) - 22 else (0,)
        if size == 2**32 - 1 and tail[at - 20 : at - 16] == b"PK\6\7":  # an archive with more members, or bytes
            stream.seek(min(end, struct.unpack_from("<Q", tail, at - 12)[0]))
            size = int.from_bytes(stream.read(48)[40:], "little")
    needed = min(size, end) // LEAST_OF_MEMBER * MEMORY_OF_MEMBER
    check_memory(f"{path}: its list of members may take", needed if needed > LEAST else 0, limit)


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """The bytes of an array, as a Python integer, which cannot overflow."""
    return prod(shape) * itemsize


NAMES = ("_FillValue", "missing_value")
LIMITS = ("valid_min", "valid_max", "valid_range")  # of stored numbers
MOST = 16  # nodata values of an attribute
UNREADABLE = (TypeError, ValueError, OSError, RuntimeError, KeyError)  # what reading an attribute may raise


def missing_in(attributes: Mapping[str, Any], dtype: str) -> Missing:
    """The nodata values that an array of the type can hold."""
    found: list[int | float] = []
    for name in NAMES:
        for number in _numbers(attributes, name) or ():
            if can_hold(DTYPES[dtype], number) and str(number) not in map(str, found):
                found.append(number)
    return tuple(found)


def notes_on(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Notes on attributes of nodata values that are not numbers."""
    for name in NAMES:
        if name in attributes and _numbers(attributes, name) is None:
            yield f"the file's nodata value ({name}) is not a number and is ignored"


def _numbers(attributes: Mapping[str, Any], name: str) -> Sequence[int | float] | None:
    """The numbers of an attribute; () if it is missing, None if it holds something else."""
    import numpy as np

    if name not in attributes:
        return ()
    try:
        value = np.ravel(attributes[name])
    except UNREADABLE:
        return None
    if value.dtype.kind not in "iuf" or value.size > MOST:
        return None
    found: list[int | float] = value.tolist()
    return found


# The unpacked size of compressed data, without unpacking it to memory: libraries allocate the memory first. Sizes above
# `most` may be any number above it; 0 means that there is no telling, or that it cannot be above it.

AT_ONCE = 2**20  # bytes
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Bytes that one byte can unpack to, at most.
MOST_OF_DEFLATE, MOST_OF_LZMA = 1032, 8000


def blosc_size(data: bytes, most: int) -> int:
    """By the header of Blosc; 0 if that is wrong, which Blosc refuses."""
    return int.from_bytes(data[4:8], "little") if int.from_bytes(data[12:16], "little") == len(data) else 0


def zstd_size(data: bytes, most: int) -> int:
    """By the header of the first frame (RFC 8878, 3.1.1)."""
    if data[:4] != ZSTD_MAGIC or len(data) < 5:
        return 0
    flags = data[4]
    is_single = flags >> 5 & 1
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    length = (is_single, 2, 4, 8)[flags >> 6]
    return int.from_bytes(data[at : at + length], "little") + (256 if length == 2 else 0)


def deflate_size(data: bytes, most: int) -> int:
    """By unpacking gzip or zlib data in pieces, if it can be above `most`."""
    if len(data) * MOST_OF_DEFLATE <= most:
        return 0
    return _counted(lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), data, most)


def lzma_size(data: bytes, most: int) -> int:
    """By unpacking it in pieces, if it can be above `most`."""
    return 0 if len(data) * MOST_OF_LZMA <= most else _counted(lzma.LZMADecompressor, data, most)


def _counted(make: Callable[[], Any], data: bytes, most: int) -> int:
    """The bytes of all concatenated streams, or a number above `most`; damage is left to the decoder."""
    count, unpacker, found = 0, make(), b""
    while count <= most and (data or found):
        try:
            found = unpacker.decompress(data, AT_ONCE)
        except (zlib.error, OSError, lzma.LZMAError, EOFError):
            break
        count += len(found)
        data = getattr(unpacker, "unconsumed_tail", b"")
        if unpacker.eof:
            data, unpacker, found = unpacker.unused_data, make(), b""
    return count


# By the names of numcodecs and Zarr, which write a header before LZ4.
UNPACKED_SIZES: dict[str, Callable[[bytes, int], int]] = {
    "blosc": blosc_size, "bz2": partial(_counted, bz2.BZ2Decompressor), "gzip": deflate_size, "lzma": lzma_size,
    "lz4": lambda data, most: int.from_bytes(data[:4], "little"), "zlib": deflate_size, "zstd": zstd_size,
}  # fmt: skip
