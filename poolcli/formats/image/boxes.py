"""Boxes of JPEG 2000, AVIF and HEIC files: profiles, colour spaces and bit depths that Pillow does not report."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

# Boxes of JPEG 2000 that say how the pixels are stored.
_OF_PIXELS = (b"jP  ", b"ftyp", b"jp2h", b"jp2c", b"rreq", b"free")
_XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
_UUIDS = {
    _XMP: "XMP",
    b"JpgTiffExif->JP2": "EXIF",
    bytes.fromhex("b14bf8bd083d4b43a5ae8cd7d5a6ce03"): "GeoJP2",
    bytes.fromhex("33c7a4d2b81d4723a0baf1a3e097ad38"): "IPTC",
}
_ICC = (2, 3)  # methods of a JPEG 2000 colour specification: restricted and any ICC profiles
_SRGB = ((1, 2), (13, 2))  # primaries and transfer characteristics (ITU-T H.273): sRGB or unspecified
SIZ = b"\xff\x4f\xff\x51"  # the start of a JPEG 2000 codestream
_BITS_IN_SIZ = 42  # where it has the bits of the first component, less 1


def boxes(stream: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The type of each box from `start` to `end`, and where its content starts and ends, up to any damage."""
    while start + 8 <= end:
        size, kind = struct.unpack(">I4s", _read(stream, start, start + 8))
        content = start + 8
        if size == 1 and content + 8 <= end:  # a longer number follows
            size, content = int.from_bytes(_read(stream, content, content + 8)), content + 8
        stop = start + size if size else end
        if not content <= stop <= end:
            return
        yield kind, content, stop
        start = stop


def _read(stream: BinaryIO, start: int, end: int) -> bytes:
    stream.seek(start)
    return stream.read(end - start)


def _length(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def jpeg2000_info(stream: BinaryIO) -> dict[str, Any]:
    """The ICC profile and XMP data of a JPEG 2000 file, by Pillow's names; `others` names what else it holds."""
    found: dict[str, Any] = {}
    others: dict[str, None] = {}
    for kind, start, end in boxes(stream, 0, _length(stream)):
        if kind == b"jp2h":
            for part, at, stop in boxes(stream, start, end):
                if part == b"colr" and stop > at and _read(stream, at, at + 1)[0] in _ICC:
                    found.setdefault("icc_profile", _read(stream, at + 3, stop))
        elif kind == b"uuid":
            uuid = _read(stream, start, min(start + 16, end))
            if uuid == _XMP:
                found.setdefault("xmp", _read(stream, start + 16, end))
            else:
                others[_UUIDS.get(uuid, "uuid")] = None
        elif kind not in _OF_PIXELS:
            others[kind.decode("latin-1").strip()] = None
    return found | ({"others": [f"JPEG 2000 boxes {', '.join(others)}"]} if others else {})


def jpeg2000_bits(stream: BinaryIO) -> int | None:
    """The bits of a sample in the first component of a JPEG 2000 image."""
    starts = (start for kind, start, _ in boxes(stream, 0, _length(stream)) if kind == b"jp2c")
    start = 0 if _read(stream, 0, len(SIZ)) == SIZ else next(starts, None)
    head = b"" if start is None else _read(stream, start, start + _BITS_IN_SIZ + 1)
    return (head[_BITS_IN_SIZ] & 0x7F) + 1 if head.startswith(SIZ) and len(head) > _BITS_IN_SIZ else None


def primary_properties(stream: BinaryIO) -> list[tuple[bytes, bytes]]:
    """The types and contents of the properties of an AVIF or HEIC file's primary image, then those of its other images.

    Empty for a sequence without a primary image, or one whose boxes are damaged.
    """
    try:
        meta = next(each for each in boxes(stream, 0, _length(stream)) if each[0] == b"meta")
        parts = {kind: (start, end) for kind, start, end in boxes(stream, meta[1] + 4, meta[2])}
        containers = {kind: (start, end) for kind, start, end in boxes(stream, *parts[b"iprp"])}
        properties = [(kind, _read(stream, start, end)) for kind, start, end in boxes(stream, *containers[b"ipco"])]
        version, *item = _read(stream, *parts[b"pitm"])
        primary = int.from_bytes(item[3 : 5 if version == 0 else 7])
        own = _associated(_read(stream, *containers[b"ipma"]), primary)
    except (StopIteration, KeyError, ValueError, IndexError):
        return []
    first = [properties[number - 1] for number in own if 0 < number <= len(properties)]
    return first + [each for number, each in enumerate(properties, 1) if number not in own]


def _associated(table: bytes, wanted: int) -> list[int]:
    """The numbers of the properties of an image, counted from 1, in a table of them (`ipma`)."""
    identity, width = (2 if table[0] < 1 else 4), (2 if table[3] & 1 else 1)
    at = 8
    for _ in range(int.from_bytes(table[4:8])):
        item, many = int.from_bytes(table[at : at + identity]), table[at + identity]
        at += identity + 1
        if item == wanted:
            stored = (int.from_bytes(table[at + i * width : at + (i + 1) * width]) for i in range(many))
            return [number & ((1 << (8 * width - 1)) - 1) for number in stored]  # without a flag
        at += many * width
    return []


def colour_chunks(stream: BinaryIO) -> dict[bytes, bytes]:
    """The colour space of an AVIF or HEIC image as a cICP chunk of PNG; empty for sRGB and where none is named."""
    for kind, content in primary_properties(stream):
        if kind == b"colr" and content.startswith(b"nclx") and len(content) >= 8:
            primaries, transfer = struct.unpack_from(">HH", content, 4)
            is_srgb = primaries in _SRGB[0] and transfer in _SRGB[1]
            # The decoded pixels are RGB (matrix 0) in the full range (1).
            return {} if is_srgb or max(primaries, transfer) > 255 else {b"cICP": bytes([primaries, transfer, 0, 1])}
    return {}


def avif_bits(stream: BinaryIO) -> int | None:
    """The bits a channel of the primary image of an AVIF file."""
    for kind, content in primary_properties(stream):
        if kind == b"av1C" and len(content) > 2:
            return (12 if content[2] & 0x20 else 10) if content[2] & 0x40 else 8
    return None
