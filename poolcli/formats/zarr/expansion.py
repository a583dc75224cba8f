"""What stored chunks unpack to: zarrs and zarr-python compare that with the size of a chunk after they allocated it."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.checks import deflate_size, human_bytes, lzma_size, streamed_size
from poolcli.formats.records import whole_region
from poolcli.formats.zarr.storage import codec_name
from poolcli.system.lazy_imports import Lazy
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Ranges, ceil_div

numcodecs: Any = Lazy("numcodecs")

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

    def applies_to(self, key: str) -> bool:
        """Whether a key of the store is one of the array's."""
        return key.startswith(f"{self.array.path}/".lstrip("/"))

    def part(self, key: str, data: bytes, byte_range: Any) -> None:
        """Checks what was read for a range: a file or object, a chunk of a shard, or the index of one."""
        if byte_range is None:
            self.file(key, data, whole_region(self.array.shards or self.array.chunks))
        elif not hasattr(byte_range, "suffix"):
            self.chunk(key, data)

    @cached_property
    def _codecs(self) -> list[str]:
        """The names of the codecs, in the order in which they decode."""
        return [codec_name(codec) for codec in reversed([*self.array.filters, *self.array.compressors])]

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
        """Checks one chunk."""
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


def _number_at(place: int) -> Callable[[bytes, int], int]:
    return lambda data, _: int.from_bytes(data[place : place + 4], "little")


SIZES: dict[str, Callable[[bytes, int], int]] = {
    "zstd": _zstd_size,
    "blosc": _number_at(4),
    "lz4": _number_at(0),
    "gzip": deflate_size,
    "zlib": deflate_size,
    "lzma": lzma_size,
    "bz2": lambda data, limit: streamed_size(bz2.BZ2Decompressor, data, limit),
}
