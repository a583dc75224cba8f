"""The numbers of TIFF and EXIF tags, and which of them are kept for pooled pixels.

A directory also says how its own pixels are stored, and holds what only the program that wrote it can read. Tags that
are not known to hold for the result are dropped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

from poolcli.system.lazy_imports import Lazy

pil_exif: Any = Lazy("PIL.ExifTags")
pil_tags: Any = Lazy("PIL.TiffTags")

# How pixels are stored.
SUBFILE, WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC = 254, 256, 257, 258, 259, 262
FILL_ORDER, STRIP_OFFSETS, SAMPLES, ROWS, STRIP_BYTES, PLANAR, PREDICTOR = 266, 273, 277, 278, 279, 284, 317
TILE_WIDTH, TILE_LENGTH, TILE_OFFSETS, TILE_BYTES = 322, 323, 324, 325
SUB_IFDS, EXTRA_SAMPLES, SAMPLE_FORMAT, SUBSAMPLING = 330, 338, 339, 530
# What the file says beside them.
DESCRIPTION, ORIENTATION, RESOLUTION_UNIT = 270, 274, 296
RESOLUTION = (282, 283)  # x, y; pixels per unit
XMP, IPTC, PHOTOSHOP, EXIF, ICC_PROFILE, GPS = 700, 33723, 34377, 34665, 34675, 34853
GDAL_METADATA, GDAL_NODATA = 42112, 42113
PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS = 33550, 33922, 34264, 34735  # GeoTIFF
# In the EXIF directory.
MAKER_NOTE, INTEROPERABILITY = 37500, 40965
FOCAL_PLANE = (41486, 41487)  # x, y; pixels per unit
SIZES = (40962, 40963)  # width and height

# Values: bits of the subfile type, photometric interpretations, sample formats, extra samples, compressions.
REDUCED, MASK = 1, 4
WHITE_IS_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR, LAB, ICC_LAB = 0, 1, 2, 3, 5, 6, 8, 9
COLOUR_CHANNELS = {WHITE_IS_ZERO: 1, GREY: 1, RGB: 3, CMYK: 4, LAB: 3, ICC_LAB: 3}  # channels of those that are read
UNSIGNED, SIGNED, FLOAT = 1, 2, 3
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
UNCOMPRESSED, LZW, DEFLATE, OLD_DEFLATE, PACKBITS, LZMA, ZSTD = 1, 5, 8, 32946, 32773, 34925, 50000
# Compressions that every build of Pillow reads: also CCITT (2, 3, 4, 32771), JPEG (6, 7) and ThunderScan (32809).
PILLOW_COMPRESSIONS = (UNCOMPRESSED, 2, 3, 4, LZW, 6, 7, DEFLATE, 32771, PACKBITS, 32809, OLD_DEFLATE)

# Kept from the main directory: document, description, make, model, page and its position, resolution, software, time,
# artist, computer, white point, primaries, inks, printer, ratings, copyright, and what Windows adds.
KEPT_TAGS = frozenset((
    269, 270, 271, 272, 282, 283, 285, 286, 287, 296, 305, 306, 315, 316, 318, 319, 333, 337,
    18246, 18249, 33432, EXIF, GPS, 40091, 40092, 40093, 40094, 40095,
))  # fmt: skip
# Georeference.
GEO = frozenset((PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, 34736, 34737))
# Kept from the EXIF directory: exposure, versions, times, lens, light, sensor, scene, owner, serial numbers.
KEPT_EXIF = frozenset((
    33434, 33437, 34850, 34852, 34855, 34856, *range(34864, 34870), 36864, 36867, 36868, *range(36880, 36883),
    *range(37377, 37387), 37510, *range(37520, 37523), *range(37888, 37894), 40960, 40961, 40962, 40963, 40964,
    INTEROPERABILITY, 41483, 41486, 41487, 41488, 41493, 41495, *range(41728, 41731), *range(41985, 41997), 42016,
    *range(42032, 42038), *range(42038, 42045), *range(42080, 42083), 42240,
))  # fmt: skip
# Written anew: how the pixels are stored, what is kept apart from the directory, padding.
REWRITTEN = frozenset((
    *range(254, 269), *range(273, 282), 284, *range(288, 294), 297, 317, *range(320, 331), 332, 334, 336,
    *range(338, 348), *range(512, 522), *range(529, 533), XMP, IPTC, PHOTOSHOP, ICC_PROFILE, GDAL_METADATA, GDAL_NODATA,
    37121, 37122, 59932, 59933,
))  # fmt: skip

# Descriptions by which a program finds the arrays in the file.
_ARRAY_DESCRIPTIONS = {
    "ImageJ": re.compile(r"\s*ImageJ="),
    "OME-XML": re.compile(r"(?s)\s*<.*<(\w+:)?OME\b|\s*<(\w+:)?OME\b"),
    "tifffile": re.compile(r'\s*\{"shape"|shape=\('),
    "MetaMorph": re.compile(r"\s*<MetaData>"),
    "Aperio": re.compile(r"Aperio "),
}


class _AsRead(str):
    """Text of a tag, which Pillow decodes as Latin-1 and would encode as ASCII with question marks."""

    __slots__ = ()

    def encode(self, encoding: str = "latin-1", errors: str = "replace") -> bytes:  # Pillow's
        return super().encode("latin-1", "replace")


def as_read(value: Any) -> Any:
    """The value of a tag, or a directory, of which Pillow writes the bytes of texts that it has read."""
    if isinstance(value, dict):
        return {tag: as_read(each) for tag, each in value.items()}
    if isinstance(value, tuple):
        return tuple(as_read(each) for each in value)
    return _AsRead(value) if isinstance(value, str) else value


def program_of(description: object) -> str | None:
    """The program that wrote this description of an array, which would be wrong for another array; None if none did."""
    text = description if isinstance(description, str) else ""
    return next((name for name, start in _ARRAY_DESCRIPTIONS.items() if start.match(text)), None)


def tag_name(tag: int) -> str:
    """The name of a tag, or its number."""
    name = pil_exif.TAGS.get(tag) or pil_tags.lookup(tag).name
    return str(tag) if name == "unknown" else str(name)


def nodata_text(value: object) -> str:
    """GDAL's nodata value as a tag holds it: up to the first NUL, as C reads it, without space around it."""
    return str(value).partition("\0")[0].strip()


