"""TIFF, read by tifffile.

Samples are brought to the full scale of their type, with black as zero and colours not multiplied by alpha.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import FileError
from poolcli.formats.checks import check_memory, deflate_size, human_bytes, lzma_size
from poolcli.formats.image import metadata as tags, modes
from poolcli.formats.image.metadata import LABELS, pil, resolution_of, select_exif, tifffile
from poolcli.formats.image.modes import Page, PageDecoder
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, installed, numpy as np

SPARSE_NOTE = "some strips or tiles are not stored, and read as no data, or 0"
ALPHA_NOTE = "associated alpha: colours are divided by it"
# What tifffile unpacks without imagecodecs, however much that may be; less than this is not worth a look.
UNBOUNDED = {tags.DEFLATE: deflate_size, tags.OLD_DEFLATE: deflate_size, tags.LZMA: lzma_size}
SMALL_CHUNK = 2**26  # bytes
ALPHA = (tags.ASSOCIATED, tags.UNASSOCIATED)
NOT_KEPT = {tags.XMP: "XMP data", tags.IPTC: "IPTC data", tags.PHOTOSHOP: "Photoshop's resources"}
DIVISION_BYTES = 24  # bytes a sample that a division takes for a while
MAX_SCALED_BITS = 32  # bits; products of two such numbers are exact
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
        self.file = stack.enter_context(tifffile.TiffFile(stream))
        self._pages = self._list_pages()
        self.pages = [
            Page(
                *modes.upright_size(_tag(page, tags.ORIENTATION, 1), int(page.imagewidth), int(page.imagelength)),
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
                page = self.file.pages[len(pages)].aspage()
            except IndexError:
                return pages
            if page.offset in places:
                self.notes = ("the pages of the file form a cycle, and each is read once",)
                return pages
            places.add(page.offset)
            pages.append(page)

    def notes_on(self, pages: Sequence[int]) -> tuple[str, ...]:
        """A note if the nodata values of these pages differ: that of the first holds for all."""
        first, *others = (_nodata_text(self._pages[page]) for page in pages)
        return () if {*others} <= {first} else ("not kept: nodata values of later pages; that of the first is used",)

    def lost_of(self, pages: Sequence[int]) -> tuple[str, ...]:
        """What pages after the first say otherwise than it, and lose."""
        first, *others = (self._pages[page].tags for page in pages)
        own = {tag.code: repr(tag.value) for tag in first if tag.code in tags.PAGE_TAGS}
        found = (tag for page in others for tag in page if tag.code in tags.PAGE_TAGS)
        return ("metadata of later pages",) if any(own.get(tag.code) != repr(tag.value) for tag in found) else ()

    def decoder(self, first: int, several: bool, options: ReadOptions) -> PageDecoder:
        """How the pages from `first` on are decoded; refuses samples that are no numbers."""
        page = self._pages[first]
        indexed = options.indexed and not several
        samples = _samples_of(self.path, page, indexed)
        last = [page]  # the page that was decoded last

        def decode(number: int) -> Array:
            last[0] = page = self._pages[number]
            if _samples_of(self.path, page, indexed) != samples:
                raise FileError(
                    f"{self.path}: page {number + 1} has other samples; take one with {field('pages', first + 1)}"
                )
            return modes.upright(_pixels(self._stored_pixels(number), page, samples), _tag(page, tags.ORIENTATION, 1))

        def read_metadata() -> dict[str, Any]:
            table = last[0].colormap if samples.mode == modes.INDICES or samples.stored == tags.GREY else None
            palette = {} if table is None else {"palette": (table.T, None)}
            return self._read_metadata(last[0]) | samples.kept | palette

        divides = samples.is_scaled or samples.is_divided
        memory = samples.channels * (2 * DTYPES[samples.dtype].itemsize + (DIVISION_BYTES if divides else 0))
        sparse = (SPARSE_NOTE,) if 0 in page.databytecounts else ()
        missing, ignored = _missing(page, samples.dtype)
        return PageDecoder(
            "tiff", samples.mode, samples.channels, samples.dtype, memory, decode, read_metadata,
            notes=(*modes.orientation_notes(_tag(page, tags.ORIENTATION, 1)), *samples.notes, *sparse, *ignored),
            missing=missing, compressed=page.compression != tags.UNCOMPRESSED,
        )  # fmt: skip

    def read_masks(self, masks: Sequence[int | None], pages: Sequence[int], size: Sequence[int]) -> Array:
        """The pixels that the masks of these pages hide, upright, a plane for each page; None is no mask."""
        hidden = np.zeros((len(pages), *size), np.bool_)
        for plane, page, mask in zip(hidden, pages, masks, strict=True):
            if mask is None:
                continue
            found = self._stored_pixels(mask) == 0
            found = found if found.ndim == 2 else found.all(-1)
            plane[...] = modes.upright(found, _tag(self._pages[page], tags.ORIENTATION, 1))
        return hidden

    def _stored_pixels(self, number: int) -> Array:
        """The pixels as tifffile reads them; refuses a page without all strips or tiles, which it would make up."""
        page = self._pages[number]
        needed, named = prod(page.chunked), len(page.dataoffsets)
        if named < needed:
            kind = "tiles" if page.is_tiled else "strips"
            raise FileError(f"{self.path}: is damaged: page {number + 1} names {named:,} of its {needed:,} {kind}")
        chunk = prod(page.chunks) * page.dtype.itemsize
        check_memory(f"{self.path}: needs", chunk, self._limit, " to be decoded")  # tiles may be larger than pictures
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
        return np.asarray(page.asarray())

    def _read_metadata(self, page: Any) -> dict[str, Any]:
        """What is kept of a page, by the names of Pillow's `save`; `lost` names the rest."""
        found: dict[str, Any] = {"compression": int(page.compression), "predictor": int(page.predictor)}
        profile, nodata = _tag(page, tags.ICC_PROFILE), _nodata_text(page)
        found |= {"icc_profile": profile} if isinstance(profile, bytes) else {}
        found |= {"nodata": nodata} if nodata else {}
        with suppress(TypeError, IndexError, ArithmeticError):
            dots = [_tag(page, tag)[0] / _tag(page, tag)[1] for tag in tags.RESOLUTION]
            found |= resolution_of(dots, _tag(page, tags.RESOLUTION_UNIT, 2))
        found |= {"tile": (page.tilelength, page.tilewidth)} if page.is_tiled else {}
        geo = {tag: page.tags[tag].value for tag in tags.GEO if tag in page.tags}
        turned = _tag(page, tags.ORIENTATION, 1) != 1
        if geo and not turned:
            found["geo"] = {tag: value if isinstance(value, str | tuple) else (value,) for tag, value in geo.items()}
        bands, others = tags.parse_gdal(str(_tag(page, tags.GDAL_METADATA, "")))
        found |= {"gdal": bands} if bands else {}
        lost = [f"{LABELS['geo']} (the image was rotated)"] if geo and turned else []
        lost += [f"GDAL's {name}" for name in others]
        lost += [name for tag, name in NOT_KEPT.items() if tag in page.tags]
        lost += ["the planes of bands (written pixel by pixel)"] * (int(page.planarconfig) == tags.SEPARATE)
        exif = self._exif_of(page)
        lost += ["EXIF data and texts (Pillow does not read them in this file)"] * (not exif)
        kept = select_exif(exif)
        lost += kept.pop("lost", ())
        return found | kept | ({"lost": tuple(lost)} if lost else {})

    def _exif_of(self, page: Any) -> Any:
        """The directory of a page, read by Pillow, which also writes EXIF data; none that it cannot read."""
        exif = pil.Exif()
        exif.bigtiff, exif.endian = self.file.is_bigtiff, self.file.byteorder
        try:
            exif.load_from_fp(self._stream, page.offset)
        except MemoryError:
            raise
        except Exception:  # each of Pillow's decoders of tags raises its own
            exif = pil.Exif()
        return exif


