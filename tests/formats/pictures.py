"""What tests of pictures share: pixels by chance, their means, and PNG files from parts."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

NOISE = np.random.default_rng(7)


HALVE = ("-k", "2", "-s", "2")


def pixels(height: int, width: int, channels: int = 3, dtype: str = "uint8") -> Any:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return NOISE.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def halved(x: Any) -> Any:
    """Means of 2 x 2 blocks, halves to even, by sums that are exact."""
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    sums = x.astype(wide).reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2, *x.shape[2:]).sum((1, 3))
    if wide is np.float64:
        return (sums / 4).astype(x.dtype)
    below, rest = sums // 4, sums % 4
    return (below + (rest > 2) + (rest == 2) * (below % 2)).astype(x.dtype)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size: tuple[int, int], bits: int, colour: int, packed: bytes, before: bytes = b"") -> bytes:
    """A PNG of that width and height, with chunks before that of its pixels."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", *size, bits, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + before + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def put_exif_behind_pixels(path: Path, exif: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-12] + png_chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")) + data[-12:])