# GDAL's metadata: what is kept of each band, by its role, and its name.
GDAL_ROLES = {"scale": "SCALE", "offset": "OFFSET", "unittype": "UNITTYPE", "description": "DESCRIPTION"}
_ITEM, _ATTRIBUTE = re.compile(r"<Item\b([^<>]*)>([^<]*)</Item>"), re.compile(r"""(\w+)\s*=\s*["']([^"']*)["']""")


def parse_gdal(text: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    """What GDAL's metadata say of each band, by its number and their role, and the names of others."""
    bands, others = dict[str, dict[str, str]](), list[str]()
    for stored, value in _ITEM.findall(text):
        item = dict(_ATTRIBUTE.findall(stored))
        if item.get("role") in GDAL_ROLES and item.get("sample", "").isdecimal():
            bands.setdefault(item["sample"], {})[item["role"]] = value
        else:
            others.append(item.get("name", "?"))
    return bands, others


def encode_gdal(bands: Mapping[str, Mapping[str, str]]) -> bytes:
    """GDAL's metadata as they are stored, of texts that Pillow has read byte by byte."""
    items = (
        f'  <Item name="{GDAL_ROLES[role]}" sample="{band}" role="{role}">{value}</Item>\n'
        for band, roles in bands.items()
        for role, value in roles.items()
    )
    return f"<GDALMetadata>\n{''.join(items)}</GDALMetadata>\n".encode("latin-1", "replace")


# Photoshop's resource blocks.
IPTC_BLOCK = 0x0404
KEPT_BLOCKS = (IPTC_BLOCK, 0x0425, 0x040A, 0x040B)  # IPTC data, their hash, copyright flag and URL
REDUNDANT_BLOCKS = (0x03ED, 0x040F, 0x0422, 0x0423, 0x0424)  # copies of resolution, ICC profile, EXIF and XMP data
_SIGN = b"8BIM"


def parse_blocks(data: bytes) -> dict[int, bytes]:
    """Photoshop's resource blocks by number, as far as they are not damaged."""
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


def encode_blocks(blocks: Mapping[int, bytes]) -> bytes:
    """Resource blocks as they are stored."""
    return b"".join(
        _SIGN + struct.pack(">HHI", number, 0, len(data)) + data + bytes(len(data) % 2)
        for number, data in blocks.items()
    )


def as_jpeg_marker(data: bytes) -> bytes:
    """Resource blocks as a JPEG marker."""
    content = b"Photoshop 3.0\0" + data
    return b"\xff\xed" + struct.pack(">H", len(content) + 2) + content
