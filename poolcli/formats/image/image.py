"""Images through Pillow, and through the libraries of `deep` where Pillow would lose bits."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError, PoolError, RequestError
from poolcli.core.fields import field
from poolcli.core.layouts import convert_layout
from poolcli.core.lazy import Lazy, need
from poolcli.formats.atomic import byte_stream
from poolcli.formats.image.metadata import ORIENTATION, file_facts, metadata_of, save_options
from poolcli.formats.image.modes import DEEP, MODES, READ_AS, mode_of
from poolcli.formats.native import native_messages
from poolcli.formats.records import Header, Loaded, Metadata, Named, Opened, ReadOptions, Source, WriteOptions
from poolcli.formats.table import FORMATS, format_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

pil: Any = Lazy("PIL.Image")
pil_ops: Any = Lazy("PIL.ImageOps")

MOST_PIXELS = 178_956_970  # the number at which Pillow itself gives up
PACKAGE = "poolcli.formats.image"
TURNED = (5, 6, 7, 8)
TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # orientation to Pillow's Transpose
BESIDE = ("icc_profile", "exif", "dpi", "xmp", "comment", "pnginfo")
DEEP_FORMATS = ("png", "tiff")
GREY_NUMBERS = ("1", "L", "I", "F", "I;16", "I;16B", "I;16L")
MISREAD = ((1, 32), (2, 8), (2, 16), (2, 64), (3, 64))  # TIFF sample format and bits


def list_arrays(path: str) -> list[Header]:
    """The pictures of the file, as one array."""
    with opened(Source(path), ReadOptions()) as file:
        return [file.header]


@contextmanager
def opened(source: Source, options: ReadOptions) -> Iterator[Opened]:
    """The pictures, orientation applied; their pixels are decoded when they are first read."""
    path = source.path
    with ExitStack() as stack:
        with _translated(path):
            image, notes = _open(stack, path, options.max_pixels)
            file = _deep(path, image, options) if image is None or _loses_bits(image) else None
            if file is None:
                assert image is not None  # noqa: S101
                pages = _pages(path, getattr(image, "n_frames", 1), options.pages)
                header = _header(path, image, pages, notes)
                file = Loaded(header, partial(_decoded, path, image, header, pages))
        yield file


def _deep(path: str, image: Image | None, options: ReadOptions) -> Loaded:
    """A picture that is read by another library; its header needs the pixels."""
    from poolcli.formats.image.deep import read_deep

    name = str(image.format).lower() if image else "tiff"
    if name not in DEEP_FORMATS:
        raise FileError(
            f"{path}: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss"
        )
    pixels, found = read_deep(path, name, options.max_pixels or MOST_PIXELS)
    pages = _pages(path, pixels.shape[0], options.pages)
    pixels = pixels[pages.start : pages.stop]
    layout = "NHWC"
    if len(pages) == 1:
        pixels, layout = pixels[0], "HWC"
    if pixels.shape[-1] == 1:
        pixels, layout = pixels[..., 0], layout[:-1]
    mode = mode_of(pixels.shape, pixels.dtype.name, layout, None)
    alpha = bool(mode and MODES[mode].alpha)
    header = Header(name, pixels.shape, pixels.dtype.name, layout, None, (), mode, alpha)
    return Loaded(header, lambda: (pixels, Metadata(image=found)))


def _decoded(path: str, image: Image, header: Header, pages: range) -> tuple[NDArray[Any], Metadata]:
    """The pixels as H, W or H, W, C, before these N for several pages, with what the file says beside them."""
    import numpy as np

    mode, shape = str(header.mode), header.shape[1:] if len(pages) > 1 else header.shape
    planes, durations, found = [], [], dict[str, Any]()
    with _translated(path):
        for i, page in enumerate(pages):
            if len(pages) > 1 or page:
                image.seek(page)
            image.load()
            upright = _upright(image)
            if i == 0:
                found = file_facts(image) | metadata_of(upright)
            durations.append(image.info.get("duration"))
            if upright.mode != mode and not upright.mode.startswith("I;16"):
                upright = upright.convert(mode)
            planes.append(np.asarray(upright, MODES[mode].dtype))
            if planes[-1].shape != shape:
                size = f"{planes[-1].shape[1]} x {planes[-1].shape[0]}"
                raise FileError(
                    f"{path}: page {page + 1} is {size}, others are not; take one with {field('pages', page + 1)}"
                )
    if len(pages) > 1 and any(durations):
        found["duration"] = [duration or 0 for duration in durations]
    return np.stack(planes) if len(pages) > 1 else planes[0], Metadata(image=found)


def _upright(image: Image) -> Image:
    """The picture as its orientation tag wants it; itself where there is nothing to turn."""
    if image.getexif().get(ORIENTATION, 1) == 1:
        return image
    try:
        upright: Image = pil_ops.exif_transpose(image)
    except Exception:  # it also writes the EXIF data anew, which may be damaged
        upright = image.transpose(pil.Transpose(TURNS[image.getexif()[ORIENTATION]]))
    return upright


def write(path: str, arrays: Sequence[Named], options: WriteOptions) -> tuple[str, ...]:
    """Writes the pictures of one array; returns notes on what the format could not keep."""
    import numpy as np

    (named,) = arrays
    name, spec = format_of(path).name, named.spec
    stack = convert_layout(named.array, spec.layout, "NHWC")
    mode = mode_of(stack.shape, spec.dtype, "NHWC", spec.mode)
    pages = np.ascontiguousarray(stack if stack.shape[3] > 1 else stack[..., 0])
    kept, notes = save_options(name, str(mode), spec.metadata.image, options.quality)
    if mode in DEEP:
        from poolcli.formats.image.deep import write_deep

        write_deep(path, pages, name, kept, options.overwrite)
        return notes
    # Image.fromarray takes four channels for RGBA, whatever they are.
    pictures = [
        pil.frombytes(mode, (page.shape[1], page.shape[0]), page.tobytes())
        if mode in ("CMYK", "LAB")
        else pil.fromarray(page)
        for page in pages
    ]
    if len(pictures) > 1:
        kept |= {"save_all": True, "append_images": pictures[1:]}
    encoded = io.BytesIO()  # writing to a file itself, Pillow takes a write that was cut short for a whole one
    with _translated(path):
        try:
            pictures[0].save(encoded, format=name.upper(), **kept)
        except Exception:  # for the pixels, or for what goes with them
            bare = {key: value for key, value in kept.items() if key not in BESIDE}
            if len(bare) == len(kept):
                raise
            encoded = io.BytesIO()
            pictures[0].save(encoded, format=name.upper(), **bare)
            notes = (*notes, "metadata not kept: damaged in the input")
    with byte_stream(path, options.overwrite) as stream:
        stream.write(encoded.getbuffer())
    return notes


def _header(path: str, image: Image, pages: range, notes: list[str]) -> Header:
    mode = _mode(path, image, len(pages) > 1)
    channels, dtype, alpha = MODES[mode]
    width, height = image.size
    found = []
    orientation = image.getexif().get(ORIENTATION, 1)
    if orientation in TURNED:
        width, height = height, width
    if isinstance(orientation, int) and 2 <= orientation <= 8:
        found.append(f"EXIF orientation {orientation} applied")
    if image.mode in ("P", "PA"):
        found.append(f"palette expanded to {mode}")
    elif image.mode != mode and not image.mode.startswith("I;16"):
        found.append(f"mode {image.mode} read as {mode}")
    shape: tuple[int, ...] = (height, width) if channels == 1 else (height, width, channels)
    layout = "HW" if channels == 1 else "HWC"
    if len(pages) > 1:
        shape, layout = (len(pages), *shape), f"N{layout}"
    elif getattr(image, "n_frames", 1) > 1:
        found.append(f"page {pages.start + 1} of {image.n_frames} is read")  # type: ignore[attr-defined]
    name = (image.format or "image").lower()
    name = "jpeg" if name == "mpo" else name
    return Header(name, shape, dtype, layout, None, (*notes, *found), mode, alpha)


def _pages(path: str, count: int, wanted: str | None) -> range:
    """The pages that are asked for, counted from 0."""
    if wanted in (None, "all"):
        return range(count)
    first, _, last = str(wanted).partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        raise RequestError(f"{field('pages')} is {wanted!r}; write all, a page such as 1, or a range such as 2-5")
    pages = range(int(first) - 1, int(last or first))
    if not 0 <= pages.start < pages.stop <= count:
        raise RequestError(f"{path}: has {count} page{'' if count == 1 else 's'}, {field('pages')} asks for {wanted}")
    return pages


def _mode(path: str, image: Image, animated: bool) -> str:
    """The mode in which the picture is read; refuses modes that would lose something without a word."""
    transparent = "transparency" in image.info
    if image.mode == "P" and (transparent or (animated and image.format == "GIF")):
        return "RGBA"  # later pages of a GIF may be transparent where the first is not
    if image.mode in ("L", "RGB") and transparent:
        return f"{image.mode}A"
    if image.mode == "I" and image.format == "PPM":
        return "I;16"
    mode = READ_AS.get(image.mode, image.mode)
    if mode not in MODES:
        raise FileError(f"{path}: has the colour mode {image.mode}; convert it to RGB or greyscale first")
    return mode


def _loses_bits(image: Image) -> bool:
    """Whether Pillow decodes to 8 bits what holds more; it says so only in the decoder's settings, or not at all."""
    tags = getattr(image, "tag_v2", {})
    if image.mode in GREY_NUMBERS:  # Pillow wraps unsigned 32 and signed 8 bits around
        return (tags.get(339, (1,))[0], tags.get(258, (8,))[0]) in MISREAD
    for decoder, _, _, settings in getattr(image, "tile", ()):
        args = settings if isinstance(settings, tuple) else (settings,)
        if decoder == "SGI16" or any(isinstance(arg, str) and ";16" in arg for arg in args):
            return True
        if image.format == "PPM" and any(isinstance(arg, int) and arg > 255 for arg in args[1:]):
            return True
    if image.format in ("JPEG2000", "AVIF"):
        return _bits_in_header(image) > 8
    bits = tags.get(258, (8,))  # TIFF BitsPerSample
    return any(count > 8 for count in (bits if isinstance(bits, tuple) else (bits,)))


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


