"""Uncompressed arrays: .npy and .npy.gz files."""

from __future__ import annotations

import gzip
import io
import os
import shlex
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field as default_field, replace
from functools import partial
from itertools import product
from math import prod
from typing import IO, Any, BinaryIO, cast

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, error_text
from poolcli.formats import records
from poolcli.formats.atomic import atomic_stream, is_device
from poolcli.formats.checks import as_file_error, check_array, check_expansion, human_bytes
from poolcli.formats.table import MAGIC_LENGTH, format_by_magic
from poolcli.suggestions import other_program
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import Ranges

MAGIC = b"\x93NUMPY"
LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # width of the header length, by version
MAX_HEADER = 65_536
BLOCK = 2**20  # bytes
GZIP = b"\x1f\x8b"


@contextmanager
def open_array(source: records.Source, options: records.ReadOptions) -> Iterator[records.ArrayReader]:
    """Opens a .npy or .npy.gz file. Raises a FileError if the header claims more data than the file holds."""
    path = source.path
    if path == "-":
        yield stream_reader("-", sys.stdin.buffer)
        return
    with open(path, "rb") as stream:
        if stream.peek(len(GZIP)).startswith(GZIP):
            with gzip.open(stream, "rb") as unpacked:
                yield _gzip_reader(path, cast("BinaryIO", unpacked), options)
            return
        dtype, header, fortran = parse_header(path, stream)
        start, size = stream.tell(), os.fstat(stream.fileno()).st_size
        check_size(path, header, size - start)
        if fortran and len(header.shape) > 1:  # a region would be many short runs all over the file
            yield _reader_of_all(path, stream, dtype, header, fortran)
        else:
            yield UncompressedReader(header, stream, dtype, start)


@dataclass(slots=True)
class UncompressedReader(records.ArrayReader):
    """Reads regions of an array that is stored uncompressed in C order, from the offset `start` of a stream."""

    header: records.Header
    stream: BinaryIO
    dtype: Any
    start: int
    metadata: records.Metadata = default_field(default_factory=records.Metadata)

    def read(self, region: Ranges) -> Array:  # no memory map: if the file is truncated, it kills the process (SIGBUS)
        array = np.empty(tuple(map(len, region)), self.dtype)
        target = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        done, itemsize = 0, array.itemsize
        for first, length in contiguous_runs(self.header.shape, region):
            part = target[done : done + length * itemsize]
            self.stream.seek(self.start + first * itemsize)
            if self.stream.readinto(part) < len(part):  # type: ignore[attr-defined]  # buffered streams have readinto
                raise FileError(f"{self.stream.name}: became shorter while it was being read")
            done += len(part)
        return _with_valid_bools(array, self.header)


def stream_reader(name: str, stream: BinaryIO, scalars: bool = False) -> records.InMemoryReader:
    """A reader of the .npy data in a stream, which need not be seekable."""
    return _reader_of_all(name, stream, *parse_header(name, stream, scalars))


def _reader_of_all(
    name: str, stream: BinaryIO, dtype: Any, header: records.Header, fortran: bool
) -> records.InMemoryReader:
    def load() -> tuple[Array, records.Metadata]:
        array = np.empty(header.shape, dtype, order="F" if fortran else "C")
        target = array.reshape(-1, order="A").view(np.uint8).data if array.size else memoryview(b"")
        done = 0
        while done < len(target):
            count = stream.readinto(target[done : done + BLOCK])  # type: ignore[attr-defined]  # BinaryIO lacks it
            if not count:
                check_size(name, header, done)
            done += count
        return _with_valid_bools(array, header), records.Metadata()

    return records.InMemoryReader(header, load)


def _with_valid_bools(array: Array, header: records.Header) -> Array:
    # Bytes other than 0 and 1 become 1, because numpy's loops rely on these values.
    return array.view(np.uint8) != 0 if header.dtype == "bool" else array


def write(path: str, arrays: Sequence[records.NamedArray], options: records.WriteOptions) -> tuple[str, ...]:
    """Writes an array in C order; `-` is standard output."""
    with atomic_stream(path, options.overwrite) as stream:
        write_to(stream, arrays[0].array)
    return ()


