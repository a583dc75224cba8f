"""TIFF whose numbers Pillow would lose or misread: read by tifffile, in whatever form they are stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.core.dtypes import DTYPES
from poolcli.core.errors import FileError
from poolcli.core.fields import field
from poolcli.core.lazy import Lazy, need
from poolcli.formats.image import tags
from poolcli.formats.image.metadata import metadata_of
from poolcli.formats.image.pages import Page
from poolcli.formats.image.picture import Picture, turned, turning_notes, upright
from poolcli.formats.image.png import WHY_READ
from poolcli.formats.image.samples import (
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


def pillow_reads(stored: Mapping[int, Any]) -> bool:
    """Whether Pillow makes of the pixels what they are."""
    photometric, planes = stored.get(PHOTOMETRIC), stored.get(PLANAR, 1) != 1
    formats, bits, extra = stored.get(FORMAT, (UNSIGNED,)), stored.get(BITS, (1,)), stored.get(EXTRA, ())
    if photometric == YCBCR:  # libtiff makes RGB of it; of what is not compressed Pillow takes each pixel by itself
        compressed = stored.get(COMPRESSION, UNCOMPRESSED) != UNCOMPRESSED
        return not planes and (compressed or stored.get(SUBSAMPLING, (2, 2)) == (1, 1))
    bits = bits * stored.get(SAMPLES, 1) if len(bits) == 1 else bits
    return (photometric, formats[0], bits, extra) in PILLOW_READS and (not planes or photometric in IN_PLANES)


def open_file(stack: ExitStack, path: str) -> Any:
    """The file as tifffile has it."""
    _, tifffile = need("imagecodecs", "tifffile", why=f"{path}: {WHY_READ}", kind=FileError)
    logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # it logs what it also raises
    return stack.enter_context(tifffile.TiffFile(path))


def pages_of(file: Any) -> list[Page]:
    """The pages, upright."""
    pages = []
    for page in file.pages:
        size = turned(_orientation(page), int(page.imagewidth), int(page.imagelength))
        pages.append(Page(*size, f"{page.photometric:d}, {page.dtype}", is_copy(page.subfiletype)))
    return pages


def is_copy(subfile_type: Any) -> bool:
    """Whether a page is a smaller copy or a mask of another."""
    return bool(int(subfile_type) & COPY)


def picture_of(path: str, file: Any, stream: BinaryIO, first: int) -> Picture:
    """The picture from the page `first` on; refuses colours that have no meaning as numbers."""
    page = file.pages[first]
    samples = samples_of(path, page)
    exif, lost = _directory(file, page, stream)

    def decode(number: int) -> Array:
        page = file.pages[number]
        if samples_of(path, page) != samples:
            raise FileError(f"{path}: page {number + 1} has other samples; take one with {field('pages', first + 1)}")
        return upright(decoded(page, samples), _orientation(page))

    def described() -> dict[str, Any]:
        storage = storage_of({COMPRESSION: int(page.compression), PREDICTOR: int(page.predictor)})
        return metadata_of({}, exif, True) | storage | samples.kept | lost

    held = 2 * samples.channels * DTYPES[samples.dtype].itemsize
    notes = (*turning_notes(_orientation(page)), *samples.notes, *no_data_notes(exif))
    return Picture("tiff", samples.mode, samples.channels, samples.dtype, held, decode, described, notes)


def _directory(file: Any, page: Any, stream: BinaryIO) -> tuple[Exif, dict[str, Any]]:
    """The tags of a page; none, and what that loses, in a big-endian BigTIFF, which Pillow misreads."""
    exif: Exif = pil.Exif()
    if file.is_bigtiff and file.byteorder == ">":
        return exif, {"lost": (("tags", "of a big-endian BigTIFF they cannot be read"),)}
    exif.bigtiff, exif.endian = file.is_bigtiff, file.byteorder
    exif.load_from_fp(stream, page.offset)
    return exif, {}


def no_data_notes(stored: Mapping[int, Any]) -> tuple[str, ...]:
    """What a report says of a number that stands for pixels without one (GDAL)."""
    number = str(stored.get(tags.NO_DATA, "")).strip("\0 ")
    return (f"{number[:40]} stands for no data, and is pooled like any number",) if number else ()


def _orientation(page: Any) -> Any:
    tag = page.tags.get(tags.ORIENTATION)
    return tag.value if tag else 1


def storage_of(stored: Mapping[int, Any]) -> dict[str, Any]:
    """How the pixels of a TIFF are compressed, as its tags say it."""
    return {"compression": stored.get(COMPRESSION, 1), "predictor": stored.get(PREDICTOR, 1)}
