"""Photoshop's resource blocks, in which JPEG and TIFF hold IPTC data: those that go along with other pixels."""

from __future__ import annotations

import struct
from collections.abc import Mapping

IPTC = 0x0404
KEPT = (IPTC, 0x0425, 0x040A, 0x040B)  # IPTC data, their hash, whether there is a copyright, its address
ELSEWHERE = (0x03ED, 0x040F, 0x0422, 0x0423, 0x0424)  # resolution, ICC profile, EXIF and XMP data: once more
_SIGN = b"8BIM"


def blocks_of(data: bytes) -> dict[int, bytes]:
    """The resource blocks by their numbers; what follows damage is left out."""
    blocks, at = dict[int, bytes](), 0
    while data[at : at + 4] == _SIGN and len(data) > at + 6:
        (number,) = struct.unpack_from(">H", data, at + 4)
        at += 6 + (data[at + 6] + 2) // 2 * 2  # a name follows, with its length, padded
        if len(data) < at + 4:
            break
        (size,) = struct.unpack_from(">I", data, at)
        blocks[number] = data[at + 4 : at + 4 + size]
        at += 4 + (size + 1) // 2 * 2
    return blocks


def as_bytes(blocks: Mapping[int, bytes]) -> bytes:
    """The blocks as they are stored."""
    return b"".join(
        _SIGN + struct.pack(">HHI", number, 0, len(data)) + data + bytes(len(data) % 2)
        for number, data in blocks.items()
    )


def as_jpeg_marker(data: bytes) -> bytes:
    """The blocks as a marker of a JPEG."""
    content = b"Photoshop 3.0\0" + data
    return b"\xff\xed" + struct.pack(">H", len(content) + 2) + content
