"""Checks that formats share: dtypes, memory limits, decompression bombs, nodata attributes, and choosing an array."""

from __future__ import annotations

import lzma
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import isnan, prod
from typing import Any

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES, can_hold, conversion
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.records import ArrayContainer, ArrayReader, Header, Source
from poolcli.layouts import spatial_axes
from poolcli.message_fields import AGAIN, field, hint
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import numpy as np


@contextmanager
def as_file_error(
    where: str, expected: tuple[type[Exception], ...], describe: Callable[[Exception], str]
) -> Iterator[None]:
    """Converts `expected` exceptions to a FileError whose message starts with `where`.

    All others propagate with their traceback, because they may be bugs of poolcli.
    """
    try:
        yield
    except (PoolError, MemoryError):
        raise
    except expected as error:
        raise FileError(f"{where}: {describe(error)}") from error


MAX_AXES = 32  # numpy 1 allows 32 axes, numpy 2 64
MAX_BYTES = 2**63 - 1  # of a numpy array, with lengths of 0 counted as 1
USUAL_AXES = 3  # N, C and a spatial axis, unless the layout is given
MAX_NAMES = 20  # listed in a message
# Decompression bombs: data may expand to this size (bytes) at any ratio, and beyond it by at most this ratio.
FREE_EXPANSION, MAX_EXPANSION_RATIO = 2**28, 1000
# A file below 1 MiB gets at most 768 MiB of memory, unless --max-memory is given.
SMALL_FILE, SMALL_FILE_MEMORY = 2**20, 3 * 2**28
NEGLIGIBLE = 2**20  # bytes; extra memory up to this size is not counted
JSON_MEMORY = 2**30  # bytes that a parsed JSON document may take, unless --max-memory is given
ZIP_TAIL = 2**16 + 42  # bytes: the longest comment, and the records of the end before it
MIN_MEMBER_ENTRY, MEMBER_OBJECTS = 46, 1000  # bytes of an entry of a zip directory, and as a ZipInfo
# Upper bounds of the sizes of Python objects, by the characters that start or separate them in JSON.
JSON_OBJECTS = {b"{": 64, b"[": 56, b":": 120, b",": 72}


def check_name(text: str) -> None:
    """Refuses an empty name of a file."""
    if not text.strip():
        raise RequestError(f'a file is named {text!r}; a variable such as "$IMAGE" may be empty or not set')


def check_dtype(where: str, name: str) -> None:
    """Raises a FileError for arrays that cannot be pooled: of strings, complex numbers, ..."""
    if name not in DTYPES:
        held = "structured or opaque values" if name.startswith("void") else name[:60]
        pooled = f"poolcli pools bool, integers and floats of 16, 32 or 64 bits{conversion(name)}"
        raise FileError(f"{where}: holds {held}; {pooled}")


def check_array(where: str, shape: Sequence[int] | None, dtype: str, scalars: bool = False) -> None:
    """Raises a FileError for an array that cannot be pooled: a scalar, another type, too many axes or bytes."""
    check_dtype(where, dtype)
    if shape is None:  # H5S_NULL
        raise FileError(f"{where}: is a dataset without data")
    if not (shape or scalars):
        raise FileError(f"{where}: holds a single number; an array with at least one axis is needed")
    if len(shape) > MAX_AXES:
        raise FileError(f"{where}: has {len(shape)} axes; at most {MAX_AXES} are read")
    size = byte_count([size or 1 for size in shape], DTYPES[dtype].itemsize)
    if size > MAX_BYTES:
        raise FileError(f"{where}: claims {human_bytes(size)}, which no array can have")


def choose_array(source: Source, headers: Sequence[Header], axes: int | None = None) -> Header:
    """The array that the source names, or the only one with `axes` axes (None: at least 3).

    Raises a RequestError that lists the arrays if there are several.
    """
    if source.key is not None:
        named = (header for header in headers if (header.key or "").strip("/") == source.key.strip("/"))
        found = next(named, None)
        if found is None:
            raise no_such_array(source.path, source.key, headers)
        return found
    if not headers:
        raise FileError(f"{source.path}: holds no array that can be pooled")
    candidates = poolable(headers, axes) or headers
    if len(candidates) > 1:
        first = candidates[0].key
        raise RequestError(
            f"{source.path}: holds {len(headers)} arrays: {describe_arrays(headers)}; choose one: {source.path}:{first}"
            + hint(f" or {field('dataset', first)}")
            + hint(f", or all of them: {field('all')} {field('output', f'all{os.path.splitext(source.path)[1]}')}")
        )
    return candidates[0]


