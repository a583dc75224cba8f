"""Metadata documents of new Zarr arrays and groups, all made before any chunk is written; chunk and shard sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from posixpath import basename, dirname, join
from typing import Any

from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import RequestError
from poolcli.formats.cf import NOT_A_VARIABLE, conflict_note, same_values
from poolcli.formats.checks import join_names
from poolcli.formats.names import array_names
from poolcli.formats.records import Scale, Spec, WriteOptions
from poolcli.formats.table import FORMATS
from poolcli.formats.zarr.chunks import SHARDING, SHUFFLES, numcodecs_config
from poolcli.formats.zarr.ome import (
    DIMENSIONS,
    STRING_CODEC,
    default_names,
    encode_nodata,
    is_number_of,
    json_attributes,
)
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import ceil_div

METADATA_FILES = FORMATS["zarr"].naming.reserved
LOSSLESS = (
    "adler32", "blosc", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "pcodec",
    "shuffle", "zlib", "zstd",
)  # fmt: skip
LOSSLESS_FOR_INTEGERS = ("delta",)  # lossless for integers of the type that they name
LOSSLESS_FOR_BOOL = ("packbits",)
ZSTD_2: dict[str, Any] = {"id": "zstd", "level": 0}
ZSTD_3: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
DEFAULT_INDEX: dict[str, Any] = {
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    "index_location": "end",
}


def codecs_2(kept: Mapping[str, Any], dtype: str, lost: list[str]) -> dict[str, Any]:
    """Filters and compressor of an array of Zarr v2; names of dropped ones are added to `lost`."""
    filters = [each for each in kept.get("filters") or () if _is_lossless(each["id"], kept["dtype"], dtype, lost)]
    compressor = kept.get("compressor")
    if compressor is not None and not _is_lossless(compressor["id"], kept["dtype"], dtype, lost):
        compressor = ZSTD_2
    return {"filters": filters or None, "compressor": compressor}


def codecs_3(kept: Mapping[str, Any], dtype: str, lost: list[str]) -> list[dict[str, Any]]:
    """The codecs of a chunk of Zarr v3, in C order and little-endian; names of dropped ones are added to `lost`.

    >>> codecs_3({"codecs": [{"name": "numcodecs.adler32"}]}, "uint8", [])
    [{'name': 'numcodecs.adler32', 'configuration': {}}]
    """
    found = []
    for codec in kept.get("codecs", ({"name": "bytes"}, ZSTD_3)):
        name, setting = codec["name"], dict(codec.get("configuration", {}))
        if name == "transpose":  # an order in memory
            continue
        if name == "bytes":
            wide = DTYPES[dtype].itemsize > 1
            found.append({"name": "bytes"} | ({"configuration": {"endian": "little"}} if wide else {}))
        elif _is_lossless(name.removeprefix("numcodecs."), kept.get("dtype", dtype), dtype, lost):
            setting |= {"typesize": DTYPES[dtype].itemsize} if name == "blosc" else {}
            needed = setting or name.startswith("numcodecs.")  # of which zarr reads none without
            found.append({"name": name} | ({"configuration": setting} if needed else {}))
    return found


def convert_storage(kept: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The storage of an array as another version of Zarr writes it; zstd replaces compressors that it does not have."""
    if not kept or kept["version"] == version:
        return dict(kept)
    names = ("chunks", "dtype", "fill_value", "consolidated") + (("shards",) if version == 3 else ())
    common = {name: kept[name] for name in names if kept.get(name) is not None} | {"version": version}
    if version == 2:
        found = (_compressor_2(codec) for codec in kept["codecs"] if codec["name"] in ("blosc", "gzip", "zstd"))
        return common | {"compressor": next(found, ZSTD_2), "dimension_separator": "/"}
    compressor = kept.get("compressor")
    codec = _codec_3(compressor) if compressor else None
    return common | {"codecs": [{"name": "bytes"}, *([codec] if codec else [])]}


