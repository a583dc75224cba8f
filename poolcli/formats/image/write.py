"""Image files written by Pillow, or by other libraries if those are installed and better, or Pillow would lose bits."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from poolcli.errors import PoolError
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.image import stacks, tiff_write
from poolcli.formats.image.codecs import LEVEL, encode_png, with_gif_profiles
from poolcli.formats.image.metadata import LABELS
from poolcli.formats.image.modes import BANDS, BEYOND_PILLOW, OME_DTYPES, mode_of, stored_layout, with_flipped_signs
from poolcli.formats.image.pillow import pillow_errors
from poolcli.formats.image.tiff_tags import DESCRIPTION, as_jpeg_marker
from poolcli.formats.records import Axis, NamedArray, Spec, WriteOptions
from poolcli.formats.table import output_format
from poolcli.layouts import convert_layout, converted_shape
from poolcli.system.lazy_imports import Array, Lazy, installed
from poolcli.system.lazy_imports import numpy as np

pil: Any = Lazy("PIL.Image")
pil_png: Any = Lazy("PIL.PngImagePlugin")


Section = tuple[str, Array, dict[str, Any]]  # the mode of pages of one size, their pixels, and what is kept


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the images of one array, or in formats whose pages may differ of several; returns notes on what the format
    could not keep.
    """
    name, sections, notes = output_format(path).name, list[Section](), list[str]()
    for named in arrays:
        spec = named.spec
        is_stack = "D" in spec.layout
        layout = stored_layout(name, spec.shape, spec.dtype, spec.layout, spec.mode) if is_stack else "NHWC"
        stack = np.ascontiguousarray(_as_pages(named.array, spec.layout, layout))
        mode = mode_of(stack.shape, spec.dtype, "NHWC", spec.mode)
        kept, lost = select_metadata(name, mode, spec.metadata.image)
        if "mask" in kept:
            kept["mask"] = _as_pages(kept["mask"], spec.layout, layout)[..., 0]
        kept.pop("axes", None)
        if is_stack:
            kept.pop("bands" if not layout.endswith("C") else "", None)
            others = "metadata of pages after the first not kept: the result has others"
            lost += (others,) if kept.pop("pages", None) else ()
            shape = converted_shape(spec.shape, spec.layout, layout)
            lost += _describe_stack(kept, spec.metadata.axes, layout, shape, spec.dtype)
        elif axes := _stack_axes(name, stack.shape, spec):
            shape = (*(axis.length for axis in axes[:-2]), *stack.shape[1:3])
            lost += _describe_stack(kept, axes, "".join(axis.letter for axis in axes), shape, spec.dtype)
        sections.append((mode, stack, kept))
        notes += lost
    encoded = partial(_encode, path, name, options.quality)
    with pillow_errors(path):
        try:
            data, more = encoded(sections)
        except (PoolError, MemoryError):
            raise
        except Exception:  # because of the pixels, or of the metadata
            bare = [
                (m, s, {key: value for key, value in kept.items() if key not in OPTIONAL}) for m, s, kept in sections
            ]
            if bare == sections:
                raise
            data, more = encoded(bare)
            more = (*more, "metadata not kept: damaged in the input")
    with atomic_stream(path, options.overwrite) as stream:
        stream.write(data)
    return tuple(dict.fromkeys((*notes, *more)))


def _as_pages(array: Array, source: str, target: str) -> Array:
    """The pages of an array, N, H, W, C, in the order of the layout `target`."""
    found = convert_layout(array, source, target)
    found = found if target.endswith("C") else found[..., None]
    return found.reshape(-1, *found.shape[-3:])


def _stack_axes(name: str, shape: Sequence[int], spec: Spec) -> tuple[Axis, ...]:
    """The axes of the stack whose pages were pooled each by itself, () if the result has others."""
    axes: tuple[Axis, ...] = spec.metadata.image.get("axes", ()) if name == "tiff" and spec.dtype in OME_DTYPES else ()
    return axes if (shape[0], shape[-1]) == (prod(axis.length for axis in axes[:-2]), 1) else ()


def _describe_stack(
    kept: dict[str, Any], axes: Sequence[Axis], layout: str, shape: tuple[int, ...], dtype: str
) -> tuple[str, ...]:
    """Adds what OME-XML says of a stack; returns notes."""
    if "mask" in kept:
        return ("axes not kept: OME-XML has no masks",)
    steps, units = stacks.ome_attributes(axes)
    exif = pil.Exif()
    exif.load(kept.get("exif", b""))
    steps |= {"Description": exif[DESCRIPTION]} if DESCRIPTION in exif else {}
    kept["stack"] = (layout, shape, dtype, steps)
    return tuple(f"distances in {unit} not kept: OME-XML has no such unit" for unit in units)


