"""TIFF through tifffile, for pixels that Pillow would misread or cut to 8 bits.

Samples are brought to the full scale of their type, with black as zero and colours not multiplied by alpha.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import FileError
from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.codecs import WHY_READ
from poolcli.formats.image.curves import curve_of
from poolcli.formats.image.metadata import metadata_of, without_orientation_dependent
from poolcli.formats.image.modes import BANDS, NON_TIFF_DTYPES, mode_of, with_flipped_signs
from poolcli.formats.image.pages import Page, PageDecoder, check_image_memory, orientation_notes, upright, upright_size
from poolcli.formats.image.tiff_checks import LAYOUT_TAGS, check_embedded_sizes, check_strips, count_pages, is_sparse
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, Lazy, installed, need
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")

MAX_SWAPPED_BITS = 16  # bits of a big-endian sample, above which Pillow swaps bytes that libtiff has swapped
NO_PREDICTOR = 1
# What the extra samples of a pixel are, as libtiff reads them: Corel Draw writes 999.
EXTRA_KINDS = {kind: kind for kind in (tags.ASSOCIATED, tags.UNASSOCIATED)} | {999: tags.UNASSOCIATED}
MANY_PAGES = 200
DIVISION_BYTES = 24  # bytes a sample that a division takes for a while
SPARSE_NOTE = "some strips or tiles are not stored, and read as no data, or 0"
INTEGER = re.compile(r"[+-]?\d{1,20}")  # 2**64 - 1 has 20 digits
WINDOWS_NAN = re.compile(r"[+-]?1\.#(?:QNAN|SNAN|IND)\d*")  # as older C libraries of Windows write NaN

# What Pillow reads without loss: photometric interpretation, sample format, bits, extra samples.
_GREY, _U, _ONE_ALPHA = tags.GREY, tags.UNSIGNED, ((tags.ASSOCIATED,), (tags.UNASSOCIATED,))
PILLOW_READS = {
    *((kind, _U, (bits,), ()) for kind in (tags.WHITE_IS_ZERO, _GREY, tags.PALETTE) for bits in (1, 2, 4, 8)),
    (_GREY, _U, (16,), ()), (_GREY, tags.SIGNED, (32,), ()), (_GREY, tags.FLOAT, (32,), ()),
    *((_GREY, _U, (8, 8), extra) for extra in _ONE_ALPHA), (tags.PALETTE, _U, (8, 8), (tags.UNASSOCIATED,)),
    (tags.CMYK, _U, (8,) * 4, ()), (tags.LAB, _U, (8,) * 3, ()), (tags.RGB, _U, (8,) * 3, ()),
    *((tags.RGB, _U, (8,) * 4, extra) for extra in ((), *_ONE_ALPHA)),
}  # fmt: skip
PLANAR = (tags.RGB, tags.CMYK)  # those that it also reads in separate planes


def pillow_reads(stored: Mapping[int, Any], big_endian: bool) -> bool:
    """Whether Pillow reads the pixels that these tags describe without loss."""
    photometric, planes = stored.get(tags.PHOTOMETRIC), stored.get(tags.PLANAR, 1) != 1
    formats, bits = stored.get(tags.SAMPLE_FORMAT, (tags.UNSIGNED,)), stored.get(tags.BITS, (1,))
    compressed = stored.get(tags.COMPRESSION, tags.UNCOMPRESSED) != tags.UNCOMPRESSED
    if stored.get(tags.COMPRESSION, tags.UNCOMPRESSED) not in tags.PILLOW_COMPRESSIONS or is_sparse(stored):
        return False
    if photometric == tags.YCBCR:  # libtiff converts it to RGB; of uncompressed data Pillow ignores the subsampling
        return not planes and (compressed or stored.get(tags.SUBSAMPLING, (2, 2)) == (1, 1))
    bits = bits * stored.get(tags.SAMPLES, 1) if len(bits) == 1 else bits
    if big_endian and max(bits) > MAX_SWAPPED_BITS and compressed:
        return False
    kind = (photometric, formats[0], bits, stored.get(tags.EXTRA_SAMPLES, ()))
    return kind in PILLOW_READS and (not planes or photometric in PLANAR)


def is_faster(stored: Mapping[int, Any], pages: int) -> bool:
    """Whether tifffile, if it is installed, reads the same pixels faster than Pillow: libtiff walks through all pages
    before each one that it unpacks, which takes 2 ms a page in a file of 8,000.
    """
    is_plain = stored.get(tags.PHOTOMETRIC) in (tags.GREY, tags.RGB) and tags.EXTRA_SAMPLES not in stored
    packed = stored.get(tags.COMPRESSION) in (tags.LZW, tags.DEFLATE, tags.PACKBITS, tags.OLD_DEFLATE)
    return pages >= MANY_PAGES and is_plain and packed and installed("tifffile", "imagecodecs")


def open_tiff(stack: ExitStack, path: str, limit: int | None) -> tuple[Any, BinaryIO, list[Page]]:
    """tifffile's TiffFile, the file's bytes, and its pages, upright."""
    _, tifffile = need("imagecodecs", "tifffile", why=f"{path}: {WHY_READ}", kind=FileError)
    import logging

    logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # it logs what it also raises
    stream = stack.enter_context(io.FileIO(path))
    count = count_pages(path, stream)
    file = stack.enter_context(tifffile.TiffFile(path))
    pages = []
    for page in (file.pages[number] for number in range(count)):
        check_image_memory(path, tile_bytes(_tags(page, (tags.TILE_WIDTH, tags.TILE_LENGTH))), limit)
        size = upright_size(_orientation(page), int(page.imagewidth), int(page.imagelength))
        pages.append(Page(*size, f"{page.photometric:d}, {page.dtype}", *page_role(page.subfiletype)))
    return file, stream, pages


def tile_bytes(stored: Mapping[int, Any]) -> int:
    """The bytes of a decoded tile, with at least four bytes a pixel; 0 for a page in strips."""
    across, down = stored.get(tags.TILE_WIDTH), stored.get(tags.TILE_LENGTH)
    return across * down * 4 if isinstance(across, int) and isinstance(down, int) else 0


def page_role(subfile_type: Any) -> tuple[bool, bool]:
    """Whether a page is a smaller copy or a mask of another, and whether it is a mask: which pixels are valid."""
    return bool(int(subfile_type) & (tags.REDUCED | tags.MASK)), bool(int(subfile_type) & tags.MASK)


def page_decoder(path: str, file: Any, stream: BinaryIO, first: int) -> PageDecoder:
    """The picture from the page `first` on; refuses colours that have no meaning as numbers."""
    page = file.pages[first]
    stored = _tags(page, LAYOUT_TAGS)
    check_strips(path, first + 1, stored)
    samples = samples_of(path, page)
    exif = _read_exif(file, page, stream)[0]
    missing, curve = nodata_of(exif, samples.dtype), curve_of({"icc_profile": exif.get(tags.ICC_PROFILE)})
    decoded = [page]  # the page that was decoded last

    def decode(number: int) -> Array:
        page = decoded[0] = _checked_page(path, file, stream, number)
        if samples_of(path, page) != samples:
            raise FileError(f"{path}: page {number + 1} has other samples; take one with {field('pages', first + 1)}")
        return upright(_pixels(page, samples), _orientation(page))

    def described() -> dict[str, Any]:
        exif, lost = _read_exif(file, decoded[0], stream)
        storage = storage_of({tags.COMPRESSION: int(page.compression), tags.PREDICTOR: int(page.predictor)})
        found = metadata_of({}, exif, True) | storage | samples.kept | lost
        return without_orientation_dependent(found) if turns else found

    divides = samples.is_scaled or samples.is_divided
    memory = samples.channels * (2 * DTYPES[samples.dtype].itemsize + (DIVISION_BYTES if divides else 0))
    turns = orientation_notes(_orientation(page))
    sparse = (SPARSE_NOTE,) if is_sparse(stored) else ()
    notes = (*turns, *samples.notes, *sparse, *ignored_predictor(_tags(page, (tags.COMPRESSION, tags.PREDICTOR))))
    notes += ignored_nodata(exif)
    return PageDecoder(
        "tiff", samples.mode, samples.channels, samples.dtype, memory, decode, described, notes,
        tells_of_pages=True, missing=missing, curve=curve,
    )  # fmt: skip


def _checked_page(path: str, file: Any, stream: BinaryIO, number: int) -> Any:
    """A page whose pixels may be decoded."""
    page = file.pages[number]
    check_strips(path, number + 1, _tags(page, LAYOUT_TAGS))
    if ignored_predictor(_tags(page, (tags.COMPRESSION, tags.PREDICTOR))):
        page.predictor = NO_PREDICTOR  # as libtiff reads it
    check_embedded_sizes(path, number + 1, page, stream)
    return page


def read_masks(
    path: str, file: Any, stream: BinaryIO, masks: Sequence[int | None], pages: Sequence[int], size: Sequence[int]
) -> Array:
    """The pixels that the masks of these pages hide, upright, a plane for each page; None is no mask."""
    hidden = np.zeros((len(pages), *size), np.bool_)
    for plane, page, mask in zip(hidden, pages, masks, strict=True):
        if mask is None:
            continue
        found = _checked_page(path, file, stream, mask).asarray() == 0
        found = upright(found if found.ndim == 2 else found.all(-1), _orientation(file.pages[page]))
        if found.shape != plane.shape:
            raise FileError(f"{path}: page {mask + 1} is a mask of {found.shape}, but its header says {plane.shape}")
        plane[...] = found
    return hidden


def _read_exif(file: Any, page: Any, stream: BinaryIO) -> tuple[Exif, dict[str, Any]]:
    """The tags of a page. Pillow cannot read those of damaged files and of big-endian BigTIFF: none, and that loss."""
    exif: Exif = pil.Exif()
    exif.bigtiff, exif.endian = file.is_bigtiff, file.byteorder
    try:
        exif.load_from_fp(stream, page.offset)
    except MemoryError:
        raise
    except Exception:  # each of Pillow's decoders of tags raises its own
        return pil.Exif(), {"lost": (("tags", "they cannot be read"),)}
    return exif, {}


def ignored_predictor(stored: Mapping[int, Any]) -> tuple[str, ...]:
    """A note for a page with a predictor whose compression has none: libtiff ignores it, tifffile does not."""
    predictor = stored.get(tags.PREDICTOR, NO_PREDICTOR)
    without = stored.get(tags.COMPRESSION, tags.UNCOMPRESSED) in (tags.UNCOMPRESSED, tags.PACKBITS)
    is_false = predictor != NO_PREDICTOR and without
    return (f"predictor {predictor} ignored: its compression has none",) if is_false else ()


def nodata_of(stored: Mapping[int, Any], dtype: str) -> Missing:
    """GDAL's nodata value, if the type can hold it."""
    number = _nodata_number(stored)
    return () if number is None or not can_hold(DTYPES[dtype], number) else (number,)


