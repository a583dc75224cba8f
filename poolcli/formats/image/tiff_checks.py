"""Checks that the strips or tiles of a TIFF page can hold its pixels, and hold no more.

Libraries read missing strips as zeros, and allocate memory before they find data too short.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from poolcli.errors import FileError, error_text
from poolcli.formats.checks import human_bytes, lzma_size
from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.codecs import jpeg_frame
from poolcli.windows import ceil_div


def count_pages(path: str, stream: BinaryIO) -> int:
    """The number of directories; refuses a chain of them that is a cycle."""
    stream.seek(0)
    head = stream.read(16)
    order = "<" if head[:2] == b"II" else ">"
    big = 43 in head[2:4]
    number, place, entry, at = (f"{order}Q", f"{order}Q", 20, 8) if big else (f"{order}H", f"{order}I", 12, 4)
    seen = set[int]()
    try:
        (following,) = struct.unpack_from(place, head, at)
        while following and following not in seen:
            stream.seek(following)
            (count,) = struct.unpack(number, stream.read(struct.calcsize(number)))
            seen.add(following)
            stream.seek(count * entry, 1)
            (following,) = struct.unpack(place, stream.read(struct.calcsize(place)))
    except (struct.error, OSError, OverflowError):  # the file is cut short
        return len(seen)
    if following:
        raise FileError(f"{path}: is damaged: its pages form a cycle")
    return len(seen)


LAYOUT_TAGS = (
    tags.WIDTH, tags.LENGTH, tags.BITS, tags.COMPRESSION, tags.PHOTOMETRIC, tags.SAMPLES, tags.ROWS, tags.PLANAR,
    tags.TILE_WIDTH, tags.TILE_LENGTH, tags.STRIP_OFFSETS, tags.STRIP_BYTES, tags.TILE_OFFSETS, tags.TILE_BYTES,
)  # fmt: skip
# Bytes that one byte can unpack to, at most, by compression; 7 is JPEG.
MAX_RATIOS = {
    tags.LZW: 2**12,
    7: 2**12,
    tags.DEFLATE: 2**11,
    tags.OLD_DEFLATE: 2**11,
    tags.PACKBITS: 2**7,
    tags.LZMA: 2**13,
    tags.ZSTD: 2**16,
}
UNPACKED_RATIO = 4  # bytes for each that `_expected` counts at least
CHUNK, READ_BYTES = 2**18, 2**14  # bytes that are unpacked, or read, at once


def check_strips(path: str, number: int, stored: Mapping[int, Any]) -> None:
    """Refuses a page with fewer strips or tiles than it needs, or with fewer bytes than can unpack to its pixels."""
    tiled = tags.TILE_OFFSETS in stored
    places, counts = _strips(stored)
    needed, pixels = _expected(stored, tiled)
    if not places or not needed:
        return  # the reader reports that
    if len(places) < needed:
        kind = "tiles" if tiled else "strips"
        raise FileError(f"{path}: is damaged: page {number} names {len(places):,} of its {needed:,} {kind}")
    compression, size = _number(stored, tags.COMPRESSION, tags.UNCOMPRESSED), os.path.getsize(path)
    # The length of a single uncompressed strip is often stated too short.
    most = MAX_RATIOS.get(compression, 1 if compression == tags.UNCOMPRESSED and needed > 1 else 0)
    packed = sum(min(count, size) for count in counts)
    if most and counts and 0 not in counts and packed * most < pixels:
        raise FileError(
            f"{path}: is damaged: page {number} has {human_bytes(pixels)} of pixels, which {human_bytes(packed)} "
            "cannot unpack to"
        )


def check_sums(path: str, number: int, stored: Mapping[int, Any]) -> None:
    """Refuses a page with a deflated strip or tile whose checksum is wrong: libtiff stops reading before that."""
    is_deflated = _number(stored, tags.COMPRESSION, tags.UNCOMPRESSED) in (tags.DEFLATE, tags.OLD_DEFLATE)
    if not is_deflated or _number(stored, tags.FILL_ORDER, 1) != 1:
        return
    most = UNPACKED_RATIO * _expected(stored, tags.TILE_OFFSETS in stored)[1] + CHUNK  # more is not read as pixels
    with open(path, "rb") as file:
        for at, count in zip(*_strips(stored), strict=False):
            file.seek(at)
            try:
                most -= _unpacked_size(file, count, most)
            except zlib.error as error:
                what = f"a strip or tile of page {number} cannot be unpacked: {error_text(error).rpartition(': ')[2]}"
                raise FileError(f"{path}: is damaged: {what}") from error
            if most <= 0:
                return


def _unpacked_size(file: BinaryIO, count: int, most: int) -> int:
    """How many bytes the next `count` bytes unpack to; stops after `most`. No more is read than is unpacked, because
    many strips may name the same bytes.
    """
    unpacker, left, size, found = zlib.decompressobj(), max(count, 0), 0, b""
    while size < most and not unpacker.eof:
        data = unpacker.unconsumed_tail
        if not data:
            data = file.read(min(left, READ_BYTES))
            left -= len(data)
        if not data and not found:  # it is cut short, which the reader reports
            break
        found = unpacker.decompress(data, CHUNK)
        size += len(found)
    return size


def is_sparse(stored: Mapping[int, Any]) -> bool:
    """Whether some strips or tiles are left out on purpose (GDAL's sparse files)."""
    return any(0 in _numbers(stored, tag) for tag in (tags.STRIP_BYTES, tags.TILE_BYTES))


def _strips(stored: Mapping[int, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places and the lengths of the strips or tiles, in bytes."""
    tiled = tags.TILE_OFFSETS in stored
    both = (tags.TILE_OFFSETS, tags.TILE_BYTES) if tiled else (tags.STRIP_OFFSETS, tags.STRIP_BYTES)
    return _numbers(stored, both[0]), _numbers(stored, both[1])


def _expected(stored: Mapping[int, Any], tiled: bool) -> tuple[int, int]:
    """How many strips or tiles a page needs, and the least bytes of its decoded pixels; zeros if its tags do not tell.

    Tiles are stored whole, and YCbCr may be subsampled.
    """
    width, length, samples = (_number(stored, *each) for each in ((tags.WIDTH, 0), (tags.LENGTH, 0), (tags.SAMPLES, 1)))
    if tiled:
        across, down = _number(stored, tags.TILE_WIDTH, 0), _number(stored, tags.TILE_LENGTH, 0)
    else:
        across, down = width, min(_number(stored, tags.ROWS, length), length)
    if min(width, length, across, down) < 1:
        return 0, 0
    count = ceil_div(width, across) * ceil_div(length, down)
    area = count * across * down if tiled else width * length
    bits = min(_numbers(stored, tags.BITS) or (1,))
    whole = 1 if _number(stored, tags.PHOTOMETRIC, 0) == tags.YCBCR else samples
    planes = samples if _number(stored, tags.PLANAR, 1) != 1 else 1
    return count * planes, area * bits * whole // 8


def _numbers(stored: Mapping[int, Any], tag: int) -> tuple[int, ...]:
    """The integers of a tag; none if it has other values."""
    value = stored.get(tag, ())
    values = value if isinstance(value, tuple) else (value,)
    return values if all(isinstance(each, int) for each in values) else ()


def _number(stored: Mapping[int, Any], tag: int, default: int) -> int:
    return (_numbers(stored, tag) or (default,))[0]


HEADER_BYTES = 2**16  # bytes of a strip or tile that may hold its header
BLOCK = 16  # pixels, to a multiple of which encoders round up

Size = tuple[int, int]  # width, height


def check_embedded_sizes(path: str, number: int, page: Any, stream: BinaryIO) -> None:
    """Refuses a page (tifffile's) with an image in a strip or tile that is larger than that, or with LZMA data that
    unpacks to more, which tifffile would cut without an error.
    """
    if page.is_tiled:
        width, height = int(page.tilewidth), int(page.tilelength)
    else:
        width, height = int(page.imagewidth), int(min(page.rowsperstrip or page.imagelength, page.imagelength))
    size_of, is_lzma = EMBEDDED_SIZE.get(int(page.compression)), int(page.compression) == tags.LZMA
    samples = int(page.samplesperpixel) if int(page.planarconfig) == 1 else 1
    most = height * ceil_div(width * samples * int(page.bitspersample), 8) if is_lzma else 0
    for at, count in zip(page.dataoffsets, page.databytecounts, strict=False) if size_of or is_lzma else ():
        stream.seek(at)
        data = stream.read(count if is_lzma else min(count, HEADER_BYTES))
        if is_lzma and lzma_size(data, most) > most:
            raise FileError(
                f"{path}: is damaged: a strip or tile of page {number} unpacks to more than its {human_bytes(most)}"
            )
        try:
            found = size_of(data) if size_of else None
        except (struct.error, IndexError):  # it is cut short, which the decoder reports
            continue
        across, down = found or (0, 0)
        if ceil_div(across, BLOCK) > ceil_div(width, BLOCK) or ceil_div(down, BLOCK) > ceil_div(height, BLOCK):
            raise FileError(
                f"{path}: is damaged: an image of {across} x {down} is stored in page {number}, "
                f"where there is place for {width} x {height}"
            )


def _jpeg_size(data: bytes) -> Size | None:
    frame = jpeg_frame(io.BytesIO(data))
    return (frame.width, frame.height) if frame else None


def _png_size(data: bytes) -> Size:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1


def _jpeg_2000_size(data: bytes) -> Size | None:
    at = data.find(b"\xff\x4f\xff\x51")
    if at < 0:
        return None
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    return right - left, bottom - top


def _lerc_size(data: bytes) -> Size | None:
    if data[:6] != b"Lerc2 ":
        return None
    (version,) = struct.unpack_from("<i", data, 6)
    height, width = struct.unpack_from("<ii", data, 14 if version >= 3 else 10)
    return width, height


def _jpeg_xr_size(data: bytes) -> Size | None:
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    entries = (struct.unpack_from("<HHII", data, at + 2 + 12 * i) for i in range(count))
    found = {tag: value if kind != 3 else value & 0xFFFF for tag, kind, _, value in entries}
    return (found[0xBC80], found[0xBC81]) if found.keys() >= {0xBC80, 0xBC81} else None


def _jpeg_xl_size(data: bytes) -> Size | None:
    """By the SizeHeader of ISO/IEC 18181-1, whose bits start with the lowest."""
    at = data.find(b"\xff\x0a")
    if at < 0:
        return None
    bits = int.from_bytes(data[at + 2 : at + 14], "little")

    def take(count: int) -> int:
        nonlocal bits
        value, bits = bits & (1 << count) - 1, bits >> count
        return value

    small = take(1)

    def length() -> int:
        return (take(5) + 1) * 8 if small else take((9, 13, 18, 30)[take(2)]) + 1

    height, ratio = length(), take(3)
    across, down = JPEG_XL_RATIOS[ratio] if ratio else (0, 1)
    return (height * across // down if ratio else length()), height


JPEG_XL_RATIOS = ((0, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
# Sizes stated in the compressed image, by compression.
EMBEDDED_SIZE: Mapping[int, Callable[[bytes], Size | None]] = {
    **dict.fromkeys((6, 7, 34892), _jpeg_size), **dict.fromkeys((33003, 33004, 33005, 34712), _jpeg_2000_size),
    22610: _jpeg_xr_size, 34887: _lerc_size, 34933: _png_size, 34934: _jpeg_xr_size, 50001: _webp_size,
    **dict.fromkeys((50002, 52546), _jpeg_xl_size),
}  # fmt: skip
