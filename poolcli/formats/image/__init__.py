"""Image files: read and written by Pillow, and by other libraries where Pillow would lose bits."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, PoolError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.checks import byte_count, check_expansion
from poolcli.formats.image import gif, pillow, pixels, png, tiff, tiff_write
from poolcli.formats.image.exif import with_directory
from poolcli.formats.image.metadata import WORDS
from poolcli.formats.image.modes import BANDS, DEEP, MODES, mode_of
from poolcli.formats.image.pages import Picture, choose_pages, refuse_many_pixels, refuse_memory
from poolcli.formats.image.tiff import pillow_reads
from poolcli.formats.image.tiff_tags import as_jpeg_marker
from poolcli.formats.image.tiff_write import choose_compression
from poolcli.formats.records import (
    ArrayReader,
    Header,
    InMemoryReader,
    Metadata,
    NamedArray,
    ReadOptions,
    Source,
    WriteOptions,
)
from poolcli.formats.table import format_of
from poolcli.layouts import convert_layout
from poolcli.system.lazy_imports import Lazy, loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["open_array", "write"]


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


# Of Pillow's names of how pixels are stored, those of 16 bits a pixel: 5 or 6 a channel.
PACKED = ("RGB;16", "BGR;16")


if TYPE_CHECKING:
    from PIL.Image import Image


def loses_bits(image: Image) -> bool:
    """Whether Pillow decodes to 8 bits what holds more; it says so only in the decoder's settings, or not at all."""
    if image.format == "TIFF":
        stored = image.tag_v2  # type: ignore[attr-defined]
        return not pillow_reads(stored, stored.prefix == b"MM")
    if image.format == "HEIF":
        return int(image.info.get("bit_depth", 8)) > 8
    if image.mode.startswith("I;16"):
        return "transparency" in image.info
    if image.mode == "I":
        return False
    for decoder, _, _, settings in getattr(image, "tile", ()):
        args = settings if isinstance(settings, tuple) else (settings,)
        if decoder == "SGI16" or any(isinstance(arg, str) and ";16" in arg and arg not in PACKED for arg in args):
            return True
        if image.format == "PPM" and any(isinstance(arg, int) and arg > 255 for arg in args[1:]):
            return True
    return image.format in ("JPEG2000", "AVIF") and _bits_in_header(image) > 8


def _bits_in_header(image: Image) -> int:
    """Bits of a channel, from the SIZ marker of JPEG 2000 or the av1C box of AVIF; 8 where there is none."""
    file: Any = image
    with open(file.fp.name, "rb") as stream:
        start = stream.read(4096)
    place = start.find(b"\xff\x4f\xff\x51")
    if place >= 0 and len(start) > place + 42:
        return (start[place + 42] & 0x7F) + 1
    place = start.find(b"av1C")
    if place >= 0 and len(start) > place + 6 and start[place + 6] & 0x40:
        return 10
    return 8


