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

COMPRESSORS = ("blosc", "bz2", "crc32c", "gzip", "lz4", "lzma", "zlib", "zstd")  # those that outputs keep
ZSTD: dict[int, dict[str, Any]] = {
    2: {"id": "zstd", "level": 0},
    3: {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
}


def storage_of(array: Any) -> dict[str, Any]:
    """The storage of an array of zarr: `compressors` as JSON has them in its version, and names of `lost` codecs."""
    about = array.metadata
    version = about.zarr_format
    others = [*array.filters, *([] if version == 2 else [array.serializer])]
    kept = [codec for codec in array.compressors if codec_name(codec) in COMPRESSORS]
    lost = [codec_name(codec) for codec in (*others, *array.compressors) if codec not in kept]
    separator = {"name": "v2", "configuration": {"separator": about.dimension_separator}} if version == 2 else None
    return {
        "version": version,
        "fill_value": about.fill_value,
        "chunks": tuple(array.chunks),
        "shards": array.shards and tuple(array.shards),
        "compressors": [*map(_config, kept)] or [ZSTD[version]] * bool(array.compressors),
        "lost": [name for name in lost if name not in ("bytes", "transpose")],
        "keys": separator or about.chunk_key_encoding.to_dict(),
    }


def _config(codec: Any) -> dict[str, Any]:
    found: dict[str, Any] = codec.get_config() if hasattr(codec, "get_config") else codec.to_dict()
    return found


def codec_name(codec: Any) -> str:
    """The name of a codec of either version of Zarr."""
    config = _config(codec)
    return str(config.get("id") or config["name"]).removeprefix("numcodecs.")


def codec_arguments(kept: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Codecs for zarr's `create_array`, in C order and little-endian: no filters, and the compressors of the input."""
    version = kept.get("version", 3)
    codecs = [dict(codec) for codec in kept.get("compressors", [ZSTD[version]])]
    if version == 2:
        return {"filters": None, "compressors": [numcodecs.get_codec(codec) for codec in codecs] or None}
    for codec in codecs:
        if codec["name"] == "blosc":
            codec["configuration"] = {**codec["configuration"], "typesize": DTYPES[dtype].itemsize}
    return {"filters": [], "serializer": "auto", "compressors": codecs}


def storage_in_version_3(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The storage of an array for Zarr v3, in which the codecs of v2 have other names."""
    left = () if kept.get("version") == 3 else ("compressors", "lost", "keys")
    return {name: value for name, value in kept.items() if name not in left} | {"version": 3}


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
    """The grid of at most `most` elements in a shard or chunk: without shards, and its chunks halved along the longest
    axis.
    """
    chunks, shards = grid.chunks, grid.shards if grid.shards and prod(grid.shards) <= most else None
    while prod(chunks) > max(most, 1) and not shards:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks = (*chunks[:axis], ceil_div(chunks[axis], 2), *chunks[axis + 1 :])
    if (chunks, shards) == (grid.chunks, grid.shards):
        return grid
    less, more = (",".join(map(str, unit)) for unit in (chunks, grid.unit))
    note = f"chunks of {less} instead of {'shards of ' if grid.shards else ''}{more}: each is held in memory as a whole"
    return Grid(chunks, None, (note,))
