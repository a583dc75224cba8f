"""Chunks of HDF5 datasets: limits to their memory, and filters, decoded here so that no chunk exceeds its size.

HDF5 itself unpacks a chunk to any length, and fills one that is too short with whatever follows it in memory.
"""

from __future__ import annotations

import bz2
import ctypes
import errno
import os
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats import checks
from poolcli.formats.batches import batches
from poolcli.formats.checks import blosc_size, byte_count, check_expansion, human_bytes, unless_negligible, zstd_size
from poolcli.formats.records import ReadOptions, slices
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, Lazy, need
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Ranges, ceil_div

h5py: Any = Lazy("h5py")

Decoded = bytes | int
Values = tuple[int, ...]
FLETCHER32 = 3
CHECKSUM = 4  # bytes that fletcher32 appends
SCALED_HEADER = 21  # bytes of scale-offset before the numbers
PACKED_ATOMS = 1  # n-bit's kind for plain numbers


def _stream(make: Callable[[], Any], data: bytes, values: Values, most: int) -> Decoded:
    """By a decompressor of the standard library."""
    unpacker = make()
    try:
        found: bytes = unpacker.decompress(data, most + 1)
    except (zlib.error, OSError):
        return b""
    if len(found) > most:
        return len(found)
    return found if unpacker.eof else b""


def _shuffle(data: bytes, values: Values, most: int) -> Decoded:
    """Brings the bytes of each number together again; the rest at the end was never moved."""
    size = values[0] if values else 1
    count = len(data) // size if size else 0
    if count <= 1 or size <= 1:
        return data
    moved = np.frombuffer(data, np.uint8, size * count).reshape(size, count)
    return moved.T.tobytes() + data[size * count :]


def _nbit(data: bytes, values: Values, most: int) -> Decoded:
    _, whole, count, kind, size, _, bits, *_ = (*values, *[0] * 8)
    if whole:
        return data
    enough = kind == PACKED_ATOMS and len(data) >= ceil_div(count * bits, 8)
    return count * size if enough else b""


def _scale_offset(data: bytes, values: Values, most: int) -> Decoded:
    _, _, count, _, size, *_ = (*values, *[0] * 5)
    bits = int.from_bytes(data[:4], "little")
    most_packed = SCALED_HEADER + count * bits // 8 + 1
    whole = bits <= 8 * size and SCALED_HEADER + ceil_div(count * bits, 8) <= len(data) <= most_packed
    return count * size if whole else b""


def _szip(data: bytes, values: Values, most: int) -> Decoded | None:
    """By HDF5's own library."""
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


def _lzf(data: bytes, values: Values, most: int) -> Decoded | None:
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
    """h5py's module of filters, which links to their libraries."""
    return ctypes.CDLL(h5py.h5z.__file__, use_errno=True)


DECODERS: dict[int, Callable[[bytes, Values, int], Decoded | None]] = {
    1: partial(_stream, zlib.decompressobj), 2: _shuffle, FLETCHER32: lambda data, values, most: data[:-CHECKSUM],
    4: _szip, 5: _nbit, 6: _scale_offset, 307: partial(_stream, bz2.BZ2Decompressor), 32000: _lzf,
}  # fmt: skip


BITSHUFFLE = 32008  # compresses only if its fifth value names a codec


def _size_before_lz4(data: bytes, most: int) -> int:
    """By the header that the filters LZ4 and Bitshuffle write."""
    return int.from_bytes(data[:8], "big")


def _blosc2_size(data: bytes, most: int) -> int:
    """By the header of a Blosc2 frame, or of a bare chunk, as in Blosc."""
    return int.from_bytes(data[30:38], "big") if data[2:9] == b"b2frame" else blosc_size(data, most)


SIZE_IN_HEADER = {
    32001: blosc_size, 32004: _size_before_lz4, BITSHUFFLE: _size_before_lz4, 32015: zstd_size, 32026: _blosc2_size,
}  # fmt: skip
H5Z_FLAG_REVERSE = 0x0100  # H5Z_FLAG_REVERSE
MAX_RESULT = 2**63  # larger results are negative error codes of a codec
FilterFunc = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip


class _FilterClass(ctypes.Structure):
    """H5Z_class2_t."""

    _fields_ = (
        ("version", ctypes.c_int), ("id", ctypes.c_int), ("encodes", ctypes.c_uint), ("decodes", ctypes.c_uint),
        ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p), ("set_local", ctypes.c_void_p),
        ("filter", FilterFunc),
    )  # fmt: skip


