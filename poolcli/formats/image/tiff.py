"""TIFF, read by tifffile.

Samples are brought to the full scale of their type, with black as zero and colours not multiplied by alpha.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import FileError
from poolcli.formats.checks import deflate_size, human_bytes, lzma_size
from poolcli.formats.image import stacks
from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.curves import curve_of
from poolcli.formats.image.metadata import LABELS, resolution_of, select_exif
from poolcli.formats.image.modes import BANDS, NON_TIFF_DTYPES, mode_of, with_flipped_signs
from poolcli.formats.image.pages import (
    Page,
    PageDecoder,
    check_image_memory,
    orientation_notes,
    upright,
    upright_size,
)
from poolcli.formats.records import Axis
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, Lazy, installed
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")
tifffile: Any = Lazy("tifffile")

SPARSE_NOTE = "some strips or tiles are not stored, and read as no data, or 0"
ALPHA_NOTE = "associated alpha: colours are divided by it"
INCHES = {2: 1.0, 3: 2.54}  # by resolution unit: inches, and centimetres to the inch
# What tifffile unpacks without imagecodecs, however much that may be; less than this is not worth a look.
UNBOUNDED = {tags.DEFLATE: deflate_size, tags.OLD_DEFLATE: deflate_size, tags.LZMA: lzma_size}
SMALL_CHUNK = 2**26  # bytes
DIVISION_BYTES = 24  # bytes a sample that a division takes for a while
MAX_SCALED_BITS = 32  # bits; products of two such numbers are exact
# What the extra samples of a pixel are, as libtiff reads them: Corel Draw writes 999.
EXTRA_KINDS = {kind: kind for kind in (tags.ASSOCIATED, tags.UNASSOCIATED)} | {999: tags.UNASSOCIATED}
MODES_BY_PHOTOMETRIC = {
    tags.WHITE_IS_ZERO: ("L", "LA", "I;16", "LA;16"),
    tags.GREY: ("L", "LA", "I;16", "LA;16", "I", "F"),
    tags.RGB: ("RGB", "RGBA", "RGB;16", "RGBA;16"),
    tags.CMYK: ("CMYK",),
    tags.LAB: ("LAB",),
    tags.ICC_LAB: (),
}


class TiffImage:
    """An open TIFF and its pages."""

    def __init__(self, stack: ExitStack, path: str, stream: BinaryIO, limit: int | None) -> None:
        log = logging.getLogger("tifffile")
        if not log.handlers:  # it logs what it also raises; without a handler Python would print that
            log.addHandler(logging.NullHandler())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of Pillow, about tags
        self.path, self.notes, self._stream, self._limit = path, tuple[str, ...](), stream, limit
        stream.seek(0)
        self._file = stack.enter_context(tifffile.TiffFile(stream))
        self._pages = self._list_pages()
        self.pages = [
            Page(
                *upright_size(_orientation(page), int(page.imagewidth), int(page.imagelength)),
                f"{getattr(page.photometric, 'name', page.photometric)} {page.dtype}",
                bool(page.subfiletype & (tags.REDUCED | tags.MASK)),
                bool(page.subfiletype & tags.MASK),
            )
            for page in self._pages
        ]

    def _list_pages(self) -> list[Any]:
        pages, places = list[Any](), set[int]()
        while True:
            try:
                page = self._file.pages[len(pages)].aspage()
            except IndexError:
                return pages
            if page.offset in places:
                self.notes = ("the pages of the file form a cycle, and each is read once",)
                return pages
            places.add(page.offset)
            pages.append(page)

    def stack_axes(self, size: Sequence[int]) -> tuple[Axis, ...]:
        """The axes of all pages together, each of this height and width, if the file names them."""
        return stacks.read_axes(self._file, len(self.pages), size)

    def decoder(self, first: int, several: bool) -> PageDecoder:
        """How the pages from `first` on are decoded; refuses samples that are no numbers."""
        page = self._pages[first]
        samples = _samples_of(self.path, page)
        stored = _Tags(page)
        last = [page]  # the page that was decoded last

        def decode(number: int) -> Array:
            last[0] = page = self._pages[number]
            if _samples_of(self.path, page) != samples:
                raise FileError(
                    f"{self.path}: page {number + 1} has other samples; take one with {field('pages', first + 1)}"
                )
            return upright(_pixels(self._stored_pixels(number), page, samples), _orientation(page))

        def read_metadata() -> dict[str, Any]:
            return self._read_metadata(last[0]) | samples.kept

        divides = samples.is_scaled or samples.is_divided
        memory = samples.channels * (2 * DTYPES[samples.dtype].itemsize + (DIVISION_BYTES if divides else 0))
        sparse = (SPARSE_NOTE,) if 0 in page.databytecounts else ()
        notes = (*orientation_notes(_orientation(page)), *samples.notes, *sparse, *stored.nodata_notes)
        return PageDecoder(
            "tiff", samples.mode, samples.channels, samples.dtype, memory, decode, read_metadata, notes,
            missing=stored.missing(samples.dtype), curve=curve_of({"icc_profile": stored.get(tags.ICC_PROFILE)}),
        )  # fmt: skip

    def read_masks(self, masks: Sequence[int | None], pages: Sequence[int], size: Sequence[int]) -> Array:
        """The pixels that the masks of these pages hide, upright, a plane for each page; None is no mask."""
        hidden = np.zeros((len(pages), *size), np.bool_)
        for plane, page, mask in zip(hidden, pages, masks, strict=True):
            if mask is None:
                continue
            found = self._stored_pixels(mask) == 0
            found = upright(found if found.ndim == 2 else found.all(-1), _orientation(self._pages[page]))
            if found.shape != plane.shape:
                raise FileError(
                    f"{self.path}: page {mask + 1} is a mask of {found.shape}, but its header says {plane.shape}"
                )
            plane[...] = found
        return hidden

    def _stored_pixels(self, number: int) -> Array:
        """The pixels as tifffile reads them; refuses a page without all strips or tiles, which it would make up."""
        page = self._pages[number]
        needed, named = prod(page.chunked), len(page.dataoffsets)
        if named < needed:
            kind = "tiles" if page.is_tiled else "strips"
            raise FileError(f"{self.path}: is damaged: page {number + 1} names {named:,} of its {needed:,} {kind}")
        chunk = prod(page.chunks) * page.dtype.itemsize
        check_image_memory(self.path, chunk, self._limit)  # a tile may be far larger than its picture
        unpacked_size = UNBOUNDED.get(int(page.compression))
        if unpacked_size and not installed("imagecodecs"):
            most = max(chunk, SMALL_CHUNK)
            for at, count in zip(page.dataoffsets, page.databytecounts, strict=False):
                self._stream.seek(at)
                if unpacked_size(self._stream.read(count), most) > most:
                    raise FileError(
                        f"{self.path}: is damaged: a strip or tile of page {number + 1} unpacks to more than its "
                        f"{human_bytes(chunk)}"
                    )
        pixels: Array = page.asarray()
        return pixels

    def _read_metadata(self, page: Any) -> dict[str, Any]:
        """What is kept of a page, by the names of Pillow's `save`; `lost` names the rest."""
        stored, found, lost = _Tags(page), dict[str, Any](), list[str]()
        found |= {"compression": int(page.compression), "predictor": int(page.predictor)}
        profile, dots = stored.get(tags.ICC_PROFILE), stored.resolution
        found |= {"icc_profile": profile} if isinstance(profile, bytes) else {}
        found |= {"dpi": dots} if dots else {}
        found |= {"nodata": stored.nodata_text} if stored.nodata_text else {}
        geo = {tag: stored.get(tag) for tag in tags.GEO if tag in stored}
        if geo and _orientation(page) != 1:
            lost.append(f"{LABELS['geo']} (the image was rotated)")
        elif geo:
            found["geo"] = {tag: value if isinstance(value, str | tuple) else (value,) for tag, value in geo.items()}
        bands, others = tags.parse_gdal(str(stored.get(tags.GDAL_METADATA, "")))
        found |= {"gdal": bands} if bands else {}
        lost += [f"GDAL's {name}" for name in others]
        for tag, name in ((tags.XMP, "XMP data"), (tags.IPTC, "IPTC data"), (tags.PHOTOSHOP, "Photoshop's resources")):
            lost += [name] if tag in stored else []
        kept = select_exif(self._exif_of(page))
        lost += kept.pop("lost", ())
        return found | kept | ({"lost": tuple(lost)} if lost else {})

    def _exif_of(self, page: Any) -> Exif:
        """The directory of a page, read by Pillow, which also writes EXIF data; none that it cannot read."""
        exif: Exif = pil.Exif()
        exif.bigtiff, exif.endian = self._file.is_bigtiff, self._file.byteorder
        try:
            exif.load_from_fp(self._stream, page.offset)
        except MemoryError:
            raise
        except Exception:  # each of Pillow's decoders of tags raises its own
            exif = pil.Exif()
        return exif


