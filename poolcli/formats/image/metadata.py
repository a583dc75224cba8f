"""What a picture says beside its pixels, and how much of it each format can keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from poolcli.core.lazy import Lazy

if TYPE_CHECKING:
    from PIL.Image import Exif, Image

pil: Any = Lazy("PIL.Image")
pil_jpeg: Any = Lazy("PIL.JpegImagePlugin")
pil_png: Any = Lazy("PIL.PngImagePlugin")

ORIENTATION = 0x0112
RESOLUTION = (0x011A, 0x011B)  # x, y
SIZES = ((0x0100, 0x0101), (0xA002, 0xA003))  # width and height, in the main and in the Exif directory
EXIF_DIRECTORY = 0x8769
DIRECTORIES = (EXIF_DIRECTORY, 0x8825, 0xA005)  # Exif, GPS, interoperability
MOST_DOTS = 65_536  # to the inch; JPEG has 16 bits for them
XMP_TAG = 700
WORDS = {
    "icc_profile": "ICC profile", "exif": "EXIF data", "dpi": "resolution", "xmp": "XMP data", "text": "text chunks",
    "comment": "comment", "duration": "durations of the pages",
}  # fmt: skip
KEEPS = {
    "png": {"icc_profile", "exif", "dpi", "xmp", "text", "duration", "loop"},
    "jpeg": {"icc_profile", "exif", "dpi", "xmp", "comment", "qtables", "subsampling"},
    "tiff": {"icc_profile", "exif", "dpi", "xmp"},
    "webp": {"icc_profile", "exif", "xmp", "duration", "loop"},
    "bmp": {"dpi"},
}
GREY = ("L", "LA", "I;16", "I", "F", "LA;16")
BEST_QUALITY = 95
PNG_LEVEL = (
    4  # of zlib: a third of the time of 6, Pillow's own, for 0.1 % more bytes of a photograph and fewer of another
)


def metadata_of(image: Image) -> dict[str, Any]:
    """ICC profile, EXIF without orientation, XMP, resolution, text, and the tables of a JPEG."""
    info = image.info
    found: dict[str, Any] = {key: info[key] for key in ("icc_profile", "comment", "loop") if info.get(key)}
    damaged = []
    try:
        found |= _exif_of(image)
    except Exception:  # what Pillow reads as it is, it may not be able to write
        damaged.append(WORDS["exif"])
    if "dpi" in info:
        dots = [_dots(x) for x in info["dpi"]]
        if None in dots:
            damaged.append(WORDS["dpi"])
        else:
            found["dpi"] = tuple(dots)
    if damaged:
        found["damaged"] = tuple(damaged)
    xmp = info.get("xmp") or info.get("XML:com.adobe.xmp")
    if xmp:
        found["xmp"] = xmp.encode() if isinstance(xmp, str) else xmp
    return found


def _exif_of(image: Image) -> dict[str, bytes]:
    """EXIF data as it is stored everywhere but in BigTIFF, without orientation; {} where there is none."""
    exif = image.getexif()
    exif.pop(ORIENTATION, None)
    if not len(exif):
        return {}
    for directory in DIRECTORIES:
        if directory in exif:
            exif.get_ifd(directory)  # read it while its place is known
    big, exif.bigtiff = exif.bigtiff, False
    try:
        return {"exif": exif.tobytes()}
    finally:
        exif.bigtiff = big


def _dots(value: object) -> float | None:
    """A resolution as a number; None for one that no file can have."""
    try:
        number = float(value)  # type: ignore[arg-type]  # files hold anything
    except (TypeError, ValueError, ArithmeticError):
        return None
    return number if 0 < number < MOST_DOTS else None


def file_facts(image: Image) -> dict[str, Any]:
    """What only the open file knows: the text of a PNG; quantisation tables and subsampling of a JPEG, with which its
    pixels can be stored as finely as they were.
    """
    text = {key: str(value) for key, value in getattr(image, "text", {}).items() if key != "XML:com.adobe.xmp"}
    if text:
        return {"text": text}
    tables = getattr(image, "quantization", None)
    if image.format != "JPEG" or not tables:
        return {}
    sampling = pil_jpeg.get_sampling(image)
    return {"qtables": tables} | ({"subsampling": sampling} if sampling >= 0 else {})


def scaled(found: Mapping[str, Any], factors: tuple[float, float], size: tuple[int, int]) -> dict[str, Any]:
    """The metadata of a picture with `factors` (x, y) as many pixels to the inch, and `size` as width and height."""
    kept = dict(found)
    damaged = [*kept.pop("damaged", ())]
    if "dpi" in kept:
        dots = [_dots(dots * factor) for dots, factor in zip(kept["dpi"], factors, strict=True)]
        kept["dpi"] = tuple(dots)
        if None in dots:
            del kept["dpi"]
            damaged.append(WORDS["dpi"])
    if "exif" in kept:
        try:
            kept["exif"] = _scaled_exif(kept["exif"], factors, size)
        except Exception:  # of many kinds, for values of other types than their tags have
            del kept["exif"]
            damaged.append(WORDS["exif"])
    return kept | ({"damaged": tuple(damaged)} if damaged else {})


def save_options(
    name: str, mode: str, found: Mapping[str, Any], quality: int | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What Pillow's `save` takes along, and notes on what is lost; an ICC profile must fit the number of channels."""
    able = KEEPS.get(name, set())
    if "icc_profile" in found and not _profile_fits(found["icc_profile"], mode):
        able = able - {"icc_profile"}
    kept = {key: value for key, value in found.items() if key in able}
    if name == "jpeg":
        kept = _jpeg_options(kept, mode, quality)
    if name == "webp":
        kept |= {"lossless": True} if quality is None else {"quality": quality}
    if name == "png":
        kept = _png_options(kept)
    if name == "tiff" and "xmp" in kept:
        kept["exif"] = _with_xmp(kept.get("exif"), kept.pop("xmp"))
    lost = [WORDS[key] for key in found if key not in able and key in WORDS]
    notes = [f"{word} not kept: {name} files have no place for it" for word in lost]
    notes += [f"{word} not kept: damaged in the input" for word in found.get("damaged", ())]
    return kept, tuple(notes)


