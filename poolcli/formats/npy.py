"""The .npy format: headers are read by a parser of our own limits, data as a read-only memory map."""

from __future__ import annotations

import ast
import io
import os
import re
import struct
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError
from poolcli.formats.arrays import byte_count, check_dtype, check_rank, human_bytes
from poolcli.formats.atomic import byte_stream
from poolcli.formats.records import Header, Metadata, Source, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 65_536
MOST_AXES = 32
_KINDS = {"b": "bool", "u": "uint", "i": "int", "f": "float"}
_DESCR = re.compile(r"[<>|=]?([a-zA-Z?])(\d{1,4})")


def read_header(source: Source) -> Header:
    """Shape and dtype, from the file's first bytes; refuses a header that claims more than the file holds."""
    with open(source.path, "rb") as stream:
        _, header, _ = parse_header(source.path, stream)
        start, held = stream.tell(), os.fstat(stream.fileno()).st_size
    _check_size(source.path, header, held - start)
    return header


def list_arrays(path: str) -> list[Header]:
    """The one array of the file."""
    return [read_header(Source(path))]


def read(source: Source) -> Tensor:
    """The array: a read-only memory map, or the whole stream where the source is stdin."""
    import numpy as np

    if source.path == "-":
        return read_stream(sys.stdin.buffer.read(), "-")
    with open(source.path, "rb") as stream:
        descr, header, fortran = parse_header(source.path, stream)
        start = stream.tell()
        _check_size(source.path, header, os.fstat(stream.fileno()).st_size - start)
        if 0 in header.shape:
            return Tensor(np.empty(header.shape, descr), header)
        array = np.memmap(stream, descr, "r", start, header.shape, "F" if fortran else "C")
    return Tensor(array, header)


def read_stream(data: bytes, name: str) -> Tensor:
    """The array in the bytes of a .npy file."""
    import numpy as np

    stream = io.BytesIO(data)
    descr, header, fortran = parse_header(name, stream)
    _check_size(name, header, len(data) - stream.tell())
    flat = np.frombuffer(data, descr, byte_count(header.shape, 1), stream.tell())
    return Tensor(flat.reshape(header.shape, order="F" if fortran else "C"), header)


def write(path: str, array: NDArray[Any], *, key: str | None, metadata: Metadata, overwrite: bool) -> tuple[str, ...]:
    """Writes the array in C order; `-` is standard output."""
    import numpy as np

    with byte_stream(path, overwrite) as stream:
        np.lib.format.write_array(_Unseekable(stream), np.ascontiguousarray(array), allow_pickle=False)
    return ()


class _Unseekable(io.RawIOBase):
    """Only `write`: numpy then writes in chunks and reports an error of the system as it is, with its number."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        return self._stream.write(data)


def parse_header(name: str, stream: BinaryIO) -> tuple[str, Header, bool]:
    """The numpy type string, the header, and whether the data is in Fortran order."""
    if stream.read(6) != MAGIC:
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
        # Python 2 wrote long integers as 12L.
        fields = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", text.decode("utf-8").strip()))
        shape, descr, fortran = fields["shape"], fields["descr"], fields["fortran_order"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise FileError(f"{name}: its .npy header is broken") from error
    whole = isinstance(shape, tuple) and all(type(size) is int for size in shape)
    if not whole or not isinstance(fortran, bool):
        raise FileError(f"{name}: its .npy header is broken")
    if any(size < 0 for size in shape):
        raise FileError(f"{name}: its .npy header has a negative length")
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
    return check_dtype(name, f"{_KINDS.get(kind, 'type ' + kind)}{int(size) * 8}")


def _check_size(name: str, header: Header, held: int) -> None:
    claimed = byte_count(header.shape, 1 if header.dtype == "bool" else int(header.dtype.lstrip("uintfloab")) // 8)
    if claimed > held:
        raise FileError(f"{name}: its header claims {human_bytes(claimed)} of data, the file holds {human_bytes(held)}")
