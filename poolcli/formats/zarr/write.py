"""Zarr stores written region by region; each region consists of whole shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from posixpath import join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.formats.atomic import atomic_folder
from poolcli.formats.checks import byte_count
from poolcli.formats.files import is_url
from poolcli.formats.records import NamedArray, RegionWriter, Spec, WriteOptions, slices, whole_region
from poolcli.formats.resumable import Journal, Progress, batches, remove_partial, resumable_folder
from poolcli.formats.zarr.chunks import ChunkFiles, chunk_files
from poolcli.formats.zarr.documents import NewArray, encode_documents, new_arrays
from poolcli.formats.zarr.library import (
    limit_concurrency,
    open_store,
    read_region,
    reading_metadata,
    tasks_joined,
    zarr,
    zarr_errors,
)
from poolcli.formats.zarr.remote import remote_store
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges

ENCODING_MEMORY = 2**28  # bytes of the shards that are encoded at the same time


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays under their keys (None is the root), stored like their inputs."""
    planned = new_arrays(path, [each.spec for each in arrays], options)
    with _store(path, planned, options) as (store, _):
        for new_array, each in zip(planned, arrays, strict=True):
            writer_of(path, store, new_array)(whole_region(each.array.shape), each.array)
            check_stopped()
    return tuple(dict.fromkeys(note for new_array in planned for note in new_array.notes))


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes regions of whole shards (chunks if there are no shards), in any order."""
    with open_writers(path, [spec], options) as (only,):
        yield only


@contextmanager
def open_writers(path: str, specs: Sequence[Spec], options: WriteOptions) -> Iterator[list[ZarrWriter]]:
    """As `open_writer`, for several arrays of one store."""
    planned = new_arrays(path, specs, options)
    units = (byte_count(each.grid.unit, DTYPES[spec.dtype].itemsize) for each, spec in zip(planned, specs, strict=True))
    with _store(path, planned, options) as (store, journal), limit_concurrency(max(units), ENCODING_MEMORY):
        progress = Progress(journal)
        found = [
            ZarrWriter(writer_of(path, store, new_array), progress, number) for number, new_array in enumerate(planned)
        ]
        yield found
        if is_url(path):
            progress.write()
        elif any(each.is_shared for each in found) or journal is not None:
            remove_partial(getattr(store, "root", ""))


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes regions of a new array, also at the same time in several processes or hosts.

    It reads nothing from the store: `new_array` describes the array.
    """

    path: str
    new_array: NewArray
    target: Any  # the array of zarr, which omits chunks that hold nothing but the fill value
    chunks: ChunkFiles | None  # if zarr is not needed to read them

    def __call__(self, region: Ranges, array: Array) -> None:
        """Writes a region. Raises a ValueError if it cuts a shard, which another process may be writing."""
        unit = self.new_array.grid.unit
        for span, n, length in zip(region, self.target.shape, unit, strict=True):
            if span.start % length or (span.stop % length and span.stop != n):
                raise ValueError(f"a region {span.start}:{span.stop} of {n} would cut shards of {length}")
        with zarr_errors(self.path), tasks_joined():
            if self.chunks is not None:
                self.chunks.write(region, array)
                return
            target, new = self.target, self.new_array
            if _has_negative_zeros(array):  # which older versions of zarr take for the fill value 0
                target = array_over(target.store, new.key, new.documents, every_chunk=True)
            for part in batches(region, unit):
                target[slices(part)] = array[slices(part, region)]

    def read(self, region: Ranges) -> Array:
        """A region that was written."""
        return read_region(self.path, self.target, region, self.chunks)


def _has_negative_zeros(array: Array) -> bool:
    return array.dtype.kind == "f" and bool((np.signbit(array) & (array == 0)).any())


def writer_of(path: str, store: Any, new_array: NewArray) -> Writer:
    """The writer of an array into a store that need not have its metadata yet."""
    with reading_metadata(path):
        array = array_over(store, new_array.key, new_array.documents, every_chunk=False)
    return Writer(path, new_array, array, chunk_files(array, ENCODING_MEMORY))


@dataclass(slots=True)
class ZarrWriter:
    """Writes regions of one of the arrays of a store, and reads them again."""

    writer: Writer
    progress: Progress
    number: int
    is_shared: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        return self.writer.new_array.notes

    @property
    def unit(self) -> tuple[int, ...]:
        return self.writer.new_array.grid.unit

    def holds(self, region: Ranges) -> bool:
        return self.progress.holds(self._numbered(region))

    def read(self, region: Ranges) -> Array:
        """A region that was written."""
        return self.writer.read(region)

    def __call__(self, region: Ranges, array: Array) -> None:
        self.writer(region, array)
        self.progress.add(self._numbered(region))

    def note(self, region: Ranges) -> None:
        """Adds a region that another process has written; such a process may have left torn files."""
        self.is_shared = True
        self.progress.add(self._numbered(region))

    def _numbered(self, region: Ranges) -> Ranges:
        return (range(self.number, self.number + 1), *region)


def array_over(store: Any, key: str, documents: Mapping[str, Any], every_chunk: bool) -> Any:
    """zarr's array as documents describe it, in a store that need not have them yet."""
    new, old = (documents.get(join(key, name)) for name in ("zarr.json", ".zarray"))
    kinds = zarr.core.metadata
    metadata = kinds.ArrayV3Metadata.from_dict(new) if new else kinds.ArrayV2Metadata.from_dict(old)
    place = zarr.storage.StorePath(store, key)
    return zarr.Array(zarr.AsyncArray(metadata, place, config={"write_empty_chunks": every_chunk, "order": "C"}))


@contextmanager
def _store(path: str, planned: Sequence[NewArray], options: WriteOptions) -> Iterator[tuple[Any, Journal | None]]:
    """The store that becomes `path`, with metadata and coordinates; and a journal if it can be continued."""
    documents = encode_documents(planned, options.extra_files)
    identity = options.identity
    if identity:  # chunks depend on the memory, which does not change the values
        identity += f"-{sha256(repr(sorted(documents.items())).encode()).hexdigest()[:12]}"
    if is_url(path):
        with reading_metadata(path):
            store = open_store(path)
        with remote_store(path, options.overwrite, identity, documents) as journal:
            _write_scales(path, store, planned)
            yield store, journal if identity else None
        return
    if identity is None:
        with atomic_folder(path, options.overwrite) as part:
            yield _create_store(path, part, documents, planned), None
        return
    with resumable_folder(path, options.overwrite, identity) as (part, journal):
        yield _create_store(path, part, documents, planned), journal


def _create_store(path: str, part: str, documents: Mapping[str, bytes], planned: Sequence[NewArray]) -> Any:
    """The store of a folder, after its metadata is written."""
    for name, content in documents.items():
        file = Path(part, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    with reading_metadata(path):
        store = open_store(part)
    _write_scales(path, store, planned)
    return store


def _write_scales(path: str, store: Any, planned: Sequence[NewArray]) -> None:
    with reading_metadata(path):
        for new_array in planned:
            for key, values in new_array.scales.items():
                array_over(store, key, new_array.documents, True)[...] = values
