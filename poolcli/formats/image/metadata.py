"""Image metadata: what is kept for pooled pixels, and what is scaled with their size (georeference, resolution)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from poolcli.formats.checks import join_names
from poolcli.formats.image import tiff_tags as tags
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")

GT_RASTER_TYPE, PIXEL_IS_POINT = 1025, 2  # the GeoKey, and its value if coordinates mean the centres of pixels


class PixelGrid(NamedTuple):
    """Along one axis: input pixels from one output pixel to the next, and where in the input the first one begins."""

    step: float
    start: float


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


MAX_RESOLUTION = 65_536  # per inch; JPEG has 16 bits for them
INCH, CENTIMETRE = 2, 3
MAX_TAGS = 5  # tags named in a note
LABELS = {
    "icc_profile": "ICC profile", "exif": "EXIF data", "dpi": "resolution", "xmp": "XMP data", "text": "text chunks",
    "comment": "comment", "photoshop": "IPTC data", "geo": "georeference", "duration": "durations of the pages",
    "colour": "colour space", "nodata": "nodata value",
    "mask": "mask of missing pixels", "gdal": "GDAL's scale, offset or names of bands",
    "axes": "axes and distances of the stack",
}  # fmt: skip
DAMAGED = "damaged in the input"
XMP_TEXT = "XML:com.adobe.xmp"
PROFILE_TEXT = "Raw profile type "  # text chunks in which ImageMagick stores profiles as hexadecimal numbers
KNOWN_PROFILES = ("exif", "APP1", "xmp", "iptc", "8bim", "icc", "icm")
EXIF_SIGNATURE, XMP_SIGNATURE = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
PHOTOSHOP_SIGNATURE = b"Photoshop 3.0\0"
# What JPEG segments for applications start with if they are kept, or described by what is kept.
KNOWN_SEGMENTS = (
    b"JFIF", b"JFXX", EXIF_SIGNATURE, XMP_SIGNATURE, b"ICC_PROFILE\0", PHOTOSHOP_SIGNATURE, b"Adobe", b"MPF\0",
)  # fmt: skip
NOT_APPLICABLE = "may not apply to the output"


def metadata_of(info: Mapping[str, Any], exif: Exif, is_tiff: bool) -> dict[str, Any]:
    """The metadata that is kept: ICC profile, EXIF without orientation, XMP, IPTC, resolution, text, georeference.

    Parameters
    ----------
    info : what Pillow found
    exif : the directory of tags, which in a TIFF holds everything
    is_tiff : whether it is that of a TIFF

    Returns
    -------
    dict
        By Pillow's names; `lost` has pairs of what is dropped and why.
    """
    texts = {key: str(value) for key, value in info.get("text", {}).items() if key != XMP_TEXT}
    text = {key: value for key, value in texts.items() if not key.startswith(PROFILE_TEXT)}
    profiles = imagemagick_profiles(texts)
    lost = [(what, NOT_APPLICABLE) for what in _unknown_data(info)]
    lost += [(LABELS[key], DAMAGED) for key in info.get("damaged", ())]
    lost += [(repr(key), DAMAGED) for key in texts if key not in text and key not in profiles]
    found: dict[str, Any] = {key: info[key] for key in ("comment", "colour") if info.get(key)}
    found |= {"loop": info["loop"]} if "loop" in info else {}  # 0 repeats for ever
    found |= _exif_metadata(exif, lost)
    blocks = dict(info.get("photoshop", {})) or _photoshop_profile(profiles)
    if is_tiff:
        own, blocks = _tiff_metadata(exif, blocks, lost)
        found |= own
    elif info.get("dpi"):
        found["dpi"] = tuple(info["dpi"])
    found |= _photoshop_metadata(blocks, lost)
    for key, value in (("icc_profile", _profile(profiles, "icc", "icm")), ("xmp", _xmp_profile(profiles))):
        stored = (found.pop(key, None) if is_tiff else info.get(key)) or value
        if isinstance(stored, bytes):
            found[key] = stored
        elif stored is not None:  # a tag may be of any type
            lost.append((LABELS[key], DAMAGED))
    if "xmp" in found:
        found["xmp"], prefixes = _xmp_for_pooled(found["xmp"])
        lost += [(f"XMP data of companion images ({', '.join(prefixes)})", "the output has none")] if prefixes else []
    return found | ({"text": text} if text else {}) | ({"lost": tuple(lost)} if lost else {})


Lost = list[tuple[str, str]]  # pairs of what is dropped and why


def _exif_metadata(exif: Exif, lost: Lost) -> dict[str, Any]:
    """The tags that are kept; what is dropped is added to `lost`."""
    try:
        kept, dropped = select_exif(exif)
    except MemoryError:
        raise
    except Exception:  # what Pillow reads as it is, it may not be able to write
        lost.append((LABELS["exif"], DAMAGED))
        return {}
    lost += dropped
    return {"exif": kept} if kept else {}


def _photoshop_profile(profiles: Mapping[str, bytes]) -> dict[int, bytes]:
    """Photoshop's resource blocks in a profile of ImageMagick, which may have IPTC data alone."""
    data = _profile(profiles, "iptc", "8bim") or b""
    return tags.parse_blocks(data.removeprefix(PHOTOSHOP_SIGNATURE)) or ({tags.IPTC_BLOCK: data} if data else {})


