"""How many bytes packed data unpacks to, told before a library unpacks it: libraries take the memory first."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

AT_ONCE = 2**20  # bytes
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Bytes that one byte can unpack to, at most, by formats that do not say how much they hold.
MOST_OF_DEFLATE, MOST_OF_LZMA = 1032, 8000


def of_blosc(data: bytes, most: int) -> int:
    """By the header of Blosc; 0 where that is not of these data, which Blosc refuses."""
    return int.from_bytes(data[4:8], "little") if int.from_bytes(data[12:16], "little") == len(data) else 0


def of_lz4(data: bytes, most: int) -> int:
    """By the header that numcodecs writes."""
    return int.from_bytes(data[:4], "little")


def of_hdf5_lz4(data: bytes, most: int) -> int:
    """By the header that the HDF5 filters LZ4 and Bitshuffle write."""
    return int.from_bytes(data[:8], "big")


def of_blosc2_frame(data: bytes, most: int) -> int:
    """By the header of a frame of Blosc2; of a bare chunk as Blosc."""
    return int.from_bytes(data[30:38], "big") if data[2:9] == b"b2frame" else of_blosc(data, most)


def of_zstd(data: bytes, most: int) -> int:
    """By the header of the first frame (RFC 8878, 3.1.1); 0 where it does not say."""
    if data[:4] != ZSTD_MAGIC or len(data) < 5:
        return 0
    flags = data[4]
    is_single = flags >> 5 & 1
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    length = (is_single, 2, 4, 8)[flags >> 6]
    return int.from_bytes(data[at : at + length], "little") + (256 if length == 2 else 0)


def of_deflate(data: bytes, most: int) -> int:
    """By unpacking gzip or zlib to no more than `most`, where so much can be in it."""
    if len(data) * MOST_OF_DEFLATE <= most:
        return 0
    return _counted(lambda: zlib.decompressobj(zlib.MAX_WBITS | 32), data, most)


def of_bzip2(data: bytes, most: int) -> int:
    """By unpacking it to no more than `most`."""
    return _counted(bz2.BZ2Decompressor, data, most)


def of_lzma(data: bytes, most: int) -> int:
    """By unpacking it to no more than `most`, where so much can be in it."""
    return 0 if len(data) * MOST_OF_LZMA <= most else _counted(lzma.LZMADecompressor, data, most)


def _counted(make: Callable[[], Any], data: bytes, most: int) -> int:
    """The bytes of all streams that lie one behind the other, or the first number above `most`; what is damaged is left
    to whoever unpacks it.
    """
    count, rest = 0, data
    while rest and count <= most:
        unpacker = make()
        count, rest = _counted_one(unpacker, rest, most, count)
    return count


def _counted_one(unpacker: Any, data: bytes, most: int, count: int) -> tuple[int, bytes]:
    while count <= most and not unpacker.eof:
        try:
            found = len(unpacker.decompress(data, AT_ONCE))
        except (zlib.error, OSError, lzma.LZMAError, EOFError):
            return count, b""
        data = getattr(unpacker, "unconsumed_tail", b"")
        count += found
        if not found and not data and not unpacker.eof:
            return count, b""
    return count, unpacker.unused_data


SIZES: dict[str, Callable[[bytes, int], int]] = {
    "blosc": of_blosc, "bz2": of_bzip2, "gzip": of_deflate, "lz4": of_lz4, "lzma": of_lzma, "zlib": of_deflate,
    "zstd": of_zstd,
}  # fmt: skip
