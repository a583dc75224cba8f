"""How arrays are stored: codecs and fill value, which outputs keep, and the lengths of chunks and shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import RequestError
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import ceil_div

numcodecs: Any = Lazy("numcodecs")

LOSSLESS = (
    "adler32", "blosc", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "pcodec",
    "shuffle", "zlib", "zstd",
)  # fmt: skip
LOSSLESS_FOR_INTEGERS = ("delta",)  # lossless for integers of the type that they name
LOSSLESS_FOR_BOOL = ("packbits",)
BLOSC_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
ZSTD_2: dict[str, Any] = {"id": "zstd", "level": 0}
ZSTD_3: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}


def storage_of(array: Any) -> dict[str, Any]:
    """The storage of an array of zarr. Codecs are as JSON has them in its version of Zarr."""
    about = array.metadata
    found = {"version": about.zarr_format, "dtype": array.dtype.name, "fill_value": about.fill_value}
    found |= {"chunks": tuple(array.chunks), "shards": array.shards and tuple(array.shards)}
    if about.zarr_format == 2:
        found |= {"filters": [codec.get_config() for codec in array.filters]}
        found |= {"compressors": [codec.get_config() for codec in array.compressors]}
        return found | {"keys": {"name": "v2", "configuration": {"separator": about.dimension_separator}}}
    found |= {"filters": [codec.to_dict() for codec in array.filters], "serializer": array.serializer.to_dict()}
    found |= {"compressors": [codec.to_dict() for codec in array.compressors]}
    return found | {"keys": about.chunk_key_encoding.to_dict()}


def codec_arguments(kept: Mapping[str, Any], dtype: str, lost: list[str]) -> dict[str, Any]:
    """Filters, serializer and compressors for zarr's `create_array`, in C order and little-endian, as far as they lose
    nothing; names of dropped ones are added to `lost`.
    """
    source, version = kept.get("dtype", dtype), kept.get("version", 3)

    def lossless(codecs: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [codec for codec in codecs if _is_lossless(_name(codec), source, dtype, lost)]

    filters = lossless([codec for codec in kept.get("filters", ()) if _name(codec) != "transpose"])
    if version == 2:
        compressors = kept.get("compressors", [ZSTD_2])
        compressors = (lossless(compressors) or [ZSTD_2]) if compressors else []
        made = [[numcodecs.get_codec(dict(codec)) for codec in codecs] for codecs in (filters, compressors)]
        return {"filters": made[0] or None, "compressors": made[1] or None}
    compressors = [_with_typesize(codec, dtype) for codec in lossless(kept.get("compressors", [ZSTD_3]))]
    serializer = [kept["serializer"]] if kept.get("serializer", {"name": "bytes"})["name"] != "bytes" else []
    return {"filters": filters, "serializer": (lossless(serializer) or ["auto"])[0], "compressors": compressors}


def _name(codec: Mapping[str, Any]) -> str:
    return str(codec.get("id") or codec["name"]).removeprefix("numcodecs.")


def _is_lossless(name: str, source: str, target: str, lost: list[str]) -> bool:
    able = (
        name in LOSSLESS
        or (name in LOSSLESS_FOR_INTEGERS and source == target and DTYPES[target].is_integer)
        or (name in LOSSLESS_FOR_BOOL and target == "bool")
    )
    if not able:
        lost.append(name)
    return able


def _with_typesize(codec: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    if codec["name"] != "blosc":
        return dict(codec)
    return {"name": "blosc", "configuration": {**codec["configuration"], "typesize": DTYPES[dtype].itemsize}}


def convert_storage(kept: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The storage of an array in another version of Zarr; zstd replaces compressors that it does not have."""
    if not kept or kept["version"] == version:
        return dict(kept)
    names = ("chunks", "dtype", "fill_value", "consolidated") + (("shards",) if version == 3 else ())
    convert = _compressor_2 if version == 2 else _compressor_3
    found = [
        convert(codec) for codec in kept["compressors"] if version == 3 or _name(codec) in ("blosc", "gzip", "zstd")
    ]
    if version == 2:
        found = (found or [ZSTD_2])[:1]
    return {name: kept[name] for name in names if kept.get(name) is not None} | {
        "version": version,
        "compressors": found,
    }


def _compressor_2(codec: Mapping[str, Any]) -> dict[str, Any]:
    setting = dict(codec["configuration"])
    if codec["name"] == "blosc":
        setting["shuffle"] = next(number for number, word in BLOSC_SHUFFLES.items() if word == setting["shuffle"])
    left_out = ("typesize", "checksum")  # not every reader of Zarr 2 knows a checksum
    return {"id": codec["name"]} | {name: value for name, value in setting.items() if name not in left_out}


def _compressor_3(compressor: Mapping[str, Any]) -> dict[str, Any]:
    setting = {name: value for name, value in compressor.items() if name != "id"}
    if compressor["id"] == "blosc":
        setting["shuffle"] = BLOSC_SHUFFLES.get(setting.get("shuffle", 1), "shuffle")
    elif compressor["id"] == "zstd":
        setting = {"level": setting.get("level", 0), "checksum": bool(setting.get("checksum", False))}
    elif compressor["id"] != "gzip":
        return ZSTD_3
    return {"name": compressor["id"], "configuration": setting}


def fill_value(kept: Mapping[str, Any], dtype: str) -> tuple[Any, bool]:
    """The fill value, 0 if the type cannot hold that of the input; and whether it is that of the input."""
    kind, value = DTYPES[dtype], kept.get("fill_value", 0)
    if value is None and kept["version"] == 2:
        return None, True
    number = 0 if value is None else np.asarray(value).item()
    able = number in (0, 1) if kind.kind == "bool" else can_hold(kind, number)
    return np.dtype(dtype).type(number if able else 0), able


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
