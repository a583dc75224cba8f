"""Image files written by tifffile and Pillow, and PNG by imagecodecs: of 16 bits a channel, or if it is installed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.image import stacks, tiff_write
from poolcli.formats.image.metadata import LABELS
from poolcli.formats.image.modes import BANDS, BEYOND_PILLOW, INDICES, OME_DTYPES, mode_of, stored_layout
from poolcli.formats.image.pages import image_errors
from poolcli.formats.image.tiff_tags import DESCRIPTION
from poolcli.formats.records import Axis, NamedArray, WriteOptions
from poolcli.formats.table import output_format
from poolcli.layouts import convert_layout, converted_shape
from poolcli.system.lazy_imports import Array, Lazy, installed, need
from poolcli.system.lazy_imports import numpy as np

pil: Any = Lazy("PIL.Image")


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the image or images of the only array; returns notes on what the format could not keep."""
    (named,) = arrays
    name, spec, lost = output_format(path).name, named.spec, list[str]()
    is_stack = "D" in spec.layout
    layout = stored_layout(name, spec.shape, spec.dtype, spec.layout, spec.mode) if is_stack else "NHWC"
    pages = np.ascontiguousarray(_as_pages(named.array, spec.layout, layout))
    mode = mode_of(pages.shape, spec.dtype, "NHWC", spec.mode)
    kept = _select_metadata(name, mode, spec.metadata.image, lost)
    if "mask" in kept:
        kept["mask"] = _as_pages(kept["mask"], spec.layout, layout)[..., 0]
    kept.pop("axes", None)
    axes: tuple[Axis, ...] = spec.metadata.image.get("axes", ()) if name == "tiff" and spec.dtype in OME_DTYPES else ()
    if (len(pages), pages.shape[-1]) != (prod(axis.length for axis in axes[:-2]), 1):
        axes = ()  # of pages that are no longer those of the stack
    if is_stack:
        kept.pop("bands" if not layout.endswith("C") else "", None)
        axes, shape = spec.metadata.axes, converted_shape(spec.shape, spec.layout, layout)
    elif axes:
        layout = "".join(axis.letter for axis in axes)
        shape = (*(axis.length for axis in axes[:-2]), *pages.shape[1:3])
    if (is_stack or axes) and "mask" in kept:
        lost.append("axes (OME-XML has no masks)")
    elif is_stack or axes:
        steps, units = stacks.ome_attributes(axes)
        lost += [f"distances in {unit} (OME-XML has no such unit)" for unit in units]
        exif = pil.Exif()
        exif.load(kept.get("exif", b""))
        steps |= {"Description": exif[DESCRIPTION]} if DESCRIPTION in exif else {}
        kept["description"] = stacks.ome_xml(layout, shape, spec.dtype, steps)
    more: tuple[str, ...] = ()
    with image_errors(path):
        if name == "tiff":
            data = tiff_write.encode(mode, pages, kept)
        else:
            data, more = _encode(path, name, options.quality, mode, pages, kept)
    notes = (f"not kept: {', '.join(dict.fromkeys(lost))}",) if lost else ()
    with atomic_stream(path, options.overwrite) as stream:
        stream.write(data)
    return (*notes, *more)


def _as_pages(array: Array, source: str, target: str) -> Array:
    """The pages of an array, N, H, W, C, in the order of the layout `target`."""
    found = convert_layout(array, source, target)
    found = found if target.endswith("C") else found[..., None]
    return found.reshape(-1, *found.shape[-3:])


KEPT = {
    "png": {"icc_profile", "exif", "dpi", "duration", "loop", "palette"},
    "jpeg": {"icc_profile", "exif", "dpi"},
    "tiff": {
        "icc_profile", "exif", "dpi", "geo", "gdal", "nodata", "compression", "predictor", "bands", "mask", "axes",
        "palette",
    },
    "webp": {"icc_profile", "exif", "duration", "loop"},
    "bmp": {"dpi", "palette"},
    "gif": {"duration", "loop", "palette"},
}  # fmt: skip
GREY = ("L", "LA", "I;16", "I", "F", "LA;16")


