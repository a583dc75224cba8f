"""The .npy format: headers are read by a parser of our own limits, data region by region."""

from __future__ import annotations

import ast
import io
import os
import re
import struct
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.atomic import byte_stream, is_device
from poolcli.formats.checks import byte_count, check_dtype, check_rank, human_bytes
from poolcli.formats.records import (
    ArrayReader,
    Header,
    InMemoryReader,
    Metadata,
    NamedArray,
    ReadOptions,
    RegionWriter,
    Source,
    Spec,
    WriteOptions,
    whole_region,
)
from poolcli.formats.resumable import CoveredRegions, Journal, contiguous_runs, continued_file
from poolcli.system.lazy_imports import loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 65_536
MOST_AXES = 32
AT_ONCE = 2**20  # bytes
MOST_BYTES = 2**63 - 1  # of an array, any length of 0 taken for 1: numpy can hold no more
_KINDS = {"b": "bool", "u": "uint", "i": "int", "f": "float", "c": "complex"}
_DESCR = re.compile(r"[<>|=]?([a-zA-Z?])(\d{1,4})")


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The array, read region by region; refuses a header that claims more than the file holds."""
    if source.path == "-":
        yield streamed("-", sys.stdin.buffer)
        return
    with open(source.path, "rb") as stream:
        descr, header, fortran = parse_header(source.path, stream)
        start, held = stream.tell(), os.fstat(stream.fileno()).st_size
        check_size(source.path, header, held - start)
        rest = held - start - _bytes(header)
        if rest:
            header = replace(header, notes=(f"{human_bytes(rest)} after the array are ignored",))
        file = Flat(header, stream, descr, fortran, start)
        if fortran and len(header.shape) > 1:  # a part of it lies in pieces of a few elements all over the file
            yield InMemoryReader(header, lambda: (file.read(whole_region(header.shape)), Metadata()))
            return
        yield file


@dataclass(slots=True)
class Flat:
    """An array that lies in a file as it is; regions are read, not mapped: a file that shrinks under a map ends the
    process.
    """

    header: Header
    stream: BinaryIO
    descr: Any
    fortran: bool
    start: int
    streams: bool = True
    chunks: tuple[int, ...] | None = None
    metadata: Metadata = field(default_factory=Metadata)

    def read(self, region: Ranges) -> NDArray[Any]:
        with loading():
            import numpy as np

        shape, stored = self.header.shape, region
        if self.fortran:
            shape, stored = shape[::-1], region[::-1]
        array = np.empty(tuple(map(len, stored)), self.descr)
        if array.size:
            self._fill(array.reshape(-1).view(np.uint8).data, shape, stored, array.itemsize)
        array = _numbers(array, self.header)
        return array.T if self.fortran else array

    def _fill(self, target: memoryview, shape: tuple[int, ...], region: Ranges, itemsize: int) -> None:
        done = 0
        for first, length in contiguous_runs(shape, region):
            self._read_run(target[done : done + length * itemsize], self.start + first * itemsize)
            done += length * itemsize

    def _read_run(self, target: memoryview, offset: int) -> None:
        self.stream.seek(offset)
        if self.stream.readinto(target) < len(target):  # type: ignore[attr-defined]  # a buffered stream has it
            raise FileError(f"{self.stream.name}: became shorter while it was being read")


def streamed(name: str, stream: BinaryIO) -> InMemoryReader:
    """The array in a stream that cannot go back: of its header, and then of as many bytes as that claims."""
    descr, header, fortran = parse_header(name, stream)
    check_size(name, header, _bytes(header))  # how much there is, is known when it has been read
    return InMemoryReader(header, lambda: (_read_rest(name, stream, descr, header, fortran), Metadata()))


def _read_rest(name: str, stream: BinaryIO, descr: str, header: Header, fortran: bool) -> NDArray[Any]:
    import numpy as np

    array = np.empty(header.shape, descr, order="F" if fortran else "C")
    target = array.reshape(-1, order="A").view(np.uint8).data if array.size else memoryview(b"")
    done = 0
    while done < len(target):
        count = stream.readinto(target[done : done + AT_ONCE])  # type: ignore[attr-defined]  # a buffered stream has it
        if not count:
            check_size(name, header, done)
        done += count
    return _numbers(array, header)


def _numbers(array: NDArray[Any], header: Header) -> NDArray[Any]:
    """The array as it was read; bytes other than 0 and 1 are true, too."""
    import numpy as np

    return array.view(np.uint8) != 0 if header.dtype == "bool" else array


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the one array in C order; `-` is standard output."""
    import numpy as np

    with byte_stream(path, options.overwrite) as stream:
        np.lib.format.write_array(_Unseekable(stream), np.ascontiguousarray(arrays[0].array), allow_pickle=False)
    return ()


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes an array region by region; with an identity, what a stopped run of the same identity has written is kept.

    Standard output, a pipe or a device is a stream, which takes regions from front to back alone.
    """
    import numpy as np

    head = io.BytesIO()
    dtype = np.dtype(spec.dtype)
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": spec.shape})
    if path == "-" or is_device(path) or options.identity is None:
        with byte_stream(path, options.overwrite) as stream:
            yield _Sink(stream, head.getvalue(), spec.shape, dtype.itemsize, path == "-" or is_device(path))
        return
    with continued_file(path, options.overwrite, options.identity) as (stream, journal):
        yield _Kept(stream, head.getvalue(), spec.shape, dtype.itemsize, journal)


class _Sink:
    """Writes each run of a region at its place."""

    notes: tuple[str, ...] = ()
    unit: tuple[int, ...] | None = None

    def __init__(
        self, stream: BinaryIO, header: bytes, shape: tuple[int, ...], itemsize: int, front_to_back: bool = False
    ) -> None:
        self._stream, self._start, self._shape, self._itemsize = stream, len(header), shape, itemsize
        self._front_to_back = front_to_back
        self._at = stream.write(header)

    def holds(self, region: Ranges) -> bool:
        return False

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        import numpy as np

        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        done = 0
        for first, length in contiguous_runs(self._shape, region):
            place, size = self._start + first * self._itemsize, length * self._itemsize
            if place != self._at:
                if self._front_to_back:
                    raise FileError("a stream takes an array from front to back alone; name a file as the output")
                self._stream.seek(place)
            self._stream.write(data[done : done + size])
            self._at, done = place + size, done + size


class _Kept(_Sink):
    """As `_Sink`, and notes from time to time, beside the file, which regions are on the disk."""

    def __init__(
        self, stream: BinaryIO, header: bytes, shape: tuple[int, ...], itemsize: int, journal: Journal
    ) -> None:
        stream.seek(0)
        super().__init__(stream, header, shape, itemsize)
        self._journal, self._held, self._done = journal, CoveredRegions(), CoveredRegions()
        for region in filter(self._is_there, journal.read()):
            self._held.add(region)
            self._done.add(region)

    def _is_there(self, region: Ranges) -> bool:
        """Whether a region that a journal names is one of this array, and the file long enough to have it."""
        inside = len(region) == len(self._shape) and all(
            0 <= axis.start < axis.stop <= size for axis, size in zip(region, self._shape, strict=True)
        )
        if not inside:
            return False
        *_, (first, length) = contiguous_runs(self._shape, tuple(range(axis.stop - 1, axis.stop) for axis in region))
        return self._start + (first + length) * self._itemsize <= self._journal.size

    def holds(self, region: Ranges) -> bool:
        return self._held.holds(region)  # another thread adds to what is done

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        super().__call__(region, array)
        self._done.add(region)
        if self._journal.is_due:
            self._journal.write(self._done)


class _Unseekable(io.RawIOBase):
    """Only `write`: numpy then writes in chunks and reports an error of the system as it is, with its number."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        return self._stream.write(data)


