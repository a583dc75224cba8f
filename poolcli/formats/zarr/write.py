"""New Zarr stores: their metadata, all made before any chunk is written, and writers of regions of whole shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from posixpath import basename, join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.cf import NOT_A_VARIABLE, conflict_note, same_values, with_references
from poolcli.formats.checks import byte_count, join_names
from poolcli.formats.files import array_names, is_url
from poolcli.formats.records import (
    MAX_CHUNKS,
    NamedArray,
    RegionWriter,
    Spec,
    WriteOptions,
    batches,
    slices,
    whole_region,
)
from poolcli.formats.zarr.library import (
    array_at,
    chunk_keys,
    read_region,
    reading_metadata,
    tasks_joined,
    zarr,
    zarr_errors,
)
from poolcli.formats.zarr.metadata import RUN, encode_nodata, json_attributes
from poolcli.formats.zarr.storage import Grid, codec_arguments, fill_value, grid_of
from poolcli.formats.zarr.targets import open_target
from poolcli.layouts import default_layout
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Ranges

ENCODING_MEMORY = 2**28  # bytes of the shards that are encoded at the same time


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays under their keys (None is the root), stored like their inputs."""
    with open_writers(path, [each.spec for each in arrays], options) as writers:
        for writer, each in zip(writers, arrays, strict=True):
            writer(whole_region(each.array.shape), each.array)
    return tuple(dict.fromkeys(note for writer in writers for note in writer.notes))


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes regions of whole shards (chunks if there are no shards), in any order."""
    with open_writers(path, [spec], options) as (only,):
        yield only


@contextmanager
def open_writers(path: str, specs: Sequence[Spec], options: WriteOptions) -> Iterator[list[ZarrWriter]]:
    """As `open_writer`, for several arrays of one store."""
    planned = NewStore(path, specs, options)
    with open_target(path, options.overwrite, options.identity, planned.documents) as (store, written):
        with reading_metadata(path):
            for key, (metadata, values) in planned.coordinates.items():
                array_at(store, key, metadata)[...] = values
            arrays = [array_at(store, each.key, each.metadata) for each in planned.arrays]
        yield [
            ZarrWriter(path, array, each.grid.unit, each.notes, written)
            for array, each in zip(arrays, planned.arrays, strict=True)
        ]


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
        """Whether an earlier run has written the region: all its files are there and can be read.

        A process that is killed may leave a part of a file, but no part of an object.
        """
        if not self.written.issuperset(key for key, _ in chunk_keys(self.array, region)):
            return False
        try:
            return is_url(self.path) or self.read(region) is not None
        except FileError:
            return False

    def read(self, region: Ranges) -> Array:
        """A region that was written."""
        return read_region(self.path, self.array, region, self._at_once)

    def __call__(self, region: Ranges, array: Array) -> None:
        """Writes a region. Raises a ValueError if it cuts a shard, which another process may be writing."""
        for span, n, length in zip(region, self.array.shape, self.unit, strict=True):
            if span.start % length or (span.stop % length and span.stop != n):
                raise ValueError(f"a region {span.start}:{span.stop} of {n} would cut shards of {length}")
        with zarr_errors(self.path), tasks_joined():
            for part in batches(region, self.unit, self._at_once):
                self.array[slices(part)] = array[slices(part, region)]

    @property
    def _at_once(self) -> int:
        """The number of shards that are encoded or decoded at the same time."""
        size = byte_count(self.unit, self.array.dtype.itemsize)
        return max(1, min(MAX_CHUNKS, ENCODING_MEMORY // max(1, size)))


@dataclass(frozen=True, slots=True)
class NewArray:
    """A new array: its key, the metadata that zarr has made, its chunks, and notes on what is not kept."""

    key: str
    metadata: Any
    grid: Grid
    notes: tuple[str, ...]


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
        with reading_metadata(path):
            self.arrays = [self._add_array(name, spec) for name, spec in zip(names, specs, strict=True)]
            if run := options.run or (options.identity if is_url(path) else None):
                zarr.open(store=self._store, mode="r+").attrs[RUN] = run
        self.documents = {name: document.to_bytes() for name, document in self._content.items()}

    def _add_array(self, key: str, spec: Spec) -> NewArray:
        """Adds the metadata of an array, stored like its input as far as possible, of its groups and of its
        coordinates, if earlier arrays have not added those.
        """
        about, options, lost = spec.metadata, self._options, list[str]()
        kept = about.zarr_storage
        grid = grid_of(
            spec.shape, spec.layout,
            asked=options.chunks, asked_shards=options.shards, kept=kept, most=options.max_elements,
        )  # fmt: skip
        labels = [each.label or basename(next(iter(each.scales), "")) or None for each in about.dimensions]
        names = labels if any(labels) else _default_names(spec.layout)
        fill, has_fill = fill_value(kept, spec.dtype)
        attributes = json_attributes(with_references(key, about), key, lost)
        for depth in range(key.count("/") + 1 if key else 0):
            place = "/".join(key.split("/")[:depth])
            if join(place, "zarr.json") not in self._content:
                own = json_attributes(about.groups.get(f"/{place}/" if place else "/", {}), place or "/", lost)
                zarr.create_group(self._store, path=place, zarr_format=3, attributes=own)
        made = zarr.create_array(
            self._store, name=key or None, shape=spec.shape, dtype=spec.dtype, chunks=grid.chunks, shards=grid.shards,
            attributes=encode_nodata(attributes, spec.dtype), dimension_names=list(names) or None, fill_value=fill,
            zarr_format=3, **codec_arguments(kept, spec.dtype),
        )  # fmt: skip
        others = self._add_coordinates(key, spec, labels, lost) if key else []
        notes = [*about.notes, *grid.notes, *(conflict_note(each, spec.key) for each in others)]
        lost += [f"the codec {name}" for name in kept.get("lost", ())]
        lost += [] if has_fill else [f"the fill value {kept['fill_value']}, which {spec.dtype} does not have"]
        notes += [f"not kept: {join_names(lost)}"] if lost else []
        return NewArray(key, made.metadata, grid, tuple(notes))

    def _add_coordinates(self, key: str, spec: Spec, labels: Sequence[str | None], lost: list[str]) -> list[str]:
        """Adds the coordinates of an array; returns the names of those of which the store has others."""
        others = []
        along = zip(([label] for label in labels), (each.scales for each in spec.metadata.dimensions), strict=True)
        every = [(n, s, axes) for axes, scales in (*along, ([], spec.metadata.scalars)) for n, s in scales.items()]
        for name, scale, axes in every:
            if scale.title.startswith(NOT_A_VARIABLE):
                continue
            place, _ = array_names(self._path, [name, key])  # refuses two of one name, and a group of the other
            values = np.asarray(scale.values)
            is_number = values.dtype.name in DTYPES
            values = values if is_number else np.array(values.astype(str), object)
            if place in self.coordinates:
                others += [] if same_values(self.coordinates[place][1], values) else [name]
                continue
            attributes, how = json_attributes(scale.attributes, place, lost), dict[str, Any]()
            if is_number:
                attributes = encode_nodata(attributes, values.dtype.name)
                how = codec_arguments({}, values.dtype.name) | {"fill_value": 0}
            made = zarr.create_array(
                self._store, name=place, shape=values.shape, dtype=values.dtype if is_number else str,
                chunks=tuple(max(1, n) for n in values.shape), attributes=attributes,
                dimension_names=list(axes) or None, zarr_format=3, **how,
            )  # fmt: skip
            self.coordinates[place] = made.metadata, values
        return others


def _default_names(layout: str) -> tuple[str, ...]:
    """Dimension names for a layout; none for the default layout, which may be a guess."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)