def ignored_nodata(stored: Mapping[int, Any]) -> tuple[str, ...]:
    """A note for GDAL's nodata value if it is not a number."""
    is_text = _nodata_text(stored) != "" and _nodata_number(stored) is None
    return ("the file's nodata value (GDAL_NODATA) is not a number and is ignored",) if is_text else ()


def _nodata_number(stored: Mapping[int, Any]) -> int | float | None:
    text = _nodata_text(stored)
    if WINDOWS_NAN.fullmatch(text):
        return nan
    try:
        return int(text) if INTEGER.fullmatch(text) else float(text)
    except ValueError:
        return None


def _nodata_text(stored: Mapping[int, Any]) -> str:
    try:
        return tags.nodata_text(stored[tags.GDAL_NODATA])
    except MemoryError:
        raise
    except Exception:  # of many kinds, where the tag is missing or damaged
        return ""


def storage_of(stored: Mapping[int, Any]) -> dict[str, Any]:
    """The compression and predictor of a page."""
    return {
        "compression": stored.get(tags.COMPRESSION, tags.UNCOMPRESSED),
        "predictor": stored.get(tags.PREDICTOR, NO_PREDICTOR),
    }


def _tags(page: Any, wanted: Iterable[int]) -> dict[int, Any]:
    """The wanted tags that a page has."""
    return {tag.code: tag.value for tag in map(page.tags.get, wanted) if tag}


