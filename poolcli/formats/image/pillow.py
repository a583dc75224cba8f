"""Images read by Pillow, and those of more than 8 bits a channel, of which Pillow keeps 8, by other libraries."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, BinaryIO

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes
from poolcli.formats.image import modes
from poolcli.formats.image.metadata import ORIENTATION, RESOLUTION, RESOLUTION_UNIT, pil, resolution_of, select_exif
from poolcli.formats.image.modes import Page, PageDecoder
from poolcli.formats.image.tiff import DIVISION_BYTES, rounded_quotient
from poolcli.formats.records import ReadOptions
from poolcli.formats.table import FORMATS
from poolcli.system.lazy_imports import Array, need, numpy as np

# The formats that Pillow may try, those of the table: for EPS, for example, it would start Ghostscript.
IMAGE_NAMES = tuple(row.name.upper() for row in FORMATS.values() if row.is_image)
HEIF = "HEIF"  # Pillow knows it once pillow_heif is registered
HEADER_FIRST = ("png", "jpeg", "bmp", "ppm")  # formats of which Pillow reads the header alone to open a file
SEVERAL_VIEWS = ("MPO", HEIF)  # formats that open at their primary page, of which the others are views
CANVAS_BYTES = {"GIF": 8, "WEBP": 8, "PNG": 4}  # bytes a pixel of the canvases of an animation
DECODER_BYTES = {"JPEG2000": 16, "AVIF": 8, HEIF: 8}  # bytes a pixel that libraries take while they decode
PIXEL_BYTES, ONE_BYTE_MODES = 4, ("1", "L", "P")  # bytes a pixel in Pillow, and the modes in which it is 1
MIN_PAGE_BYTES = 8  # bytes of a page in any file
SRGB_GAMMA, GAMMA_TOLERANCE = 1 / 2.2, 0.001  # with a gAMA chunk near this value PNG files mean sRGB
# What Pillow tells of a file and is not kept, by its names.
NOT_KEPT = {
    "xmp": "XMP data", "comment": "comment", "photoshop": "Photoshop's resources", "gamma": "gamma",
    "chromaticity": "chromaticities", "aux": "auxiliary images", "depth_images": "depth images",
}  # fmt: skip


class PillowImage:
    """An open image and its pages, those of an animation all of the size of its canvas."""

    def __init__(self, stack: ExitStack, path: str, stream: BinaryIO, limit: int | None, kind: str) -> None:
        self.path, self._stream = path, stream
        if kind == "heif":
            (heif,) = need("pillow_heif", why=f"{path}: reading HEIC images needs pillow_heif", kind=FileError)
            heif.register_heif_opener()
        exif = _check_png(path, stream) if kind == "png" else None
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stream.seek(0)
        # A file without a magic number may be of any format.
        formats = [kind.upper()] if kind else [name for name in IMAGE_NAMES if name not in (HEIF, "TIFF")]
        try:
            with _pixel_limit(None if kind in HEADER_FIRST else limit):  # the plan's limit counts the output, too
                self._image = stack.enter_context(pil.open(stream, formats=formats))
        except pil.UnidentifiedImageError as error:
            which = f"is a damaged {kind.upper()} file, or of a kind that Pillow does not read"
            known = f"is not an image that poolcli reads ({', '.join(IMAGE_NAMES)})"
            raise FileError(f"{path}: {which if kind else known}") from error
        stack.enter_context(_pixel_limit(limit))
        if exif:
            self._image.info.setdefault("exif", exif)
        self._largest, self._maximum = _largest_numbers(self._image)
        self._damaged = False
        count, size = getattr(self._image, "n_frames", 1), os.path.getsize(path)
        if count > 1 and count * MIN_PAGE_BYTES > size:  # more than the file can hold
            raise FileError(f"{path}: is damaged: it says that it has {count:,} pages, in {human_bytes(size)}")
        page = Page(*modes.upright_size(self._orientation(), *self._image.size), self._image.mode)
        # The other views of a photograph are not read, nor other frames of 16 bits.
        self._is_alone = bool(self._largest) or self._image.format in SEVERAL_VIEWS
        self.pages = [page] * (1 if self._is_alone else count)
        place = self._image.tell() + 1
        self.notes = (f"page {place} of {count} is read",) if len(self.pages) < count else ()

    def decoder(self, first: int, several: bool, options: ReadOptions) -> PageDecoder:
        """How the pages from `first` on are decoded, the first one of `several`."""
        image = self._image
        if first and first != image.tell():
            image.seek(first)
        most = self._largest
        mode = self._deep_mode() if most else self._mode(several, options.indexed)
        channels, dtype, _ = modes.MODES[mode]
        full = DTYPES[dtype].limits[1]
        scale = self._maximum if options.as_stored else 0  # to which Pillow's full scale is brought back

        def decode(number: int) -> Array:
            if most:
                pixels = self._all_bits(channels)
                is_right = most == DEEP or scale
                return modes.upright(pixels if is_right else rounded_quotient(pixels, DEEP, most), self._orientation())
            if number != image.tell() and not self._is_alone:
                image.seek(number)
            image.load()
            found = image if image.mode == mode or image.mode.startswith("I;16") else image.convert(mode)
            pixels = np.asarray(found, dtype)
            # Exact: Pillow's rounding moves a number by less than half of the step between two.
            return modes.upright(rounded_quotient(pixels, scale, full) if scale else pixels, self._orientation())

        notes = modes.orientation_notes(self._orientation())
        if scale:
            notes += (f"not kept: the numbers stand for stored / {scale}",)
        elif scaled := self._maximum or (0 if most == DEEP else most):
            notes += (f"numbers up to {scaled} scaled to {DTYPES[dtype].bits} bits: stored * {full} / {scaled}",)
        if (bits := image.info.get("bit_depth", 8)) > 8 and image.format == HEIF:
            notes += (f"{bits} bits a channel, read as 8",)
        if mode == modes.INDICES:
            notes += (modes.VOTE_NOTE,)
        elif image.mode in ("P", "PA"):
            notes += (modes.EXPANDED_NOTE.format(mode),)
        elif not most and image.mode != mode and not image.mode.startswith("I"):  # I of a PGM has 16 bits
            notes += (f"mode {image.mode} read as {mode}",)
        name = str(image.format).lower()
        return PageDecoder(
            "jpeg" if name == "mpo" else name, mode, channels, dtype, self._memory(mode), decode,
            lambda: self._read_metadata(mode), notes, lambda: None if most else image.info.get("duration"),
        )  # fmt: skip

    def _mode(self, several: bool, indexed: bool) -> str:
        """The mode in which the picture is read; refuses modes whose conversion would lose something."""
        image = self._image
        transparent = "transparency" in image.info
        if image.mode == modes.INDICES and indexed and not several:
            return modes.INDICES
        if image.mode == "P" and (transparent or (several and image.format == "GIF")):
            return "RGBA"  # later pages of a GIF may be transparent where the first is not
        if image.mode in ("1", "L", "RGB") and transparent:
            return "RGBA" if image.mode == "RGB" else "LA"
        if image.mode == "I" and image.format == "PPM":
            return "I;16"
        mode = str(modes.CONVERTED_MODES.get(image.mode, image.mode))
        if mode not in modes.MODES:
            raise FileError(f"{self.path}: has the colour mode {image.mode}; convert it to RGB or greyscale first")
        return mode

    def _deep_mode(self) -> str:
        """The mode of 16 bits a channel in which an image of more than 8 is read."""
        codec, *_, raw = self._image.tile[0]
        if codec == "ppm_plain":  # numbers as text
            why = "has more than 8 bits a channel, of which Pillow keeps 8"
            raise FileError(f"{self.path}: {why}; convert it to TIFF or PNG without loss")
        mode = PNG_16_BIT.get(raw, "RGB;16")
        return "RGBA;16" if mode == "RGB;16" and "transparency" in self._image.info else mode

    def _memory(self, mode: str) -> int:
        """The bytes a pixel that decoding takes: canvases, Pillow's image, one of another mode, and numpy's copy."""
        kind, channels = str(self._image.format), modes.MODES[mode].channels
        if self._largest:
            return (4 + (0 if self._largest == DEEP else DIVISION_BYTES)) * channels
        has_canvases = kind in CANVAS_BYTES and (kind == "WEBP" or len(self.pages) > 1)
        canvases = CANVAS_BYTES[kind] if has_canvases else 0
        held = [self._image.mode] if self._image.mode == mode else [self._image.mode, mode]
        images = sum(1 if each in ONE_BYTE_MODES else PIXEL_BYTES for each in held)
        division = DIVISION_BYTES if self._maximum else 0
        return canvases + DECODER_BYTES.get(kind, 0) + images + channels * (division + (2 if mode == "I;16" else 1))

    def _exif(self) -> Any:
        """The EXIF directory, of a PNG without decoding its pixels; empty for a damaged one."""
        try:
            pil.Exif().load(self._image.info.get("exif") or b"")  # raises, where Pillow has tried before and given up
            exif = pil.Image.getexif(self._image)
        except MemoryError:
            raise
        except Exception:  # of many kinds
            self._damaged = True
            exif = pil.Exif()
        return exif

    def _orientation(self) -> object:
        return self._exif().get(ORIENTATION, 1)

    def _read_metadata(self, mode: str) -> dict[str, Any]:
        """What is kept of a picture read in `mode`, by the names of Pillow's `save`; `lost` names the rest."""
        image, info = self._image, self._image.info
        exif = self._exif()
        found, profile = select_exif(exif), info.get("icc_profile")
        lost = ["EXIF data (damaged)"] if self._damaged else [*found.pop("lost", ())]
        lost += (label for key, label in NOT_KEPT.items() if info.get(key))
        if abs(info.get("gamma", SRGB_GAMMA) - SRGB_GAMMA) <= GAMMA_TOLERANCE:  # and so are the chromaticities
            lost = [label for label in lost if label not in ("gamma", "chromaticities")]
        if image.format == "PNG" and any(isinstance(value, str) for value in info.values()):
            lost.append("texts")
        found |= {"icc_profile": profile} if isinstance(profile, bytes) and profile else {}
        found |= (
            resolution_of(info.get("dpi"), 2)
            or resolution_of([exif.get(tag) for tag in RESOLUTION], exif.get(RESOLUTION_UNIT, 2))
            or resolution_of(info.get("aspect") or info.get("jfif_density"), 1)
        )
        found |= {"loop": info["loop"]} if isinstance(info.get("loop"), int) else {}  # 0 repeats for ever
        if mode == modes.INDICES:
            colours = np.array(image.getpalette(), np.uint16).reshape(-1, 3) * np.uint16(257)
            found["palette"] = colours, info.get("transparency")
        return found | ({"lost": tuple(lost)} if lost else {})

    def _all_bits(self, channels: int) -> Array:
        """The pixels of page 1 as H, W, C; larger numbers than a PPM states count as that."""
        image, stream = self._image, self._stream
        stream.seek(0)
        if image.format == "PNG":
            (imagecodecs,) = need("imagecodecs", why=f"{self.path}: {WHY_READ}", kind=FileError)
            return np.asarray(imagecodecs.png_decode(stream.read()))
        stream.seek(image.tile[0].offset)
        shape = (image.height, image.width, channels)
        data = stream.read(2 * prod(shape))
        if len(data) < 2 * prod(shape):
            raise FileError(f"{self.path}: is damaged: {len(data):,} B cannot hold its pixels")
        return np.asarray(np.minimum(np.frombuffer(data, ">u2").reshape(shape), self._largest), np.uint16)