LATER = ("what pages after the first say beside their pixels", "it differs from what the first says")
MOST_PIXELS = 178_956_970  # the number at which Pillow itself gives up


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The pictures, orientation applied; their pixels are decoded when they are first read."""
    path = source.path
    with ExitStack() as stack:
        with pillow.translated(path):
            header, picture, pages = _looked_at(stack, path, options)

        def load() -> tuple[NDArray[Any], Metadata]:
            with pillow.translated(path):
                return _loaded(path, header, picture, pages, options)

        yield InMemoryReader(header, load)


def _looked_at(stack: ExitStack, path: str, options: ReadOptions) -> tuple[Header, Picture, range]:
    most = options.max_pixels or MOST_PIXELS
    image, said = pillow.open_image(stack, path, most, options.limit)
    known = pillow.known_pages(path, image, options.limit) if image is not None else None
    pages = tiff.open_file(stack, path, options.limit)[2] if known is None else known
    taken, notes = choose_pages(path, pages, options.pages)
    if image is not None and len(pages) > 1 and not pillow.can_turn_to(image, taken if known is None else taken[:1]):
        image = None
    if image is None or (image.format == "TIFF" and (loses_bits(image) or tiff.is_slow(image, len(taken)))):
        file, stream, pages = tiff.open_file(stack, path, options.limit)
        taken, notes = choose_pages(path, pages, options.pages)
        picture = tiff.picture_of(path, file, stream, taken.start)
    elif not loses_bits(image):
        picture = pillow.picture_of(path, image, pages[taken.start], len(taken) > 1)
    elif image.format == "PNG":
        if taken.start:
            raise FileError(f"{path}: has 16 bits a channel, and of such a PNG only page 1 can be read")
        picture, taken = pillow.deep_png(path, image), range(1)
    else:
        raise FileError(
            f"{path}: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss"
        )
    for page in taken:
        refuse_many_pixels(path, pages[page].pixels, most)
    shape: tuple[int, ...] = (pages[taken.start].height, pages[taken.start].width)
    layout = "HW"
    if picture.channels > 1:
        shape, layout = (*shape, picture.channels), "HWC"
    if len(taken) > 1:
        shape, layout = (len(taken), *shape), f"N{layout}"
    alpha = picture.mode in MODES and MODES[picture.mode].alpha
    notes = (*said, *picture.notes, *notes)
    decoding = pages[taken.start].pixels * picture.held + os.path.getsize(path)
    header = Header(
        picture.format, shape, picture.dtype, layout, None, notes, picture.mode, alpha, picture.missing, decoding
    )
    return header, picture, taken


def _loaded(
    path: str, header: Header, picture: Picture, pages: range, options: ReadOptions
) -> tuple[NDArray[Any], Metadata]:
    """The pixels as H, W or H, W, C, before these N for several pages, with what the file says beside them."""
    needed = byte_count(header.shape, DTYPES[header.dtype].itemsize)
    refuse_memory(path, needed + header.beside, options.limit)
    check_expansion(path, os.path.getsize(path), needed, options.allowed)
    first = _decoded(path, picture, pages.start, header.shape[-picture.axes :])
    with loading():  # by now another thread has done so
        import numpy as np

    first = np.ascontiguousarray(first)
    found = picture.described()
    if len(pages) == 1:
        return first, Metadata(image=found)
    out, times = np.empty(header.shape, header.dtype), [picture.duration()]
    out[0] = first
    for number, page in enumerate(pages[1:], 1):
        out[number] = _decoded(path, picture, page, first.shape)
        times.append(picture.duration())
        if LATER not in found.get("lost", ()) and _says_more(picture, found):
            found["lost"] = (*found.get("lost", ()), LATER)
    if any(times):
        found["duration"] = [time or 0 for time in times]
    return out, Metadata(image=found)


def _says_more(picture: Picture, found: Mapping[str, Any]) -> bool:
    """Whether the page that was decoded last has something else beside its pixels than what was found."""
    own = picture.described() if picture.tells_of_pages else {}
    return any(own[key] != found.get(key) for key in WORDS if key in own)


def _decoded(path: str, picture: Picture, page: int, shape: tuple[int, ...]) -> NDArray[Any]:
    found = picture.decode(page)
    if found.shape != shape:
        raise FileError(f"{path}: page {page + 1} has pixels of the shape {found.shape}, its header says {shape}")
    return found


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes the pictures of one array; returns notes on what the format could not keep."""
    import numpy as np

    (named,) = arrays
    name, spec = format_of(path).name, named.spec
    stack = np.ascontiguousarray(convert_layout(named.array, spec.layout, "NHWC"))
    mode = mode_of(stack.shape, spec.dtype, "NHWC", spec.mode)
    kept, notes = chosen(name, mode, spec.metadata.image)
    encode = partial(_encoded, path, name, mode, stack, options.quality)
    with pillow.translated(path):
        try:
            data, more = encode(kept)
        except (PoolError, MemoryError):
            raise
        except Exception:  # for the pixels, or for what goes with them
            bare = {key: value for key, value in kept.items() if key not in BESIDE}
            if len(bare) == len(kept):
                raise
            data, more = encode(bare)
            more = (*more, "metadata not kept: damaged in the input")
    with byte_stream(path, options.overwrite) as stream:
        stream.write(data)
    return (*notes, *more)


def _encoded(
    path: str, name: str, mode: str, stack: NDArray[Any], quality: int | None, kept: Mapping[str, Any]
) -> tuple[bytes, tuple[str, ...]]:
    """The file, and notes on what could not be kept; made in memory, because Pillow takes a write that was cut short
    for a whole one.
    """
    if name == "tiff":
        compression, notes = choose_compression(kept)
        if mode in DEEP or compression.is_of_tifffile or (compression.tifffile and tiff_write.is_there()):
            data: bytes = tiff_write.encode(path, stack, mode, kept, compression)
        else:
            data = pixels.encode(name, mode, stack, compression.pillow_options)
        return with_directory(data, kept), notes
    if name == "gif":
        return gif.encode(stack, kept)
    settings = pillow_options(name, mode, kept, quality)
    if name == "png" and (mode in DEEP or png.can_encode(stack, mode)):
        return png.encode(path, stack[0], settings), ()
    return pixels.encode(name, mode, stack, settings), ()
