"""How arrays are stored: codecs and fill value, which outputs keep, the lengths of chunks and shards, and what stored
chunks unpack to, which zarrs and zarr-python compare with the size of a chunk after they allocated it.
"""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, prod
from typing import Any

from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import deflate_size, human_bytes, lzma_size, streamed_size
from poolcli.formats.records import whole_region
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy, numpy as np
from poolcli.windows import Ranges, ceil_div

numcodecs: Any = Lazy("numcodecs")

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


def _in_version_3(codec: Any) -> dict[str, Any]:
    """The JSON of a codec of either version of Zarr, as version 3 has it."""
    if not hasattr(codec, "get_config"):
        return dict(codec.to_dict())
    config = dict(codec.get_config())
    name = config.pop("id")
    if name == "blosc":
        config["shuffle"] = SHUFFLES[config["shuffle"]]
    return {"name": name, "configuration": config}


def codec_name(codec: Any) -> str:
    """The name of a codec of either version of Zarr."""
    name = codec.get_config()["id"] if hasattr(codec, "get_config") else codec.to_dict()["name"]
    return str(name).removeprefix("numcodecs.")


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
    """
    kept = kept or {}
    if not layout:  # an array that is copied, not pooled
        asked = asked_shards = None
    free = asked is None and asked_shards is None  # to be halved
    usual = (DEFAULT_CHUNKS.get(len(spatial_axes(layout)), 32),)
    chunks = _per_axis("chunks", asked, layout) or kept.get("chunks") or _per_axis("chunks", usual, layout)
    chunks = chunks or (1,) * len(shape)
    shards = _per_axis("shards", asked_shards, layout) or (kept.get("shards") if free else None)
    if shards and any(shard % chunk for shard, chunk in zip(shards, chunks, strict=True)):
        larger = tuple(ceil_div(shard, chunk) * chunk for shard, chunk in zip(shards, chunks, strict=True))
        remedy = f"give {field('chunks')} too" if asked is None else f"use {field('shards', larger)}"
        told = ",".join(map(str, chunks))
        raise RequestError(f"{field('shards', shards)} are not multiples of the chunks ({told}); {remedy}")
    chunks = tuple(max(1, min(chunk, n)) for chunk, n in zip(chunks, shape, strict=True))
    if free and not kept.get("chunks"):  # small planes share a chunk
        for axis in reversed([i for i in range(len(shape)) if i not in spatial_axes(layout)]):
            planes = min(shape[axis], DEFAULT_CHUNKS[1] // prod(chunks))
            chunks = (*chunks[:axis], max(1, planes), *chunks[axis + 1 :])
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
    """The grid of at most `most` elements in a unit: without shards, and chunks halved along the longest axis."""
    chunks, shards = grid.chunks, grid.shards if grid.shards and prod(grid.shards) <= most else None
    while prod(chunks) > max(most, 1) and not shards:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks = (*chunks[:axis], ceil_div(chunks[axis], 2), *chunks[axis + 1 :])
    if (chunks, shards) == (grid.chunks, grid.shards):
        return grid
    less, more = (",".join(map(str, unit)) for unit in (chunks, grid.unit))
    note = f"chunks of {less} instead of {'shards of ' if grid.shards else ''}{more}: each is held in memory as a whole"
    return Grid(chunks, None, (note,))


ZSTD_FRAME, ZSTD_SKIPPED, ZSTD_BLOCK = 0xFD2FB528, 0x184D2A5, 2**17  # magic numbers; the most bytes of a block
ZSTD_LEGACY = (0x1EB52FFD, *range(0xFD2FB522, ZSTD_FRAME))  # frames of before 2016, which zarrs may still decode
CHECKSUM = 4  # bytes of crc32c at the end of a chunk or an index
INDEX_CODECS = ["bytes", "crc32c"]
NO_CHUNK = 2**64 - 1  # the offset of a chunk that a shard does not hold
DEFLATE = ("gzip", "zlib")  # unpack to 1032 times their size at most, and slowly


@dataclass(frozen=True)
class ExpansionCheck:
    """Refuses stored chunks of zarr's `array` that unpack to more than `most` bytes. Unknown codecs are not checked."""

    where: str
    array: Any
    most: int

    def part(self, key: str, data: bytes, byte_range: Any) -> None:
        """Checks what was read for a range, if it is of the array: an object, a chunk of a shard, or its index."""
        if not key.startswith(f"{self.array.path}/".lstrip("/")):
            return
        if byte_range is None:
            self.file(key, data, whole_region(self.array.shards or self.array.chunks))
        elif not hasattr(byte_range, "suffix"):
            self.chunk(key, data)

    @cached_property
    def _codecs(self) -> list[str]:
        """The names of the codecs, in the order in which they decode."""
        middle = [] if self.array.metadata.zarr_format == 2 else [self.array.serializer]
        return [codec_name(codec) for codec in reversed([*self.array.filters, *middle, *self.array.compressors])]

    def file(self, key: str, data: Any, inside: Ranges, skip_deflate: bool = False) -> None:
        """Checks a file or object: a chunk, or the chunks in the region `inside` of a shard."""
        if self.array.shards is None:
            self.chunk(key, data, skip_deflate)
            return
        sharding = self.array.metadata.codecs[0]
        counts = [shard // chunk for shard, chunk in zip(self.array.shards, self.array.chunks, strict=True)]
        length = 16 * prod(counts) + CHECKSUM
        if [codec_name(codec) for codec in sharding.index_codecs] != INDEX_CODECS or len(data) < length:
            return
        index = data[-length:-CHECKSUM] if sharding.index_location.value == "end" else data[: length - CHECKSUM]
        places = np.frombuffer(index, "<u8").reshape(*counts, 2)
        spans = zip(inside, self.array.chunks, strict=True)
        touched = places[tuple(slice(span.start // n, ceil_div(span.stop, n)) for span, n in spans)]
        for offset, size in np.unique(touched.reshape(-1, 2), axis=0).tolist():
            if offset != NO_CHUNK:
                self.chunk(key, data[offset : offset + size], skip_deflate)

    def chunk(self, key: str, data: bytes, skip_deflate: bool = False) -> None:
        for number, name in enumerate(self._codecs):
            if name == "crc32c":
                data = data[:-CHECKSUM]
            elif name in SIZES and not (skip_deflate and name in DEFLATE):
                if SIZES[name](data, self.most) > self.most:
                    sizes = f"from {human_bytes(len(data))} to more than {human_bytes(self.most)}"
                    raise FileError(f"{self.where}, {key}: is damaged or a decompression bomb: it unpacks {sizes}")
                if not SIZES.keys().isdisjoint(self._codecs[number + 1 :]):
                    data = numcodecs.get_codec({"id": name}).decode(data)


def _zstd_size(data: bytes, limit: int) -> int:
    """The size of Zstandard frames (RFC 8878): what their blocks can hold or, if that is too much, whether they do."""
    at, size = 0, 0
    while at + 8 < len(data):
        magic, flags = struct.unpack_from("<IB", data, at)
        if magic >> 4 == ZSTD_SKIPPED:
            at += 8 + struct.unpack_from("<I", data, at + 4)[0]
            continue
        if magic != ZSTD_FRAME:
            return limit + 1 if magic in ZSTD_LEGACY else size
        is_single, has_checksum, is_last = flags >> 5 & 1, flags >> 2 & 1, 0
        at += 5 + (not is_single) + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[flags >> 6]
        while not is_last and at + 3 <= len(data):
            head = int.from_bytes(data[at : at + 3], "little")
            is_last, kind, length = head & 1, head >> 1 & 3, head >> 3
            size += length if kind < 2 else ZSTD_BLOCK
            at += 3 + (1 if kind == 1 else length)  # kind 1 repeats one byte
        at += CHECKSUM * has_checksum
    if size > limit:
        try:
            numcodecs.Zstd().decode(data, np.empty(limit, np.uint8))
            return 0
        except (RuntimeError, ValueError):
            pass
    return size


SIZES: dict[str, Callable[[bytes, int], int]] = {
    "zstd": _zstd_size,
    "blosc": lambda data, _: int.from_bytes(data[4:8], "little"),
    "lz4": lambda data, _: int.from_bytes(data[:4], "little"),
    "vlen-utf8": lambda data, _: 8 * int.from_bytes(data[:4], "little"),  # a reference for each text
    "gzip": deflate_size,
    "zlib": deflate_size,
    "lzma": lzma_size,
    "bz2": partial(streamed_size, bz2.BZ2Decompressor, inf),
}
