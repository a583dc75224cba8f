"""The safetensors format: a JSON header with names, types, shapes and offsets, then the arrays in C order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.dtypes import DTYPES, numpy_dtype
from poolcli.errors import FileError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.checks import byte_count, human_bytes, join_names, open_chosen
from poolcli.formats.names import array_names
from poolcli.formats.npy import Flat
from poolcli.formats.records import ArrayReader, Header, Metadata, NamedArray, ReadOptions, Source, WriteOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTH = 8  # bytes of the header's length, at the start of the file
LONGEST_HEADER = 2**21  # bytes
ALIGNED = 8  # bytes, to a multiple of which the header is padded
MOST_AXES = 32
ABOUT = "__metadata__"
TYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
WRITTEN = {name: code for code, name in TYPES.items()}


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[_File]:
    """Opens the file; its arrays are read region by region."""
    with open(path, "rb") as stream:
        entries, start = _parse(path, stream)
        yield _File(path, stream, entries, start)


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    stream: BinaryIO
    entries: dict[str, Any]
    start: int

    @property
    def headers(self) -> list[Header]:
        return [self._header(name) for name in self.entries if self._is_numeric(name)]

    @property
    def left_out(self) -> list[str]:
        return [name for name in self.entries if name != ABOUT and not self._is_numeric(name)]

    def array(self, key: str) -> ArrayReader:
        header, about = self._header(key), self.entries.get(ABOUT, {})
        place = self.start + self.entries[key]["data_offsets"][0]
        metadata = Metadata(groups={"/": about} if about else {})
        dtype = numpy_dtype(header.dtype).newbyteorder("<")
        return Flat(header, self.stream, dtype, False, place, metadata=metadata)

    def _header(self, name: str) -> Header:
        entry = self.entries[name]
        return Header("safetensors", tuple(entry["shape"]), TYPES[entry["dtype"]], key=name)

    def _is_numeric(self, name: str) -> bool:
        entry = self.entries[name]
        return name != ABOUT and entry["dtype"] in TYPES and 0 < len(entry["shape"]) <= MOST_AXES


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The chosen array, read region by region."""
    with open_container(source.path, options) as file:
        yield open_chosen(file, source, options.ndim)


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays under their names (`data` without one), with the string metadata of the inputs."""
    ordered = sorted(arrays, key=lambda each: -each.array.dtype.itemsize)  # then each is aligned to its item size
    names = iter(array_names(path, [each.spec.key for each in ordered]))
    about, lost = _about(arrays)
    entries: dict[str, Any] = {ABOUT: about} if about else {}
    at = 0
    for each in ordered:
        shape, size = list(each.spec.shape), each.array.nbytes
        entries[next(names)] = {"dtype": WRITTEN[each.spec.dtype], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    with byte_stream(path, options.overwrite) as stream:
        stream.write(len(text).to_bytes(LENGTH, "little") + text)
        for each in ordered:
            stream.write(_bytes(each.array))
    return (f"left out, because they are not strings: the attributes {join_names(lost)}",) if lost else ()


def _about(arrays: Sequence[NamedArray]) -> tuple[dict[str, str], list[str]]:
    """The string metadata of the inputs' files, and the names of all other metadata."""
    about, lost = dict[str, str](), dict[str, None]()
    for metadata in (each.spec.metadata for each in arrays):
        for name, value in metadata.groups.get("/", {}).items():
            if isinstance(value, str):
                about[name] = value
            else:
                lost[name] = None
        lost |= dict.fromkeys(metadata.attributes)
    return about, list(lost)


def _bytes(array: NDArray[Any]) -> memoryview:
    import numpy as np

    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _parse(path: str, stream: BinaryIO) -> tuple[dict[str, Any], int]:
    """The entries of the header, each checked against the file's size, and where the arrays begin."""
    size = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(LENGTH), "little")
    if length > min(size - LENGTH, LONGEST_HEADER):
        raise FileError(
            f"{path}: its safetensors header claims {human_bytes(length)}; the file holds {human_bytes(size)}, "
            f"and at most {human_bytes(LONGEST_HEADER)} are read"
        )
    try:
        entries = json.loads(stream.read(length), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: its safetensors header is broken") from error
    start = LENGTH + length
    about = entries.get(ABOUT, {}) if isinstance(entries, dict) else None
    whole = isinstance(about, dict) and all(isinstance(value, str) for value in about.values())
    if not whole or not all(_is_entry(entries[name], size - start) for name in entries if name != ABOUT):
        raise FileError(f"{path}: its safetensors header is broken, or claims data that the file does not hold")
    return entries, start


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a ValueError if it has a name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _is_entry(entry: Any, size: int) -> bool:
    """Whether an entry is valid, lies in the file, and has as many bytes as its shape and type need."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape, place = _numbers(entry.get("shape")), _numbers(entry.get("data_offsets"))
    if shape is None or place is None or len(place) != 2 or not place[0] <= place[1] <= size:  # a pair
        return False
    known = TYPES.get(entry["dtype"])
    return known is None or place[1] - place[0] == byte_count(shape, DTYPES[known].itemsize)


def _numbers(value: Any) -> list[int] | None:
    """A list of integers from 0 on; None for anything else."""
    whole = isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)
    return value if whole else None