def _orientation(page: Any) -> Any:
    return _tags(page, (tags.ORIENTATION,)).get(tags.ORIENTATION, 1)


PHOTOMETRIC_NAMES = {
    0: "white is zero", 1: "grey", 2: "RGB", 3: "palette", 4: "mask", 5: "CMYK", 6: "YCbCr", 8: "LAB", 9: "LAB",
    10: "ITU LAB", 32803: "colour filter array",
}  # fmt: skip
ALPHA_NOTE = "associated alpha: colours are divided by it"
MAX_SCALED_BITS = 32  # bits; products of two such numbers are exact
MODES_BY_PHOTOMETRIC = {
    tags.GREY: ("L", "LA", "I;16", "LA;16", "I", "F"),
    tags.RGB: ("RGB", "RGBA", "RGB;16", "RGBA;16"),
    tags.CMYK: ("CMYK",),
}


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a pixel: colours as `photometric` says, then the `extra` ones.

    `bits` are those of a stored sample, `dtype` is its type once decoded.
    """

    photometric: int
    extra: tuple[int, ...]
    bits: int
    dtype: str
    channels: int

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
        return self.is_unsigned and self.bits < DTYPES[self.dtype].bits <= MAX_SCALED_BITS

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
        if self.photometric == tags.WHITE_IS_ZERO and not self.is_inverted:
            return BANDS
        if self.extra and (len(self.extra) > 1 or self.extra[0] == tags.UNSPECIFIED):
            return BANDS
        mode = mode_of((1, 1, self.channels), self.dtype, "HWC", "LAB" if self.photometric == tags.LAB else None)
        return mode if mode in MODES_BY_PHOTOMETRIC.get(max(self.photometric, tags.GREY), ("LAB",)) else BANDS

    @property
    def kept(self) -> dict[str, Any]:
        """What a TIFF of bands that is made of them must say of its samples."""
        photometric = tags.GREY if self.is_inverted else self.photometric
        return {"bands": (photometric, self.extra)} if self.mode == BANDS else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the numbers, for the report."""
        found = []
        if self.is_scaled:
            found.append(f"{self.bits} bits a sample, scaled to {DTYPES[self.dtype].bits}")
        if self.photometric == tags.WHITE_IS_ZERO:
            found.append("white is zero: inverted" if self.is_inverted else "white is zero, and stays so")
        if self.is_divided:
            found.append(ALPHA_NOTE)
        if self.mode == BANDS and any(kind != tags.UNSPECIFIED for kind in self.extra):
            found.append("alpha is pooled as a band like others")
        return tuple(found)


