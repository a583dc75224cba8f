"""Images read by Pillow: opened within limits, their pages, modes and metadata."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError, PoolError, error_text, is_for_users
from poolcli.formats.checks import human_bytes
from poolcli.formats.image import boxes, codecs, tiff, tiff_checks
from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.codecs import scale_transparency
from poolcli.formats.image.curves import curve_of
from poolcli.formats.image.metadata import (
    exif_profile,
    imagemagick_profiles,
    metadata_of,
    without_orientation_dependent,
)
from poolcli.formats.image.modes import CONVERTED_MODES, MODES, with_flipped_signs
from poolcli.formats.image.pages import (
    Page,
    PageDecoder,
    check_image_memory,
    check_pixel_count,
    orientation_notes,
    upright,
    upright_size,
)
from poolcli.formats.recognise import MAGIC_LENGTH, format_by_magic
from poolcli.formats.table import FORMATS
from poolcli.system.lazy_imports import Array, Lazy, need
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Exif, Image

pil: Any = Lazy("PIL.Image")
pil_jpeg: Any = Lazy("PIL.JpegImagePlugin")

HEIF = "HEIF"  # Pillow knows it once pillow_heif is registered
# The formats that Pillow may try, those of the table: for EPS, for example, it would start Ghostscript.
PILLOW_NAMES = tuple(row.name.upper() for row in FORMATS.values() if row.is_image)

SEVERAL_VIEWS = ("MPO", HEIF)  # formats whose primary page is the one at which they open
MIXED_SIZES = ("TIFF", *SEVERAL_VIEWS)  # formats whose pages may be of different sizes
JPEG = ("JPEG", "MPO")
CANVAS_BYTES = {"GIF": 8, "WEBP": 8, "PNG": 4}  # bytes a pixel of the canvases of an animation
DECODER_BYTES = {"JPEG2000": 16, "AVIF": 8, "HEIF": 8}  # bytes a pixel that libraries take while they decode
# Pixels a byte, at most, of Pillow's compressed formats: deflate makes 1,032 bytes of one, of eight pixels each. Pixels
# that a bitmap may skip are no more, nor what Huffman codes of a JPEG make of one byte, 512.
MAX_PIXELS_PER_BYTE, COMPRESSED = 2**14, {"PNG", "GIF", "BMP", "PPM", "TGA", "SGI", "DDS", "QOI", "JPEG", "MPO"}
MIN_PAGE_BYTES = 8  # bytes of a page in any file
MAX_WARNINGS = 3  # of Pillow, of which a damaged directory causes one for each tag
LOST_IMAGES_NOTE = "images after the first cannot be found, and are not read"
PIXEL_BYTES, ONE_BYTE_MODES = 4, ("1", "L", "P")  # bytes a pixel in Pillow, and the modes in which it is 1


def open_image(stack: ExitStack, path: str, most_pixels: int, limit: int | None) -> tuple[Image | None, list[str]]:
    """The open image, or None for a TIFF that Pillow does not know, and Pillow's warnings."""
    stream = stack.enter_context(io.FileIO(path))
    caught = stack.enter_context(warnings.catch_warnings(record=True))
    (pillow,) = need("PIL.Image", why="reading images needs Pillow")
    warnings.simplefilter("always")
    warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
    pillow.MAX_IMAGE_PIXELS = (most_pixels + 1) // 2  # it raises above twice that, for each frame
    kind = _kind_of(stream)
    if kind == "gif":
        pixels = codecs.check_gif_frames(path, stream)
        check_pixel_count(path, pixels, most_pixels)
        check_image_memory(path, PIXEL_BYTES * pixels, limit)
    notes: list[str] = []
    try:
        image = _opened_by_pillow(stack, path, stream, kind)
    except Exception as error:
        if kind == "tiff" and isinstance(error, pil.UnidentifiedImageError):
            return None, []
        stream.seek(0)
        if kind == "jpeg" and not isinstance(error, MemoryError | pil.DecompressionBombError):
            image, notes = _first_of_jpeg(path, stream, error), [LOST_IMAGES_NOTE]
        elif str(error) == codecs.BIT_FIELDS:
            image, notes = codecs.open_bit_fields(path, stream, most_pixels, limit)
        else:
            raise
    _check_pixels(path, image, stream, most_pixels)
    _add_info(path, image, stream)
    said = list(dict.fromkeys((*notes, *(str(w.message).splitlines()[0] for w in caught))))
    more = len(said) - MAX_WARNINGS
    return image, said[:MAX_WARNINGS] + ([f"and {more} more warnings of the image"] if more > 0 else [])