def _compressor_2(codec: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("typesize", "checksum")  # not every reader of Zarr 2 knows a checksum
    return {name: value for name, value in numcodecs_config(codec).items() if name not in left_out}


def _codec_3(compressor: Mapping[str, Any]) -> dict[str, Any]:
    setting = {name: value for name, value in compressor.items() if name != "id"}
    if compressor["id"] == "blosc":
        setting["shuffle"] = SHUFFLES.get(setting.get("shuffle", 1), "shuffle")
    elif compressor["id"] == "zstd":
        setting = {"level": setting.get("level", 0), "checksum": bool(setting.get("checksum", False))}
    elif compressor["id"] != "gzip":
        return ZSTD_3
    return {"name": compressor["id"], "configuration": setting}


def fill_value(kept: Mapping[str, Any], dtype: str) -> tuple[Any, bool]:
    """The fill value as JSON, 0 if the type cannot hold that of the input; and whether it is that of the input."""
    kind = DTYPES[dtype]
    if not kept or kept["dtype"] == dtype:
        return kept.get("fill_value", False if kind.kind == "bool" else 0), True
    value = kept["fill_value"]
    if value is None:
        return (None, True) if kept["version"] == 2 else (0, True)
    if isinstance(value, bool):
        value = int(value)
    if kind.kind == "bool":
        return bool(value) if value in (0, 1) else False, value in (0, 1)
    if isinstance(value, str):
        return (value, True) if kind.kind == "float" and not value.startswith("0x") else (0, False)
    if kind.is_integer:
        return (int(value), True) if can_hold(kind, value) else (0, False)
    return (value, True) if abs(value) <= float(np.finfo(dtype).max) else (0, False)


def _is_lossless(name: str, source: str, target: str, lost: list[str]) -> bool:
    able = (
        name in LOSSLESS
        or (name in LOSSLESS_FOR_INTEGERS and source == target and DTYPES[target].is_integer)
        or (name in LOSSLESS_FOR_BOOL and target == "bool")
    )
    if not able:
        lost.append(name)
    return able


Documents = dict[str, dict[str, Any]]  # by key in the store


@dataclass(frozen=True, slots=True)
class NewArray:
    """A new array: its key, its chunks, its coordinates by key, and the documents of it and of those groups above it
    that are above no earlier array of the store.
    """

    key: str
    documents: Documents
    grid: Grid
    scales: Mapping[str, Array]
    notes: tuple[str, ...]
    consolidates: bool  # whether the root of the store has the metadata of everything in it


def new_arrays(path: str, specs: Sequence[Spec], options: WriteOptions) -> list[NewArray]:
    """The new arrays of one store at `path`; refuses names that lead out of it."""
    names = array_names(path, [spec.key for spec in specs])
    above, taken = Documents(), dict[str, Any]()
    return [_new_array(path, name, spec, options, above, taken) for name, spec in zip(names, specs, strict=True)]


def _new_array(
    path: str, key: str, spec: Spec, options: WriteOptions, above: Documents, taken: dict[str, Array]
) -> NewArray:
    """A new array, stored like its input as far as possible; it shares the groups `above` earlier ones, and coordinates
    that are `taken`.
    """
    kept, lost = spec.metadata.zarr_storage, list[str]()
    if options.shards and kept.get("version") == 2:
        kept = {}  # v2 has no shards
    shape, layout, most = spec.shape, spec.layout, options.max_elements
    grid = grid_of(shape, layout, asked=options.chunks, asked_shards=options.shards, kept=kept, most=most)
    attributes = json_attributes(spec.metadata.attributes, key, lost)
    version = int(kept.get("version", 3))
    # In Zarr v2 only names of the input, as they change what the fill value means to xarray.
    labels = tuple(each.label or basename(next(iter(each.scales), "")) or None for each in spec.metadata.dimensions)
    names = labels if any(labels) or version == 2 else default_names(layout)
    fill, has_fill = fill_value(kept, spec.dtype)
    without = list[str]()
    describe = _array_2 if version == 2 else _array_3
    documents = describe(key, spec, grid, kept, fill, names, attributes, without)
    scales, others = {}, list[str]()
    if key:
        groups = _groups(key, spec.metadata.groups, version, above, lost)
        above |= groups
        documents |= groups
        for each, scale, label in _coordinates(spec, labels):
            place, _ = array_names(path, [each, key])  # refuses two of one name, and one that is a group of the other
            values = np.asarray(scale.values)
            values = values if values.dtype.name in DTYPES else np.array(values.astype(str), object)
            if taken.setdefault(place, values) is values:
                documents |= _scale(place, values, scale.attributes, label, version, lost)
                scales[place] = values
            elif not same_values(taken[place], values):
                others.append(each)
    notes = [*spec.metadata.notes, *grid.notes, *(conflict_note(each, spec.key) for each in others)]
    if not has_fill:
        notes.append(f"stored without the fill value {kept['fill_value']}, which {spec.dtype} does not have")
    if without:
        notes.append(f"stored without the codec {join_names(without)}")
    if lost:
        notes.append(f"left out, because they cannot be written: the attributes {join_names(lost)}")
    return NewArray(key, documents, grid, scales, tuple(notes), bool(spec.metadata.zarr_storage.get("consolidated")))


def encode_documents(arrays: Sequence[NewArray], beside: Mapping[str, bytes]) -> dict[str, bytes]:
    """The documents of the arrays of a store as JSON, and what stands `beside` them."""
    documents = {name: content for each in arrays for name, content in each.documents.items()}
    if any(each.consolidates for each in arrays):
        more = {name: json.loads(content) for name, content in beside.items() if name.endswith(METADATA_FILES)}
        together = _consolidated(documents | more)
        documents = together | documents | together  # written before the others of the root
    return _as_json(documents) | dict(beside)


def _consolidated(documents: Documents) -> Documents:
    """The metadata of a whole store: a document of v2, or the root of v3 with all others; none for a single array."""
    root = documents.get("zarr.json", {})
    if root.get("node_type") == "group":
        found = {dirname(name): content for name, content in sorted(documents.items()) if dirname(name)}
        inline = {"kind": "inline", "must_understand": False, "metadata": found}
        return {"zarr.json": root | {"consolidated_metadata": inline}}
    if ".zgroup" in documents:
        return {".zmetadata": {"zarr_consolidated_format": 1, "metadata": documents}}
    return {}


def _as_json(documents: Documents) -> dict[str, bytes]:
    return {name: json.dumps(content, indent=2).encode() for name, content in documents.items()}


def group_documents(place: str, attributes: Mapping[str, Any], version: int) -> dict[str, bytes]:
    """The documents of a group, as JSON."""
    return _as_json(_group(place, dict(attributes), version))


Names = Sequence[str | None]


def _array_3(
    key: str, spec: Spec, grid: Grid, kept: Mapping[str, Any], fill: Any, names: Names, about: Mapping[str, Any],
    without: list[str],
) -> Documents:  # fmt: skip
    """The documents of an array whose input is stored as `kept`; names of dropped codecs are added to `without`."""
    codecs = codecs_3(kept, spec.dtype, without)
    if grid.shards:
        inner = {"chunk_shape": list(grid.chunks), "codecs": codecs} | (kept.get("index") or DEFAULT_INDEX)
        codecs = [{"name": SHARDING, "configuration": inner}]
    content = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(spec.shape),
        "data_type": spec.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(grid.unit)}},
        "chunk_key_encoding": kept.get("chunk_key_encoding", {"name": "default", "configuration": {"separator": "/"}}),
        "fill_value": fill,
        "codecs": codecs,
        "attributes": encode_nodata(about, spec.dtype),
    }
    return {join(key, "zarr.json"): content | ({"dimension_names": list(names)} if names or not spec.shape else {})}


