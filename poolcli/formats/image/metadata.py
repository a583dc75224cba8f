"""Image metadata: tags of TIFF and EXIF, and which are kept; what is scaled with the size of pixels (georeference,
resolution); and the axes of stacks that ImageJ and OME-TIFF describe, read and written by tifffile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from poolcli.formats.checks import join_names
from poolcli.formats.records import Axis, PixelGrid
from poolcli.system.lazy_imports import Lazy

pil: Any = Lazy("PIL.Image")
pil_exif: Any = Lazy("PIL.ExifTags")
tifffile: Any = Lazy("tifffile")

DESCRIPTION, ORIENTATION, RESOLUTION_UNIT = 270, 274, 296
RESOLUTION = (282, 283)  # x, y; pixels per unit
PHOTOSHOP, IPTC, XMP, EXIF, ICC_PROFILE, GPS = 34377, 33723, 700, 34665, 34675, 34853
GDAL_METADATA, GDAL_NODATA = 42112, 42113
PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, GEO_DOUBLES, GEO_TEXT = 33550, 33922, 34264, 34735, 34736, 34737
MAKER_NOTE, INTEROPERABILITY = 37500, 40965

# Values: bits of the subfile type, photometric interpretations, extra samples, compressions.
REDUCED, MASK = 1, 4
WHITE_IS_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR, LAB, ICC_LAB = 0, 1, 2, 3, 5, 6, 8, 9
COLOUR_CHANNELS = {RGB: 3, CMYK: 4, LAB: 3, ICC_LAB: 3}  # channels that are no extra samples; others have 1
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
SEPARATE = 2  # planes of bands
UNCOMPRESSED, OLD_JPEG, JPEG, DEFLATE, OLD_DEFLATE, LZMA = 1, 6, 7, 8, 32946, 34925

# Kept from the main directory: document, description, make, model, page and its position, software, time, artist,
# computer, white point, primaries, inks, printer, ratings, copyright, and what Windows adds.
KEPT_TAGS = frozenset((
    269, 270, 271, 272, 285, 286, 287, 305, 306, 315, 316, 318, 319, 333, 337, 18246, 18249, 33432, EXIF, GPS,
    40091, 40092, 40093, 40094, 40095,
))  # fmt: skip
GEO = frozenset((PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, GEO_KEYS, GEO_DOUBLES, GEO_TEXT))
# Of pages after the first: a note says if they differ from those of the first, which are kept for all.
PAGE_TAGS = KEPT_TAGS | GEO | {ICC_PROFILE, GDAL_METADATA, RESOLUTION_UNIT, *RESOLUTION}
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

# Descriptions by which programs find the arrays in the file; they would be wrong for another array.
ARRAY_DESCRIPTION = re.compile(
    r"""(?s)\s*ImageJ=|\s*<.*<(\w+:)?OME\b|\s*<(\w+:)?OME\b|\s*\{"shape"|shape=\(|\s*<MetaData>|Aperio """
)
ARRAY_NOTE = "description of the array"


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


LABELS = {
    "icc_profile": "ICC profile", "exif": "EXIF data", "dpi": "resolution", "geo": "georeference",
    "duration": "durations of the pages", "mask": "mask of missing pixels",
    "gdal": "GDAL's scale, offset or names of bands", "axes": "axes and distances of the stack",
    "palette": "palette", "aspect": "aspect ratio of the pixels",
}  # fmt: skip
INCHES = {2: 1.0, 3: 2.54}  # by resolution unit: inches, and centimetres to the inch
MAX_TAGS = 5  # tags named in a note
MAX_RESOLUTION = 65_536  # per inch; JPEG has 16 bits for them
GT_RASTER_TYPE, PIXEL_IS_POINT = 1025, 2  # the GeoKey, and its value if coordinates mean the centres of pixels


def scaled(found: Mapping[str, Any], x: PixelGrid, y: PixelGrid) -> dict[str, Any]:
    """The metadata for pixels on the grids `x` and `y` of the input's."""
    kept, lost = dict(found), list(found.get("lost", ()))
    for name in kept.keys() & {"dpi", "aspect"}:
        across, down = kept[name]
        kept[name] = (across / x.step, down / y.step)
    if "geo" in kept:
        try:
            kept["geo"] = scaled_geo(kept["geo"], x, y)
        except (TypeError, ValueError, IndexError):
            del kept["geo"]
            lost.append(f"{LABELS['geo']} (damaged)")
    if "axes" in kept:
        steps = {"H": y.step, "W": x.step}
        kept["axes"] = tuple(axis._replace(step=axis.step * steps.get(axis.letter, 1)) for axis in kept["axes"])
    return kept | ({"lost": tuple(lost)} if lost else {})


def scaled_geo(found: Mapping[int, Any], x: PixelGrid, y: PixelGrid) -> dict[int, Any]:
    """GeoTIFF tags for pixels on the grids `x` and `y` of the input's; raises for tags of odd forms."""
    # The value of a GeoKey that is stored in the directory itself: four numbers a key, after a header of four.
    keys = (entry for entry in _rows(found, GEO_KEYS, 4) if len(entry) == 4)
    points = (
        next((value for key, place, _, value in keys if (key, place) == (GT_RASTER_TYPE, 0)), None) == PIXEL_IS_POINT
    )
    left, top = (grid.start + (grid.step - 1) / 2 if points else grid.start for grid in (x, y))
    kept, ties, matrix = dict(found), list[float](), list[float]()
    if PIXEL_SCALE in found:
        across, down, depth = found[PIXEL_SCALE]
        kept[PIXEL_SCALE] = (float(across * x.step), float(down * y.step), float(depth))
    for i, j, *others in _rows(found, TIE_POINTS, 6):  # a position in the raster (i, j, k), and its coordinates
        ties += [(i - left) / x.step, (j - top) / y.step, *others]
    for a, b, c, d in _rows(found, TRANSFORMATION, 4):  # a matrix from (i, j, k, 1) to coordinates
        matrix += [a * x.step, b * y.step, c, d + a * left + b * top]
    if TRANSFORMATION in found and len(matrix) != 16:
        raise ValueError("it is no matrix of 4 x 4")
    kept |= {TIE_POINTS: tuple(map(float, ties))} if ties else {}
    return kept | ({TRANSFORMATION: tuple(map(float, matrix))} if matrix else {})


def _rows(found: Mapping[int, Any], tag: int, length: int) -> Iterator[Sequence[float]]:
    values = found.get(tag, ())
    return (values[at : at + length] for at in range(0, len(values), length))


def resolution_of(values: Any, unit: Any) -> dict[str, tuple[float, ...]]:
    """Pixels across and down, per inch as `dpi`; without a unit, and if they differ, as `aspect`; {} if they are no
    numbers that a file can hold.
    """
    try:
        found = tuple(float(value) * INCHES.get(unit, 1.0) for value in values)
    except (TypeError, ValueError, ArithmeticError):
        return {}
    if len(found) != 2 or not all(0 < number < MAX_RESOLUTION for number in found):
        return {}
    return {"dpi": found} if unit in INCHES else {"aspect": found} if found[0] != found[1] else {}


def select_exif(exif: Any) -> dict[str, Any]:
    """The tags that are kept as EXIF data, and what is lost; nothing of what Pillow reads but cannot write."""
    kept, dropped, lost = pil.Exif(), list[int](), list[str]()
    try:
        for tag, value in exif.items():
            if tag == DESCRIPTION and isinstance(value, str) and ARRAY_DESCRIPTION.match(value):
                lost += [ARRAY_NOTE] * (not value.startswith('{"shape"'))  # tifffile's, of which nothing is lost
            elif tag == EXIF:
                directory = exif.get_ifd(tag)
                kept[tag] = with_raw_texts({key: directory[key] for key in directory if key not in DROPPED_EXIF})
                dropped += [key for key in directory if key in DROPPED_EXIF - STORED_EXIF]
            elif tag in KEPT_TAGS:
                kept[tag] = with_raw_texts(dict(exif.get_ifd(tag)) if tag == GPS else value)
            elif tag not in REWRITTEN:
                dropped.append(tag)
        written = kept.tobytes() if len(kept) else b""
    except MemoryError:
        raise
    except Exception:  # of many kinds, for tags of other types than they should have
        return {"lost": ("EXIF data (damaged)",)}
    if dropped:
        names = [str(pil_exif.TAGS.get(tag, tag)) for tag in sorted(dropped)]
        lost.append(f"tags {join_names(names, MAX_TAGS)}")
    return ({"exif": written} if written else {}) | ({"lost": tuple(lost)} if lost else {})


LAYOUT_LETTERS = {"T": "N", "C": "C", "Z": "D", "Y": "H", "X": "W"}
DIMENSIONS = {letter: name for name, letter in LAYOUT_LETTERS.items()}
# Units of time that OME-XML has, and their names.
TIME_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}
TIME_UNITS |= {"ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "ps": "picosecond"}
IMAGEJ_SIZES = {"T": "frames", "Z": "slices", "C": "channels"}  # of ImageJ, in its order of pages
LENGTHS = {  # units by their names in OME-NGFF: first as OME-XML has them, then how others write them
    "angstrom": ("Å",), "nanometer": ("nm",), "micrometer": ("µm", "um", "μm", "micron", "microns"),
    "millimeter": ("mm",), "centimeter": ("cm",), "meter": ("m",), "kilometer": ("km",),
    "inch": ("in",), "foot": ("ft",),
}  # fmt: skip
LENGTH_UNITS = {word: words[0] for name, words in LENGTHS.items() for word in (name, *words)}
OME_LENGTHS = frozenset(LENGTH_UNITS.values()) | {"pm", "pixel"}


def read_axes(file: Any, pages: int, size: Sequence[int]) -> tuple[Axis, ...]:
    """The axes of all pages of a TiffFile, each of this height and width; () if it does not name just these."""
    try:
        if file.is_ome:  # of several images or files, `Image` or `TiffData` is a list, which raises
            found = _ome_axes(tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"])
        elif file.is_imagej:
            found = _imagej_axes(file.imagej_metadata, size, file.pages.first.resolution)
        else:
            return ()
    except MemoryError:
        raise
    except Exception:  # of many kinds, for damaged descriptions
        return ()
    axes = tuple(axis for axis in found if axis.length > 1 or axis.letter in "HW")
    lengths = [axis.length for axis in axes]
    return axes if lengths[-2:] == list(size) and prod(lengths[:-2]) == pages else ()


def _ome_axes(pixels: Mapping[str, Any]) -> list[Axis]:
    """OME-XML: pages in the order of `DimensionOrder`, of which the first letter changes fastest."""
    if pixels["TiffData"].get("IFD", 0) != 0 or "UUID" in pixels["TiffData"]:
        raise ValueError("pages in another order, or another file")
    found = []
    for name in reversed(pixels["DimensionOrder"]):
        key = "TimeIncrement" if name == "T" else f"PhysicalSize{name}"
        unit = pixels.get(f"{key}Unit", "s" if name == "T" else "µm") if key in pixels else ""
        unit = TIME_UNITS.get(unit, unit) if name == "T" else unit
        found.append(Axis(LAYOUT_LETTERS[name], pixels[f"Size{name}"], float(pixels.get(key, 1)), unit))
    return found


def _imagej_axes(said: Mapping[str, Any], size: Sequence[int], resolution: Sequence[float]) -> list[Axis]:
    """ImageJ's description: pages by frame, slice and channel; the resolution is in pixels to the unit."""
    unit = str(said.get("unit", "")).replace("\\u00B5", "µ")
    steps = {"Z": said.get("spacing", 1), "T": said.get("finterval", 1), "Y": 1 / resolution[1], "X": 1 / resolution[0]}
    units = {"T": "second" if "finterval" in said else "", "C": ""}
    sizes = {name: said.get(key, 1) for name, key in IMAGEJ_SIZES.items()}
    if prod(sizes.values()) == 1:
        sizes["Z"] = said.get("images", 1)
    sizes |= {"Y": size[0], "X": size[1]}
    if not unit:  # then only the frame interval has a meaning
        steps = {"T": steps["T"]}
    return [
        Axis(LAYOUT_LETTERS[name], int(length), float(steps.get(name, 1)), units.get(name, unit))
        for name, length in sizes.items()
    ]


def ome_attributes(axes: Sequence[Axis]) -> tuple[dict[str, Any], list[str]]:
    """Distances of axes as attributes of OME-XML, and units that it lacks."""
    found, lacking = dict[str, Any](), list[str]()
    for letter, _, step, unit in (axis for axis in axes if 0 < axis.step < inf):
        name, known = DIMENSIONS[letter], LENGTH_UNITS.get(unit, unit)
        short = next((each for each, time in TIME_UNITS.items() if unit in (each, time)), None)
        if name == "T" and short:
            found |= {"TimeIncrement": step} | ({"TimeIncrementUnit": short} if short != "s" else {})
        elif name in "ZYX" and known in OME_LENGTHS:
            found |= {f"PhysicalSize{name}": step, f"PhysicalSize{name}Unit": known}
        elif unit and unit not in lacking:
            lacking.append(unit)
    return found, lacking


def ome_xml(layout: str, shape: Sequence[int], dtype: str, steps: Mapping[str, Any]) -> bytes:
    """OME-XML of a stack, with the distances of its axes."""
    xml = tifffile.OmeXml(Creator="poolcli", UUID=str(uuid5(NAMESPACE_URL, repr((layout, shape, dtype, steps)))))
    inside = layout.endswith("C")
    names = "".join("S" if inside and letter == "C" else DIMENSIONS[letter] for letter in layout)
    *pages, height, width, samples = shape if inside else (*shape, 1)
    xml.addimage(dtype, shape, (prod(pages), 1, 1, height, width, samples), axes=names, **steps)
    return str(xml.tostring(declaration=True)).encode("ascii", "xmlcharrefreplace")  # tags are ASCII