def _tag(page: Any, tag: int, default: Any = None) -> Any:
    return page.tags[tag].value if tag in page.tags else default


def _nodata_text(page: Any) -> str:
    """GDAL's nodata value: up to the first NUL, as C reads it."""
    return str(_tag(page, tags.GDAL_NODATA, "")).partition("\0")[0].strip()


def _missing(page: Any, dtype: str) -> tuple[Missing, tuple[str, ...]]:
    """GDAL's nodata value, if the type can hold it; and a note if it is not a number."""
    text = _nodata_text(page)
    for number in (int, float):
        with suppress(ValueError):
            value = number(text)
            return ((value,) if can_hold(DTYPES[dtype], value) else ()), ()
    return (), ("the file's nodata value (GDAL_NODATA) is not a number and is ignored",) if text else ()


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a pixel: colours as `photometric` says, then the `extra` ones.

    stored, bits: how the file stores colours, and the bits of a sample
    dtype, mode: their type once decoded, and the mode: BANDS unless the extra sample is alpha or there is none
    is_scaled: whether a sample has fewer bits than its type, and is brought to the full scale
    is_inverted: whether white is stored as zero, and becomes the largest number
    is_divided: whether colours are stored multiplied by alpha; averages weight them by it again
    """

    photometric: int
    extra: tuple[int, ...]
    stored: int
    bits: int
    dtype: str
    mode: str
    is_scaled: bool
    is_inverted: bool
    is_divided: bool

    @property
    def colours(self) -> int:
        """The number of samples that are no extra ones."""
        return tags.COLOUR_CHANNELS.get(self.photometric, 1)

    @property
    def channels(self) -> int:
        """The number of samples of a pixel."""
        return self.colours + len(self.extra)

    @property
    def kept(self) -> dict[str, Any]:
        """What a TIFF of bands that is made of them must say of its samples."""
        photometric = tags.GREY if self.is_inverted else self.photometric
        return {"bands": (photometric, self.extra)} if self.mode == modes.BANDS else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the numbers, for the report."""
        alpha = any(kind != tags.UNSPECIFIED for kind in self.extra)
        steps = {
            modes.EXPANDED_NOTE.format("RGB"): self.stored == tags.PALETTE and self.mode != modes.INDICES,
            modes.VOTE_NOTE: self.mode == modes.INDICES,
            f"{self.bits} bit{'s' * (self.bits > 1)} a sample, scaled to {DTYPES[self.dtype].bits}": self.is_scaled,
            "white is zero: inverted": self.is_inverted,
            "white is zero, and stays so": self.photometric == tags.WHITE_IS_ZERO and not self.is_inverted,
            ALPHA_NOTE: self.is_divided,
            "alpha is pooled as a band like others": self.mode == modes.BANDS and alpha,
        }
        return tuple(note for note, holds in steps.items() if holds)