def decode_with_plugin(code: int, data: bytes, values: tuple[int, ...], most: int) -> bytes | int | None:
    """A chunk decoded by a filter of hdf5plugin; its length if that is more than `most`; b'' if decoding fails.

    None if hdf5plugin has no such filter, or its memory cannot be freed from here.
    """
    filter_of = _filters().get(code)
    if filter_of is None:
        return None
    packs = code != BITSHUFFLE or any(values[4:5])
    claimed = SIZE_IN_HEADER[code](data, most) if code in SIZE_IN_HEADER and packs else 0
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
        given = filter_of(H5Z_FLAG_REVERSE, len(values), numbers, len(data), ctypes.byref(taken), ctypes.byref(buffer))
        if not buffer or given > MAX_RESULT:
            return b""
        return ctypes.string_at(buffer, given) if given <= most else int(given)
    finally:
        system.free(buffer)


@cache
def _filters() -> dict[int, Callable[..., int]]:
    """hdf5plugin's filters by number; they stay loaded, because HDF5 uses them too."""
    try:
        (plugin,) = need("hdf5plugin", why="filters")
    except RequestError:
        return {}
    found: dict[int, Callable[..., int]] = {}
    for path in plugin.get_config().registered_filters.values():
        library: Any = ctypes.CDLL(path)
        library.H5PLget_plugin_info.restype = ctypes.POINTER(_FilterClass)
        about = library.H5PLget_plugin_info().contents
        found[about.id] = about.filter
    return found


Filter = tuple[int, tuple[int, ...]]  # its number and its values
FILTER_OVERHEAD = 64  # bytes that a filter may add before the next one compresses


def decode_chunk(where: str, data: bytes, filters: Sequence[Filter], size: int) -> bytes | None:
    """A chunk of `size` bytes, decoded; None if it is left to h5py.

    Raises a FileError for a chunk that is longer, shorter or damaged.
    """
    found: Decoded | None = data
    for code, values in reversed(filters):
        if not isinstance(found, bytes):
            return None  # h5py will decode it
        undo = DECODERS.get(code)
        found = (
            undo(found, values, size + FILTER_OVERHEAD)
            if undo
            else decode_with_plugin(code, found, values, size + FILTER_OVERHEAD)
        )
        if found == b"" or (isinstance(found, int) and found > size + FILTER_OVERHEAD):
            break
    if found is None:
        return None
    length = found if isinstance(found, int) else len(found)
    if length != size:
        what = f"unpacks to {'more' if length > size else 'less'}" if length else "cannot be unpacked"
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that {what}")
    summed = any(code == FLETCHER32 for code, _ in filters)  # h5py compares the checksum
    return found if isinstance(found, bytes) and not summed else None


def read_chunks(where: str, dataset: Any, written: Sequence[int], region: Ranges) -> Array:
    """A region of an h5py dataset with filters; refuses chunks that unpack to another size than their own.

    `written` are the sorted numbers of the chunks that are stored.
    """
    properties = dataset.id.get_create_plist()
    filters = [(code, values) for code, _, values, _ in map(properties.get_filter, range(properties.get_nfilters()))]
    shape, kind, dtype = properties.get_chunk(), dataset.id.get_type(), dataset.dtype
    size = byte_count(shape, kind.get_size())
    as_stored = kind.equal(h5py.h5t.py_create(dtype))
    # Up to 3.14, h5py reads a stored chunk without its lock, and a write in another thread then crashes the process.
    lock = getattr(getattr(h5py, "_objects", None), "phil", nullcontext())
    out = np.empty(tuple(map(len, region)), dtype)
    for part in batches(region, shape, 1):
        first = tuple(span.start - span.start % step for span, step in zip(part, shape, strict=True))
        data, number = None, chunk_index(first, dataset.shape, shape)
        at = bisect_left(written, number)
        if at < len(written) and written[at] == number:
            with lock:
                skipped, stored = dataset.id.read_direct_chunk(first)
            applied = [each for i, each in enumerate(filters) if not skipped >> i & 1]
            data = decode_chunk(where, stored, applied, size)
        if data is not None and as_stored:
            inside = tuple(range(start, start + step) for start, step in zip(first, shape, strict=True))
            out[slices(part, region)] = np.frombuffer(data, dtype).reshape(shape)[slices(part, inside)]
        else:
            out[slices(part, region)] = dataset[slices(part)]
    return out


