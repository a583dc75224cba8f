"""The numbers of TIFF and EXIF tags, and which of them are kept for pooled pixels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# How pixels are stored, and what the file says beside them.
DESCRIPTION, ORIENTATION, RESOLUTION_UNIT = 270, 274, 296
RESOLUTION = (282, 283)  # x, y; pixels per unit
PHOTOSHOP, IPTC, XMP, EXIF, ICC_PROFILE, GPS = 34377, 33723, 700, 34665, 34675, 34853
GDAL_METADATA, GDAL_NODATA = 42112, 42113
PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, GEO_DOUBLES, GEO_TEXT = 33550, 33922, 34264, 34735, 34736, 34737
# In the EXIF directory.
MAKER_NOTE, INTEROPERABILITY = 37500, 40965

# Values: bits of the subfile type, photometric interpretations, extra samples, compressions.
REDUCED, MASK = 1, 4
WHITE_IS_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR, LAB, ICC_LAB = 0, 1, 2, 3, 5, 6, 8, 9
COLOUR_CHANNELS = {RGB: 3, CMYK: 4, LAB: 3, ICC_LAB: 3}  # channels that are no extra samples; others have 1
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
UNCOMPRESSED, OLD_JPEG, JPEG, DEFLATE, OLD_DEFLATE, LZMA = 1, 6, 7, 8, 32946, 34925

# Kept from the main directory: document, description, make, model, page and its position, software, time, artist,
# computer, white point, primaries, inks, printer, ratings, copyright, and what Windows adds.
KEPT_TAGS = frozenset((
    269, 270, 271, 272, 285, 286, 287, 305, 306, 315, 316, 318, 319, 333, 337, 18246, 18249, 33432, EXIF, GPS,
    40091, 40092, 40093, 40094, 40095,
))  # fmt: skip
# Georeference.
GEO = frozenset((PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, GEO_DOUBLES, GEO_TEXT))
# Not kept from the EXIF directory, without a note: how the pixels were stored, their number, and padding.
STORED_EXIF = frozenset((37121, 37122, 40962, 40963, INTEROPERABILITY, 59932, 59933))
# Nor these: places in the picture (SubjectArea and SubjectLocation), and the resolution of the focal plane.
DROPPED_EXIF = STORED_EXIF | {MAKER_NOTE, 37396, 41486, 41487, 41488, 41492}
# Written anew: how the pixels are stored, what is kept apart from the directory, padding.
REWRITTEN = GEO | {
    *range(254, 269), *range(273, 285), *range(288, 294), 296, 297, 317, *range(320, 331), 332, 334, 336,
    *range(338, 348), *range(512, 522), *range(529, 533), XMP, IPTC, PHOTOSHOP, ICC_PROFILE, GDAL_METADATA, GDAL_NODATA,
    59932, 59933,
}  # fmt: skip

# Descriptions by which a program finds the arrays in the file.
_ARRAY_DESCRIPTIONS = {
    "ImageJ": re.compile(r"\s*ImageJ="),
    "OME-XML": re.compile(r"(?s)\s*<.*<(\w+:)?OME\b|\s*<(\w+:)?OME\b"),
    "tifffile": re.compile(r'\s*\{"shape"|shape=\('),
    "MetaMorph": re.compile(r"\s*<MetaData>"),
    "Aperio": re.compile(r"Aperio "),
}


class RawTagText(str):
    """Text of a tag, which Pillow decodes as Latin-1 and would encode as ASCII with question marks."""

    __slots__ = ()

    def encode(self, encoding: str = "latin-1", errors: str = "replace") -> bytes:  # Pillow's
        return super().encode("latin-1", "replace")


def with_raw_texts(value: Any) -> Any:
    """The value of a tag, or a directory, of which Pillow writes the bytes of texts that it has read."""
    if isinstance(value, dict):
        return {tag: with_raw_texts(each) for tag, each in value.items()}
    return RawTagText(value) if isinstance(value, str) else value


def program_of(description: object) -> str | None:
    """The program that wrote this description of an array, which would be wrong for another array; None if none did."""
    text = description if isinstance(description, str) else ""
    return next((name for name, start in _ARRAY_DESCRIPTIONS.items() if start.match(text)), None)


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
    """GDAL's metadata as they are stored."""
    items = (
        f'  <Item name="{GDAL_ROLES[role]}" sample="{band}" role="{role}">{value}</Item>\n'
        for band, roles in bands.items()
        for role, value in roles.items()
    )
    return f"<GDALMetadata>\n{''.join(items)}</GDALMetadata>\n".encode()