def _pillow_names() -> tuple[str, ...]:
    """The formats that Pillow may try: those of the table and no others (it would start Ghostscript for EPS)."""
    return tuple(row.name.upper() for row in FORMATS.values() if row.module == PACKAGE)


def _open(stack: ExitStack, path: str, most_pixels: int | None) -> tuple[Image | None, list[str]]:
    """The open image, or None for a TIFF that Pillow does not know, and a list of the library's warnings."""
    stream = stack.enter_context(io.FileIO(path))
    caught = stack.enter_context(warnings.catch_warnings(record=True))
    warnings.simplefilter("always")
    (pillow,) = need("PIL.Image", why="pictures need Pillow")
    pillow.MAX_IMAGE_PIXELS = None  # checked below, before anything is decoded
    try:
        image = stack.enter_context(pil.open(stream, formats=_pillow_names()))
    except pil.UnidentifiedImageError:
        stream.seek(0)
        if stream.read(4) in (b"II*\0", b"MM\0*"):
            return None, []
        raise
    pixels, most = image.size[0] * image.size[1], most_pixels or MOST_PIXELS
    if pixels > most:
        raise FileError(
            f"{path}: has {pixels:,} pixels; at most {most:,} are read (decompression bomb?); "
            f"{field('max_pixels')} sets the limit"
        )
    if image.format == "PNG":  # Pillow decodes pixels whose checksum is wrong without a word
        with pil.open(path, formats=("PNG",)) as probe:
            probe.verify()
    return image, list(dict.fromkeys(str(w.message).splitlines()[0] for w in caught))


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Whatever Pillow raises on a damaged file becomes one line, with the first that its libraries wrote."""
    said: list[str] = []
    try:
        with native_messages() as said:
            yield
    except (PoolError, MemoryError):
        raise
    except pil.UnidentifiedImageError as error:
        raise FileError(f"{path}: is not an image that poolcli reads ({', '.join(_pillow_names())})") from error
    except Exception as error:  # Pillow's decoders raise nine kinds, among them TypeError and SyntaxError
        text = (str(error).splitlines() or [type(error).__name__])[0][:200]
        more = f" ({said[-1][:200]})" if said else ""
        raise FileError(f"{path}: the image cannot be read or written: {text}{more}") from error
