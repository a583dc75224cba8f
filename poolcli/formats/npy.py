"""Files of one array as it lies in memory: .npy, .npy.gz, and files without a header (`--raw`)."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tokenize
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as default_field
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, cast

from poolcli.dtypes import DTYPES, lookup, numpy_dtype
from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import byte_stream, is_device
from poolcli.formats.checks import as_file_error, byte_count, check_dtype, check_expansion, check_rank, human_bytes
from poolcli.formats.files import regular_file
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
from poolcli.formats.resumable import Journal, Progress, contiguous_runs, continued_file
from poolcli.message_fields import field
from poolcli.system.lazy_imports import loading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges


MAGIC = b"\x93NUMPY"
LENGTHS = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}  # bytes of the header's length, by version
LONGEST_HEADER = 65_536
MOST_AXES = 32
AT_ONCE = 2**20  # bytes
MOST_BYTES = 2**63 - 1  # of a numpy array, counting lengths of 0 as 1
GZIP = b"\x1f\x8b"
# What numpy raises for headers: MemoryError and RecursionError mean that brackets are nested too deeply.
BROKEN = (ValueError, TypeError, SyntaxError, LookupError, MemoryError, RecursionError, tokenize.TokenError)


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The array, read region by region; refuses a header that claims more than the file holds."""
    if source.path == "-":
        yield streamed("-", sys.stdin.buffer)
        return
    with open(source.path, "rb") as stream:
        if stream.read(len(GZIP)) == GZIP:
            with gzip.open(source.path, "rb") as unpacked:
                yield _unpacked(source.path, cast("BinaryIO", unpacked), options)
            return
        stream.seek(0)
        dtype, header, fortran = parse_header(source.path, stream)
        start, size = stream.tell(), os.fstat(stream.fileno()).st_size
        check_size(source.path, header, size - start)
        header = _with_rest(header, size - start - _bytes(header))
        file = Flat(header, stream, dtype, fortran, start)
        if fortran and len(header.shape) > 1:  # its regions are runs of a few elements all over the file
            yield InMemoryReader(header, lambda: (file.read(whole_region(header.shape)), Metadata()))
            return
        yield file


@dataclass(slots=True)
class Flat:
    """An array stored uncompressed in a file.

    Regions are read, not mapped into memory: a process that reads a map of a file that has shrunk is killed (SIGBUS).
    """

    header: Header
    stream: BinaryIO
    dtype: Any
    fortran: bool
    start: int
    streams: bool = True
    chunks: tuple[int, ...] | None = None
    metadata: Metadata = default_field(default_factory=Metadata)

    def read(self, region: Ranges) -> NDArray[Any]:
        with loading():
            import numpy as np

        shape, stored = self.header.shape, region
        if self.fortran:
            shape, stored = shape[::-1], region[::-1]
        array = np.empty(tuple(map(len, stored)), self.dtype)
        if array.size:
            self._fill(array.reshape(-1).view(np.uint8).data, shape, stored, array.itemsize)
        array = _as_stored(array, self.header)
        return array.T if self.fortran else array

    def _fill(self, target: memoryview, shape: tuple[int, ...], region: Ranges, itemsize: int) -> None:
        done = 0
        for first, length in contiguous_runs(shape, region):
            part = target[done : done + length * itemsize]
            self.stream.seek(self.start + first * itemsize)
            if self.stream.readinto(part) < len(part):  # type: ignore[attr-defined]  # a buffered stream has it
                raise FileError(f"{self.stream.name}: became shorter while it was being read")
            done += len(part)


def streamed(name: str, stream: BinaryIO) -> InMemoryReader:
    """The array of a stream that cannot seek."""
    dtype, header, fortran = parse_header(name, stream)
    check_size(name, header, _bytes(header))  # the length of the data is not known before it has been read
    return InMemoryReader(header, lambda: (_read_rest(name, stream, dtype, header, fortran), Metadata()))


def _read_rest(name: str, stream: BinaryIO, dtype: Any, header: Header, fortran: bool) -> NDArray[Any]:
    import numpy as np

    array = np.empty(header.shape, dtype, order="F" if fortran else "C")
    target = array.reshape(-1, order="A").view(np.uint8).data if array.size else memoryview(b"")
    done = 0
    while done < len(target):
        count = stream.readinto(target[done : done + AT_ONCE])  # type: ignore[attr-defined]  # a buffered stream has it
        if not count:
            check_size(name, header, done)
        done += count
    return _as_stored(array, header)


