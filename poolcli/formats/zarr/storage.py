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
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import ceil_div

COMPRESSORS = ("blosc", "crc32c", "gzip", "zstd")  # those that outputs keep
ZSTD: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")  # of Blosc, by their numbers in Zarr v2


def storage_of(array: Any) -> dict[str, Any]:
    """The storage of an array of zarr: `compressors` as the JSON of Zarr v3 has them, and names of `lost` codecs."""
    others = [*array.filters, *([] if array.metadata.zarr_format == 2 else [array.serializer])]
    kept = [codec for codec in array.compressors if codec_name(codec) in COMPRESSORS]
    lost = [codec_name(codec) for codec in (*others, *array.compressors) if codec not in kept]
    return {
        "fill_value": array.metadata.fill_value,
        "chunks": tuple(array.chunks),
        "shards": array.shards and tuple(array.shards),
        "compressors": [*map(_in_version_3, kept)] or [ZSTD] * bool(array.compressors),
        "lost": [name for name in lost if name not in ("bytes", "transpose")],
    }


def _config(codec: Any) -> dict[str, Any]:
    found: dict[str, Any] = codec.get_config() if hasattr(codec, "get_config") else codec.to_dict()
    return found


def _in_version_3(codec: Any) -> dict[str, Any]:
    config = dict(_config(codec))
    if "id" not in config:
        return config
    name = config.pop("id")
    if name == "blosc":
        config["shuffle"] = SHUFFLES[config["shuffle"]]
    return {"name": name, "configuration": config}


def codec_name(codec: Any) -> str:
    """The name of a codec of either version of Zarr."""
    config = _config(codec)
    return str(config.get("id") or config["name"]).removeprefix("numcodecs.")


def codec_arguments(kept: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Codecs for zarr's `create_array`, in C order and little-endian: no filters, and the compressors of the input."""
    codecs = [dict(codec) for codec in kept.get("compressors", [ZSTD])]
    for codec in codecs:
        if codec["name"] == "blosc":
            codec["configuration"] = {**codec["configuration"], "typesize": DTYPES[dtype].itemsize}
    return {"filters": [], "serializer": "auto", "compressors": codecs}


def fill_value(kept: Mapping[str, Any], dtype: str) -> tuple[Any, bool]:
    """The fill value, 0 if the type cannot hold that of the input; and whether it is that of the input."""
    kind, value = DTYPES[dtype], kept.get("fill_value", 0)
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