def parse_header(name: str, stream: BinaryIO) -> tuple[str, Header, bool]:
    """The numpy type string, the header, and whether the data is in Fortran order."""
    magic = stream.read(6)
    if not magic and name == "-":
        raise FileError("-: standard input is empty; a .npy stream is needed, as in: poolcli avg - ... < x.npy")
    if magic != MAGIC:
        raise FileError(f"{name}: is not a .npy file (its first bytes are not those of one)")
    version = stream.read(2)
    lengths = {b"\x01\x00": "<H", b"\x02\x00": "<I", b"\x03\x00": "<I"}
    if version not in lengths:
        raise FileError(f"{name}: has .npy version {'.'.join(map(str, version)) or 'none'}; 1.0, 2.0 and 3.0 are read")
    size = stream.read(struct.calcsize(lengths[version]))
    length = int.from_bytes(size, "little")
    text = stream.read(min(length, LONGEST_HEADER + 1))
    if length > LONGEST_HEADER:
        raise FileError(
            f"{name}: its .npy header claims {human_bytes(length)}; at most {human_bytes(LONGEST_HEADER)} are read"
        )
    if len(text) < length or not size:
        raise FileError(f"{name}: ends inside its .npy header")
    descr, shape, fortran = _parse_fields(name, text)
    dtype = _dtype_name(name, descr)
    check_rank(name, shape)
    if len(shape) > MOST_AXES:
        raise FileError(f"{name}: has {len(shape)} axes; at most {MOST_AXES} are read")
    return str(descr), Header("npy", shape, dtype), fortran


def _parse_fields(name: str, text: bytes) -> tuple[object, tuple[int, ...], bool]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of numbers that run into words, such as 0x1for
            # Python 2 wrote long integers as 12L.
            fields = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", text.decode("utf-8").strip()))
        shape, descr, fortran = fields["shape"], fields["descr"], fields["fortran_order"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise FileError(f"{name}: its .npy header is broken") from error
    whole = isinstance(shape, tuple) and all(type(size) is int for size in shape)
    if not whole or not isinstance(fortran, bool):
        raise FileError(f"{name}: its .npy header is broken")
    if any(size < 0 for size in shape):
        raise FileError(f"{name}: its .npy header has a negative dimension")
    return descr, shape, fortran


def _dtype_name(name: str, descr: object) -> str:
    match = _DESCR.fullmatch(descr) if isinstance(descr, str) else None
    if isinstance(descr, str) and descr.endswith("O"):
        raise FileError(f"{name}: holds Python objects (pickle), which poolcli never loads; store numbers instead")
    if match is None:
        raise FileError(f"{name}: holds a structured or unknown type; poolcli pools bool, integers and floats")
    kind, size = match.groups()
    if kind == "b" and size == "1":
        return "bool"
    return check_dtype(name, f"{_KINDS[kind]}{int(size) * 8}" if kind in _KINDS else f"type {kind}{size}")


def _bytes(header: Header) -> int:
    return byte_count(header.shape, DTYPES[header.dtype].itemsize)


def check_size(name: str, header: Header, held: int) -> None:
    """Refuses a header that claims more bytes than are held."""
    claimed = _bytes(header)
    if not claimed and byte_count([size or 1 for size in header.shape], DTYPES[header.dtype].itemsize) > MOST_BYTES:
        raise FileError(f"{name}: is empty, in a shape that no array can have")
    if claimed > held:
        raise FileError(f"{name}: its header claims {human_bytes(claimed)} of data, the file holds {human_bytes(held)}")
