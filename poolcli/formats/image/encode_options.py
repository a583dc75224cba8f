"""What each image format takes beside the pixels: one table; and what of the input's has no place in it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from poolcli.formats.image import png
from poolcli.formats.image.iptc import as_jpeg_marker
from poolcli.formats.image.metadata import WORDS
from poolcli.formats.image.modes import BANDS
from poolcli.system.lazy_imports import Lazy

pil_png: Any = Lazy("PIL.PngImagePlugin")

KEEPS = {
    "png": {"icc_profile", "exif", "dpi", "xmp", "text", "gamma", "duration", "loop"},
    "jpeg": {"icc_profile", "exif", "dpi", "xmp", "photoshop", "comment", "qtables", "subsampling"},
    "tiff": {"icc_profile", "exif", "dpi", "xmp", "photoshop", "geo", "compression", "predictor", "bands"},
    "webp": {"icc_profile", "exif", "xmp", "duration", "loop", "losses"},
    "bmp": {"dpi"},
    "gif": {"comment", "duration", "loop"},
}
BESIDE = ("icc_profile", "exif", "dpi", "xmp", "photoshop", "geo", "comment", "text")  # which may be damaged
GREY = ("L", "LA", "I;16", "I", "F", "LA;16")
BEST_QUALITY = 95
LOSSY_WEBP = 90  # the quality of a WebP whose input had losses, too


def chosen(name: str, mode: str, found: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What goes into a picture of the format and mode, and notes on what does not; an ICC profile must fit the mode."""
    able = KEEPS.get(name, set())
    if "icc_profile" in found and not _profile_fits(found["icc_profile"], mode):
        able = able - {"icc_profile"}
    kept = {key: value for key, value in found.items() if key in able}
    notes = [f"{WORDS[key]} not kept: {name} files have no place for it" for key in found if key in WORDS.keys() - able]
    notes += [f"{what} not kept: {why}" for what, why in found.get("lost", ())]
    return kept, tuple(notes)


def pillow_options(name: str, mode: str, kept: Mapping[str, Any], quality: int | None) -> dict[str, Any]:
    """What was chosen as Pillow's `save` takes it; a TIFF gets its tags afterwards."""
    return _OPTIONS.get(name, _as_they_are)(dict(kept), mode, quality)


def _as_they_are(kept: dict[str, Any], mode: str, quality: int | None) -> dict[str, Any]:
    return kept


def _jpeg_options(kept: dict[str, Any], mode: str, quality: int | None) -> dict[str, Any]:
    tables, sampling, blocks = kept.pop("qtables", None), kept.pop("subsampling", 0), kept.pop("photoshop", None)
    if blocks:
        kept["extra"] = as_jpeg_marker(blocks)
    if quality is not None:
        return kept | {"quality": quality}
    if tables and mode != "CMYK" and len(tables) <= (1 if mode == "L" else 2):
        return kept | {"qtables": tables, "subsampling": sampling}
    return kept | {"quality": BEST_QUALITY, "subsampling": 0}


def _webp_options(kept: dict[str, Any], mode: str, quality: int | None) -> dict[str, Any]:
    if kept.pop("losses", False) and quality is None:
        quality = LOSSY_WEBP
    return kept | ({"lossless": True, "exact": True} if quality is None else {"quality": quality})


def _png_options(kept: dict[str, Any], mode: str, quality: int | None) -> dict[str, Any]:
    text, xmp, gamma = kept.pop("text", {}), kept.pop("xmp", None), kept.pop("gamma", None)
    if text or xmp or gamma:
        chunks = pil_png.PngInfo()
        for key, value in text.items():
            chunks.add_itxt(key, value) if not value.isascii() else chunks.add_text(key, value)
        if gamma:
            chunks.add(b"gAMA", struct.pack(">I", round(gamma * 100_000)))
        if xmp:
            chunks.add_itxt("XML:com.adobe.xmp", xmp.decode("utf-8", "replace"))
        kept["pnginfo"] = chunks
    return kept | {"compress_level": png.LEVEL}


_OPTIONS = {"jpeg": _jpeg_options, "webp": _webp_options, "png": _png_options}


def _profile_fits(profile: bytes, mode: str) -> bool:
    if mode == BANDS:  # they are those of the input
        return True
    space = {"CMYK": b"CMYK", "LAB": b"Lab "}.get(mode, b"GRAY" if mode in GREY else b"RGB ")
    return profile[16:20] == space
