"""The safetensors format: a JSON header with names, types, shapes and offsets, then the arrays in C order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

from poolcli.dtypes import DTYPES, numpy_dtype
from poolcli.errors import FileError
from poolcli.formats import records
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.checks import MAX_AXES, check_array, choose_array, human_bytes, join_names
from poolcli.formats.files import array_names
from poolcli.formats.npy import UncompressedReader
from poolcli.system.lazy_imports import numpy as np

LENGTH_BYTES = 8  # the header's length, little-endian, starts the file
MAX_HEADER = 2**21  # bytes
ALIGNMENT = 8  # bytes; the header is padded with spaces
METADATA = "__metadata__"
DTYPES_BY_CODE = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
CODES = {name: code for code, name in DTYPES_BY_CODE.items()}


def _is_numeric(entry: dict[str, Any]) -> bool:
    return entry["dtype"] in DTYPES_BY_CODE and 0 < len(entry["shape"]) <= MAX_AXES


@contextmanager
def open_container(path: str, options: records.ReadOptions) -> Iterator[_File]:
    """Opens the file and parses its header."""
    with open(path, "rb") as stream:
        yield _parse(path, stream)


@dataclass(frozen=True, slots=True)
class _File(records.ArrayContainer):
    path: str
    stream: BinaryIO
    entries: dict[str, Any]
    strings: dict[str, str]
    start: int  # of the data

    @property
    def listed(self) -> dict[str, records.Header | None]:
        return {name: self._header(name) if _is_numeric(entry) else None for name, entry in self.entries.items()}

    def array(self, key: str) -> records.ArrayReader:
        key = key if key in self.entries else str(choose_array(records.Source(self.path, key), self.headers).key)
        where, entry = f"{self.path}:{key}", self.entries[key]
        check_array(where, entry["shape"], DTYPES_BY_CODE.get(entry["dtype"], entry["dtype"]))
        header, place = self._header(key), self.start + entry["data_offsets"][0]
        metadata = records.Metadata(groups={"/": self.strings} if self.strings else {})
        return UncompressedReader(header, self.stream, numpy_dtype(header.dtype).newbyteorder("<"), place, metadata)

    def _header(self, name: str) -> records.Header:
        entry = self.entries[name]
        return records.Header("safetensors", tuple(entry["shape"]), DTYPES_BY_CODE[entry["dtype"]], key=name)


def write(path: str, arrays: Sequence[records.NamedArray], options: records.WriteOptions) -> tuple[str, ...]:
    """Writes arrays under their keys (`data` without one), with the string metadata of the inputs."""
    ordered = sorted(arrays, key=lambda each: -each.array.dtype.itemsize)  # aligns each array to its item size
    names = array_names(path, [each.spec.key for each in ordered])
    strings, lost = dict[str, str](), dict[str, None]()
    for metadata in (each.spec.metadata for each in arrays):
        found = metadata.groups.get("/", {})
        texts = {name: value for name, value in found.items() if isinstance(value, str)}
        strings |= texts
        lost |= dict.fromkeys([*(name for name in found if name not in texts), *metadata.attributes])
    entries: dict[str, Any] = {METADATA: strings} if strings else {}
    at = 0
    for name, each in zip(names, ordered, strict=True):
        shape, size = list(each.spec.shape), each.array.nbytes
        entries[name] = {"dtype": CODES[each.spec.dtype], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    with atomic_stream(path, options.overwrite) as stream:
        stream.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        for each in ordered:
            little = np.ascontiguousarray(each.array).astype(each.array.dtype.newbyteorder("<"), copy=False)
            stream.write(little.reshape(-1).view(np.uint8).data)
    return (f"left out, because they are not strings: the attributes {join_names([*lost])}",) if lost else ()


def _parse(path: str, stream: BinaryIO) -> _File:
    """The file with the validated entries of its header."""
    size = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
    if length > min(size - LENGTH_BYTES, MAX_HEADER):
        raise FileError(
            f"{path}: its safetensors header claims {human_bytes(length)}; the file holds {human_bytes(size)}, "
            f"and at most {human_bytes(MAX_HEADER)} are read"
        )
    start = LENGTH_BYTES + length
    try:
        entries = json.loads(stream.read(length))
        strings = entries.pop(METADATA, {})
        if not all(isinstance(value, str) for value in strings.values()):
            raise TypeError("metadata are not strings")
        for entry in entries.values():
            kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            if not isinstance(kind, str) or any(type(n) is not int or n < 0 for n in (*shape, begin, end)):
                raise ValueError("a field is invalid")
            stored = prod(shape) * DTYPES[DTYPES_BY_CODE[kind]].itemsize if kind in DTYPES_BY_CODE else end - begin
            if not begin <= end <= size - start or end - begin != stored:
                raise ValueError("the data are not there")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        broken = f"{path}: its safetensors header is broken, or claims data that the file does not hold"
        raise FileError(broken) from error
    return _File(path, stream, entries, strings, start)
