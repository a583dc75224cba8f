"""New Zarr stores: their metadata, all made before any chunk is written, and writers of regions of whole shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from posixpath import basename, join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.cf import NOT_A_VARIABLE, conflict_note, same_values, with_references
from poolcli.formats.checks import byte_count, join_names
from poolcli.formats.files import is_url
from poolcli.formats.names import array_names
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
from poolcli.formats.zarr.metadata import DIMENSIONS, RUN, encode_nodata, is_number_of, json_attributes
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
    planned = plan_store(path, specs, options)
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


@dataclass(frozen=True, slots=True)
class NewStore:
    """A new store: its arrays, metadata and values of coordinates by key, and the files of all metadata by name."""

    arrays: Sequence[NewArray]
    coordinates: Mapping[str, tuple[Any, Array]]
    documents: Mapping[str, bytes]


def plan_store(path: str, specs: Sequence[Spec], options: WriteOptions) -> NewStore:
    """The new store with these arrays; refuses names that lead out of it.

    zarr makes the metadata in memory: they are known before a chunk is written, and at URLs they are written last.
    """
    content = dict[str, Any]()
    store, coordinates = zarr.storage.MemoryStore(content), dict[str, tuple[Any, Array]]()
    names = array_names(path, [spec.key for spec in specs])
    with reading_metadata(path):
        arrays = [
            _add_array(store, content, path, name, spec, options, coordinates)
            for name, spec in zip(names, specs, strict=True)
        ]
        if run := options.run or (options.identity if is_url(path) else None):
            zarr.open(store=store, mode="r+").attrs[RUN] = run
        if any(spec.metadata.zarr_storage.get("consolidated") for spec in specs) and names != [""]:
            zarr.consolidate_metadata(store)
    return NewStore(arrays, coordinates, {name: document.to_bytes() for name, document in content.items()})


def _add_array(
    store: Any,
    content: Mapping[str, Any],
    path: str,
    key: str,
    spec: Spec,
    options: WriteOptions,
    coordinates: dict[str, tuple[Any, Array]],
) -> NewArray:
    """Adds the metadata of an array, stored like its input as far as possible, of its groups and of its coordinates,
    if earlier arrays have not added those.
    """
    kept, lost, without = spec.metadata.zarr_storage, list[str](), list[str]()
    if options.shards and kept.get("version") == 2:
        kept = {}  # v2 has no shards
    version = int(kept.get("version", 3))
    grid = grid_of(
        spec.shape, spec.layout,
        asked=options.chunks, asked_shards=options.shards, kept=kept, most=options.max_elements,
    )  # fmt: skip
    # In Zarr v2 only names of the input, as they change what the fill value means to xarray.
    labels = tuple(each.label or basename(next(iter(each.scales), "")) or None for each in spec.metadata.dimensions)
    names = labels if any(labels) or version == 2 else _default_names(spec.layout)
    fill, has_fill = fill_value(kept, spec.dtype)
    attributes = json_attributes(with_references(key, spec.metadata), key, lost)
    for depth in range(key.count("/") + 1 if key else 0):
        place = "/".join(key.split("/")[:depth])
        if join(place, ".zgroup" if version == 2 else "zarr.json") not in content:
            own = json_attributes(spec.metadata.groups.get(f"/{place}/" if place else "/", {}), place or "/", lost)
            zarr.create_group(store, path=place, zarr_format=version, attributes=own)
    made = _create(
        store, key, version,
        shape=spec.shape, dtype=spec.dtype, grid=grid, names=names, attributes=attributes,
        is_level=any("multiscales" in group for group in spec.metadata.groups.values()),
        fill_value=fill, chunk_key_encoding=kept.get("keys"), **codec_arguments(kept, spec.dtype, without),
    )  # fmt: skip
    others = _add_coordinates(store, path, key, version, spec, labels, coordinates, lost) if key else []
    notes = [*spec.metadata.notes, *grid.notes, *(conflict_note(each, spec.key) for each in others)]
    if not has_fill:
        notes.append(f"stored without the fill value {kept['fill_value']}, which {spec.dtype} does not have")
    if without:
        notes.append(f"stored without the codec {join_names(without)}")
    if lost:
        notes.append(f"left out, because they cannot be written: the attributes {join_names(lost)}")
    return NewArray(key, made.metadata, grid, tuple(notes))


def _add_coordinates(
    store: Any,
    path: str,
    key: str,
    version: int,
    spec: Spec,
    labels: Sequence[str | None],
    coordinates: dict[str, tuple[Any, Array]],
    lost: list[str],
) -> list[str]:
    """Adds the coordinates of an array; returns the names of those of which the store has others."""
    others = []
    along = zip(([label] for label in labels), (each.scales for each in spec.metadata.dimensions), strict=True)
    for axes, scales in (*along, ([], spec.metadata.scalars)):
        for name, scale in scales.items():
            if scale.title.startswith(NOT_A_VARIABLE):
                continue
            place, _ = array_names(path, [name, key])  # refuses two of one name, and one that is a group of the other
            values = np.asarray(scale.values)
            is_number = values.dtype.name in DTYPES
            values = values if is_number else np.array(values.astype(str), object)
            if place not in coordinates:
                dtype: Any = values.dtype.name if is_number else str
                codecs = codec_arguments({"version": version}, dtype, []) | {"fill_value": 0} if is_number else {}
                made = _create(
                    store, place, version,
                    shape=values.shape, dtype=dtype, grid=Grid(tuple(max(1, n) for n in values.shape)), names=axes,
                    attributes=json_attributes(scale.attributes, place, lost), is_level=False, **codecs,
                )  # fmt: skip
                coordinates[place] = made.metadata, values
            elif not same_values(coordinates[place][1], values):
                others.append(name)
    return others


def _create(
    store: Any,
    key: str,
    version: int,
    *,
    shape: Sequence[int],
    dtype: Any,
    grid: Grid,
    names: Sequence[str | None],
    attributes: dict[str, Any],
    is_level: bool,
    **how: Any,
) -> Any:
    """An array that zarr creates, whose dimension names and nodata value are stored as xarray does in this version."""
    if version == 2 and all(names) and (names or not shape):
        attributes = {**attributes, DIMENSIONS: list(names)}
        if not is_level and dtype is not str:  # for xarray any fill value is a nodata value
            is_number = is_number_of(attributes.get("_FillValue"), dtype)
            how["fill_value"] = np.dtype(dtype).type(attributes.pop("_FillValue")) if is_number else None
    elif version == 3:
        attributes = attributes if dtype is str else encode_nodata(attributes, dtype)
        how |= {"dimension_names": list(names) or None, "shards": grid.shards}
    return zarr.create_array(
        store, name=key or None, shape=tuple(shape), dtype=dtype, chunks=grid.chunks,
        attributes=attributes, zarr_format=version, **how,
    )  # fmt: skip


def _default_names(layout: str) -> tuple[str, ...]:
    """Dimension names for a layout; none for the default layout, which may be a guess."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)