def chunk_index(first: Sequence[int], shape: Sequence[int], chunk: Sequence[int]) -> int:
    """The number of a chunk in C order, by its first element."""
    number = 0
    for place, n, step in zip(first, shape, chunk, strict=True):
        number = number * ceil_div(n, step) + place // step
    return number


MAX_OVERHEAD = 1024  # bytes that filters may add to a chunk
CHUNK_COPIES = 4  # of a chunk while it is decoded: stored (up to twice as long), decoded, and inside a filter
INDEX_BYTES = 16  # bytes for each stored chunk: its number, twice while they are sorted


def is_virtual(properties: Any) -> bool:
    """Whether these are the properties of a virtual dataset."""
    return bool(properties.get_layout() == h5py.h5d.VIRTUAL)


def check_location(where: str, path: str, properties: Any, name: str, allow_external: bool) -> None:
    """Refuses data in other files unless that is allowed, and sources that are missing or the dataset itself."""
    for i in range(properties.get_virtual_count() if is_virtual(properties) else 0):
        file, source = properties.get_virtual_filename(i), properties.get_virtual_dsetname(i)
        if not allow_external:
            raise FileError(
                f"{where}: is a virtual dataset, whose data lies elsewhere ({file}:{source}); "
                f"{field('allow_external')} reads it"
            )
        same = file in (".", os.path.basename(path))
        if not os.path.isfile(path if same else os.path.join(os.path.dirname(path), file)):
            raise FileError(f"{where}: its source {file} is missing; HDF5 would return fill values without an error")
        if same and source.strip("/") == name.strip("/"):
            raise FileError(f"{where}: is a virtual dataset that is its own source")
    if properties.get_external_count() and not allow_external:
        other = os.fsdecode(properties.get_external(0)[0])
        raise FileError(f"{where}: keeps its data in other files ({other}); {field('allow_external')} reads them")


def check_memory(
    where: str, path: str, found: Any, properties: Any, options: ReadOptions
) -> tuple[array[int] | None, int]:
    """The sorted numbers of the stored chunks (None without filters), and the bytes of memory that reading takes.

    Refuses data, and chunks, that take far more memory than they have bytes in the file, or more than the limit.
    """
    size = found.dtype.itemsize
    filtered = properties.get_layout() == h5py.h5d.CHUNKED and properties.get_nfilters()
    chunk = byte_count(properties.get_chunk(), size) if filtered else 0
    checks.check_memory(f"{where}: has chunks of", chunk, options.limit, ", each of which is read whole", unit="")
    if options.allowed is None and not options.allow_external:
        whole = byte_count(found.shape, size)
        stored = min(found.get_storage_size(), os.path.getsize(path))  # the first is claimed by the file
        check_expansion(where, stored, whole, None)
        check_expansion(where, min(stored, whole), chunk, None)
    if not filtered:
        return None, 0
    taken = unless_negligible(CHUNK_COPIES * chunk + INDEX_BYTES * found.get_num_chunks())
    checks.check_memory(f"{where}: reading its chunks takes", taken, options.limit, unit="")
    return _stored_chunks(where, found, properties.get_chunk(), chunk), taken


def _stored_chunks(where: str, found: Any, shape: tuple[int, ...], chunk: int) -> array[int]:
    """The sorted numbers of the stored chunks; refuses one that is far longer in the file than decoded."""
    largest, numbers, lengths = 0, array("q"), found.shape

    def look(info: Any) -> None:
        nonlocal largest
        largest = max(largest, int(info.size))
        numbers.append(chunk_index(info.chunk_offset, lengths, shape))

    found.chunk_iter(look)
    if largest > 2 * chunk + MAX_OVERHEAD:
        raise FileError(f"{where}: has a chunk of {human_bytes(chunk)} that is stored in {human_bytes(largest)}")
    np.frombuffer(numbers, np.int64).sort()  # in place
    return numbers


def check_filters(where: str, properties: Any) -> None:
    """Refuses a dataset whose filter is missing, which HDF5 reports misleadingly."""
    for i in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            with suppress(RequestError):
                need("hdf5plugin", why="filters")  # it registers its own
        if not h5py.h5z.filter_avail(code):
            known = name.decode("utf-8", "replace") or "no name"
            raise FileError(
                f"{where}: needs the HDF5 filter {code} ({known}), which is not installed; "
                "most filters come with hdf5plugin: pip install hdf5plugin"
            )