def _encode(
    path: str, name: str, quality: int | None, sections: Sequence[Section]
) -> tuple[bytes | bytearray, tuple[str, ...]]:
    """The file, and notes on what could not be kept; made in memory, because Pillow does not notice short writes."""
    if name == "tiff":
        return _encode_tiff(path, sections)
    ((mode, stack, kept),) = sections
    if name == "gif":
        return encode_gif(stack, kept)
    settings = _OPTIONS[name](dict(kept), mode, quality) if name in _OPTIONS else dict(kept)
    if name == "png" and (mode in BEYOND_PILLOW or (len(stack) == 1 and installed("imagecodecs"))):
        return encode_png(path, stack[0], settings), ()
    return encode(name, mode, stack, settings), ()


def _encode_tiff(path: str, sections: Sequence[Section]) -> tuple[bytes | bytearray, tuple[str, ...]]:
    compressions, notes = zip(*(tiff_write.choose_compression(kept) for _, _, kept in sections), strict=True)
    (mode, stack, kept), compression = sections[0], compressions[0]
    if len(sections) > 1 or mode in BEYOND_PILLOW or compression.needs_tifffile or "mask" in kept:
        data: bytes = tiff_write.encode(path, sections, compressions)
    else:
        data = encode("tiff", mode, stack, compression.pillow_options(kept))
    pages = [kept.get("pages", {}).get(i, kept) for _, stack, kept in sections for i in range(len(stack))]
    if all("stack" in kept for _, _, kept in sections):
        text = stacks.ome_xml(path, [kept["stack"] for _, _, kept in sections])
        pages[0] = {**pages[0], "description": text}
    return tiff_write.with_metadata_tags(data, pages), tuple(dict.fromkeys(note for said in notes for note in said))


KEPT = {
    "png": {"icc_profile", "exif", "dpi", "xmp", "text", "colour", "duration", "loop"},
    "jpeg": {"icc_profile", "exif", "dpi", "xmp", "photoshop", "comment", "qtables", "subsampling"},
    "tiff": {
        "icc_profile", "exif", "dpi", "xmp", "photoshop", "geo", "gdal", "nodata", "compression", "predictor", "bands",
        "pages", "mask", "axes",
    },
    "webp": {"icc_profile", "exif", "xmp", "duration", "loop", "losses"},
    "bmp": {"dpi"},
    "gif": {"icc_profile", "xmp", "comment", "duration", "loop"},
}  # fmt: skip
# What may be damaged.
OPTIONAL = ("icc_profile", "exif", "dpi", "xmp", "photoshop", "geo", "gdal", "comment", "text", "pages", "colour")
GREY = ("L", "LA", "I;16", "I", "F", "LA;16")
BEST_QUALITY = 95
LOSSY_WEBP = 90  # the quality of a WebP whose input was lossy


