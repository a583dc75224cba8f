"""A format that the program does not have: a folder with a .npy file for each chunk, and a small JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from poolcli.errors import FileError
from poolcli.formats.atomic import atomic_folder
from poolcli.formats.records import (
    ArrayReader,
    CallbackWriter,
    Header,
    Metadata,
    NamedArray,
    ReadOptions,
    RegionWriter,
    Source,
    Spec,
    WriteOptions,
    whole_region,
)
from poolcli.formats.table import Format
from poolcli.windows import Ranges

ROW = Format("toy", (".toy",), __name__, markers=("toy.json",), streams=True, streams_from=0)
CHUNK = 3  # elements along every axis


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The array, read chunk by chunk."""
    yield _Folder(_header(source.path), source.path)


@dataclass(slots=True)
class _Folder:
    header: Header
    path: str
    streams: bool = True
    chunks: tuple[int, ...] | None = None
    metadata: Metadata = field(default_factory=Metadata)

    def read(self, region: Ranges) -> Any:
        array = np.empty(tuple(map(len, region)), self.header.dtype)
        for name, inside, outside in _chunks(region):
            try:
                array[outside] = np.load(os.path.join(self.path, name))[inside]
            except Exception as error:  # numpy raises many kinds for a damaged file
                raise FileError(f"{self.path}: its chunk {name} is missing or damaged") from error
        return array


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the array as one region."""
    with open_writer(path, arrays[0].spec, options) as take:
        take(whole_region(arrays[0].array.shape), arrays[0].array)
    return ()


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Takes regions in any order, of whole chunks or not."""

    def put(region: Ranges, array: Any) -> None:
        for name, inside, outside in _chunks(region):
            file = Path(part, name)
            places = name.removesuffix(".npy").split(".")
            lengths = [min(CHUNK, n - CHUNK * int(i)) for i, n in zip(places, spec.shape, strict=True)]
            chunk = np.load(file) if file.exists() else np.zeros(lengths, spec.dtype)
            chunk[inside] = array[outside]
            np.save(file, chunk)

    with atomic_folder(path, options.overwrite) as part:
        Path(part, "toy.json").write_text(json.dumps({"shape": spec.shape, "dtype": spec.dtype, "layout": spec.layout}))
        yield CallbackWriter(put)


def _header(path: str) -> Header:
    try:
        found = json.loads(Path(path, "toy.json").read_text())
        return Header("toy", tuple(found["shape"]), found["dtype"], found["layout"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path}: has no toy.json that can be read") from error


def _chunks(region: Ranges) -> Iterator[tuple[str, tuple[slice, ...], tuple[slice, ...]]]:
    """The chunks that a region meets: the name of each, the part of it that is meant, and its place in the region."""
    spans = [range(axis.start // CHUNK, (axis.stop - 1) // CHUNK + 1) for axis in region]
    for places in product(*spans):
        inside, outside = [], []
        for place, axis in zip(places, region, strict=True):
            start, stop = max(axis.start, CHUNK * place), min(axis.stop, CHUNK * (place + 1))
            inside.append(slice(start - CHUNK * place, stop - CHUNK * place))
            outside.append(slice(start - axis.start, stop - axis.start))
        yield ".".join(map(str, places)) + ".npy", tuple(inside), tuple(outside)
