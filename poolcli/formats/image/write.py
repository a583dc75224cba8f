"""Image files written by tifffile and Pillow, and PNG by imagecodecs: of 16 bits a channel, or if it is installed."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.image import metadata as tags, modes
from poolcli.formats.image.metadata import LABELS, pil, tifffile
from poolcli.formats.records import Axis, NamedArray, WriteOptions
from poolcli.formats.table import output_format
from poolcli.layouts import convert_layout, converted_shape
from poolcli.system.lazy_imports import Array, Lazy, installed, need, numpy as np

pil_tiff: Any = Lazy("PIL.TiffImagePlugin")


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the image or images of the only array; returns notes on what the format could not keep."""
    (named,) = arrays
    name, spec, lost = output_format(path).name, named.spec, list[str]()
    is_stack = "D" in spec.layout
    layout = modes.stored_layout(name, spec.shape, spec.dtype, spec.layout, spec.mode) if is_stack else "NHWC"
    pages = np.ascontiguousarray(_as_pages(named.array, spec.layout, layout))
    mode = modes.mode_of(pages.shape, spec.dtype, "NHWC", spec.mode)
    if name == "webp" and mode in ("L", "LA"):
        mode, pages = f"RGB{mode[1:]}", pages[..., [0, 0, 0, 1][: 2 + pages.shape[-1]]]
        lost.append("grey (written as RGB)")
    kept = _select_metadata(name, mode, spec.metadata.image, lost)
    if "mask" in kept:
        kept["mask"] = _as_pages(kept["mask"], spec.layout, layout)[..., 0]
    axes: tuple[Axis, ...] = kept.pop("axes", ())
    if spec.dtype not in modes.OME_DTYPES or (len(pages), pages.shape[-1]) != (prod(a.length for a in axes[:-2]), 1):
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
        steps, units = tags.ome_attributes(axes)
        lost += [f"distances in {unit} (OME-XML has no such unit)" for unit in units]
        exif = pil.Exif()
        exif.load(kept.get("exif", b""))
        steps |= {"Description": exif[tags.DESCRIPTION]} if tags.DESCRIPTION in exif else {}
        kept["description"] = tags.ome_xml(layout, shape, spec.dtype, steps)
    more: tuple[str, ...] = ()
    with modes.image_errors(path, "written"):
        if name == "tiff":
            data = _encode_tiff(mode, pages, kept)
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
        "palette", "tile", "aspect",
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
        if mode != modes.INDICES:
            del kept["palette"]
            lost.append(f"{LABELS['palette']} (the output holds no indices of it)")
        elif transparent is not None and not (name == "png" or (name == "gif" and isinstance(transparent, int))):
            kept["palette"] = colours, None
            lost.append("transparency of the palette")
    fitting = {"CMYK": b"CMYK", "LAB": b"Lab "}.get(mode, b"GRAY" if mode in GREY else b"RGB ")
    space = kept.get("icc_profile", b"")[16:20]
    if "icc_profile" in kept and space != fitting and mode != modes.BANDS:  # bands are those of the input
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
    if mode in modes.BEYOND_PILLOW or (name == "png" and len(pages) == 1 and installed("imagecodecs")):
        return _encode_png(path, pages[0], kept), ()
    pages = pages if pages.shape[-1] > 1 else pages[..., 0]
    # Image.fromarray takes any four channels for RGBA.
    images = [
        pil.frombytes(mode, page.shape[1::-1], page.tobytes()) if mode == "CMYK" else pil.fromarray(page)
        for page in pages
    ]
    return _save(images, name, kept), ()


def _encode_indices(name: str, indices: Array, kept: dict[str, Any]) -> bytes:
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
    """The pixels, N, H, W, C of bytes, as a GIF, and a note on what it may not hold."""
    keys = ("loop", "duration") if len(pages) > 1 else ()
    options: dict[str, Any] = {key: kept[key] for key in keys if key in kept} | {"optimize": False}
    if pages.shape[-1] == 4:
        options["disposal"] = DISPOSE_TO_BACKGROUND
    frames = [_frame(page) for page in pages]
    exact = pages.shape[-1] == 1 and not any(time % 10 for time in options.get("duration", ()))
    return _save(frames, "gif", options), () if exact else (GIF_NOTE,)


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


ASCII, SHORT, LONG, DOUBLE = 2, 3, 4, 12  # types of tags
HORIZONTAL = 2  # the predictor that stores differences of integers
MAX_PREDICTOR_BYTES = 4  # bytes of the largest integers of which tifffile stores differences
# Differences of 16 bits are mostly noise, which no search makes shorter: photographs, microscopy and elevations take at
# the lowest level 0.99 to 1.04 of the bytes that they take at the usual one (labels 1.26), and half the time.
FAST_LEVEL = {"level": 1}
MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, above which a BigTIFF is written
PHOTOMETRIC_OF_MODE = {"CMYK": tags.CMYK, "LAB": tags.LAB}  # modes whose colours their number does not tell
PALETTE_SIZE = 256  # colours of 8 bits
# tifffile writes no EXIF and GPS directories: tags of these numbers, just below, keep their places.
PLACES = {tags.EXIF: tags.EXIF - 1, tags.GPS: tags.GPS - 1}