def _kind_of(stream: BinaryIO) -> str:
    """The name of the image format whose magic number a file has; empty for none."""
    row = format_by_magic(stream.read(MAGIC_LENGTH))
    return row.name if row and row.is_image else ""


def _opened_by_pillow(stack: ExitStack, path: str, stream: BinaryIO, kind: str) -> Image:
    """The image of a file of this kind; one without a magic number may be of any."""
    if kind == "heif":
        (heif,) = need("pillow_heif", why=f"{path}: reading HEIC images needs pillow_heif", kind=FileError)
        heif.register_heif_opener()
    stream.seek(0)
    formats = [kind.upper()] if kind else [name for name in PILLOW_NAMES if name != HEIF]
    image: Image = stack.enter_context(pil.open(stream, formats=formats))
    if image.format == "MPO":  # whose further images may be cut off
        with pil.open(path, formats=("JPEG",)) as probe:
            for number in range(1, probe.n_frames):
                probe.seek(number)
    return image


def _first_of_jpeg(path: str, stream: BinaryIO, error: Exception) -> Image:
    """The first image of a JPEG whose further ones are damaged; raises the `error` of Pillow if this one is, too."""
    codecs.check_jpeg_precision(path, stream)
    stream.seek(0)
    try:
        image: Image = pil_jpeg.JpegImageFile(stream)
    except MemoryError:
        raise
    except Exception:  # of many kinds
        raise error from None
    return image


def _check_pixels(path: str, image: Image, stream: BinaryIO, most_pixels: int) -> None:
    """Refuses an image of more pixels than are read, or than so many bytes can hold."""
    (width, height), stored = image.size, os.path.getsize(path)
    check_pixel_count(path, width * height, most_pixels)
    if image.format not in COMPRESSED or width * height <= MAX_PIXELS_PER_BYTE * stored:
        return
    frame = codecs.jpeg_frame(stream) if image.format in JPEG else None
    if not (frame and frame.is_arithmetic):
        raise FileError(f"{path}: is damaged: {human_bytes(stored)} cannot hold its {width:,} x {height:,} pixels")


def _add_info(path: str, image: Image, stream: BinaryIO) -> None:
    """Adds what Pillow does not tell of the file to the `info` of an image, by the names that Pillow has for it."""
    if image.format == "PNG":  # Pillow ignores wrong checksums when it decodes pixels
        with pil.open(path, formats=("PNG",)) as probe:
            probe.verify()
        texts = imagemagick_profiles(codecs.pop_texts(path, image))
        parts = codecs.first_chunks(stream, (*codecs.COLOUR_CHUNKS, b"eXIf"))
        if "exif" not in image.info and (data := parts.pop(b"eXIf", None) or exif_profile(texts)):
            image.info["exif"] = data
        image.info["colour"] = {kind: parts[kind] for kind in parts if kind != b"eXIf"}
    elif image.format == "GIF":
        image.info.update(codecs.gif_profiles(path))
    elif image.format == "JPEG2000":
        image.info.update(boxes.jpeg2000_info(stream))
    elif image.format in ("AVIF", HEIF):
        image.info["colour"] = {} if image.info.get("icc_profile") else boxes.colour_chunks(stream)
    elif image.format == "WEBP":
        image.info["others"] = codecs.other_webp_chunks(stream)
    elif image.format == "BMP":
        for key, value in codecs.bmp_info(stream).items():
            image.info.setdefault(key, value)


def format_name(image: Image) -> str:
    """The format's name in the table: an MPO is a JPEG."""
    name = str(image.format).lower()
    return "jpeg" if name == "mpo" else name


