"""Chunks and shards in folders, read and written without zarr's event loop, which takes longer than plain codecs do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from poolcli.formats.checks import UNPACKED_SIZES, byte_count
from poolcli.system.lazy_imports import Array, Lazy
from poolcli.system.lazy_imports import numpy as np
from poolcli.system.limits import allowed_threads
from poolcli.windows import Ranges, ceil_div

numcodecs: Any = Lazy("numcodecs")
zarr: Any = Lazy("zarr")

Slices = tuple[slice, ...]
Touched = tuple[tuple[int, ...], Slices, Slices]  # the numbers of a chunk, a part of it, and where that is in a region

SHARDING = "sharding_indexed"
SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
SIZE_PREFIXED = ("blosc", "lz4", "zstd")  # compressors whose data begin with the size that they unpack to
MIN_PARALLEL_BYTES = 2**16  # bytes of a chunk; of smaller ones threads mostly wait for Python's lock
INDEX_CODECS = [("bytes", {"endian": "little"}), ("crc32c", {})]  # the codecs of the index of a shard
MISSING = 2**64 - 1  # in an index


def numcodecs_config(codec: Mapping[str, Any]) -> dict[str, Any]:
    """The name and the settings that numcodecs has for a compressor of Zarr v3."""
    setting = dict(codec.get("configuration", {}))
    if codec["name"] == "blosc":
        setting["shuffle"] = next(number for number, word in SHUFFLES.items() if word == setting["shuffle"])
    return {"id": codec["name"], **setting}


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    """The files of an array of zarr: how a chunk is stored, and the lengths of shards.

    What is not as expected, and what only zarr can judge, raises an exception: `read_region` then leaves it to zarr.
    """

    folder: str
    metadata: Any  # of zarr, for the names of files
    allows: Callable[[str, os.stat_result], bool]  # whether a file may be read
    chunks: tuple[int, ...]
    shard: tuple[int, ...] | None
    order: tuple[int, ...]  # of the axes as they are stored
    dtype: Any
    compressor: Any
    fill: Any  # the value of elements that are not stored
    at_once: int  # chunks that may be decoded side by side

    def read(self, region: Ranges) -> Array:
        """A region of the array."""
        out = np.empty(tuple(map(len, region)), self.dtype.newbyteorder("="))
        size = byte_count(self.chunks, self.dtype.itemsize)

        def read_some(places: Sequence[Touched]) -> None:
            room = np.empty(size, np.uint8)
            for numbers, inside, outside in places:
                self._read(numbers, inside, out[outside], room)

        self._share(read_some, region)
        return out

    def write(self, region: Ranges, values: Array) -> None:
        """Writes a region of whole chunks, without those that hold nothing but the fill value."""

        def write_some(places: Sequence[Touched]) -> None:
            for numbers, inside, outside in places:
                self._write(numbers, inside, values[outside])

        self._share(write_some, region)

    def _share(self, work: Callable[[Sequence[Touched]], None], region: Ranges) -> None:
        """Shares chunks among as many threads as may hold one, if they are worth it."""
        unit = self.shard or self.chunks
        places = list(_touched(region, unit))
        threads = min(len(places), allowed_threads(), self.at_once)
        if threads < 2 or byte_count(unit, self.dtype.itemsize) < MIN_PARALLEL_BYTES:
            work(places)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(work, [places[i::threads] for i in range(threads)]):
                pass

    def _name(self, numbers: tuple[int, ...]) -> str:
        return f"{self.folder}/{self.metadata.encode_chunk_key(numbers)}"

    def _read(self, numbers: tuple[int, ...], inside: Slices, out: Array, room: Array) -> None:
        """Reads a part of a chunk or shard into `out`; `room` is for a chunk."""
        name = self._name(numbers)
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            out[...] = self.fill
            return
        try:
            status = os.fstat(file)
            if not self.allows(name, status):
                raise ValueError(name)
            if self.shard is None:
                out[...] = self._decoded(file, 0, status.st_size, room)[inside]
                return
            index = self._index(file, status.st_size)
            for inner, within, outside in _touched([range(part.start, part.stop) for part in inside], self.chunks):
                start, size = map(int, index[inner])
                if start == size == MISSING:
                    out[outside] = self.fill
                elif start + size <= status.st_size:
                    out[outside] = self._decoded(file, start, size, room)[within]
                else:
                    raise ValueError(name)
        finally:
            os.close(file)

    def _index(self, file: int, size: int) -> Array:
        """The places of the chunks of a shard, at its end."""
        from numcodecs.checksum32 import CRC32C

        counts = [length // n for length, n in zip(self.shard or (), self.chunks, strict=True)]
        length = 16 * prod(counts) + 4
        found = CRC32C(location="end").decode(os.pread(file, min(length, size), max(0, size - length)))
        return np.frombuffer(found, "<u8").reshape(*counts, 2)

    def _decoded(self, file: int, start: int, size: int, room: Array) -> Array:
        """The elements of a chunk in a file, unpacked into `room` if their size is known in advance."""
        if self.compressor is None:
            found = os.preadv(file, [room.data], start) if size == len(room) else 0
            data: Any = room
        else:
            packed: Any = np.empty(size, np.uint8).data
            name = self.compressor.codec_id
            packed = packed[: os.preadv(file, [packed], start)]
            found = unpacked = UNPACKED_SIZES[name](packed, len(room))
            if name not in SIZE_PREFIXED and unpacked <= len(room):
                data = self.compressor.decode(packed)
                found = len(data)
            elif unpacked == len(room):
                data = self.compressor.decode(packed, room)
        if found != len(room):
            raise ValueError(f"{found} bytes instead of {len(room)}")
        chunk = np.frombuffer(data, self.dtype).reshape([self.chunks[axis] for axis in self.order])
        return chunk.transpose([self.order.index(axis) for axis in range(len(self.order))])

    def _write(self, numbers: tuple[int, ...], inside: Slices, values: Array) -> None:
        """Writes a chunk or shard, or removes it if it may be left out."""
        name = self._name(numbers)
        packed = self._packed(inside, values) if self.shard is None else self._packed_shard(inside, values)
        if packed is None:
            with suppress(FileNotFoundError):
                os.unlink(name)
            return
        part = f"{name}.{os.getpid()}.partial"
        try:
            try:
                file = open(part, "wb")  # noqa: SIM115  # closed below
            except FileNotFoundError:  # the first chunk of a folder
                os.makedirs(os.path.dirname(name), exist_ok=True)
                file = open(part, "wb")  # noqa: SIM115
            with file:
                file.writelines(packed)
            os.replace(part, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise

    def _packed(self, inside: Slices, values: Array) -> list[Any] | None:
        """A chunk as it is stored, None if it may be left out; what is outside of the array is the fill value."""
        if _is_all_fill(values, self.fill):
            return None
        chunk = np.ascontiguousarray(values, self.dtype)
        if chunk.shape != self.chunks:
            chunk = np.full(self.chunks, self.fill, self.dtype)
            chunk[inside] = values
        return [self.compressor.encode(chunk) if self.compressor else chunk.data]

    def _packed_shard(self, inside: Slices, values: Array) -> list[Any] | None:
        """As `_packed`, for a shard: its chunks in the order of zarr-python, and behind them the index."""
        from numcodecs.checksum32 import CRC32C

        counts = [length // n for length, n in zip(self.shard or (), self.chunks, strict=True)]
        index, parts, end = np.full((*counts, 2), MISSING, "<u8"), list[Any](), 0
        codes = _morton_codes(tuple(counts))
        chunks = _touched([range(part.start, part.stop) for part in inside], self.chunks)
        for inner, within, outside in sorted(chunks, key=lambda chunk: codes[chunk[0]]):
            packed = self._packed(within, values[outside])
            if packed is not None:
                size = memoryview(packed[0]).nbytes
                index[inner] = end, size
                parts, end = parts + packed, end + size
        return [*parts, CRC32C(location="end").encode(index)] if parts else None


@lru_cache(maxsize=16)
def _morton_codes(counts: tuple[int, ...]) -> Array:
    """The Morton codes of the chunks of a shard: the bits of their indices, interleaved, the first axis lowest.

    An axis has as many bits as its last index.

    >>> _morton_codes((2, 4)).tolist()
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    codes, place = np.zeros(counts, np.int64), 0
    lengths = [(count - 1).bit_length() for count in counts]
    for bit in range(max(lengths, default=0)):
        for axis, length in enumerate(lengths):
            if bit < length:
                bits = (np.arange(counts[axis]) >> bit & 1) << place
                codes |= bits.reshape([-1 if other == axis else 1 for other in range(len(counts))])
                place += 1
    return codes