def _encode_tiff(mode: str, pages: Array, kept: Mapping[str, Any]) -> bytes:
    """A little-endian TIFF of pages, N, H, W, C, and what is kept; deflated if the input is compressed."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream, byteorder="<", bigtiff=pages.nbytes > MAX_CLASSIC_BYTES) as file:
        directories = _write_pages(file, mode, pages, kept)
    if directories:
        _add_directories(stream, directories)
    return stream.getvalue()


def _write_pages(file: Any, mode: str, pages: Array, kept: Mapping[str, Any]) -> Mapping[int, Any]:
    """Writes pages with their masks; returns the EXIF and GPS directories of the first."""
    channels = pages.shape[-1]
    usual = PHOTOMETRIC_OF_MODE.get(mode, tags.RGB if channels in (3, 4) else tags.GREY)
    photometric, extra = kept.get("bands", (usual, ()))
    colours = tags.COLOUR_CHANNELS.get(photometric, 1)
    if colours + len(extra) != channels:
        kind = tags.UNASSOCIATED if mode in modes.MODES and modes.MODES[mode].alpha else tags.UNSPECIFIED
        extra = (kind,) * (channels - colours)
    if photometric == tags.LAB and pages.dtype.kind == "u":
        pages = modes.with_flipped_signs(pages)
    is_packed = kept.get("compression", tags.UNCOMPRESSED) != tags.UNCOMPRESSED
    has_differences = pages.dtype.kind in "iu" and pages.dtype.itemsize <= MAX_PREDICTOR_BYTES
    predictor = is_packed and has_differences and kept.get("predictor") == HORIZONTAL
    tile = kept.get("tile", (1, 1))
    tile = None if any(n % 16 or n > m for n, m in zip(tile, pages.shape[1:3], strict=True)) else tile
    options = {
        "photometric": photometric,
        "planarconfig": "contig" if channels > 1 else None,
        "extrasamples": extra or None,
        "compression": "zlib" if is_packed else None,
        "compressionargs": FAST_LEVEL if predictor and pages.dtype.itemsize == 2 else None,
        "predictor": predictor,
        "tile": tile,
        "metadata": None,
        "software": False,
    }
    if "palette" in kept:
        colours, _ = kept["palette"]
        table = np.pad(colours.T, ((0, 0), (0, PALETTE_SIZE - len(colours))))
        options |= {"photometric": tags.PALETTE, "colormap": table}
    exif = pil.Exif()
    exif.load(kept.get("exif", b""))
    below = {tag: dict(exif.get_ifd(tag)) for tag in PLACES if tag in exif}
    first, others = _tag_options(kept, exif), _tag_options(kept, pil.Exif())
    first["extratags"] += ((PLACES[tag], LONG, 1, 0, True) for tag in below)
    first |= {"description": kept["description"]} if "description" in kept else {}
    for number, page in enumerate(pages):
        file.write(page if channels > 1 else page[..., 0], **options, **(others if number else first))
        if "mask" in kept:
            mask = {"photometric": "mask", "subfiletype": tags.MASK, "compression": "zlib"}
            file.write(~kept["mask"][number], metadata=None, software=False, **mask)
    return below


def _tag_options(kept: Mapping[str, Any], exif: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, unit in (("dpi", "INCH"), ("aspect", "NONE")):
        options |= {"resolution": kept[name], "resolutionunit": unit} if name in kept else {}
    if "icc_profile" in kept:
        options["iccprofile"] = kept["icc_profile"]
    texts = {tag: str(value).encode("latin-1", "replace") for tag, value in exif.items() if isinstance(value, str)}
    if tags.DESCRIPTION in texts:
        options["description"] = texts.pop(tags.DESCRIPTION)
    if "nodata" in kept:
        texts[tags.GDAL_NODATA] = kept["nodata"].encode()
    if "gdal" in kept:
        texts[tags.GDAL_METADATA] = tags.encode_gdal(kept["gdal"])
    geo = kept.get("geo", {})
    if tags.GEO_TEXT in geo:
        texts[tags.GEO_TEXT] = str(geo[tags.GEO_TEXT]).encode()
    numbers = {tag: (SHORT if tag == tags.GEO_KEYS else DOUBLE, geo[tag]) for tag in geo if tag != tags.GEO_TEXT}
    numbers |= {
        tag: (SHORT, (value,))
        for tag, value in exif.items()
        if isinstance(value, int) and tag not in (tags.EXIF, tags.GPS)
    }
    extra: list[tuple[Any, ...]] = [(tag, ASCII, len(text) + 1, text, True) for tag, text in texts.items()]
    extra += [(tag, kind, len(values), values, True) for tag, (kind, values) in numbers.items()]
    return options | {"extratags": extra}


def _add_directories(stream: io.BytesIO, directories: Mapping[int, Any]) -> None:
    """Adds the EXIF and GPS directories of the first page at the end of the file, and puts them into their places."""
    stream.seek(0)
    with tifffile.TiffFile(stream, mode="r+") as file:
        head = b"II+\0" + bytes(12) if file.is_bigtiff else b"II*\0" + bytes(4)
        for tag, values in directories.items():
            directory = pil_tiff.ImageFileDirectory_v2(head, group=tag)
            for key, value in tags.with_raw_texts(values).items():
                directory[key] = value
            place = file.pages.first.tags[PLACES[tag]]
            at = stream.seek(0, io.SEEK_END)
            stream.write(directory.tobytes(at))
            place.overwrite(at)
            stream.seek(place.offset)
            stream.write(struct.pack("<H", tag))