def write_to(stream: IO[bytes], array: Array) -> None:
    """Writes the header and the elements in C order.

    `numpy.lib.format.write_array` copies blocks of 16 MiB, and its OSError for a full disk has no error number.
    """
    stream.write(_encode_header(array.shape, array.dtype))
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    contiguous: Any = [["readonly", "contig"]]
    for piece in np.nditer(array, flags, contiguous, order="C", buffersize=max(1, BLOCK // array.itemsize)):
        stream.write(np.asarray(piece).view(np.uint8).data)


def _encode_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    head = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
    return head.getvalue()


@contextmanager
def open_writer(path: str, spec: records.Spec, options: records.WriteOptions) -> Iterator[records.RegionWriter]:
    """Writes each contiguous run of a region at its offset; standard output, pipes and devices from front to back."""
    head, itemsize = _encode_header(spec.shape, np.dtype(spec.dtype)), DTYPES[spec.dtype].itemsize
    with atomic_stream(path, options.overwrite) as stream:
        at = stream.write(head)

        def put(region: Ranges, array: Array) -> None:
            nonlocal at
            data, done = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, 0
            for first, length in contiguous_runs(spec.shape, region):
                place, size = len(head) + first * itemsize, length * itemsize
                if place != at:
                    if path == "-" or is_device(path):
                        raise FileError("a stream is written from front to back only; name a file as the output")
                    stream.seek(place)
                stream.write(data[done : done + size])
                at, done = place + size, done + size

        yield records.CallbackWriter(put)


def contiguous_runs(shape: Sequence[int], region: Ranges) -> Iterator[tuple[int, int]]:
    """The contiguous runs of elements that make up a region of a C-order array: the first element, and how many."""
    last = len(shape) - 1
    while last > 0 and len(region[last]) == shape[last]:
        last -= 1
    unit = prod(shape[last + 1 :])
    length = unit * len(region[last])
    for outer in product(*region[:last]) if length else ():
        place = 0
        for index, size in zip((*outer, region[last].start), shape, strict=False):
            place = place * size + index
        yield place * unit, length


def parse_header(name: str, stream: BinaryIO, scalars: bool = False) -> tuple[np.dtype[Any], records.Header, bool]:
    """The numpy dtype, the header, and whether the data is in Fortran order.

    numpy parses the header, but the length is checked here first: numpy would allocate any length that a file claims.
    """
    start = stream.read(len(MAGIC) + 2)
    magic, width = start[: len(MAGIC)], LENGTH_BYTES.get(start[len(MAGIC) :], 0)
    if magic != MAGIC:
        row = format_by_magic(start := start + stream.read(MAGIC_LENGTH))
        known = f"is a {row.suffixes[0]} file" if row else other_program("", start)
        what = known or "is not a .npy file (its first bytes are not those of one)"
        remedy = "; give a .npy file: poolcli avg - ... < x.npy, or the name of the file" if name == "-" else ""
        remedy = f"; unpack it: gunzip -k {shlex.quote(name)}" if name.endswith(".gz") else remedy
        raise FileError(f"{name}: {what}{remedy}")
    length = int.from_bytes(stream.read(width), "little")
    text = stream.read(min(length, MAX_HEADER))
    if not 0 < length == len(text):
        raise FileError(f"{name}: its .npy header is cut short, longer than 64 KiB, or of an unknown version")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers written by Python 2, and invalid literals such as `1if`
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(
                io.BytesIO(length.to_bytes(4, "little") + text), max_header_size=MAX_HEADER
            )
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"shape is not valid: {shape}")
    except Exception as error:  # of a damaged header; also MemoryError, for brackets that are nested too deeply
        why = error_text(error)[:100]
        reason = f" ({why})" if why.startswith(("shape", "descr", "Header")) else ""
        raise FileError(f"{name}: its .npy header is broken{reason}") from error
    if dtype.hasobject:
        array = f"numpy.load({name!r}, allow_pickle=True)" + ("[0]" if shape else ".item()['NAME']")
        remedy = "store numbers instead" if ":" in name else f"if you trust it: numpy.save('NAME.npy', {array})"
        raise FileError(f"{name}: holds Python objects (pickle), which poolcli never loads; {remedy}")
    check_array(name, shape, dtype.name, scalars)
    return dtype, records.Header("npy", shape, dtype.name), fortran


def check_size(name: str, header: records.Header, stored: int) -> None:
    """Raises a FileError if the header claims more bytes than are stored."""
    if header.nbytes > stored:
        claimed = f"its header claims {human_bytes(header.nbytes)} of data, but the file holds {human_bytes(stored)}"
        raise FileError(f"{name}: {claimed}; it is cut short; copy or download it again")


def _gzip_reader(path: str, stream: BinaryIO, options: records.ReadOptions) -> records.InMemoryReader:
    """A reader of a .npy.gz file, which is decompressed at the first read."""
    damaged = (EOFError, zlib.error, gzip.BadGzipFile)
    errors = partial(as_file_error, path, damaged, lambda error: f"is not a whole gzip file ({error})")
    with errors():
        file = stream_reader(path, stream)
    header = replace(file.header, format="npy.gz")
    check_expansion(path, os.path.getsize(path), header.nbytes, options.allowed)

    def load() -> tuple[Array, records.Metadata]:
        with errors():
            found = file.load()
            while stream.read(BLOCK):  # up to the end, where the checksum is compared
                pass
        return found

    return records.InMemoryReader(header, load)