def known_pages(path: str, image: Image, limit: int | None) -> list[Page] | None:
    """The pages, upright; None for a TIFF with a page that Pillow does not know, such as a bilevel mask.

    Those of an animation all have the size of its canvas.
    """
    try:
        count, size = getattr(image, "n_frames", 1), os.path.getsize(path)
        if count > 1 and count * MIN_PAGE_BYTES > size:  # more than the file can hold
            raise FileError(f"{path}: is damaged: it says that it has {count:,} pages, in {human_bytes(size)}")
        if image.format not in MIXED_SIZES:
            return [Page(*_size(image))] * count
        pages, first = list[Page](), image.tell()
        for number in range(count):
            if count > 1:
                seek(image, number)
            check_image_memory(path, tiff.tile_bytes(stored_tags(image)), limit)
            further = image.format in SEVERAL_VIEWS and number != first
            is_copy, is_mask = tiff.page_role(stored_tags(image).get(tags.SUBFILE, 0))
            pages.append(Page(*_size(image), image.mode, further or is_copy, is_mask))
    except SyntaxError:
        return None
    return pages


def seek_pages(image: Image, pages: Sequence[int]) -> bool:
    """Seeks the first of the pages, and returns whether Pillow knows all of them."""
    try:
        for page in reversed(pages):
            seek(image, page)
    except SyntaxError:
        return False
    return True


def seek(image: Image, number: int) -> None:
    """Seeks a page. Of an MPO Pillow would keep what another page says, unless this one says it too."""
    if image.format == "MPO" and image.tell() != number:
        for key in image.info.keys() - {"exif"}:
            del image.info[key]
    image.seek(number)


def page_decoder(path: str, image: Image, page: Page, animated: bool) -> PageDecoder:
    """The picture from the current page on, which is `page`."""
    if image.format == "TIFF":
        tiff_checks.check_strips(path, image.tell() + 1, stored_tags(image))
    exif = exif_of(image)
    mode = _mode(path, image, animated)
    if image.format == "PNG":
        codecs.scale_transparency(image)
    animation = image.format == "PNG" and MODES[mode].alpha and getattr(image, "n_frames", 1) > 1
    blended = Animation(path, mode) if animation else None

    def decode(number: int) -> Array:
        if number != image.tell():
            seek(image, number)
            tiff_checks.check_strips(path, number + 1, stored_tags(image))
        if _size(image) != page[:2]:
            raise FileError(f"{path}: page {number + 1} is {Page(*_size(image))}, but its header says {page}")
        if blended is not None:
            return upright(blended.page(number), orientation_of(image))
        if image.format == "TIFF":
            tiff_checks.check_sums(path, number + 1, stored_tags(image))
        return _decoded(path, image, mode)

    def described() -> dict[str, Any]:
        found = metadata_of(full_info(path, image), exif, image.format == "TIFF") | _storage(path, image, exif)
        return without_orientation_dependent(found) if turns else found

    channels, dtype, _ = MODES[mode]
    turns = orientation_notes(orientation_of(image))
    stored = stored_tags(image)
    notes = (
        *turns, *_conversion_notes(image, mode), *tiff.ignored_predictor(stored), *tiff.ignored_nodata(stored)
    )  # fmt: skip
    return PageDecoder(
        format_name(image), mode, channels, dtype, _memory(image, mode) + (BLENDING if blended else 0), decode,
        described, notes,
        lambda: image.info.get("duration"), image.format == "TIFF", tiff.nodata_of(stored, dtype),
        curve_of(image.info),
    )  # fmt: skip


def _decoded(path: str, image: Image, mode: str) -> Array:
    pixels = codecs.decode(image, mode, path)
    if pixels is not None:
        return upright(pixels, orientation_of(image))
    image.load()
    orientation = orientation_of(image)  # read now, because Pillow turns a TIFF upright itself when it loads
    if image.mode != mode and not image.mode.startswith("I;16"):
        image = image.convert(mode)
    pixels = np.asarray(image, MODES[mode].dtype)
    return upright(with_flipped_signs(pixels) if mode == "LAB" else pixels, orientation)


def exif_of(image: Image) -> Exif:
    """The EXIF directory; that of a PNG without decoding its pixels."""
    if not isinstance(image.info.get("xmp", b""), bytes):  # in which Pillow looks for an orientation
        del image.info["xmp"]
    data = image.info.get("exif")
    if data and image.format != "TIFF" and "damaged" not in image.info:
        try:
            pil.Exif().load(data)
        except MemoryError:
            raise
        except Exception:  # of many kinds
            image.info.update(damaged=("exif",), exif=b"")
            if image.format in JPEG and not image.info.get("jfif_unit"):
                image.info.pop("dpi", None)  # 72, which Pillow makes up
    exif: Exif = pil.Image.getexif(image)
    return exif