def _array_2(
    key: str, spec: Spec, grid: Grid, kept: Mapping[str, Any], fill: Any, names: Names, about: Mapping[str, Any],
    without: list[str],
) -> Documents:  # fmt: skip
    attributes = dict(about)
    if all(names) and (names or not spec.shape):
        attributes[DIMENSIONS] = list(names)
        if not any("multiscales" in group for group in spec.metadata.groups.values()):
            # For xarray any fill value is a nodata value.
            found = attributes.get("_FillValue")
            fill = _fill(attributes.pop("_FillValue"), spec.dtype) if is_number_of(found, spec.dtype) else None
    content = {
        "zarr_format": 2,
        "shape": list(spec.shape),
        "chunks": list(grid.chunks),
        "dtype": np.dtype(spec.dtype).newbyteorder("<").str,
        "fill_value": fill,
        "order": "C",
        "dimension_separator": kept.get("dimension_separator", "."),
        **codecs_2(kept, spec.dtype, without),
    }
    return {join(key, ".zarray"): content} | ({join(key, ".zattrs"): attributes} if attributes else {})


def _fill(value: float, dtype: str) -> Any:
    """A number of the type as the fill value of Zarr v2."""
    if DTYPES[dtype].is_integer:
        return int(value)
    return value if isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def _groups(
    key: str, groups: Mapping[str, Mapping[str, Any]], version: int, known: Documents, lost: list[str]
) -> Documents:
    """The documents of the groups above an array, without those that are `known`."""
    documents: Documents = {}
    names = key.split("/")[:-1]
    for place in ("/".join(names[:depth]) for depth in range(len(names) + 1)):
        if join(place, ".zgroup" if version == 2 else "zarr.json") in known:
            continue
        attributes = json_attributes(groups.get(f"/{place}/" if place else "/", {}), place or "/", lost)
        documents |= _group(place, attributes, version)
    return documents