def samples_of(path: str, page: Any) -> Samples:
    """The samples of a page; refuses those that have no meaning as numbers."""
    photometric = int(page.photometric)
    dtype = "none" if page.dtype is None else "uint8" if page.dtype.name == "bool" else page.dtype.name
    if (
        photometric not in tags.COLOUR_CHANNELS
        or dtype not in DTYPES
        or dtype in NON_TIFF_DTYPES
        or page.imagedepth != 1
    ):
        kind = PHOTOMETRIC_NAMES.get(photometric, f"photometric {photometric}")
        raise FileError(
            f"{path}: is a TIFF of {dtype} ({kind}); grey, RGB, CMYK and LAB of integers and floats are read"
        )
    count = int(page.samplesperpixel) - tags.COLOUR_CHANNELS[photometric]
    said = tuple(EXTRA_KINDS.get(int(kind), tags.UNSPECIFIED) for kind in page.extrasamples)[:count]
    if not said and photometric == tags.RGB and count == 1:
        said = (tags.UNASSOCIATED,)  # as other programs read it
    extra = said + (tags.UNSPECIFIED,) * (count - len(said))
    return Samples(photometric, extra, int(page.bitspersample), dtype, int(page.samplesperpixel))


def _pixels(page: Any, samples: Samples) -> Array:
    """The pixels of a page as H, W or H, W, C."""
    separate, _, height, width, together = page.shaped
    stored = page.asarray().reshape(separate, height, width, together)
    pixels: Array = stored[0] if separate == 1 else stored[..., 0].transpose(1, 2, 0)
    pixels = pixels.astype(samples.dtype, copy=False)
    if samples.is_scaled:
        pixels = rounded_quotient(pixels, samples.highest, (1 << samples.bits) - 1)
    colours = tags.COLOUR_CHANNELS[samples.photometric]
    if samples.is_inverted:
        pixels = pixels.copy()
        pixels[..., :colours] = samples.highest - pixels[..., :colours]
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
