"""Chunks that unpack to far more than their array says, refused before the codec takes the memory for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.checks import byte_count, human_bytes
from poolcli.formats.unpacked_size import SIZES

MORE = 2**16  # bytes that codecs may add to a chunk before the next one packs them


def hold_to_size(where: str, array: Any) -> None:
    """Has the codecs of an open array refuse what is larger than a chunk, or for codecs of whole shards than a shard.

    zarr has no public way to ask for this: the methods of these codecs, which belong to this array alone, are replaced.
    A zarr that names these private parts otherwise reads without the check.
    """
    size = array.dtype.itemsize
    asynchronous = getattr(array, "async_array", None) or getattr(array, "_async_array", None)
    pipeline = getattr(asynchronous, "codec_pipeline", ())
    chunk, unit = (byte_count(lengths, size) for lengths in (array.chunks, array.shards or array.chunks))
    for codec in pipeline:
        _hold(where, codec, unit)
        for inner in getattr(codec, "codecs", ()):
            _hold(where, inner, chunk)


def _hold(where: str, codec: Any, size: int) -> None:
    """Has a codec of Zarr v3, or the compressor and filters of v2, refuse what unpacks to more than `size` bytes."""
    if hasattr(codec, "compressor"):
        object.__setattr__(codec, "compressor", codec.compressor and _Held(where, codec.compressor, size))
        object.__setattr__(codec, "filters", tuple(_Held(where, each, size) for each in codec.filters or ()))
        return
    name = codec.to_dict()["name"] if hasattr(codec, "to_dict") else ""
    measure = SIZES.get(str(name).removeprefix("numcodecs."))
    decode = getattr(codec, "_decode_single", None)
    if measure is None or decode is None:
        return

    async def held(chunk_bytes: Any, chunk_spec: Any) -> Any:
        _refuse_larger(where, measure, chunk_bytes.to_bytes(), size)
        return await decode(chunk_bytes, chunk_spec)

    object.__setattr__(codec, "_decode_single", held)


class _Held:
    """A codec of numcodecs that looks at what it unpacks before it does."""

    def __init__(self, where: str, codec: Any, size: int) -> None:
        self._where, self._codec, self._size = where, codec, size
        self._measure = SIZES.get(codec.codec_id)

    def decode(self, data: Any, *more: Any) -> Any:
        """The unpacked bytes."""
        if self._measure is not None:
            _refuse_larger(self._where, self._measure, bytes(data), self._size)
        return self._codec.decode(data, *more)


def _refuse_larger(where: str, measure: Callable[[bytes, int], int], data: bytes, size: int) -> None:
    if measure(data, 2 * size + MORE) > 2 * size + MORE:
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that unpacks to more")
