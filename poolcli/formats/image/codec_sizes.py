"""How large the pictures say they are that some compressions store inside a TIFF, a strip or a tile each.

They have headers of their own, of which a decoder that is not told the size of the tile takes memory for what they say.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes
from poolcli.windows import ceil_div

HEAD = 2**16  # bytes of a segment that are looked at
LZMA, FOOTER = 34925, 12  # the compression, and the bytes at the end of its streams
BLOCK = 16  # pixels to whose multiples encoders round up

Size = tuple[int, int]  # width, height


def refuse_larger(path: str, number: int, page: Any, stream: BinaryIO) -> None:
    """Refuses a page of a TIFF, as tifffile has it, with a strip or a tile whose picture is larger than that."""
    compression, (width, height) = int(page.compression), _place(page)
    if compression == LZMA:
        _refuse_longer(path, number, page, stream)
    size_of = CLAIMS.get(compression)
    if size_of is None:
        return
    for at, count in zip(page.dataoffsets, page.databytecounts, strict=False):
        stream.seek(at)
        found = _claimed(size_of, stream.read(min(count, HEAD)))
        if found and (found[0] > _blocks(width) or found[1] > _blocks(height)):
            raise FileError(
                f"{path}: is damaged: an image of {found[0]} x {found[1]} is stored in page {number}, "
                f"where there is place for {width} x {height}"
            )


def _place(page: Any) -> Size:
    """How large a strip or a tile of a page is."""
    if page.is_tiled:
        return int(page.tilewidth), int(page.tilelength)
    return int(page.imagewidth), int(min(page.rowsperstrip or page.imagelength, page.imagelength))


def _refuse_longer(path: str, number: int, page: Any, stream: BinaryIO) -> None:
    """Refuses a strip or a tile that unpacks to more than it has place for, which its decoder cuts without a word."""
    width, height = _place(page)
    samples = int(page.samplesperpixel) if int(page.planarconfig) == 1 else 1
    most = height * ceil_div(width * samples * int(page.bitspersample), 8)
    for at, count in zip(page.dataoffsets, page.databytecounts, strict=False):
        found = _xz_length(stream, at + count)
        if found is not None and found > most:
            raise FileError(
                f"{path}: is damaged: {human_bytes(found)} are stored in a strip or tile of page {number}, where there "
                f"is place for {human_bytes(most)}"
            )


def _xz_length(stream: BinaryIO, end: int) -> int | None:
    """The bytes that an .xz stream unpacks to, by the index at its end; None where there is none."""
    stream.seek(max(0, end - FOOTER))
    footer = stream.read(FOOTER)
    if len(footer) < FOOTER or not footer.endswith(b"YZ"):
        return None
    size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if size > min(HEAD, end - FOOTER):
        return None
    stream.seek(end - FOOTER - size)
    numbers = _varints(stream.read(size)[1:])
    count = next(numbers, 0)
    return sum(islice(numbers, 1, 2 * count, 2))  # of each block: its own bytes, and what they unpack to


def _varints(data: bytes) -> Iterator[int]:
    """Numbers of seven bits to a byte, the lowest first."""
    value = shift = 0
    for byte in data:
        value, shift = value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            yield value
            value = shift = 0


def _claimed(size_of: Callable[[bytes], Size | None], data: bytes) -> Size | None:
    try:
        return size_of(data)
    except (struct.error, IndexError):  # it is cut short, which its decoder says
        return None


def _blocks(length: int) -> int:
    return ceil_div(length, BLOCK) * BLOCK


def _of_jpeg(data: bytes) -> Size | None:
    at = 2
    while data[at] == 0xFF:
        kind, (length,) = data[at + 1], struct.unpack_from(">H", data, at + 2)
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return None


def _of_png(data: bytes) -> Size:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _of_webp(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1


def _of_jpeg_2000(data: bytes) -> Size | None:
    at = data.find(b"\xff\x4f\xff\x51")
    if at < 0:
        return None
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    return right - left, bottom - top


def _of_lerc(data: bytes) -> Size | None:
    if data[:6] != b"Lerc2 ":
        return None
    (version,) = struct.unpack_from("<i", data, 6)
    height, width = struct.unpack_from("<ii", data, 14 if version >= 3 else 10)
    return width, height


def _of_jpeg_xr(data: bytes) -> Size | None:
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    entries = (struct.unpack_from("<HHII", data, at + 2 + 12 * i) for i in range(count))
    found = {tag: value if kind != 3 else value & 0xFFFF for tag, kind, _, value in entries}
    return (found[0xBC80], found[0xBC81]) if found.keys() >= {0xBC80, 0xBC81} else None


def _of_jpeg_xl(data: bytes) -> Size | None:
    """ISO/IEC 18181-1, the header of sizes: bits from the lowest on."""
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
# By the number of the compression.
CLAIMS: Mapping[int, Callable[[bytes], Size | None]] = {
    **dict.fromkeys((6, 7, 34892), _of_jpeg), **dict.fromkeys((33003, 33004, 33005, 34712), _of_jpeg_2000),
    22610: _of_jpeg_xr, 34887: _of_lerc, 34933: _of_png, 34934: _of_jpeg_xr, 50001: _of_webp,
    **dict.fromkeys((50002, 52546), _of_jpeg_xl),
}  # fmt: skip
