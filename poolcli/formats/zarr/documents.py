"""The metadata of Zarr hierarchies that are made here, all of it, before any chunk is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.formats.checks import named
from poolcli.formats.names import array_names
from poolcli.formats.records import Scale, Spec, WriteOptions
from poolcli.formats.zarr.attributes import plain
from poolcli.formats.zarr.chunks import Grid, grid_of
from poolcli.formats.zarr.codecs import INDEX, codecs_2, codecs_3, fill_value
from poolcli.formats.zarr.metadata import DIMENSIONS, SHARDING
from poolcli.formats.zarr.names import names_of

Documents = dict[str, dict[str, Any]]  # by their names in the store


@dataclass(frozen=True, slots=True)
class Made:
    """An array that is to be: where it is in its store, its metadata and that of the groups above it, its grid, and
    the values along its axes, by key.
    """

    key: str
    documents: Documents
    grid: Grid
    scales: Mapping[str, Scale]
    notes: tuple[str, ...]

    @property
    def version(self) -> int:
        """The version of Zarr."""
        return int(self.documents[_under(self.key, "zarr.json" if self.is_new else ".zarray")]["zarr_format"])

    @property
    def is_new(self) -> bool:
        """Whether it is of Zarr v3."""
        return _under(self.key, "zarr.json") in self.documents


def makings(path: str, specs: Sequence[Spec], options: WriteOptions) -> list[Made]:
    """What the arrays of one store at `path` are to be; refuses names that lead out of it."""
    names = array_names(path, [spec.key for spec in specs])
    return [_made(path, name, spec, options) for name, spec in zip(names, specs, strict=True)]


def _made(path: str, key: str, spec: Spec, options: WriteOptions) -> Made:
    """What an array is to be: as its input was stored, as far as that fits its type and shape."""
    kept, lost = spec.metadata.store, list[str]()
    if options.shards and kept.get("version") == 2:
        kept = {}  # which has no shards
    grid = grid_of(
        spec.shape,
        spec.layout,
        asked=options.chunks,
        asked_shards=options.shards,
        kept=kept,
        most=options.most,
    )
    names = _names(spec)
    attributes = plain(spec.metadata.attributes, key, lost)
    version = int(kept.get("version", 3))
    fill, has_fill = fill_value(kept, spec.dtype)
    without = list[str]()
    array = _Array(key, spec, grid, kept, fill, names, attributes)
    documents = _documents(array, version, without)
    scales = {}
    if key:
        documents |= _groups(key, spec.metadata.groups, version, lost)
        for each, scale in (item for dimension in spec.metadata.dimensions for item in dimension.scales.items()):
            place, _ = array_names(path, [each, key])  # refused where one is the other, or a group of it
            documents |= _scale(place, scale, version, lost)
            scales[place] = scale
    notes = [*spec.metadata.notes, *grid.notes]
    if not has_fill:
        notes.append(f"stored without the fill value {kept['fill_value']}, which {spec.dtype} does not have")
    if without:
        notes.append(f"stored without the codec {named(without)}")
    if lost:
        notes.append(f"left out, for they cannot be written: the attributes {named(lost)}")
    return Made(key, documents, grid, scales, tuple(notes))


def encoded(documents: Documents) -> dict[str, bytes]:
    """The documents as they are stored."""
    return {name: json.dumps(content, indent=2).encode() for name, content in documents.items()}


def _names(spec: Spec) -> tuple[str | None, ...]:
    labels = tuple(dimension.label or None for dimension in spec.metadata.dimensions)
    return labels if any(labels) else names_of(spec.layout)


@dataclass(frozen=True, slots=True)
class _Array:
    """An array that is to be described: how its input was `kept`, its fill value, names of axes and attributes."""

    key: str
    spec: Spec
    grid: Grid
    kept: Mapping[str, Any]
    fill: Any
    names: Sequence[str | None]
    attributes: dict[str, Any]


def _documents(array: _Array, version: int, without: list[str]) -> Documents:
    """What describes it in a version of Zarr; names of codecs that are left out go to `without`."""
    return _array_2(array, without) if version == 2 else _array_3(array, without)


def _array_3(array: _Array, without: list[str]) -> Documents:
    spec, grid, kept = array.spec, array.grid, array.kept
    codecs = codecs_3(kept, spec.dtype, without)
    if grid.shards:
        inner = {"chunk_shape": list(grid.chunks), "codecs": codecs} | (kept.get("index") or INDEX)
        codecs = [{"name": SHARDING, "configuration": inner}]
    content = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(spec.shape),
        "data_type": spec.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(grid.unit)}},
        "chunk_key_encoding": kept.get("chunk_key_encoding", {"name": "default", "configuration": {"separator": "/"}}),
        "fill_value": array.fill,
        "codecs": codecs,
        "attributes": array.attributes,
    }
    names = {"dimension_names": list(array.names)} if array.names else {}
    return {_under(array.key, "zarr.json"): content | names}


def _array_2(array: _Array, without: list[str]) -> Documents:
    spec, kept, attributes = array.spec, array.kept, array.attributes
    content = {
        "zarr_format": 2,
        "shape": list(spec.shape),
        "chunks": list(array.grid.chunks),
        "dtype": _type_2(spec.dtype),
        "fill_value": array.fill,
        "order": "C",
        "dimension_separator": kept.get("dimension_separator", "."),
        **codecs_2(kept, spec.dtype, without),
    }
    if array.names and all(array.names):
        attributes = attributes | {DIMENSIONS: list(array.names)}
    return {_under(array.key, ".zarray"): content} | ({_under(array.key, ".zattrs"): attributes} if attributes else {})


def _type_2(dtype: str) -> str:
    kind = DTYPES[dtype]
    letter = {"bool": "b"}.get(kind.kind, kind.kind[0])
    return f"{'<' if kind.itemsize > 1 else '|'}{letter}{kind.itemsize}"


def _groups(key: str, groups: Mapping[str, Mapping[str, Any]], version: int, lost: list[str]) -> Documents:
    """The groups above an array, with their attributes."""
    documents: Documents = {}
    names = key.split("/")[:-1]
    for place in ("/".join(names[:depth]) for depth in range(len(names) + 1)):
        attributes = plain(groups.get(f"/{place}/" if place else "/", {}), place or "/", lost)
        if version == 2:
            documents[_under(place, ".zgroup")] = {"zarr_format": 2}
            if attributes:
                documents[_under(place, ".zattrs")] = attributes
        else:
            documents[_under(place, "zarr.json")] = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return documents


def _scale(place: str, scale: Scale, version: int, lost: list[str]) -> Documents:
    """The array of the values along an axis, in one chunk."""
    spec = Spec(scale.values.shape, scale.values.dtype.name, "W", place)
    grid = Grid(tuple(max(1, n) for n in spec.shape))
    names = (place.rpartition("/")[2],)
    return _documents(_Array(place, spec, grid, {}, 0, names, plain(scale.attributes, place, lost)), version, [])


def _under(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name