def open_chosen(file: ArrayContainer, source: Source, axes: int | None) -> ArrayReader:
    """Opens the array that is named, else the one to choose, with a note on others; a FileError if none can be."""
    if source.key is not None:
        return file.array(source.key)
    others = [] if file.headers else file.left_out
    if len(others) == 1:
        file.array(others[0])  # raises a FileError
    if others:
        raise FileError(f"{source.path}: none of its {len(others)} arrays can be pooled: {join_names(others)}")
    chosen = file.array(str(choose_array(source, file.headers, axes).key))
    if lost := [str(header.key) for header in (*file.headers, *file.scalars) if header.key != chosen.header.key]:
        note = f"left out: {join_names(lost)}" + hint(f"; {field('all')}{AGAIN} takes all arrays")
        chosen.header = replace(chosen.header, notes=(note, *chosen.header.notes))
    return chosen


def why_left_out(file: ArrayContainer) -> list[str]:
    """Why other arrays cannot be pooled, a message for each of the first ones, with its name."""
    names, found = file.left_out, list[str]()
    for name in names[:MAX_NAMES]:
        try:
            file.array(name)
        except FileError as error:
            found.append(error.message)
        except RequestError:  # a link to a group, whose arrays are listed by themselves
            continue
    more = len(names) - MAX_NAMES
    return found + ([f"{more} more cannot be pooled"] if more > 0 else [])


def poolable(headers: Sequence[Header], axes: int | None) -> list[Header]:
    """The arrays with `axes` axes; if that is None, those with at least 3, or with the most if all have fewer."""
    least = max(1, min(USUAL_AXES, max((len(h.shape) for h in headers), default=0)))
    return [h for h in headers if len(h.shape) == axes or (axes is None and len(h.shape) >= least)]