class _Tags:
    """The tags of a page, by their numbers."""

    def __init__(self, page: Any) -> None:
        self._tags = page.tags

    def __contains__(self, tag: int) -> bool:
        return tag in self._tags

    def get(self, tag: int, default: Any = None) -> Any:
        """The value of a tag."""
        return self._tags[tag].value if tag in self._tags else default

    @property
    def resolution(self) -> tuple[float, ...] | None:
        """Pixels to the inch."""
        inch = INCHES.get(self.get(tags.RESOLUTION_UNIT, 2), 0.0)
        try:
            ratios = [self.get(tag)[0] / self.get(tag)[1] for tag in tags.RESOLUTION]
        except (TypeError, IndexError, ArithmeticError):
            return None
        return resolution_of(*(ratio * inch for ratio in ratios))

    @property
    def nodata_text(self) -> str:
        """GDAL's nodata value: up to the first NUL, as C reads it."""
        return str(self.get(tags.GDAL_NODATA, "")).partition("\0")[0].strip()

    @property
    def _nodata(self) -> int | float | None:
        try:
            return int(self.nodata_text)
        except ValueError:
            try:
                return float(self.nodata_text)
            except ValueError:
                return None

    def missing(self, dtype: str) -> Missing:
        """GDAL's nodata value, if the type can hold it."""
        number = self._nodata
        return () if number is None or not can_hold(DTYPES[dtype], number) else (number,)

    @property
    def nodata_notes(self) -> tuple[str, ...]:
        """A note for GDAL's nodata value if it is not a number."""
        is_text = self.nodata_text != "" and self._nodata is None
        return ("the file's nodata value (GDAL_NODATA) is not a number and is ignored",) if is_text else ()