def _as_stored(array: NDArray[Any], header: Header) -> NDArray[Any]:
    """The array; bytes of a bool that are neither 0 nor 1 are true."""
    import numpy as np

    return array.view(np.uint8) != 0 if header.dtype == "bool" else array


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the one array in C order; `-` is standard output."""
    with byte_stream(path, options.overwrite) as stream:
        write_to(stream, arrays[0].array)
    return ()


def write_to(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Writes the header and the elements in C order, in pieces: `numpy.lib.format.write_array` copies 32 MiB at once,
    and does not report the system's error number for a file.
    """
    import numpy as np

    stream.write(_header(array.shape, array.dtype))
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    contiguous: Any = [["readonly", "contig"]]  # fills the buffer only where elements are not in C order
    for piece in np.nditer(array, flags, contiguous, order="C", buffersize=max(1, AT_ONCE // array.itemsize)):
        stream.write(np.asarray(piece).view(np.uint8).data)


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    import numpy as np

    head = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
    return head.getvalue()


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes an array region by region; with an `identity`, continues what a run of that identity left.

    Standard output, pipes and devices are streams: they take regions from front to back only.
    """
    import numpy as np

    head = _header(spec.shape, np.dtype(spec.dtype))
    is_stream = path == "-" or is_device(path)
    if is_stream or options.identity is None:
        with byte_stream(path, options.overwrite) as stream:
            yield _Sink(stream, head, spec, front_to_back=is_stream)
        return
    with continued_file(path, options.overwrite, options.identity) as (stream, journal):
        stream.seek(0)
        yield _Sink(stream, head, spec, journal)


class _Sink:
    """Writes each contiguous run of a region at its offset; with a `journal`, continues the file of another run."""

    notes: tuple[str, ...] = ()
    unit: tuple[int, ...] | None = None

    def __init__(
        self, stream: BinaryIO, header: bytes, spec: Spec, journal: Journal | None = None, front_to_back: bool = False
    ) -> None:
        self._stream, self._start, self._shape = stream, len(header), spec.shape
        self._itemsize = DTYPES[spec.dtype].itemsize
        self._at, self._front_to_back = stream.write(header), front_to_back
        self._left = journal.size if journal else 0
        self._progress = Progress(journal, self._is_stored)

    def _is_stored(self, region: Ranges) -> bool:
        """Whether a region of the journal is one of this array, and in the file as it was left."""
        if len(region) != len(self._shape):
            return False
        if not all(0 <= axis.start < axis.stop <= size for axis, size in zip(region, self._shape, strict=True)):
            return False
        *_, (first, length) = contiguous_runs(self._shape, tuple(range(axis.stop - 1, axis.stop) for axis in region))
        return self._start + (first + length) * self._itemsize <= self._left

    def holds(self, region: Ranges) -> bool:
        return self._progress.holds(region)

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        import numpy as np

        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        done = 0
        for first, length in contiguous_runs(self._shape, region):
            place, size = self._start + first * self._itemsize, length * self._itemsize
            if place != self._at:
                if self._front_to_back:
                    raise FileError("a stream is written from front to back only; name a file as the output")
                self._stream.seek(place)
            self._stream.write(data[done : done + size])
            self._at, done = place + size, done + size
        self._progress.add(region)


def parse_header(name: str, stream: BinaryIO) -> tuple[np.dtype[Any], Header, bool]:
    """The numpy dtype, the header, and whether the data is in Fortran order.

    numpy parses the text, of which it is given at most 64 KiB: it would read any length that the file claims.
    """
    magic = stream.read(6)
    if not magic and name == "-":
        raise FileError("-: standard input is empty; a .npy stream is needed, as in: poolcli avg - ... < x.npy")
    if magic != MAGIC:
        raise FileError(f"{name}: is not a .npy file (its first bytes are not those of one)")
    version = stream.read(2)
    if version not in LENGTHS:
        raise FileError(f"{name}: has .npy version {'.'.join(map(str, version)) or 'none'}; 1.0, 2.0 and 3.0 are read")
    size = stream.read(LENGTHS[version])
    length = int.from_bytes(size, "little")
    text = stream.read(min(length, LONGEST_HEADER + 1))
    if length > LONGEST_HEADER:
        raise FileError(
            f"{name}: its .npy header claims {human_bytes(length)}; at most {human_bytes(LONGEST_HEADER)} are read"
        )
    if len(text) < length or not size:
        raise FileError(f"{name}: ends inside its .npy header")
    shape, fortran, dtype = _parsed(name, io.BytesIO(len(text).to_bytes(4, "little") + text))
    if dtype.names or dtype.subdtype:
        raise FileError(f"{name}: holds a structured type; poolcli pools bool, integers and floats")
    if dtype.hasobject:
        raise FileError(f"{name}: holds Python objects (pickle), which poolcli never loads; store numbers instead")
    kind = check_dtype(name, dtype.name)
    check_rank(name, shape)
    if len(shape) > MOST_AXES:
        raise FileError(f"{name}: has {len(shape)} axes; at most {MOST_AXES} are read")
    return dtype, Header("npy", shape, kind), fortran


def _parsed(name: str, text: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    with loading():
        import numpy as np

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers by Python 2, and of numbers that run into words
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(text, max_header_size=LONGEST_HEADER)
        if any(type(size) is not int for size in shape):
            raise TypeError("a length is not an integer")
    except BROKEN as error:
        raise FileError(f"{name}: its .npy header is broken") from error
    if any(size < 0 for size in shape):
        raise FileError(f"{name}: its .npy header has a negative dimension")
    return shape, fortran, dtype


def _bytes(header: Header) -> int:
    return byte_count(header.shape, DTYPES[header.dtype].itemsize)


def _with_rest(header: Header, rest: int) -> Header:
    """The header with a note on the bytes that follow the array, if there are any."""
    return replace(header, notes=(f"{human_bytes(rest)} after the array are ignored",)) if rest else header


def check_size(name: str, header: Header, stored: int) -> None:
    """Refuses a header that claims more bytes than are stored."""
    claimed = _bytes(header)
    if not claimed and byte_count([size or 1 for size in header.shape], DTYPES[header.dtype].itemsize) > MOST_BYTES:
        raise FileError(f"{name}: claims an empty array of an impossible shape")
    if claimed > stored:
        raise FileError(
            f"{name}: its header claims {human_bytes(claimed)} of data, but the file holds {human_bytes(stored)}"
        )


def _unpacked(path: str, stream: BinaryIO, options: ReadOptions) -> InMemoryReader:
    """The array in a .npy.gz file, unpacked when it is first read."""
    with _translated(path):
        file = streamed(path, stream)
    header = replace(file.header, format="npy.gz")
    check_expansion(path, os.path.getsize(path), _bytes(header), options.allowed)

    def load() -> tuple[NDArray[Any], Metadata]:
        with _translated(path):
            found = file.load()
            while stream.read(AT_ONCE):  # up to the end, where the checksum is compared
                pass
        return found

    return InMemoryReader(header, load)


def _translated(path: str) -> AbstractContextManager[None]:
    """Turns errors about damaged gzip data into a FileError."""
    damaged = (EOFError, zlib.error, gzip.BadGzipFile)
    return as_file_error(path, damaged, lambda error: f"is not a whole gzip file ({error})")


RAW_EXAMPLE = "1,3,64,64,uint8"


@dataclass(frozen=True, slots=True)
class Raw:
    """The array of a file without a header, in C order; `order` is the byte order, as numpy writes it."""

    shape: tuple[int, ...]
    dtype: str
    order: Literal["<", ">"] = "<"


def raw_from(text: str) -> Raw:
    """A shape and a type as they are typed: `1,3,64,64,uint8`, or `64x64,>f4` for big-endian numbers.

    >>> raw_from("64x64,>f4")
    Raw(shape=(64, 64), dtype='float32', order='>')
    """
    lengths, _, kind = text.replace(" ", "").rpartition(",")
    numbers = lengths.replace("x", ",").split(",")
    if kind.isdigit() or not all(number.isascii() and number.isdigit() for number in numbers):
        raise RequestError(f"{field('raw')} is {text[:60]!r}; write a shape and a type, such as {RAW_EXAMPLE}")
    big_endian = kind.startswith(">")
    return Raw(tuple(map(int, numbers)), lookup(kind.lstrip(">")).name, ">" if big_endian else "<")


@contextmanager
def open_raw(source: Source, raw: Raw) -> Iterator[ArrayReader]:
    """The array of a file without a header, read region by region; refuses a file that is shorter."""
    path = source.path
    if path == "-":
        raise FileError(f"-: standard input is a .npy stream; {field('raw')} is for files; leave it out")
    check_rank(path, raw.shape)
    header = Header("raw", raw.shape, raw.dtype)
    claimed = _bytes(header)
    with regular_file(path) as stream:
        stored = os.fstat(stream.fileno()).st_size
        if claimed > stored:
            raise FileError(
                f"{path}: {field('raw')} says {human_bytes(claimed)} of data, but the file holds {human_bytes(stored)}"
            )
        header = _with_rest(header, stored - claimed)
        yield Flat(header, stream, numpy_dtype(raw.dtype).newbyteorder(raw.order), False, 0)