def _group(place: str, attributes: dict[str, Any], version: int) -> Documents:
    if version == 3:
        return {join(place, "zarr.json"): {"zarr_format": 3, "node_type": "group", "attributes": attributes}}
    more = {join(place, ".zattrs"): attributes} if attributes else {}
    return {join(place, ".zgroup"): {"zarr_format": 2}} | more


def _coordinates(spec: Spec, labels: Names) -> Iterator[tuple[str, Scale, str | None]]:
    """The coordinates of an array, with their keys and the names of their axes."""
    for label, dimension in zip(labels, spec.metadata.dimensions, strict=True):
        for key, scale in dimension.scales.items():
            if not scale.title.startswith(NOT_A_VARIABLE):
                yield key, scale, label


def _scale(
    place: str, values: Array, attributes: Mapping[str, Any], label: str | None, version: int, lost: list[str]
) -> Documents:
    """The documents of an array of coordinates, in one chunk."""
    is_text = values.dtype == object
    spec = Spec(values.shape, "uint8" if is_text else values.dtype.name, "W", place)
    grid = Grid(tuple(max(1, n) for n in spec.shape))
    describe = _array_2 if version == 2 else _array_3
    documents = describe(place, spec, grid, {}, 0, [label], json_attributes(attributes, place, lost), [])
    if is_text:
        own = documents[join(place, ".zarray" if version == 2 else "zarr.json")]
        text: dict[str, Any] = {"dtype": "|O", "filters": [{"id": STRING_CODEC}], "fill_value": ""}
        text_3: dict[str, Any] = {"data_type": "string", "codecs": [{"name": STRING_CODEC}, ZSTD_3], "fill_value": ""}
        own |= text if version == 2 else text_3
    return documents


DEFAULT_CHUNKS = {1: 2**20, 2: 1024, 3: 128}  # the default length of a chunk along each spatial axis, by their number


@dataclass(frozen=True, slots=True)
class Grid:
    """The lengths of chunks, and of shards if chunks share files."""

    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> tuple[int, ...]:
        """The lengths of a file or object, which is always written as a whole."""
        return self.shards or self.chunks