def _any_file(name: str, status: os.stat_result) -> bool:
    return True


def _is_all_fill(values: Array, fill: Any) -> bool:
    """Whether all elements are the fill value, of whose two zeros one is not the other."""
    if values.dtype.kind == "f" and np.isnan(fill):
        return bool(np.isnan(values.flat[0]) and np.isnan(values).all())
    if values.flat[0] != fill or not (values == fill).all():  # of most chunks the first element differs
        return False
    return bool(values.dtype.kind != "f" or (np.signbit(values) == np.signbit(fill)).all())


def chunk_files(array: Any, memory: int) -> ChunkFiles | None:
    """The files of an array of zarr; None if it is not in a folder, or has codecs or a layout that are left to zarr.

    Chunks or shards that are decoded or encoded side by side take at most so many bytes of `memory`.
    """
    if not isinstance(array.store, zarr.storage.LocalStore):
        return None
    about, axes, dtype, compressor = document_of(array), tuple(range(array.ndim)), array.dtype, None
    order = axes
    if about["zarr_format"] == 2:
        setting = about["compressor"]
        if about["filters"] or not (setting is None or setting["id"] in UNPACKED_SIZES):
            return None
        order = axes if about["order"] == "C" else axes[::-1]
        compressor = setting and numcodecs.get_codec(setting)
    else:
        codecs = about["codecs"]
        if codecs[0]["name"] == SHARDING:
            inner = codecs[0]["configuration"]
            index = [(codec["name"], codec.get("configuration", {})) for codec in inner["index_codecs"]]
            if (len(codecs), index, inner["index_location"]) != (1, INDEX_CODECS, "end"):
                return None
            codecs = inner["codecs"]
        for codec in codecs:
            setting = codec.get("configuration", {})
            if codec["name"] == "transpose" and order == axes:
                order = tuple(setting["order"])
            elif codec["name"] == "bytes":
                dtype = dtype.newbyteorder({"little": "<", "big": ">"}.get(setting.get("endian"), "="))
            elif codec["name"] in ("blosc", "gzip", "zstd") and compressor is None:
                compressor = numcodecs.get_codec(numcodecs_config(codec))
            else:
                return None
    return ChunkFiles(
        folder=os.path.join(array.store.root, array.path).rstrip("/"),
        metadata=array.metadata,
        allows=getattr(array.store, "allows", _any_file),
        chunks=tuple(array.chunks),
        shard=array.shards,
        order=order,
        dtype=dtype,
        compressor=compressor,
        fill=0 if array.fill_value is None else array.fill_value,
        at_once=max(1, memory // max(byte_count(array.shards or array.chunks, dtype.itemsize), 1)),
    )


def document_of(array: Any) -> dict[str, Any]:
    """The metadata of an array as zarr-python writes it."""
    documents = array.metadata.to_buffer_dict(zarr.core.buffer.default_buffer_prototype())
    name = ".zarray" if array.metadata.zarr_format == 2 else "zarr.json"
    found: dict[str, Any] = json.loads(documents[name].to_bytes())
    return found


def _touched(region: Sequence[range], chunk: Sequence[int]) -> Iterator[Touched]:
    """The chunks that a region touches."""
    axes = [
        [
            (number, slice(max(span.start - first, 0), min(span.stop - first, n)),
             slice(max(first - span.start, 0), min(first + n, span.stop) - span.start))
            for number, first in ((number, number * n) for number in range(span.start // n, ceil_div(span.stop, n)))
        ]
        for span, n in zip(region, chunk, strict=True)
    ]  # fmt: skip
    for place in product(*axes) if all(region) else ():
        numbers, inside, outside = zip(*place, strict=True)
        yield numbers, inside, outside