def _select_metadata(name: str, mode: str, found: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    """The metadata that the format keeps; an ICC profile must fit the mode. Adds the rest to `lost`."""
    able = KEPT.get(name, set())
    kept = {key: value for key, value in found.items() if key in able}
    lost += found.get("lost", ())
    lost += [LABELS[key] for key in found if key in LABELS.keys() - able]
    if "palette" in kept:
        colours, transparent = kept["palette"]
        if mode != INDICES:
            del kept["palette"]
            lost.append(f"{LABELS['palette']} (these are no indices of 8 bits)")
        elif transparent is not None and not (name == "png" or (name == "gif" and isinstance(transparent, int))):
            kept["palette"] = colours, None
            lost.append("transparency of the palette")
    fitting = {"CMYK": b"CMYK", "LAB": b"Lab "}.get(mode, b"GRAY" if mode in GREY else b"RGB ")
    space = kept.get("icc_profile", b"")[16:20]
    if "icc_profile" in kept and space != fitting and mode != BANDS:  # bands are those of the input
        del kept["icc_profile"]
        lost.append(f"{LABELS['icc_profile']} (it is for {space.decode('latin-1').strip()} pixels, these are {mode})")
    return kept


def _encode(
    path: str, name: str, quality: int | None, mode: str, pages: Array, kept: dict[str, Any]
) -> tuple[bytes, tuple[str, ...]]:
    """The file, and notes on what could not be kept; made in memory, because Pillow does not notice short writes."""
    if "palette" in kept:
        return _encode_indices(name, pages[0, ..., 0], kept), ()
    if name == "gif":
        return _encode_gif(pages, kept)
    if name == "jpeg":
        kept |= {"quality": quality or BEST_QUALITY} | ({} if quality else {"subsampling": 0})
    elif name == "webp":
        kept |= {"lossless": True, "exact": True} if quality is None else {"quality": quality}
    elif name == "png":
        kept["compress_level"] = LEVEL
    # 1.5 million pixels of 8 bits take imagecodecs 209 ms, and Pillow 403 for 7 % fewer bytes (AMD EPYC, Zen 3).
    if mode in BEYOND_PILLOW or (name == "png" and len(pages) == 1 and installed("imagecodecs")):
        return _encode_png(path, pages[0], kept), ()
    pages = pages if pages.shape[-1] > 1 else pages[..., 0]
    # Image.fromarray takes any four channels for RGBA.
    images = [
        pil.frombytes(mode, page.shape[1::-1], page.tobytes()) if mode == "CMYK" else pil.fromarray(page)
        for page in pages
    ]
    return _save(images, name, kept), ()


def _encode_indices(name: str, indices: Array, kept: dict[str, Any]) -> bytes:
    """Indices, H, W, with their palette."""
    colours, transparent = kept.pop("palette")
    image = pil.fromarray(indices)
    more = max(0, int(indices.max()) + 1 - len(colours))  # indices without a colour
    image.putpalette(np.pad(colours >> 8, ((0, more), (0, 0))).astype(np.uint8).tobytes())
    kept |= {"transparency": transparent} if transparent is not None else {}
    return _save([image], name, kept | ({"optimize": False} if name == "gif" else {}))


BEST_QUALITY = 95
# zlib's level for PNG: a third of the time of 6, Pillow's default, for 0.1 % more bytes of a photograph.
LEVEL = 4


def _encode_png(path: str, pixels: Array, options: Mapping[str, Any]) -> bytes:
    """The pixels, H, W, C, of 8 or 16 bits, as a PNG with the other chunks that Pillow's `save` makes of `options`."""
    why = f"{path}: 16 bits a channel, which Pillow cannot write, needs the extra images"
    (imagecodecs,) = need("imagecodecs", why=why, kind=FileError)
    data: bytes = imagecodecs.png_encode(pixels, level=LEVEL)
    beside = _save([pil.new("L", (1, 1))], "png", options)
    # Signature and first chunk of the one, what Pillow writes between its first chunk and its pixels, and the rest.
    return data[:PNG_HEADER] + beside[PNG_HEADER : beside.rindex(b"IDAT") - 4] + data[PNG_HEADER:]


PNG_HEADER = 33  # bytes of the signature and the first chunk


def _save(images: Sequence[Any], name: str, options: Mapping[str, Any]) -> bytes:
    several = {"save_all": True, "append_images": images[1:]} if len(images) > 1 else {}
    stream = io.BytesIO()
    images[0].save(stream, format=name.upper(), **several, **options)
    return stream.getvalue()  # not a view: CPython 3.12 crashes if one outlives its stream in an error


DISPOSE_TO_BACKGROUND = 2  # disposal: otherwise a frame would show through transparent pixels of the next one
OPAQUE = 255
GIF_NOTE = "a GIF keeps 256 colours in each frame, alpha as transparent or opaque, and durations in 1/100 s"


def _encode_gif(pages: Array, kept: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...]]:
    """The pixels, N, H, W, C of bytes, as a GIF, and a note on what it could not hold."""
    keys = ("loop", "duration") if len(pages) > 1 else ()
    options: dict[str, Any] = {key: kept[key] for key in keys if key in kept} | {"optimize": False}
    if pages.shape[-1] == 4:
        options["disposal"] = DISPOSE_TO_BACKGROUND
    frames = [_frame(page) for page in pages]
    exact = pages.shape[-1] == 1 or all(map(_is_exact, frames, pages))
    exact = exact and not any(time % 10 for time in options.get("duration", ()))
    return _save(frames, "gif", options), () if exact else (GIF_NOTE,)


def _is_exact(frame: Any, page: Array) -> bool:
    """Whether a frame shows what its page does; pixels that both hide may differ."""
    made, shown = (np.asarray(image.convert("RGBA")) for image in (frame.copy(), pil.fromarray(page)))
    return bool(((made == shown).all(-1) | ((made[..., 3] | shown[..., 3]) == 0)).all())


def _frame(page: Array) -> Any:
    """One frame with its own colours, of which the last is for transparent pixels."""
    if page.shape[-1] == 1:
        return pil.fromarray(page[..., 0])
    hidden = page[..., 3] <= OPAQUE // 2 if page.shape[-1] == 4 else np.zeros(page.shape[:2], np.bool_)
    shown = np.where(hidden[..., None], np.uint8(0), page[..., :3])
    frame = pil.fromarray(shown).quantize(OPAQUE + 1 - bool(hidden.any()), pil.Quantize.MEDIANCUT)
    if hidden.any():
        places, colours = np.array(frame), frame.getpalette()
        places[hidden] = OPAQUE
        frame = pil.fromarray(places)
        frame.putpalette(colours + [0] * (3 * (OPAQUE + 1) - len(colours)))
        frame.info["transparency"] = OPAQUE
    return frame