def orientation_of(image: Image) -> object:
    """The number of the EXIF orientation."""
    return exif_of(image).get(tags.ORIENTATION, 1)


def _size(image: Image) -> tuple[int, int]:
    """Width and height, upright; in a TIFF Pillow exchanges them itself."""
    return image.size if image.format == "TIFF" else upright_size(orientation_of(image), *image.size)


def stored_tags(image: Image) -> Mapping[int, Any]:
    """The tags of a TIFF; empty for other formats."""
    stored: Mapping[int, Any] = getattr(image, "tag_v2", {})
    return stored


def _memory(image: Image, mode: str) -> int:
    """The bytes a pixel that decoding takes: canvases, Pillow's image, a second one if the mode changes, and the copy
    for numpy.
    """
    kind = str(image.format)
    has_canvases = kind in CANVAS_BYTES and (kind == "WEBP" or getattr(image, "n_frames", 1) > 1)
    canvases = CANVAS_BYTES[kind] if has_canvases else 0
    modes = [image.mode] if image.mode == mode else [image.mode, mode]
    images = sum(1 if each in ONE_BYTE_MODES else PIXEL_BYTES for each in modes)
    return canvases + DECODER_BYTES.get(kind, 0) + images + MODES[mode].channels * (2 if mode == "I;16" else 1)


def full_info(path: str, image: Image) -> dict[str, Any]:
    """What Pillow finds in the file, and what it does not tell."""
    undecoded = image.format == "PNG" and bool(image.tile)  # type: ignore[attr-defined]
    source = codecs.metadata_image(path) if undecoded else image
    text = getattr(source, "text", {})  # under any names, which Pillow adds to `info`
    found: dict[str, Any] = {"text": text, "colour": image.info.get("colour")}
    if image.format == "PNG":
        with open(path, "rb") as stream:
            found["chunks"] = codecs.unknown_chunks(stream)
    elif image.format in JPEG:
        found["segments"] = image.applist  # type: ignore[attr-defined]
    return {str(key): value for key, value in (image.info | source.info).items() if key not in text} | found


def _storage(path: str, image: Image, exif: Exif) -> dict[str, Any]:
    """How the input was compressed, so that the output can be compressed alike: the quantization tables and subsampling
    of a JPEG, the compression of a TIFF, whether a WebP is lossy.
    """
    if image.format == "TIFF":
        return tiff.storage_of(exif)
    if image.format == "WEBP":
        return {"losses": codecs.is_lossy_webp(path)}
    tables = getattr(image, "quantization", None)
    if image.format not in JPEG or not tables:
        return {}
    sampling = pil_jpeg.get_sampling(image)
    return {"qtables": tables} | ({"subsampling": sampling} if sampling >= 0 else {})


def _conversion_notes(image: Image, mode: str) -> Iterator[str]:
    if image.mode in ("P", "PA"):
        yield f"palette expanded to {mode}"
    elif image.mode != mode and not image.mode.startswith("I;16"):
        yield f"mode {image.mode} read as {mode}"
    if stored_tags(image).get(tags.EXTRA_SAMPLES) == (tags.ASSOCIATED,):
        yield tiff.ALPHA_NOTE


def _mode(path: str, image: Image, animated: bool) -> str:
    """The mode in which the picture is read; refuses modes whose conversion would lose something."""
    transparent = "transparency" in image.info
    if image.mode == "P" and (transparent or (animated and image.format == "GIF")):
        return "RGBA"  # later pages of a GIF may be transparent where the first is not
    if image.mode in ("1", "L", "RGB") and transparent:
        return "RGBA" if image.mode == "RGB" else "LA"
    if image.mode == "I" and image.format == "PPM":
        return "I;16"
    mode = CONVERTED_MODES.get(image.mode, image.mode)
    if mode not in MODES:
        raise FileError(f"{path}: has the colour mode {image.mode}; convert it to RGB or greyscale first")
    return mode


