"""Checks shared by all formats: dtypes, sizes, nodata values, and the choice among several arrays."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """What the library raises becomes a FileError that begins with `where`; what it is not known to raise, a mistake of
    poolcli's own perhaps, stays as it is.
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
LARGEST_EXPANSION = 2**28  # bytes; what is smaller may grow as it likes
HIGHEST_RATIO = 1000
SMALL_FILE = 2**20  # bytes
MEMORY_OF_SMALL = 3 * 2**28  # bytes that a small file may take at most, unless more is allowed by name
LEAST = 2**20  # bytes that any reader may take beside its array
MEMORY_OF_JSON = 2**30  # bytes that a JSON document may take as Python objects, unless more is allowed by name
# Bytes that Python takes at most for what each of these characters of JSON begins or parts.
OBJECTS = {b"{": 64, b"[": 56, b":": 120, b",": 72}


def check_dtype(where: str, name: str) -> str:
    """`name` when arrays of it can be pooled; refuses objects, structures, strings, complex numbers and so on."""
    if name not in DTYPES:
        raise FileError(f"{where}: holds {name[:60]}; poolcli pools bool, integers and floats of 16, 32 or 64 bits")
    return name


def check_rank(where: str, shape: Sequence[int]) -> None:
    """Refuses a single number."""
    if not shape:
        raise FileError(f"{where}: holds a single number; an array with at least one axis is needed")


