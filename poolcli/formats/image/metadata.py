"""Image metadata: what is kept for pooled pixels, and what is scaled with their size (georeference, resolution)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from poolcli.formats.checks import join_names
from poolcli.formats.image import tiff_tags as tags
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")
pil_exif: Any = Lazy("PIL.ExifTags")

LABELS = {
    "icc_profile": "ICC profile", "exif": "EXIF data", "dpi": "resolution", "geo": "georeference",
    "duration": "durations of the pages", "nodata": "nodata value", "mask": "mask of missing pixels",
    "gdal": "GDAL's scale, offset or names of bands", "axes": "axes and distances of the stack",
    "palette": "palette",
}  # fmt: skip
MAX_TAGS = 5  # tags named in a note
MAX_RESOLUTION = 65_536  # per inch; JPEG has 16 bits for them
GT_RASTER_TYPE, PIXEL_IS_POINT = 1025, 2  # the GeoKey, and its value if coordinates mean the centres of pixels


class PixelGrid(NamedTuple):
    """Along one axis: input pixels from one output pixel to the next, and where in the input the first one begins."""

    step: float
    start: float


def scaled(found: Mapping[str, Any], x: PixelGrid, y: PixelGrid) -> dict[str, Any]:
    """The metadata for pixels on the grids `x` and `y` of the input's."""
    kept, lost = dict(found), list(found.get("lost", ()))
    if "dpi" in kept:
        across, down = kept["dpi"]
        kept["dpi"] = (across / x.step, down / y.step)
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
    keys = (entry for entry in _rows(found, tags.GEO_KEYS, 4) if len(entry) == 4)
    points = (
        next((value for key, place, _, value in keys if (key, place) == (GT_RASTER_TYPE, 0)), None) == PIXEL_IS_POINT
    )
    left, top = (grid.start + (grid.step - 1) / 2 if points else grid.start for grid in (x, y))
    kept, ties, matrix = dict(found), list[float](), list[float]()
    if tags.PIXEL_SCALE in found:
        across, down, depth = found[tags.PIXEL_SCALE]
        kept[tags.PIXEL_SCALE] = (float(across * x.step), float(down * y.step), float(depth))
    for i, j, *others in _rows(found, tags.TIE_POINTS, 6):  # a position in the raster (i, j, k), and its coordinates
        ties += [(i - left) / x.step, (j - top) / y.step, *others]
    for a, b, c, d in _rows(found, tags.TRANSFORMATION, 4):  # a matrix from (i, j, k, 1) to coordinates
        matrix += [a * x.step, b * y.step, c, d + a * left + b * top]
    if tags.TRANSFORMATION in found and len(matrix) != 16:
        raise ValueError("it is no matrix of 4 x 4")
    kept |= {tags.TIE_POINTS: tuple(map(float, ties))} if ties else {}
    return kept | ({tags.TRANSFORMATION: tuple(map(float, matrix))} if matrix else {})


def _rows(found: Mapping[int, Any], tag: int, length: int) -> Iterator[Sequence[float]]:
    values = found.get(tag, ())
    return (values[at : at + length] for at in range(0, len(values), length))


def resolution_of(*values: object) -> tuple[float, ...] | None:
    """Pixels per unit across and down; None if they are no numbers that a file can hold."""
    try:
        found = tuple(float(value) for value in values)  # type: ignore[arg-type]  # a tag may be of any type
    except (TypeError, ValueError, ArithmeticError):
        return None
    return found if all(0 < number < MAX_RESOLUTION for number in found) else None


# EXIF data


def select_exif(exif: Exif) -> dict[str, Any]:
    """The tags that are kept as EXIF data, and what is lost; nothing of what Pillow reads but cannot write."""
    try:
        return _select_exif(exif)
    except MemoryError:
        raise
    except Exception:  # of many kinds, for tags of other types than they should have
        return {"lost": ("EXIF data (damaged)",)}


def _select_exif(exif: Exif) -> dict[str, Any]:
    kept, dropped, lost = pil.Exif(), list[int](), list[str]()
    for tag, value in exif.items():
        program = tags.program_of(value) if tag == tags.DESCRIPTION else None
        if program:
            lost.append(f"description by {program}")
        elif tag == tags.EXIF:
            directory = exif.get_ifd(tag)
            kept[tag] = tags.with_raw_texts({key: directory[key] for key in directory if key not in tags.DROPPED_EXIF})
            dropped += [key for key in directory if key in tags.DROPPED_EXIF - tags.STORED_EXIF]
        elif tag in tags.KEPT_TAGS:
            kept[tag] = tags.with_raw_texts(dict(exif.get_ifd(tag)) if tag == tags.GPS else value)
        elif tag not in tags.REWRITTEN:
            dropped.append(tag)
    if dropped:
        names = [str(pil_exif.TAGS.get(tag, tag)) for tag in sorted(dropped)]
        lost.append(f"tags {join_names(names, MAX_TAGS)}")
    return ({"exif": kept.tobytes()} if len(kept) else {}) | ({"lost": tuple(lost)} if lost else {})