def _photoshop_metadata(blocks: Mapping[int, bytes], lost: Lost) -> dict[str, Any]:
    """The resource blocks that are kept; what is dropped is added to `lost`."""
    kept = {number: blocks[number] for number in tags.KEPT_BLOCKS if blocks.get(number)}
    others = [str(number) for number in sorted(blocks) if number not in tags.KEPT_BLOCKS + tags.REDUNDANT_BLOCKS]
    if not kept and tags.IPTC_BLOCK in blocks:
        lost.append((LABELS["photoshop"], "stored as numbers, not as bytes"))
    if others:
        lost.append((f"Photoshop's resources {', '.join(others)}", NOT_APPLICABLE))
    return {"photoshop": tags.encode_blocks(kept)} if kept else {}


def imagemagick_profiles(texts: Mapping[str, Any]) -> dict[str, bytes]:
    """The profiles among the texts of a PNG, by the names of their chunks: a name and a length precede the numbers."""
    found = {}
    for key, value in texts.items():
        kind, words = key.removeprefix(PROFILE_TEXT), str(value).split()
        if key != kind and kind in KNOWN_PROFILES and len(words) > 2:
            with suppress(ValueError):
                found[key] = bytes.fromhex("".join(words[2:]))
    return found


def _profile(profiles: Mapping[str, bytes], *kinds: str) -> bytes | None:
    return next((profiles[PROFILE_TEXT + kind] for kind in kinds if PROFILE_TEXT + kind in profiles), None)


def exif_profile(profiles: Mapping[str, bytes]) -> bytes | None:
    """The EXIF data among them."""
    data = _profile(profiles, "exif", "APP1")
    return data if data and data.startswith(EXIF_SIGNATURE) else None


def _xmp_profile(profiles: Mapping[str, bytes]) -> bytes | None:
    data = _profile(profiles, "xmp") or _profile(profiles, "APP1")
    return None if data is None or data.startswith(EXIF_SIGNATURE) else data.removeprefix(XMP_SIGNATURE)


def _unknown_data(info: Mapping[str, Any]) -> Iterator[str]:
    """What else an image file holds, by name."""
    across, down = info.get("aspect") or (info.get("jfif_density", (1, 1)) if not info.get("jfif_unit") else (1, 1))
    if across != down:
        yield "aspect ratio of the pixels"
    if info.get("chunks"):
        yield f"PNG chunks {', '.join(info['chunks'])}"
    yield from info.get("others", ())
    if info.get("aux"):
        yield f"auxiliary images ({', '.join(str(name).rpartition(':')[2] for name in info['aux'])})"
    if info.get("depth_images"):
        yield "depth images"
    names = {name for name, data in info.get("segments", ()) if name != "COM" and not data.startswith(KNOWN_SEGMENTS)}
    if names:
        yield f"JPEG segments {', '.join(sorted(names))}"