def grid_of(
    shape: Sequence[int],
    layout: str,
    *,
    asked: tuple[int, ...] | None = None,
    asked_shards: tuple[int, ...] | None = None,
    kept: Mapping[str, Any] | None = None,
    most: int | None = None,
) -> Grid:
    """The chunks and shards of an array: as asked for, else those of the input, else chunks of a million elements.

    If they were not asked for, they are halved until one has at most `most` elements. Raises a RequestError for lengths
    that do not fit the axes or each other.

    >>> grid_of((1, 3, 500, 700, 100), "NCDHW").chunks
    (1, 1, 128, 128, 100)
    >>> grid_of((500, 700), "HW", asked=(64,), asked_shards=(256, 512))
    Grid(chunks=(64, 64), shards=(256, 512), notes=())
    """
    kept = kept or {}
    free = asked is None and asked_shards is None
    usual = (DEFAULT_CHUNKS.get(len(spatial_axes(layout)), 32),)
    chunks = _per_axis("chunks", asked, layout) or kept.get("chunks") or _per_axis("chunks", usual, layout)
    shards = _per_axis("shards", asked_shards, layout) or (kept.get("shards") if free else None)
    assert chunks is not None  # noqa: S101  # there is always a default
    if shards and any(shard % chunk for shard, chunk in zip(shards, chunks, strict=True)):
        larger = tuple(ceil_div(shard, chunk) * chunk for shard, chunk in zip(shards, chunks, strict=True))
        remedy = f"give {field('chunks')} too" if asked is None else f"use {field('shards', larger)}"
        told = ",".join(map(str, chunks))
        raise RequestError(f"{field('shards', shards)} are not multiples of the chunks ({told}); {remedy}")
    chunks = tuple(max(1, min(chunk, n)) for chunk, n in zip(chunks, shape, strict=True))
    if shards:
        shards = tuple(c * ceil_div(max(1, min(s, n)), c) for s, c, n in zip(shards, chunks, shape, strict=True))
    return _shrink(Grid(chunks, shards), most) if free and most is not None else Grid(chunks, shards)


def _per_axis(name: str, numbers: tuple[int, ...] | None, layout: str) -> tuple[int, ...] | None:
    """A length for each axis, from numbers for all axes, or for the spatial ones (N and C get 1)."""
    if numbers is None:
        return None
    if any(number < 1 for number in numbers):
        raise RequestError(f"{field(name, numbers)}: must be at least 1")
    if len(numbers) == len(layout) and len(numbers) > 1:
        return numbers
    spatial = spatial_axes(layout)
    if len(numbers) not in (1, len(spatial)):
        raise RequestError(
            f"{field(name, numbers)}: give 1 number, {len(spatial)} (for the spatial axes of {layout}) or {len(layout)}"
        )
    found = [1] * len(layout)
    for axis, number in zip(spatial, numbers * len(spatial), strict=False):
        found[axis] = number
    return tuple(found)


def _shrink(grid: Grid, most: int) -> Grid:
    """The grid with its units halved along the longest axis until one has at most `most` elements."""
    chunks, shards = grid.chunks, grid.shards
    while shards and prod(shards) > most and shards != chunks:
        counts = [shard // chunk for shard, chunk in zip(shards, chunks, strict=True)]
        axis = max((i for i, count in enumerate(counts) if count > 1), key=shards.__getitem__)
        shards = (*shards[:axis], ceil_div(counts[axis], 2) * chunks[axis], *shards[axis + 1 :])
    if shards and prod(shards) > most:
        shards = None
    while prod(chunks) > max(most, 1) and not shards:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks = (*chunks[:axis], ceil_div(chunks[axis], 2), *chunks[axis + 1 :])
    if (chunks, shards) == (grid.chunks, grid.shards):
        return grid
    words = [",".join(map(str, unit)) for unit in (shards or chunks, grid.unit)]
    kind = "shards" if shards else "chunks"
    return Grid(chunks, shards, (f"{kind} of {words[0]} instead of {words[1]}: each is held in memory as a whole",))
