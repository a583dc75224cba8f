"""New Zarr stores: their metadata, all made before any chunk is written, and writers of regions of whole shards.

Folders have a temporary name until they are complete. Object stores cannot rename, so there metadata is written last,
which makes it a store. With --resume, files or objects that an interrupted run has left are kept for the next run of
the same identity: a chunk or shard that exists is done. The root document of an object store names that run until the
metadata replace it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from posixpath import basename, join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats import records
from poolcli.formats.atomic import atomic_folder
from poolcli.formats.cf import NOT_A_VARIABLE, conflict_note, encode_nodata, json_attributes, same_values
from poolcli.formats.checks import as_file_error, byte_count, join_names
from poolcli.formats.files import array_names, filesystem, is_url, unreachable
from poolcli.formats.records import NamedArray, ReadOptions, RegionWriter, Scale, Spec, WriteOptions
from poolcli.formats.table import FORMATS
from poolcli.formats.zarr import library
from poolcli.formats.zarr.library import RUN, zarr
from poolcli.formats.zarr.storage import codec_arguments, fill_value, grid_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges, slices

ROOT = "zarr.json"  # is no more than RUN until the store is complete
ENCODING_MEMORY = 2**28  # bytes of the shards that are encoded at the same time


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays under their keys (None is the root), stored like their inputs."""
    with open_writers(path, [each.spec for each in arrays], options) as writers:
        for writer, each in zip(writers, arrays, strict=True):
            writer(records.whole_region(each.array.shape), each.array)
    return tuple(dict.fromkeys(note for writer in writers for note in writer.notes))


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes regions of whole shards (chunks if there are no shards), in any order."""
    with open_writers(path, [spec], options) as (only,):
        yield only


@contextmanager
def open_writers(path: str, specs: Sequence[Spec], options: WriteOptions) -> Iterator[list[ZarrWriter]]:
    """As `open_writer`, for several arrays of one store."""
    planned, identity = NewStore(path, specs, options), options.identity
    if identity is not None:  # the lengths of chunks depend on the memory
        identity += f"-{sha256(repr(sorted(planned.documents.items())).encode()).hexdigest()[:12]}"
    # A target that fails is removed, one that is interrupted is kept, if the run has an identity.
    target = _at_url if is_url(path) else _in_folder
    with target(path, options.overwrite, identity, planned.documents) as (store, written):
        with library.reading_metadata(path):
            for key, (metadata, values) in planned.coordinates.items():
                library.array_at(store, key, metadata)[...] = values
            writers = [
                ZarrWriter(path, library.array_at(store, key, metadata), unit, notes, written)
                for key, metadata, unit, notes in planned.arrays
            ]
        yield writers


@dataclass(frozen=True, slots=True)
class ZarrWriter:
    """Writes regions of a new array, also at the same time in several processes or hosts, and reads them again.

    `array` is zarr's, whose chunks are left out if they hold nothing but the fill value; `written` are the keys of the
    files or objects that an earlier run has left.
    """

    path: str
    array: Any
    unit: tuple[int, ...]
    notes: tuple[str, ...] = ()
    written: frozenset[str] = frozenset()

    @property
    def writer(self) -> ZarrWriter:
        """The writer for other processes."""
        return replace(self, written=frozenset())

    def holds(self, region: Ranges) -> bool:
        """Whether an earlier run has written the region: all files are there and, as kills may cut them, read."""
        if not self.written.issuperset(key for key, _ in library.chunk_keys(self.array, region)):
            return False
        try:
            return is_url(self.path) or self.read(region) is not None
        except FileError:
            return False

    def read(self, region: Ranges) -> Array:
        """A region that was written."""
        return library.read_region(self.path, self.array, region, self._at_once)

    def __call__(self, region: Ranges, array: Array) -> None:
        """Writes a region. Raises a ValueError if it cuts a shard, which another process may be writing."""
        for span, n, length in zip(region, self.array.shape, self.unit, strict=True):
            if span.start % length or (span.stop % length and span.stop != n):
                raise ValueError(f"a region {span.start}:{span.stop} of {n} would cut shards of {length}")
        with library.zarr_errors(self.path), library.tasks_joined():
            for part in records.batches(region, self.unit, self._at_once):
                self.array[slices(part)] = array[slices(part, region)]

    @property
    def _at_once(self) -> int:
        size = byte_count(self.unit, self.array.dtype.itemsize)
        return max(1, min(records.MAX_CHUNKS, ENCODING_MEMORY // max(1, size)))


# A new array: its key, the metadata that zarr has made, the unit of its chunks, and notes on what is not kept.
NewArray = tuple[str, Any, tuple[int, ...], tuple[str, ...]]
Target = tuple[Any, frozenset[str]]  # zarr's store, and the keys of what an earlier run has written


class NewStore:
    """A new store: its arrays, metadata and values of coordinates by key, and the files of all metadata by name.

    zarr makes the metadata in memory: they are known before a chunk is written, and at URLs they are written last.
    Refuses names that lead out of the store.
    """

    def __init__(self, path: str, specs: Sequence[Spec], options: WriteOptions) -> None:
        self._path, self._options, self._content = path, options, dict[str, Any]()
        self._store = zarr.storage.MemoryStore(self._content)
        self.coordinates = dict[str, tuple[Any, Array]]()
        names = array_names(path, [spec.key for spec in specs])
        with library.reading_metadata(path):
            self.arrays = [self._add_array(name, spec) for name, spec in zip(names, specs, strict=True)]
            if run := options.run or (options.identity if is_url(path) else None):
                zarr.open(store=self._store, mode="r+").attrs[RUN] = run
        self.documents = {name: document.to_bytes() for name, document in self._content.items()}

    def _add_array(self, key: str, spec: Spec) -> NewArray:
        """Adds the metadata of an array, stored like its input, and of new groups and coordinates."""
        about, options, lost = spec.metadata, self._options, list[str]()
        kept = about.zarr_storage
        grid = grid_of(
            spec.shape, spec.layout,
            asked=options.chunks, asked_shards=options.shards, kept=kept, most=options.max_elements,
        )  # fmt: skip
        labels = [each.label or basename(next(iter(each.scales), "")) or None for each in about.dimensions]
        is_guess = len(spec.layout) > 2 and spec.layout == default_layout(len(spec.layout))
        names = labels if any(labels) else [] if is_guess else list(spec.layout.lower())
        fill, has_fill = fill_value(kept, spec.dtype)
        attributes = json_attributes(about.attributes, key, lost)
        for depth in range(key.count("/") + 1 if key else 0):
            place = "/".join(key.split("/")[:depth])
            if join(place, "zarr.json") not in self._content:
                own = json_attributes(about.groups.get(f"/{place}/" if place else "/", {}), place or "/", lost)
                zarr.create_group(self._store, path=place, zarr_format=3, attributes=own)
        made = zarr.create_array(
            self._store, name=key or None, shape=spec.shape, dtype=spec.dtype, chunks=grid.chunks, shards=grid.shards,
            attributes=encode_nodata(attributes, spec.dtype), dimension_names=names or None, fill_value=fill,
            zarr_format=3, **codec_arguments(kept, spec.dtype),
        )  # fmt: skip
        notes = [*about.notes, *grid.notes]
        for label, dimension in zip(labels, about.dimensions if key else (), strict=False):
            for name, scale in dimension.scales.items():
                if not (scale.title.startswith(NOT_A_VARIABLE) or self._add_coordinate(key, name, scale, label, lost)):
                    notes.append(conflict_note(name, spec.key))
        lost += [f"the codec {name}" for name in kept.get("lost", ())]
        lost += [] if has_fill else [f"the fill value {kept['fill_value']}, which {spec.dtype} does not have"]
        notes += [f"not kept: {join_names(lost)}"] if lost else []
        return key, made.metadata, grid.unit, tuple(notes)

    def _add_coordinate(self, key: str, name: str, scale: Scale, label: str | None, lost: list[str]) -> bool:
        """Adds a coordinate of the array `key`; false if the store has another one of that name."""
        place, _ = array_names(self._path, [name, key])  # refuses two of one name, and a group of the other
        values = np.asarray(scale.values)
        is_number = values.dtype.name in DTYPES
        values = values if is_number else np.array(values.astype(str), object)
        if place in self.coordinates:
            return same_values(self.coordinates[place][1], values)
        attributes, how = json_attributes(scale.attributes, place, lost), dict[str, Any]()
        if is_number:
            attributes = encode_nodata(attributes, values.dtype.name)
            how = codec_arguments({}, values.dtype.name) | {"fill_value": 0}
        made = zarr.create_array(
            self._store, name=place, shape=values.shape, dtype=values.dtype if is_number else str,
            chunks=tuple(max(1, n) for n in values.shape), attributes=attributes, dimension_names=[label],
            zarr_format=3, **how,
        )  # fmt: skip
        self.coordinates[place] = made.metadata, values
        return True


def is_finished(path: str, identity: str) -> bool:
    """Whether the run of this identity has completed the store at a path or URL."""
    with suppress(FileError), library.reading_metadata(path):
        return bool(zarr.open(store=library.open_store(path, ReadOptions()), mode="r").attrs.get(RUN) == identity)
    return False


@contextmanager
def _in_folder(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Target]:
    with atomic_folder(path, overwrite, identity) as part:
        written = frozenset(str(file.relative_to(part)) for file in Path(part).rglob("*") if file.is_file())
        for name, content in documents.items():
            file = Path(part, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        yield library.open_store(part), written
        for file in filter(Path.is_file, Path(part).rglob("*.partial")):  # of killed processes
            file.unlink()


@contextmanager
def _at_url(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Target]:
    system, place = filesystem(path)
    written, reaching = frozenset[str](), partial(as_file_error, path, (Exception,), unreachable)
    with reaching():
        system.invalidate_cache()
        begun = None  # the identity of the run that has begun to write, unless it has completed the store
        with suppress(FileNotFoundError, ValueError, LookupError, TypeError):
            begun = str(json.loads(system.cat_file(f"{place}/{ROOT}"))[RUN]) if identity else None
        if identity and begun == identity:
            written = frozenset(name.removeprefix(f"{place}/") for name in system.find(place))
        else:
            is_same_values = bool(begun) and str(begun).partition("-")[0] == str(identity).partition("-")[0]
            if not (overwrite or is_same_values) and system.exists(place):
                raise RequestError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
            _clear(system, place)
            if identity:
                system.pipe_file(f"{place}/{ROOT}", json.dumps({"node_type": "incomplete", RUN: identity}).encode())
    try:
        with library.reading_metadata(path):
            store = library.open_store(path)
        yield store, written
        check_stopped()
        with reaching():
            for name in sorted(documents, key=lambda name: -name.count("/")):  # the root last
                system.pipe_file(f"{place}/{name}", documents[name])
    except BaseException as error:
        if identity is None or isinstance(error, Exception):  # not a signal
            with suppress(Exception):  # the store may not be reached any more; what matters is why the run failed
                _clear(system, place)
        raise


def _clear(system: Any, place: str) -> None:
    """Removes what is at a place: first what makes it a store, or one that can be continued."""
    for name in FORMATS["zarr"].naming.reserved:
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    system.invalidate_cache()
    if system.exists(place):
        system.rm(place, recursive=True)
        system.invalidate_cache()
        if system.exists(place):  # s3fs does not tell which of several objects a store refuses to remove
            raise FileError(f"{place}: objects in it cannot be removed")