def _orientation(page: Any) -> Any:
    return _Tags(page).get(tags.ORIENTATION, 1)


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a pixel: colours as `photometric` says, then the `extra` ones.

    `bits` are those of a stored sample, `dtype` is its type once decoded, `stored` says how colours are stored.
    """

    photometric: int
    extra: tuple[int, ...]
    bits: int
    dtype: str
    stored: int

    @property
    def colours(self) -> int:
        """The number of samples that are no extra ones."""
        return tags.COLOUR_CHANNELS.get(self.photometric, 1)

    @property
    def channels(self) -> int:
        """The number of samples of a pixel."""
        return self.colours + len(self.extra)

    @property
    def is_unsigned(self) -> bool:
        """Whether a sample is a number from 0 to the largest of its type."""
        return DTYPES[self.dtype].kind == "uint"

    @property
    def highest(self) -> int:
        """The largest number of the type."""
        return DTYPES[self.dtype].limits[1]

    @property
    def is_scaled(self) -> bool:
        """Whether a sample has fewer bits than its type, and is brought to the full scale."""
        own = DTYPES[self.dtype].bits
        return self.stored != tags.PALETTE and self.is_unsigned and self.bits < own <= MAX_SCALED_BITS

    @property
    def is_inverted(self) -> bool:
        """Whether white is stored as zero, and can become the largest number."""
        return self.photometric == tags.WHITE_IS_ZERO and self.is_unsigned

    @property
    def is_divided(self) -> bool:
        """Whether colours are stored multiplied by alpha; averages weight them by it again."""
        return self.extra == (tags.ASSOCIATED,) and self.mode != BANDS

    @property
    def mode(self) -> str:
        """The mode of the picture: BANDS unless the extra sample is alpha or there is none."""
        if self.extra and (len(self.extra) > 1 or self.extra[0] == tags.UNSPECIFIED):
            return BANDS
        named = {tags.LAB: "LAB", tags.CMYK: "CMYK"}.get(self.photometric)
        mode = mode_of((1, 1, self.channels), self.dtype, "HWC", named)
        return mode if mode in MODES_BY_PHOTOMETRIC.get(self.photometric, ()) else BANDS

    @property
    def kept(self) -> dict[str, Any]:
        """What a TIFF of bands that is made of them must say of its samples."""
        photometric = tags.GREY if self.is_inverted else self.photometric
        return {"bands": (photometric, self.extra)} if self.mode == BANDS else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the numbers, for the report."""
        found = []
        if self.stored == tags.PALETTE:
            found.append("palette expanded to RGB")
        if self.is_scaled:
            found.append(f"{self.bits} bits a sample, scaled to {DTYPES[self.dtype].bits}")
        if self.photometric == tags.WHITE_IS_ZERO:
            found.append("white is zero: inverted" if self.is_inverted else "white is zero, and stays so")
        if self.is_divided:
            found.append(ALPHA_NOTE)
        if self.mode == BANDS and any(kind != tags.UNSPECIFIED for kind in self.extra):
            found.append("alpha is pooled as a band like others")
        return tuple(found)