def join_names(names: Sequence[str], limit: int = MAX_NAMES) -> str:
    """The first `limit` names and the number of the others: `a, b and 3 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def no_such_array(path: str, key: str, headers: Sequence[Header]) -> RequestError:
    """The error of a key that a file does not have: names those that it has."""
    meant = did_you_mean(key.strip("/"), [(header.key or "").strip("/") for header in headers])
    return RequestError(f"{path}: has no array {key!r}; it holds {describe_arrays(headers)}{meant}")


def describe_arrays(headers: Sequence[Header]) -> str:
    """Names, shapes and dtypes for a message: `a (1,3,8,8 float32), b (2,2 int8)`."""
    arrays = ((h.key or "one array without a name", ",".join(map(str, h.shape)), h.dtype) for h in headers)
    return join_names([f"{name} ({f'{shape} {dtype}'.lstrip()})" for name, shape, dtype in arrays]) or "none"


def tensor_layout(layout: str) -> str:
    """The layout in which a tensor file stores an image: N, C and spatial axes."""
    return "NC" + "".join(layout[i] for i in spatial_axes(layout))


def human_bytes(count: int) -> str:
    """A size with a binary unit: `3.6 TiB`."""
    step = min(max(count.bit_length() - 1, 0) // 10, 6)
    if count >= 10**6 * 1024**5:
        return "more than 1,000,000 PiB"
    return f"{count / 1024**step:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[step]}"


def check_expansion(where: str, stored: int, claimed: int, allowed: int | None) -> None:
    """Raises a FileError if `stored` bytes expand to a suspicious size, unless --max-memory (`allowed`) permits it."""
    if claimed <= max(FREE_EXPANSION, allowed or 0) or claimed <= MAX_EXPANSION_RATIO * stored:
        return
    raise FileError(
        f"{where}: expands from {human_bytes(stored)} to {human_bytes(claimed)} when it is read, which may be a "
        f"decompression bomb; to allow it, use {field('max_memory')}"
    )


def check_memory(
    what: str, needed: int, limit: int | None, purpose: str = "", remedy: str = "", *, unit: str = " of memory"
) -> None:
    """Raises a FileError if more memory is needed than the limit. The message starts with `what`: `x.npy: needs`."""
    if limit is not None and needed > limit:
        raise FileError(
            f"{what} {human_bytes(needed)}{unit}{purpose}, but the limit is {human_bytes(limit)}; "
            f"raise {field('max_memory')}{remedy}"
        )


def memory_limit_of(path: str, limit: int | None, allowed: int | None) -> int | None:
    """The memory limit in bytes for a file: `limit`, less for a small one if --max-memory (`allowed`) is not given."""
    if allowed is None and os.path.isfile(path) and os.path.getsize(path) < SMALL_FILE:
        return SMALL_FILE_MEMORY if limit is None else min(limit, SMALL_FILE_MEMORY)
    return limit


def unless_negligible(count: int) -> int:
    """The number of bytes, or 0 if it is too small to count as extra memory of a reader."""
    return count if count > NEGLIGIBLE else 0


def json_memory_limit(limit: int | None, allowed: int | None) -> int:
    """The memory in bytes that a parsed JSON document may take; `allowed` is --max-memory if given."""
    most = JSON_MEMORY if limit is None else limit
    return max(most if allowed is not None else min(most, JSON_MEMORY), NEGLIGIBLE)


def check_json(where: str, text: bytes, limit: int | None, allowed: int | None) -> None:
    """Raises a FileError for JSON that may take more memory as Python objects than `json_memory_limit`."""
    needed = len(text) + sum(size * text.count(sign) for sign, size in JSON_OBJECTS.items())
    what = f"{where}: {human_bytes(len(text))} of JSON, which may take"
    check_memory(what, needed, json_memory_limit(limit, allowed))


def check_zip_directory(path: str, limit: int | None) -> None:
    """Raises a FileError if the directory of a zip archive takes more memory than the limit: zipfile reads all of it.

    Invalid archives pass; zipfile reports them.
    """
    with open(path, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - ZIP_TAIL))
        tail = stream.read()
        at = tail.rfind(b"PK\5\6")  # end of central directory record (APPNOTE.TXT 4.3.16)
        (size,) = struct.unpack_from("<L", tail, at + 12) if 0 <= at <= len(tail) - 22 else (0,)
        if size == 2**32 - 1 and tail[at - 20 : at - 16] == b"PK\6\7":  # the size is in the ZIP64 record (4.3.14)
            stream.seek(min(end, struct.unpack_from("<Q", tail, at - 12)[0]))
            size = int.from_bytes(stream.read(48)[40:], "little")
    needed = min(size, end) // MIN_MEMBER_ENTRY * MEMBER_OBJECTS
    check_memory(f"{path}: its list of members may take", unless_negligible(needed), limit)


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """The size of an array in bytes, as a Python int, which cannot overflow."""
    return prod(shape) * itemsize


NODATA_ATTRIBUTES = ("_FillValue", "missing_value")
RANGE_ATTRIBUTES = ("valid_min", "valid_max", "valid_range")
MAX_NODATA = 16  # values in one attribute


def nodata_in(attributes: Mapping[str, Any], dtype: str) -> Missing:
    """The nodata values in CF attributes that an array of the dtype can hold."""
    found = dict[int | float | None, int | float]()  # by their values, of which NaN does not equal itself
    for number in (number for name in NODATA_ATTRIBUTES for number in _numbers(attributes, name) or ()):
        if can_hold(DTYPES[dtype], number):
            found.setdefault(None if isnan(number) else number, number)
    return tuple(found.values())


def nodata_notes(attributes: Mapping[str, Any]) -> Iterator[str]:
    """A note for each nodata attribute that is not numeric."""
    for name in NODATA_ATTRIBUTES:
        if name in attributes and _numbers(attributes, name) is None:
            yield f"the file's nodata value ({name}) is not a number and is ignored"


def _numbers(attributes: Mapping[str, Any], name: str) -> Sequence[int | float] | None:
    """The numbers in an attribute; () if it is missing, None if it is not numeric."""
    if name not in attributes:
        return ()
    value = np.ravel(attributes[name])
    if value.dtype.kind not in "iuf" or value.size > MAX_NODATA:
        return None
    if value.dtype.kind == "f":  # long doubles are no numbers of Python; larger ones than float64 has are left out
        with np.errstate(over="ignore"):
            doubles = value.astype(np.float64)
        value = doubles[np.isinf(doubles) == np.isinf(value)]
    return value.tolist()  # type: ignore[no-any-return]


# Decompressed sizes. Codecs allocate the size that the data claim before they decompress, so the size is checked first.

BLOCK = 2**20  # bytes


def streamed_size(make: Callable[[], Any], ratio: float, data: bytes, limit: int) -> int:
    """The size of all concatenated streams up to the first damage, which the decoder reports.

    0 if they cannot exceed `limit`, because a byte produces at most `ratio`; any number above it if they do.
    """
    if len(data) * ratio <= limit:
        return 0
    count, unpacker, found = 0, make(), b""
    while count <= limit and (data or found):
        try:
            found = unpacker.decompress(data, BLOCK)
        except (zlib.error, OSError, lzma.LZMAError, EOFError):
            break
        count += len(found)
        data = getattr(unpacker, "unconsumed_tail", b"")
        if unpacker.eof:
            data, unpacker, found = unpacker.unused_data, make(), b""
    return count


deflate_size = partial(streamed_size, lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), 1032)  # gzip or zlib
lzma_size = partial(streamed_size, lzma.LZMADecompressor, 8000)