def select_metadata(name: str, mode: str, found: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The metadata that the format keeps, and notes on what it does not; an ICC profile must fit the mode."""
    able = KEPT.get(name, set())
    kept = {key: value for key, value in found.items() if key in able}
    notes = [f"{LABELS[key]} not kept: {name} files cannot store it" for key in found if key in LABELS.keys() - able]
    chunks = found.get("colour", {})  # of a PNG; other formats mean sRGB without a name
    if b"sRGB" in chunks or all(data == SRGB_CHUNKS[kind] for kind, data in chunks.items()):
        notes = [note for note in notes if not note.startswith(LABELS["colour"])]
    fitting = {"CMYK": b"CMYK", "LAB": b"Lab "}.get(mode, b"GRAY" if mode in GREY else b"RGB ")
    for page in (kept, *kept.get("pages", {}).values()):
        space = page.get("icc_profile", b"")[16:20]
        if "icc_profile" in page and space != fitting and mode != BANDS:  # bands are those of the input
            del page["icc_profile"]
            said = space.decode("latin-1").strip()
            notes.append(f"{LABELS['icc_profile']} not kept: it is for {said} pixels, these are {mode}")
    if "pages" in found.keys() - able:
        notes.append(f"metadata of pages after the first not kept: {name} files cannot store it")
    notes += [f"{what} not kept: {why}" for what, why in found.get("lost", ())]
    return kept, tuple(dict.fromkeys(notes))


SRGB_CHUNKS = {  # what other chunks say where they mean sRGB, in units of 1 / 100,000
    b"gAMA": struct.pack(">I", 45455), b"cICP": bytes([1, 13, 0, 1]),
    b"cHRM": struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000),
}  # fmt: skip


# The metadata as arguments of Pillow's `save`.


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
    text, xmp, colour = kept.pop("text", {}), kept.pop("xmp", None), kept.pop("colour", {})
    if text or xmp or colour:
        chunks = pil_png.PngInfo()
        for key, value in text.items():
            chunks.add_itxt(key, value) if not value.isascii() else chunks.add_text(key, value)
        for kind, data in colour.items():
            chunks.add(kind, data)
        if xmp:
            chunks.add_itxt("XML:com.adobe.xmp", xmp.decode("utf-8", "replace"))
        kept["pnginfo"] = chunks
    return kept | {"compress_level": LEVEL}


_OPTIONS = {"jpeg": _jpeg_options, "webp": _webp_options, "png": _png_options}


def encode(name: str, mode: str, pages: Array, options: Mapping[str, Any]) -> bytes:
    """The pixels, N, H, W, C, as a file that Pillow writes."""
    pages = with_flipped_signs(pages) if mode == "LAB" else pages
    pages = pages if pages.shape[-1] > 1 else pages[..., 0]
    # Image.fromarray takes any four channels for RGBA.
    pictures = [
        pil.frombytes(mode, (page.shape[1], page.shape[0]), page.tobytes())
        if mode in ("CMYK", "LAB")
        else pil.fromarray(page)
        for page in pages
    ]
    return _save(pictures, name, options)


def _save(pictures: Sequence[Any], name: str, options: Mapping[str, Any]) -> bytes:
    several = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    stream = io.BytesIO()
    pictures[0].save(stream, format=name.upper(), **several, **options)
    return stream.getvalue()  # not a view: CPython 3.12 crashes if one outlives its stream in an error


GIF_COLOURS = 256  # of a frame of a GIF
TICK = 10  # milliseconds, the unit of durations
OPAQUE = 255
DISPOSE_TO_BACKGROUND = 2  # disposal: otherwise a frame would show through transparent pixels of the next one
QUANTIZED_NOTE = f"colours rounded to {GIF_COLOURS} in each frame"
ALPHA_NOTE = "alpha rounded to transparent or opaque"
DURATION_NOTE = "durations of the pages rounded to 1/100 s"


def encode_gif(pages: Array, kept: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...]]:
    """The pixels, N, H, W, C of bytes, as a GIF, and notes on what it could not hold."""
    notes: list[str] = []
    frames = [_frame(page, notes) for page in pages]
    options = {key: kept[key] for key in ("comment", "loop") if key in kept}
    times = kept.get("duration")
    if times and len(frames) > 1:
        options["duration"] = times
        notes += [DURATION_NOTE] if any(time % TICK for time in times) else []
    if pages.shape[-1] == 4:
        options["disposal"] = DISPOSE_TO_BACKGROUND
    data = _save(frames, "gif", options | {"optimize": False})
    return with_gif_profiles(data, kept), tuple(dict.fromkeys(notes))


def _frame(page: Array, notes: list[str]) -> Any:
    """One frame with its own colours; what is lost is added to `notes`."""
    if page.shape[-1] == 1:
        return pil.fromarray(page[..., 0])
    alpha = page[..., 3] if page.shape[-1] == 4 else None
    if alpha is not None and ((alpha > 0) & (alpha < OPAQUE)).any():
        notes.append(ALPHA_NOTE)
    hidden = None if alpha is None else alpha <= OPAQUE // 2
    places, colours = _quantize(page[..., :3], hidden, notes)
    frame = pil.fromarray(places)
    frame.putpalette(colours.tobytes())  # which turns grey into a palette image
    if hidden is not None and hidden.any():
        frame.info["transparency"] = GIF_COLOURS - 1
    return frame


def _quantize(pixels: Array, hidden: Array | None, notes: list[str]) -> tuple[Array, Array]:
    """The index of each pixel's colour, and the colour table; hidden pixels have the last index."""
    free = GIF_COLOURS - (hidden is not None)
    seen = pixels if hidden is None else np.where(hidden[..., None], np.uint8(0), pixels)
    codes = seen.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    found, places = np.unique(codes, return_inverse=True)
    if found.size <= free:
        colours = (found[:, None] >> np.array([16, 8, 0], np.uint32) & 255).astype(np.uint8)
        places = places.reshape(codes.shape).astype(np.uint8)
    else:
        notes.append(QUANTIZED_NOTE)
        rounded = pil.fromarray(np.ascontiguousarray(seen)).quantize(free, pil.Quantize.MEDIANCUT)
        places, colours = np.array(rounded), np.array(rounded.getpalette(), np.uint8).reshape(-1, 3)
    if hidden is not None:
        places[hidden] = GIF_COLOURS - 1
        colours = np.concatenate([colours, np.zeros((GIF_COLOURS - len(colours), 3), np.uint8)])
    return places, colours