def without_orientation_dependent(found: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without what is for the pixels as they were stored: georeference, XMP data of a panorama."""
    gone = ["geo"] if "geo" in found else []
    gone += ["xmp"] if _PANORAMA.search(found.get("xmp", b"")) else []
    if not gone:
        return dict(found)
    lost = (*found.get("lost", ()), *((LABELS[key], "the image was rotated") for key in gone))
    return {key: value for key, value in found.items() if key not in gone} | {"lost": lost}


def _tiff_metadata(exif: Exif, blocks: dict[int, bytes], lost: Lost) -> tuple[dict[str, Any], dict[int, bytes]]:
    """What the directory of a TIFF says beside EXIF data, and Photoshop's resource blocks in place of `blocks`; what is
    dropped is added to `lost`.
    """
    lost += [("images in SubIFDs", "they are not read")] if tags.SUB_IFDS in exif else []
    found: dict[str, Any] = {}
    try:
        found |= _directory_metadata(exif)
        bands, others = tags.parse_gdal(str(exif.get(tags.GDAL_METADATA, "")))
        found |= {"gdal": bands} if bands else {}
        lost += [(f"GDAL's {join_names(others)}", NOT_APPLICABLE)] if others else []
        blocks = _photoshop(exif)
    except MemoryError:
        raise
    except Exception:  # of many kinds, for tags that are damaged
        lost.append(("metadata in other tags", DAMAGED))
    return found, blocks


def _directory_metadata(exif: Exif) -> dict[str, Any]:
    """The profile, XMP data, resolution, nodata value and georeference."""
    stored = {"icc_profile": exif.get(tags.ICC_PROFILE), "xmp": exif.get(tags.XMP)}
    found: dict[str, Any] = {key: value for key, value in stored.items() if value}
    geo = {tag: exif[tag] for tag in tags.GEO if tag in exif}
    unit = exif.get(tags.RESOLUTION_UNIT, INCH)
    if unit in (INCH, CENTIMETRE) and all(tag in exif for tag in tags.RESOLUTION):
        dots = (_resolution(exif[tag]) for tag in tags.RESOLUTION)
        found["dpi"] = tuple(x * 2.54 if x and unit == CENTIMETRE else x for x in dots)
    nodata = exif.get(tags.GDAL_NODATA)
    if isinstance(nodata, str | int | float):
        found["nodata"] = tags.nodata_text(nodata)
    return found | ({"geo": geo} if geo else {})


def _photoshop(exif: Exif) -> dict[int, bytes]:
    """Photoshop's resource blocks in a TIFF, with the IPTC data, which is empty if it is not stored as bytes."""
    stored, own = exif.get(tags.PHOTOSHOP), exif.get(tags.IPTC)
    blocks = tags.parse_blocks(stored) if isinstance(stored, bytes) else {}
    if isinstance(own, bytes):
        return blocks | {tags.IPTC_BLOCK: own}
    return blocks if own is None else {tags.IPTC_BLOCK: b"", **blocks}


def _resolution(value: object) -> float | None:
    """A resolution as a number; None if no file can hold it."""
    try:
        number = float(value)  # type: ignore[arg-type]  # a tag may be of any type
    except (TypeError, ValueError, ArithmeticError):
        return None
    return number if 0 < number < MAX_RESOLUTION else None


def scaled(found: Mapping[str, Any], x: PixelGrid, y: PixelGrid, size: tuple[int, int]) -> dict[str, Any]:
    """The metadata for pixels on the grids `x` and `y` of the input's; `size` is (width, height)."""
    kept, lost = dict(found), list(found.get("lost", ()))
    factors = (1 / x.step, 1 / y.step)

    def follow(key: str, scale: Any) -> None:
        if key in kept:
            try:
                kept[key] = scale(kept[key])
            except MemoryError:
                raise
            except Exception:  # of many kinds, for values of other types than their tags have
                del kept[key]
                lost.append((LABELS[key], DAMAGED))

    follow("dpi", lambda dots: tuple(_scaled_resolution(*each) for each in zip(dots, factors, strict=True)))
    follow("exif", lambda data: _scaled_exif(data, factors, size))
    follow("geo", lambda geo: scaled_geo(geo, x, y))
    follow("xmp", lambda data: _scaled_xmp(data, factors))
    steps = {"H": y.step, "W": x.step}
    follow("axes", lambda axes: tuple(each._replace(step=each.step * steps.get(each.letter, 1)) for each in axes))
    if "pages" in kept:
        kept["pages"] = {number: scaled(page, x, y, size) for number, page in kept["pages"].items()}
        said = (each for page in kept["pages"].values() for each in page.pop("lost", ()))
        lost += [each for each in dict.fromkeys(said) if each not in lost]
    return kept | ({"lost": tuple(lost)} if lost else {})


def _scaled_resolution(value: object, factor: float) -> float:
    dots = _resolution(_resolution(value) * factor)  # type: ignore[operator]
    if dots is None:
        raise ValueError("no resolution")
    return dots


def _scaled_exif(data: bytes, factors: tuple[float, float], size: tuple[int, int]) -> bytes:
    exif: Exif = pil.Exif()
    exif.load(data)
    below: Any = exif.get_ifd(tags.EXIF) if tags.EXIF in exif else {}
    directories: tuple[Any, ...] = (exif, below)
    for directory, resolution in zip(directories, (tags.RESOLUTION, tags.FOCAL_PLANE), strict=True):
        for tag, factor in zip(resolution, factors, strict=True):
            dots = _resolution(directory.get(tag))
            if dots is not None:
                directory[tag] = dots * factor
            elif tag in directory:
                del directory[tag]
    for tag, length in zip(tags.SIZES, size, strict=True):
        if tag in below:
            below[tag] = length
    return _exif_bytes(exif)


def select_exif(exif: Exif) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
    """The tags that are kept, as EXIF data (None for none), and pairs of what is dropped and why."""
    kept, dropped, lost = pil.Exif(), list[int](), list[tuple[str, str]]()
    for tag, value in exif.items():
        program = tags.program_of(value) if tag == tags.DESCRIPTION else None
        if program:
            lost.append((f"description by {program}", "it describes how the input is stored"))
        elif tag == tags.EXIF:
            directory = sub_ifd(exif, tag)
            kept[tag] = {key: directory[key] for key in directory if key in tags.KEPT_EXIF}
            dropped += [key for key in directory if key not in tags.KEPT_EXIF | tags.REWRITTEN]
        elif tag in tags.KEPT_TAGS:
            kept[tag] = sub_ifd(exif, tag) if tag == tags.GPS else value
        elif tag not in tags.GEO | tags.REWRITTEN:
            dropped.append(tag)
    if tags.MAKER_NOTE in dropped:
        dropped.remove(tags.MAKER_NOTE)
        lost.append(("maker notes", "they may not apply to the output"))
    if dropped:
        names = [tags.tag_name(tag) for tag in sorted(dropped)]
        lost.append((f"tag{'' if len(names) == 1 else 's'} {join_names(names, MAX_TAGS)}", NOT_APPLICABLE))
    return _exif_bytes(kept) if len(kept) else None, tuple(lost)


def _exif_bytes(exif: Exif) -> bytes:
    for tag, value in list(exif.items()):
        below = tag in (tags.EXIF, tags.GPS) and not isinstance(value, dict)
        exif[tag] = tags.as_read(sub_ifd(exif, tag) if below else value)
    return exif.tobytes()


def sub_ifd(exif: Exif, tag: int) -> dict[int, Any]:
    """The directory that a tag points to, with the one below it."""
    directory = dict(exif.get_ifd(tag))
    if tags.INTEROPERABILITY in directory:
        directory[tags.INTEROPERABILITY] = exif.get_ifd(tags.INTEROPERABILITY)
    return directory


# XMP data for pooled pixels: properties that count pixels are scaled, and those of companion images dropped.

# Properties of how the pixels were stored, written as attributes or as elements.
_STORED = (
    b"tiff:(?:Orientation|ImageWidth|ImageLength|XResolution|YResolution|ResolutionUnit|Compression|BitsPerSample)"
    b"|exif:Pixel[XY]Dimension"
)
# Namespaces of companion images that follow the primary one (gain maps, depth, video) or of the rest of XMP data.
_COMPANION = re.compile(
    rb"xmlns:([\w.-]+)\s*=\s*[\"'](?:http://ns\.google\.com/photos/(?!1\.0/panorama)|http://ns\.adobe\.com/hdr-gain-map/"
    rb"|http://ns\.apple\.com/(?:HDRGainMap|pixeldatainfo)/|http://ns\.adobe\.com/xmp/note/)"
)
_PANORAMA = re.compile(rb"xmlns:([\w.-]+)\s*=\s*[\"']http://ns\.google\.com/photos/1\.0/panorama/")
# Of Photo Sphere data: sizes and positions, across or down.
_PIXELS = rb"(?:\w*(?:(Width|Left)|(?:Height|Top))Pixels|LargestValidInteriorRect(?:(Width|Left)|(?:Height|Top)))"


def _xmp_for_pooled(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The data without what holds for the stored pixels or for companion images, and the prefixes of the latter."""
    prefixes = sorted(set(_COMPANION.findall(data)))
    kept, dropped = _without(data, _STORED), list[str]()
    for prefix in prefixes:
        rest = _without(kept, re.escape(prefix) + rb":[\w.-]+")
        dropped += [prefix.decode()] if rest != kept else []
        kept = rest
    return kept, tuple(dropped)


def _without(data: bytes, names: bytes) -> bytes:
    """The data without these attributes, and elements with all that is in them."""
    data = re.sub(rb"(?s)<(" + names + rb")(?:\s[^>]*)?(?:(?<=/)>|>.*?</\1\s*>)\s*", b"", data)
    return re.sub(rb"\s(?:" + names + rb")\s*=\s*(?:\"[^\"]*\"|'[^']*')", b"", data)


def _scaled_xmp(data: bytes, factors: Sequence[float]) -> bytes:
    """The data with the sizes and positions of a panorama multiplied by the factors across and down."""
    for prefix in set(_PANORAMA.findall(data)):
        name = re.escape(prefix) + b":" + _PIXELS

        def follow(found: re.Match[bytes]) -> bytes:
            factor = factors[0] if found[3] or found[4] else factors[1]
            return found[1] + str(round(float(found[5]) * factor)).encode()

        data = re.sub(rb"((" + name + rb")(?:\s*=\s*[\"']|\s*>)\s*)(\d+(?:\.\d+)?)", follow, data)
    return data
