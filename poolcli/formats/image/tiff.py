"""TIFF whose numbers Pillow would lose or misread: read by tifffile, in whatever form they are stored."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats.image import tiff_tags
from poolcli.formats.image.metadata import metadata_of, of_a_turned_picture
from poolcli.formats.image.pages import Page, Picture, refuse_memory, turned, turning_notes, upright
from poolcli.formats.image.png import WHY_READ
from poolcli.formats.image.tiff_checks import NAMED, count_pages, is_sparse, refuse_lacking, refuse_larger
from poolcli.formats.image.tiff_samples import (
    ASSOCIATED,
    CMYK,
    GREY,
    LAB,
    PALETTE,
    RGB,
    UNASSOCIATED,
    YCBCR,
    decoded,
    samples_of,
)
from poolcli.formats.image.tiff_write import OF_PILLOW
from poolcli.message_fields import field
from poolcli.nodata import Missing, can_hold
from poolcli.system.lazy_imports import Lazy, need

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Exif

    Array = NDArray[Any]

pil: Any = Lazy("PIL.Image")

UNSIGNED, SIGNED, FLOAT = 1, 2, 3
UNCOMPRESSED, SUBSAMPLING = 1, 530
SUBFILE, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, PLANAR, PREDICTOR, EXTRA, FORMAT = (
    254, 258, 259, 262, 277, 284, 317, 338, 339
)  # fmt: skip
TILES = (322, 323)  # width and length of a tile
SWAPPED = 16  # bits of a big-endian sample, above which Pillow swaps bytes that libtiff has swapped
WITHOUT_PREDICTOR, NO_PREDICTOR = (UNCOMPRESSED, 32773), 1  # 32773 is PackBits
MANY_PAGES = 200
PACKED = (5, 8, 32773, 32946)  # LZW, deflate by two numbers, PackBits
QUOTIENTS = 24  # bytes that computing a sample takes for a while
SPARSE = "some strips or tiles are not stored, and read as no data, or 0"
WHOLE = re.compile(r"[+-]?\d{1,19}")
COPY = 0b101  # of the subfile type: a smaller copy, or a mask

# What Pillow reads as it is: photometric, sample format, bits, extra samples; and the same in separate planes.
PILLOW_READS = {
    *((photometric, UNSIGNED, (bits,), ()) for photometric in (0, 1, 3) for bits in (1, 2, 4, 8)),
    (GREY, UNSIGNED, (16,), ()), (GREY, SIGNED, (32,), ()), (GREY, FLOAT, (32,), ()),
    (GREY, UNSIGNED, (8, 8), (ASSOCIATED,)), (GREY, UNSIGNED, (8, 8), (UNASSOCIATED,)),
    (PALETTE, UNSIGNED, (8, 8), (UNASSOCIATED,)), (CMYK, UNSIGNED, (8,) * 4, ()), (LAB, UNSIGNED, (8,) * 3, ()),
    (RGB, UNSIGNED, (8,) * 3, ()), *((RGB, UNSIGNED, (8,) * 4, extra) for extra in ((), (1,), (2,))),
}  # fmt: skip
IN_PLANES = (RGB, CMYK)


def pillow_reads(stored: Mapping[int, Any], big_endian: bool) -> bool:
    """Whether Pillow makes of the pixels what they are."""
    photometric, planes = stored.get(PHOTOMETRIC), stored.get(PLANAR, 1) != 1
    formats, bits, extra = stored.get(FORMAT, (UNSIGNED,)), stored.get(BITS, (1,)), stored.get(EXTRA, ())
    if stored.get(COMPRESSION, UNCOMPRESSED) not in OF_PILLOW or is_sparse(stored):
        return False
    if photometric == YCBCR:  # libtiff makes RGB of it; of what is not compressed Pillow takes each pixel by itself
        compressed = stored.get(COMPRESSION, UNCOMPRESSED) != UNCOMPRESSED
        return not planes and (compressed or stored.get(SUBSAMPLING, (2, 2)) == (1, 1))
    bits = bits * stored.get(SAMPLES, 1) if len(bits) == 1 else bits
    if big_endian and max(bits) > SWAPPED and stored.get(COMPRESSION, UNCOMPRESSED) != UNCOMPRESSED:
        return False
    return (photometric, formats[0], bits, extra) in PILLOW_READS and (not planes or photometric in IN_PLANES)


def open_file(stack: ExitStack, path: str, limit: int | None) -> tuple[Any, BinaryIO, list[Page]]:
    """The file as tifffile has it, its bytes, and its pages, upright."""
    _, tifffile = need("imagecodecs", "tifffile", why=f"{path}: {WHY_READ}", kind=FileError)
    import logging

    logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # it logs what it also raises
    stream = stack.enter_context(io.FileIO(path))
    count = count_pages(path, stream)
    file = stack.enter_context(tifffile.TiffFile(path))
    pages = []
    for page in (file.pages[number] for number in range(count)):
        refuse_memory(path, tile_bytes(_said(page, TILES)), limit)
        size = turned(_orientation(page), int(page.imagewidth), int(page.imagelength))
        pages.append(Page(*size, f"{page.photometric:d}, {page.dtype}", is_copy(page.subfiletype)))
    return file, stream, pages


def is_slow(image: Any, pages: int) -> bool:
    """Whether tifffile, where it is installed, reads the same pixels sooner: libtiff, in which Pillow unpacks, goes
    through all pages before the one that is wanted, 2 ms for each of 8,000.
    """
    stored = image.tag_v2
    is_plain = stored.get(PHOTOMETRIC) in (GREY, RGB) and EXTRA not in stored
    if pages < MANY_PAGES or not is_plain or stored.get(COMPRESSION, UNCOMPRESSED) not in PACKED:
        return False
    try:
        need("imagecodecs", "tifffile", why=WHY_READ)
    except RequestError:
        return False
    return True


def tile_bytes(stored: Mapping[int, Any]) -> int:
    """The bytes of a tile as it is decoded, of pixels of four bytes at least; 0 where the tags name no such lengths."""
    lengths = [length for length in map(stored.get, TILES) if isinstance(length, int)]
    return 0 if len(lengths) < len(TILES) else prod(lengths) * 4


def is_copy(subfile_type: Any) -> bool:
    """Whether a page is a smaller copy or a mask of another."""
    return bool(int(subfile_type) & COPY)


def picture_of(path: str, file: Any, stream: BinaryIO, first: int) -> Picture:
    """The picture from the page `first` on; refuses colours that have no meaning as numbers."""
    page = file.pages[first]
    stored = _said(page, NAMED)
    refuse_lacking(path, first + 1, stored)
    samples = samples_of(path, page)
    missing = no_data(_directory(file, page, stream)[0], samples.dtype)
    last = [page]  # that was decoded

    def decode(number: int) -> Array:
        page = last[0] = file.pages[number]
        if samples_of(path, page) != samples:
            raise FileError(f"{path}: page {number + 1} has other samples; take one with {field('pages', first + 1)}")
        refuse_lacking(path, number + 1, _said(page, NAMED))
        if untrue_predictor(_said(page, (COMPRESSION, PREDICTOR))):
            page.predictor = NO_PREDICTOR  # as libtiff has it
        refuse_larger(path, number + 1, page, stream)
        return upright(decoded(page, samples), _orientation(page))

    def described() -> dict[str, Any]:
        exif, lost = _directory(file, last[0], stream)
        storage = storage_of({COMPRESSION: int(page.compression), PREDICTOR: int(page.predictor)})
        found = metadata_of({}, exif, True) | storage | samples.kept | lost
        return of_a_turned_picture(found) if turns else found

    held = samples.channels * (2 * DTYPES[samples.dtype].itemsize + (QUOTIENTS if samples.is_computed else 0))
    turns = turning_notes(_orientation(page))
    sparse = (SPARSE,) if is_sparse(stored) else ()
    notes = (*turns, *samples.notes, *sparse, *untrue_predictor(_said(page, (COMPRESSION, PREDICTOR))))
    return Picture(
        "tiff", samples.mode, samples.channels, samples.dtype, held, decode, described, notes,
        tells_of_pages=True, missing=missing,
    )  # fmt: skip


def _directory(file: Any, page: Any, stream: BinaryIO) -> tuple[Exif, dict[str, Any]]:
    """The tags of a page; none, and what that loses, where Pillow cannot read them: of damaged files, and of big-endian
    BigTIFF.
    """
    exif: Exif = pil.Exif()
    exif.bigtiff, exif.endian = file.is_bigtiff, file.byteorder
    try:
        exif.load_from_fp(stream, page.offset)
    except MemoryError:
        raise
    except Exception:  # of as many kinds as Pillow has decoders of tags
        return pil.Exif(), {"lost": (("tags", "they cannot be read"),)}
    return exif, {}


def untrue_predictor(stored: Mapping[int, Any]) -> tuple[str, ...]:
    """A note, where a page says that differences are stored and its compression has none: libtiff reads the pixels as
    they are, and tifffile does not.
    """
    predictor = stored.get(PREDICTOR, NO_PREDICTOR)
    untrue = predictor != NO_PREDICTOR and stored.get(COMPRESSION, UNCOMPRESSED) in WITHOUT_PREDICTOR
    return (f"predictor {predictor} ignored: its compression has none",) if untrue else ()


def no_data(stored: Mapping[int, Any], dtype: str) -> Missing:
    """The number that stands for pixels without one (GDAL), where the type has it."""
    try:
        text = str(stored[tiff_tags.NO_DATA]).strip("\0 ")
        number = int(text) if WHOLE.fullmatch(text) else float(text)
        return (number,) if can_hold(DTYPES[dtype], number) else ()
    except MemoryError:
        raise
    except Exception:  # of many kinds, where the tag is damaged
        return ()


def _said(page: Any, tiff_tags: Iterable[int]) -> dict[int, Any]:
    """Those of some tags that a page has."""
    return {tag.code: tag.value for tag in map(page.tags.get, tiff_tags) if tag}


def _orientation(page: Any) -> Any:
    tag = page.tags.get(tiff_tags.ORIENTATION)
    return tag.value if tag else 1


def storage_of(stored: Mapping[int, Any]) -> dict[str, Any]:
    """How the pixels of a TIFF are compressed, as its tags say it."""
    return {"compression": stored.get(COMPRESSION, 1), "predictor": stored.get(PREDICTOR, 1)}