def _samples_of(path: str, page: Any, indexed: bool) -> Samples:
    """The samples of a page, where `indexed` its indices of a palette; refuses those that are no numbers."""
    dtype = "none" if page.dtype is None else "uint8" if page.dtype.name == "bool" else page.dtype.name
    if dtype not in DTYPES or dtype in modes.NON_TIFF_DTYPES or page.imagedepth != 1:
        raise FileError(f"{path}: is a TIFF of {dtype}; integers and floats in two dimensions are read")
    stored, channels, bits = int(page.photometric), int(page.samplesperpixel), int(page.bitspersample)
    photometric = {tags.PALETTE: tags.RGB, tags.YCBCR: tags.RGB}.get(stored, stored)
    is_grey = stored in (tags.WHITE_IS_ZERO, tags.GREY, tags.PALETTE)
    if photometric not in MODES_BY_PHOTOMETRIC or (not is_grey and channels < tags.COLOUR_CHANNELS.get(stored, 3)):
        photometric = tags.GREY
    has_table = stored == tags.PALETTE or (stored == tags.GREY and page.colormap is not None)
    if has_table and indexed and channels == page.dtype.itemsize == 1:
        return Samples(tags.GREY, (), stored, bits, "uint8", modes.INDICES, False, False, False)
    if stored == tags.PALETTE:
        dtype, channels = "uint8", channels + 2
    count = channels - tags.COLOUR_CHANNELS.get(photometric, 1)
    said = tuple(int(kind) if kind in ALPHA else tags.UNSPECIFIED for kind in page.extrasamples)[:count]
    if not said and photometric == tags.RGB and count == 1:
        said = (tags.UNASSOCIATED,)  # as other programs read it
    extra = said + (tags.UNSPECIFIED,) * (count - len(said))
    mode = modes.BANDS
    if not extra or (len(extra) == 1 and extra[0] != tags.UNSPECIFIED):
        named = {tags.LAB: "LAB", tags.CMYK: "CMYK"}.get(photometric)
        mode = modes.mode_of((1, 1, channels), dtype, "HWC", named)
        mode = mode if mode in MODES_BY_PHOTOMETRIC[photometric] else modes.BANDS
    is_unsigned = DTYPES[dtype].kind == "uint"
    return Samples(
        photometric, extra, stored, bits, dtype, mode,
        is_scaled=stored != tags.PALETTE and is_unsigned and bits < DTYPES[dtype].bits <= MAX_SCALED_BITS,
        is_inverted=photometric == tags.WHITE_IS_ZERO and is_unsigned,
        is_divided=extra == (tags.ASSOCIATED,) and mode != modes.BANDS,
    )  # fmt: skip