@contextmanager
def pillow_errors(path: str) -> Iterator[None]:
    """Turns whatever Pillow raises into a FileError of one line, with the last line of its libraries on stderr."""
    said: list[str] = []
    try:
        with captured_stderr() as said:
            yield
    except (PoolError, MemoryError):
        raise
    except pil.DecompressionBombError as error:
        pixels, most = (int(number) for number in re.findall(r"\d+", str(error))[:2])
        check_pixel_count(path, pixels, most)
    except pil.UnidentifiedImageError as error:
        with open(path, "rb") as stream:
            kind = _kind_of(stream).upper()
        if kind:
            raise FileError(f"{path}: is a damaged {kind} file, or of a kind that Pillow does not read") from error
        raise FileError(f"{path}: is not an image that poolcli reads ({', '.join(PILLOW_NAMES)})") from error
    except Exception as error:  # Pillow's decoders raise nine types, TypeError and SyntaxError among them
        more = f" ({said[-1].removeprefix('tempfile.tif: ')[:200]})" if said else ""
        why = error_text(error)
        if not is_for_users(error) or OF_FUNCTIONS.fullmatch(why):
            why = "its data is damaged"
        raise FileError(f"{path}: the image cannot be read or written: {why}{more}") from error


# What functions in C say, such as seek of a place that no file can have.
OF_FUNCTIONS = re.compile(r"\[Errno 22\] Invalid argument|\w+ returned NULL")
MAX_STDERR = 10_000  # of standard error that are read


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """A list that gets the lines that native code writes to file descriptor 2 meanwhile."""
    lines: list[str] = []
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield lines
        return
    with tempfile.TemporaryFile(buffering=0) as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            lines += caught.read(MAX_STDERR).decode("utf-8", "replace").splitlines()


# Pillow blends the indices of palettes, and the alpha of what lies below as if it were a colour.
TO_BACKGROUND, TO_PREVIOUS = 1, 2  # what becomes of a frame before the next one
REPLACE, OVER = 0, 1  # whether a frame replaces what is below, or is blended over it
BLENDING = 64  # bytes a pixel that blending takes


class Animation:
    """The frames of an animated PNG, each blended over the one before on a canvas of `mode`, which has alpha last."""

    def __init__(self, path: str, mode: str) -> None:
        self._path, self._mode = path, mode
        self._next = 0

    def _rewind(self) -> None:
        self._image = pil.open(io.BytesIO(Path(self._path).read_bytes()), formats=("PNG",))
        scale_transparency(self._image)
        width, height = self._image.size
        self._canvas, self._next = np.zeros((height, width, len(self._mode)), np.uint8), 0

    def page(self, number: int) -> Array:
        """A frame as it is shown; quickest in their order."""
        if self._next == 0 or number < self._next:
            self._rewind()
        while self._next < number:
            self._compose()
        return self._compose()

    def _compose(self) -> Array:
        """The next frame as it is shown; leaves on the canvas what is below the one after it."""
        image = self._image
        image.seek(self._next)
        image.blend_op = REPLACE  # else Pillow would blend it
        # The image before an animation that does not begin with it has none of these.
        left, top, right, bottom = box = image.info.get("bbox", (0, 0, *image.size))
        disposal, blend = image.info.get("disposal", TO_BACKGROUND), image.info.get("blend", REPLACE)
        region = (slice(top, bottom), slice(left, right))
        pixels = np.asarray(image.crop(box).convert(self._mode))
        shown = self._canvas.copy()
        shown[region] = _over(pixels, shown[region]) if blend == OVER else pixels
        if disposal != TO_PREVIOUS:
            self._canvas = shown.copy()
        if disposal == TO_BACKGROUND:
            self._canvas[region] = 0
        self._next += 1
        return shown


def _over(above: Array, below: Array) -> Array:
    """One image over another, both with alpha last and not multiplied by it, rounded to the nearest."""
    upper = above[..., -1:].astype(np.uint32) * 255
    lower = below[..., -1:] * (255 - above[..., -1:].astype(np.uint32))
    alpha = upper + lower  # in units of 1 / 255**2
    out = np.empty_like(above)
    most = np.maximum(alpha, 1)
    out[..., :-1] = (above[..., :-1] * upper + below[..., :-1] * lower + most // 2) // most
    out[..., -1:] = (alpha + 127) // 255
    return out