def _samples_of(path: str, page: Any) -> Samples:
    """The samples of a page; refuses those that are no numbers."""
    dtype = "none" if page.dtype is None else "uint8" if page.dtype.name == "bool" else page.dtype.name
    if dtype not in DTYPES or dtype in NON_TIFF_DTYPES or page.imagedepth != 1:
        raise FileError(f"{path}: is a TIFF of {dtype}; integers and floats in two dimensions are read")
    stored, channels = int(page.photometric), int(page.samplesperpixel)
    photometric = {tags.PALETTE: tags.RGB, tags.YCBCR: tags.RGB}.get(stored, stored)
    if stored not in (tags.WHITE_IS_ZERO, tags.GREY, tags.PALETTE) and channels < tags.COLOUR_CHANNELS.get(stored, 3):
        photometric = tags.GREY
    if photometric != tags.WHITE_IS_ZERO and photometric not in MODES_BY_PHOTOMETRIC:
        photometric = tags.GREY
    if stored == tags.PALETTE:
        dtype, channels = "uint8", channels + 2
    count = channels - tags.COLOUR_CHANNELS.get(photometric, 1)
    said = tuple(EXTRA_KINDS.get(int(kind), tags.UNSPECIFIED) for kind in page.extrasamples)[:count]
    if not said and photometric == tags.RGB and count == 1:
        said = (tags.UNASSOCIATED,)  # as other programs read it
    extra = said + (tags.UNSPECIFIED,) * (count - len(said))
    return Samples(photometric, extra, int(page.bitspersample), dtype, stored)


def _pixels(stored: Array, page: Any, samples: Samples) -> Array:
    """The pixels of a page as H, W or H, W, C, from the ones that tifffile reads."""
    separate, _, height, width, together = page.shaped
    stored = stored.reshape(separate, height, width, together)
    pixels: Array = stored[0] if separate == 1 else stored[..., 0].transpose(1, 2, 0)
    if samples.stored == tags.PALETTE:
        colours = (page.colormap >> 8).astype(np.uint8).T[pixels[..., 0].astype(np.uint16)]
        pixels = np.concatenate([colours, pixels[..., 1:]], -1)
    elif samples.stored == tags.YCBCR and page.compression not in (tags.OLD_JPEG, tags.JPEG):
        pixels = np.asarray(pil.fromarray(np.ascontiguousarray(pixels), "YCbCr").convert("RGB"))
    pixels = pixels.astype(samples.dtype, copy=False)
    if samples.is_scaled:
        pixels = rounded_quotient(pixels, samples.highest, (1 << samples.bits) - 1)
    if samples.is_inverted:
        pixels = pixels.copy()
        pixels[..., : samples.colours] = samples.highest - pixels[..., : samples.colours]
    if samples.photometric == tags.LAB and samples.is_unsigned:
        pixels = with_flipped_signs(pixels)
    if samples.is_divided:
        pixels = pixels.copy()
        pixels[..., :-1] = rounded_quotient(pixels[..., :-1], samples.highest, pixels[..., -1:])
    return pixels if samples.channels > 1 else pixels[..., 0]


def rounded_quotient(values: Array, factor: int, divisor: Any) -> Array:
    """`values * factor / divisor`, rounded, at most `factor`; 0 where the divisor is 0."""
    wide = np.asarray(divisor, np.uint64)
    found = (values.astype(np.uint64) * np.uint64(factor) + wide // np.uint64(2)) // np.maximum(wide, np.uint64(1))
    found = np.where(wide == 0, np.uint64(0), np.minimum(found, np.uint64(factor)))
    return found.astype(values.dtype)