def _pixels(stored: Array, page: Any, samples: Samples) -> Array:
    separate, _, height, width, together = page.shaped
    stored = stored.reshape(separate, height, width, together)
    pixels: Array = stored[0] if separate == 1 else stored[..., 0].transpose(1, 2, 0)
    if samples.stored == tags.PALETTE and samples.mode != modes.INDICES:
        colours = (page.colormap >> 8).astype(np.uint8).T[pixels[..., 0].astype(np.uint16)]
        pixels = np.concatenate([colours, pixels[..., 1:]], -1)
    elif samples.stored == tags.YCBCR and page.compression not in (tags.OLD_JPEG, tags.JPEG):
        pixels = np.asarray(pil.fromarray(np.ascontiguousarray(pixels), "YCbCr").convert("RGB"))
    pixels = pixels.astype(samples.dtype, copy=samples.is_inverted or samples.is_divided)
    highest = DTYPES[samples.dtype].limits[1]
    if samples.is_scaled:
        pixels = rounded_quotient(pixels, highest, (1 << samples.bits) - 1)
    if samples.is_inverted:
        pixels[..., : samples.colours] = highest - pixels[..., : samples.colours]
    if samples.photometric == tags.LAB and DTYPES[samples.dtype].kind == "uint":
        pixels = modes.with_flipped_signs(pixels)
    if samples.is_divided:
        pixels[..., :-1] = rounded_quotient(pixels[..., :-1], highest, pixels[..., -1:])
    return pixels if samples.channels > 1 else pixels[..., 0]


def rounded_quotient(values: Array, factor: int, divisor: Any) -> Array:
    """`values * factor / divisor`, rounded, at most `factor`; 0 where the divisor is 0."""
    wide = np.asarray(divisor, np.uint64)
    found = (values.astype(np.uint64) * np.uint64(factor) + wide // np.uint64(2)) // np.maximum(wide, np.uint64(1))
    found = np.where(wide == 0, np.uint64(0), np.minimum(found, np.uint64(factor)))
    return found.astype(values.dtype)