def choose(source: Source, headers: Sequence[Header], axes: int | None = None) -> Header:
    """The array that the source names, or the only one that can be pooled; refuses the rest with a listing.

    That is one of so many `axes`, or of 3 and more (N, C and a spatial one) where the number is None.
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
    """The array of a file that `choose` chooses."""
    return file.array(str(choose(source, file.headers, axes).key))


def usable(headers: Sequence[Header], axes: int | None) -> list[Header]:
    """Those that have so many `axes`, or 3 and more where the number is None."""
    return [h for h in headers if len(h.shape) == axes or (axes is None and len(h.shape) >= FEWEST_AXES)]


def named(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def listing(headers: Sequence[Header]) -> str:
    """Names, shapes and types: `a (1,3,8,8 float32), b (2,2 int8)`."""
    names = [h.key or "one array without a name" for h in headers]
    arrays = zip(names, headers, strict=True)
    return named([f"{name} ({','.join(map(str, h.shape))} {h.dtype})" for name, h in arrays]) or "none"


def tensor_layout(layout: str) -> str:
    """The layout in which a tensor file stores a picture: N, C and spatial axes."""
    return "NC" + "".join(layout[i] for i in spatial_axes(layout))


def human_bytes(count: int) -> str:
    """A size with its unit: `3.6 TiB`."""
    step = min(max(count.bit_length() - 1, 0) // 10, 5)
    if count >= 10**6 * 1024**5:
        return "more than 1,000,000 PiB"
    return f"{count / 1024**step:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[step]}"


def check_expansion(where: str, stored: int, claimed: int, allowed: int | None) -> None:
    """Refuses data that grows out of proportion when it is read, unless so much memory was allowed by name."""
    if claimed <= max(LARGEST_EXPANSION, allowed or 0) or claimed <= HIGHEST_RATIO * stored:
        return
    raise FileError(
        f"{where}: grows from {human_bytes(stored)} to {human_bytes(claimed)} when it is read, which may be a "
        f"decompression bomb; if it is meant to, allow it with {field('max_memory')}"
    )


def memory_limit_of(path: str, limit: int | None, allowed: int | None) -> int | None:
    """The most bytes of memory that may be taken for the file at `path`: what was `allowed` by name, else the `limit`,
    which for a small file is lower.
    """
    if allowed is None and os.path.isfile(path) and os.path.getsize(path) < SMALL_FILE:
        return MEMORY_OF_SMALL if limit is None else min(limit, MEMORY_OF_SMALL)
    return limit


def beside(count: int) -> int:
    """So many bytes as a reader states them in its header: what is next to nothing is not counted."""
    return count if count > LEAST else 0


def check_json(where: str, text: bytes, limit: int | None, allowed: int | None) -> None:
    """Refuses JSON that takes more memory as Python objects than it may; `allowed` is what was allowed by name."""
    needed = len(text) + sum(size * text.count(sign) for sign, size in OBJECTS.items())
    most = MEMORY_OF_JSON if limit is None else limit if allowed is not None else min(limit, MEMORY_OF_JSON)
    if needed > max(most, LEAST):
        raise FileError(
            f"{where}: {human_bytes(len(text))} of JSON, which may take {human_bytes(needed)} of memory, the limit is "
            f"{human_bytes(most)}; raise {field('max_memory')}"
        )


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """The bytes of an array, in Python integers that cannot overflow."""
    return prod(shape) * itemsize


NAMES = ("_FillValue", "missing_value")
MOST = 16  # numbers of an attribute
UNREADABLE = (TypeError, ValueError, OSError, RuntimeError, KeyError)  # what reading an attribute may raise


def missing_in(attributes: Mapping[str, Any], dtype: str) -> Missing:
    """The numbers, as far as an array of the type can have them."""
    found: list[int | float] = []
    for name in NAMES:
        for number in _numbers(attributes, name) or ():
            if can_hold(DTYPES[dtype], number) and str(number) not in map(str, found):
                found.append(number)
    return tuple(found)


def notes_on(attributes: Mapping[str, Any]) -> Iterator[str]:
    """What is said of an attribute that names missing values, but no numbers."""
    for name in NAMES:
        if name in attributes and _numbers(attributes, name) is None:
            yield f"what the file calls missing ({name}) is no number, and nothing is left out for it"


def _numbers(attributes: Mapping[str, Any], name: str) -> Sequence[int | float] | None:
    """An attribute that holds numbers; () where there is none of the name, None where it holds something else."""
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


AT_ONCE = 2**20  # bytes
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Bytes that one byte can unpack to, at most, by formats that do not say how much they hold.
MOST_OF_DEFLATE, MOST_OF_LZMA = 1032, 8000


def blosc_size(data: bytes, most: int) -> int:
    """By the header of Blosc; 0 where that is not of these data, which Blosc refuses."""
    return int.from_bytes(data[4:8], "little") if int.from_bytes(data[12:16], "little") == len(data) else 0


def lz4_size(data: bytes, most: int) -> int:
    """By the header that numcodecs writes."""
    return int.from_bytes(data[:4], "little")


def hdf5_lz4_size(data: bytes, most: int) -> int:
    """By the header that the HDF5 filters LZ4 and Bitshuffle write."""
    return int.from_bytes(data[:8], "big")


def blosc2_size(data: bytes, most: int) -> int:
    """By the header of a frame of Blosc2; of a bare chunk as Blosc."""
    return int.from_bytes(data[30:38], "big") if data[2:9] == b"b2frame" else blosc_size(data, most)


def zstd_size(data: bytes, most: int) -> int:
    """By the header of the first frame (RFC 8878, 3.1.1); 0 where it does not say."""
    if data[:4] != ZSTD_MAGIC or len(data) < 5:
        return 0
    flags = data[4]
    is_single = flags >> 5 & 1
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    length = (is_single, 2, 4, 8)[flags >> 6]
    return int.from_bytes(data[at : at + length], "little") + (256 if length == 2 else 0)


def deflate_size(data: bytes, most: int) -> int:
    """By unpacking gzip or zlib to no more than `most`, where so much can be in it."""
    if len(data) * MOST_OF_DEFLATE <= most:
        return 0
    return _counted(lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), data, most)


def bzip2_size(data: bytes, most: int) -> int:
    """By unpacking it to no more than `most`."""
    return _counted(bz2.BZ2Decompressor, data, most)


def lzma_size(data: bytes, most: int) -> int:
    """By unpacking it to no more than `most`, where so much can be in it."""
    return 0 if len(data) * MOST_OF_LZMA <= most else _counted(lzma.LZMADecompressor, data, most)


def _counted(make: Callable[[], Any], data: bytes, most: int) -> int:
    """The bytes of all streams that lie one behind the other, or the first number above `most`; what is damaged is left
    to whoever unpacks it.
    """
    count, rest = 0, data
    while rest and count <= most:
        unpacker = make()
        count, rest = _counted_one(unpacker, rest, most, count)
    return count


def _counted_one(unpacker: Any, data: bytes, most: int, count: int) -> tuple[int, bytes]:
    while count <= most and not unpacker.eof:
        try:
            found = len(unpacker.decompress(data, AT_ONCE))
        except (zlib.error, OSError, lzma.LZMAError, EOFError):
            return count, b""
        data = getattr(unpacker, "unconsumed_tail", b"")
        count += found
        if not found and not data and not unpacker.eof:
            return count, b""
    return count, unpacker.unused_data


UNPACKED_SIZES: dict[str, Callable[[bytes, int], int]] = {
    "blosc": blosc_size, "bz2": bzip2_size, "gzip": deflate_size, "lz4": lz4_size, "lzma": lzma_size,
    "zlib": deflate_size, "zstd": zstd_size,
}  # fmt: skip