def _jpeg_options(kept: dict[str, Any], mode: str, quality: int | None) -> dict[str, Any]:
    tables, sampling = kept.pop("qtables", None), kept.pop("subsampling", 0)
    if quality is not None:
        return kept | {"quality": quality}
    if tables and mode != "CMYK" and len(tables) <= (1 if mode == "L" else 2):
        return kept | {"qtables": tables, "subsampling": sampling}
    return kept | {"quality": BEST_QUALITY, "subsampling": 0}


def _png_options(kept: dict[str, Any]) -> dict[str, Any]:
    text, xmp = kept.pop("text", {}), kept.pop("xmp", None)
    if text or xmp:
        chunks = pil_png.PngInfo()
        for key, value in text.items():
            chunks.add_itxt(key, value) if not value.isascii() else chunks.add_text(key, value)
        if xmp:
            chunks.add_itxt("XML:com.adobe.xmp", xmp.decode("utf-8", "replace"))
        kept["pnginfo"] = chunks
    return kept | {"compress_level": PNG_LEVEL}


def _with_xmp(data: bytes | None, xmp: bytes) -> Exif:
    """EXIF data with XMP as a tag, as TIFF has it."""
    exif: Exif = pil.Exif()
    if data:
        exif.load(data)
    exif[XMP_TAG] = xmp
    return exif


def _scaled_exif(data: bytes, factors: tuple[float, float], size: tuple[int, int]) -> bytes:
    exif: Exif = pil.Exif()
    exif.load(data)
    for tag, factor in zip(RESOLUTION, factors, strict=True):
        dots = _dots(exif.get(tag))
        if dots is not None:
            exif[tag] = dots * factor
        elif tag in exif:
            del exif[tag]
    directories: tuple[Any, ...] = (exif, exif.get_ifd(EXIF_DIRECTORY))
    for directory, tags in zip(directories, SIZES, strict=True):
        for tag, length in zip(tags, size, strict=True):
            if tag in directory:
                directory[tag] = length
    return exif.tobytes()


def _profile_fits(profile: bytes, mode: str) -> bool:
    space = {"CMYK": b"CMYK", "LAB": b"Lab "}.get(mode, b"GRAY" if mode in GREY else b"RGB ")
    return profile[16:20] == space