@contextmanager
def _pixel_limit(limit: int | None) -> Iterator[None]:
    """Pillow's limit for the pixels of images and frames, by their memory; it raises for twice this number."""
    (module,) = need("PIL.Image", why="images")
    before = module.MAX_IMAGE_PIXELS
    module.MAX_IMAGE_PIXELS = None if limit is None else limit // PIXEL_BYTES // 2
    try:
        yield
    finally:
        module.MAX_IMAGE_PIXELS = before


SIGNATURE = 8  # bytes
PIXEL_CHUNKS = (b"IDAT", b"fdAT")


def _check_png(path: str, stream: BinaryIO) -> bytes | None:
    """Refuses pixels with a wrong checksum, which Pillow does not look at; returns EXIF data, which may follow them."""
    exif = None
    stream.seek(SIGNATURE)
    while len(head := stream.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        data, checksum = stream.read(size), stream.read(4)
        is_whole = len(checksum) == 4
        if kind in PIXEL_CHUNKS and is_whole and zlib.crc32(data, zlib.crc32(kind)) != int.from_bytes(checksum):
            raise FileError(f"{path}: is damaged: a chunk of its pixels has a wrong checksum")
        if kind == b"eXIf":
            exif = data
    return exif


DEEP = 65535  # the largest number of 16 bits
WHY_READ = "has colour of 16 bits a channel, of which Pillow keeps 8; install the extra images"
# Modes of a PNG of 16 bits a channel, by Pillow's raw mode; grey only with a transparent colour.
PNG_16_BIT = {"I;16B": "LA;16", "LA;16B": "LA;16", "RGB;16B": "RGB;16", "RGBA;16B": "RGBA;16"}


def _largest_numbers(image: Any) -> tuple[int, int]:
    """The largest number of a sample of a PNG or PPM if Pillow decodes more than 8 bits of it to 8, else 0; and the
    maximum that a PGM or PPM states if Pillow scales it, to 255 or 65535, else 0.
    """
    args = next((tile[3] for tile in getattr(image, "tile", ())), ())
    if image.format == "PNG":
        return DEEP if args in PNG_16_BIT and (args != "I;16B" or "transparency" in image.info) else 0, 0
    stated = int(args[1]) if image.format == "PPM" and isinstance(args, tuple) and args[1:] else 0
    return stated if image.mode == "RGB" and stated > 255 else 0, 0 if stated in (255, DEEP) else stated
