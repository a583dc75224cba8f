"""Which tags of a TIFF or EXIF directory go along with other pixels: those in these tables, and no others.

A directory also says how its own pixels are stored, and holds what only the program that wrote it can read. What is not
known to hold for the result is not passed on.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

from poolcli.system.lazy_imports import Lazy

IPTC_BLOCK = 0x0404
KEPT_BLOCKS = (IPTC_BLOCK, 0x0425, 0x040A, 0x040B)  # IPTC data, their hash, whether there is a copyright, its address
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


pil_exif: Any = Lazy("PIL.ExifTags")
pil_tags: Any = Lazy("PIL.TiffTags")

DESCRIPTION = 270
ORIENTATION = 274
RESOLUTION = (282, 283)  # x, y; pixels to the unit
RESOLUTION_UNIT = 296
XMP = 700
IPTC = 33723
EXIF = 34665
PHOTOSHOP = 34377
ICC_PROFILE = 34675
GPS = 34853
NO_DATA = 42113
MAKER_NOTE = 37500
INTEROPERABILITY = 40965
FOCAL_PLANE = (41486, 41487)  # x, y; pixels to the unit
SIZES = (40962, 40963)  # width and height, in the Exif directory

# Of the main directory: document, description, make, model, page and its place, resolution, software, time, artist,
# computer, white point, primaries, inks, printer, ratings, copyright, and what Windows adds.
KEPT = frozenset((
    269, 270, 271, 272, 282, 283, 285, 286, 287, 296, 305, 306, 315, 316, 318, 319, 333, 337,
    18246, 18249, 33432, EXIF, GPS, 40091, 40092, 40093, 40094, 40095,
))  # fmt: skip
# Where the pixels lie on the earth.
GEO = frozenset((33550, 33922, 34264, 34735, 34736, 34737, NO_DATA))
# Of the Exif directory: exposure, versions, times, lens, light, place of the sensor, scene, owner, serial numbers.
EXIF_KEPT = frozenset((
    33434, 33437, 34850, 34852, 34855, 34856, *range(34864, 34870), 36864, 36867, 36868, *range(36880, 36883),
    *range(37377, 37387), 37510, *range(37520, 37523), *range(37888, 37894), 40960, 40961, 40962, 40963, 40964,
    INTEROPERABILITY, 41483, 41486, 41487, 41488, 41493, 41495, *range(41728, 41731), *range(41985, 41997), 42016,
    *range(42032, 42038), *range(42038, 42045), *range(42080, 42083), 42240,
))  # fmt: skip
# How the pixels are stored, which every file says of its own; what is taken along apart from the directory; fillers.
MADE_ANEW = frozenset((
    *range(254, 269), *range(273, 282), 284, *range(288, 294), 297, 317, *range(320, 331), 332, 334, 336,
    *range(338, 348), *range(512, 522), *range(529, 533), XMP, IPTC, PHOTOSHOP, ICC_PROFILE,
    37121, 37122, 59932, 59933,
))  # fmt: skip

# Descriptions that tell a program how the array is stored.
_OF_THE_ARRAY = {
    "ImageJ": re.compile(r"\s*ImageJ="),
    "OME-XML": re.compile(r"(?s)\s*<.*<(\w+:)?OME\b|\s*<(\w+:)?OME\b"),
    "tifffile": re.compile(r'\s*\{"shape"|shape=\('),
    "MetaMorph": re.compile(r"\s*<MetaData>"),
    "Aperio": re.compile(r"Aperio "),
}


def program_of(description: object) -> str | None:
    """The program whose description of an array this is, which would be untrue of another array."""
    text = description if isinstance(description, str) else ""
    return next((name for name, start in _OF_THE_ARRAY.items() if start.match(text)), None)


def name_of(tag: int) -> str:
    """What the tag is called, or its number."""
    name = pil_exif.TAGS.get(tag) or pil_tags.lookup(tag).name
    return str(tag) if name == "unknown" else str(name)
