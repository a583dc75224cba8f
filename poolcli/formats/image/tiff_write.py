"""TIFF of 16 bits a channel, and of bands of any type: written by tifffile.

So is what is compressed, where it and imagecodecs are installed: of a picture of 1.5 million pixels deflate takes
135 ms of a core, by Pillow 400, and LZW 62, by Pillow 73.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from poolcli.errors import FileError, RequestError
from poolcli.formats.image.modes import MODES
from poolcli.formats.image.png import WHY_WRITE
from poolcli.formats.image.tiff_samples import (
    CMYK,
    COLOURS,
    GREY,
    LAB,
    RGB,
    UNASSOCIATED,
    UNSPECIFIED,
    with_signs_turned,
)
from poolcli.system.lazy_imports import need

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE, DEFLATE = 1, 8
PREDICTOR = 317  # the tag
PREDICTORS = (2, 3)  # its values
# What Pillow and tifffile call it, and whether a predictor can go with it. Some Pillows are built without the last two.
COMPRESSIONS: dict[int, tuple[str | None, str | None, bool]] = {
    NONE: (None, None, False),
    5: ("tiff_lzw", "lzw", True),
    DEFLATE: ("tiff_adobe_deflate", "zlib", True),
    32946: ("tiff_adobe_deflate", "zlib", True),
    32773: ("packbits", "packbits", False),
    34925: (None, "lzma", True),
    50000: (None, "zstd", True),
}
# Those that every Pillow reads: further ones of bits, packed bits by others, JPEG in its two forms.
OF_PILLOW = (NONE, 2, 3, 4, 5, 6, 7, DEFLATE, 32771, 32773, 32809, 32946)


class Compression(NamedTuple):
    """A compression as Pillow and tifffile call it, None for none, and whether differences are stored."""

    pillow: str | None
    tifffile: str | None
    predictor: bool

    @property
    def is_of_tifffile(self) -> bool:
        """Whether tifffile alone can write it."""
        return self.tifffile is not None and self.pillow is None

    @property
    def pillow_options(self) -> dict[str, Any]:
        """What Pillow's `save` takes of it."""
        differences = {"tiffinfo": {PREDICTOR: 2}} if self.predictor else {}
        return {"compression": self.pillow, **differences} if self.pillow else {}


def choose_compression(kept: Mapping[str, Any]) -> tuple[Compression, tuple[str, ...]]:
    """The input's compression, or deflate where it had losses or is for bits alone, and a note on that."""
    stored = kept.get("compression", NONE)
    pillow, tifffile, differs = COMPRESSIONS.get(stored, COMPRESSIONS[DEFLATE])
    compression = Compression(pillow, tifffile, differs and kept.get("predictor") in PREDICTORS)
    if stored in COMPRESSIONS:
        return compression, ()
    return compression, ("compression of the input not kept: stored with deflate, without loss",)


DIFFERENCES = 4  # bytes of the largest integers of which tifffile stores differences
# Differences of 16 bits are mostly noise, which no search makes shorter: photographs, microscopy and elevations take at
# the lowest level 0.99 to 1.04 of the bytes that they take at the usual one (labels 1.26), and half the time.
NOISY, QUICK = {("zlib", True, "uint16"), ("zlib", True, "int16")}, {"level": 1}
MOST_BYTES = 2**32 - 2**25  # of pixels, above which a BigTIFF is written
NAMED = {"CMYK": CMYK, "LAB": LAB}  # modes whose colours their number does not tell


@cache
def is_there() -> bool:
    """Whether the packages are installed that write and compress."""
    try:
        need("tifffile", "imagecodecs", why=WHY_WRITE)
    except RequestError:
        return False
    return True


def encode(path: str, pages: NDArray[Any], mode: str, kept: Mapping[str, Any], compression: Compression) -> bytes:
    """The pixels, N, H, W, C, as a little-endian TIFF; bands are what `kept` says."""
    (tifffile,) = need("tifffile", why=f"{path}: {WHY_WRITE}", kind=FileError)
    channels = pages.shape[-1]
    photometric, extra = kept.get("bands", (NAMED.get(mode, RGB if channels in (3, 4) else GREY), ()))
    if COLOURS[photometric] + len(extra) != channels:
        kind = UNASSOCIATED if mode in MODES and MODES[mode].alpha else UNSPECIFIED
        extra = (kind,) * (channels - COLOURS[photometric])
    if photometric == LAB and pages.dtype.kind == "u":
        pages = with_signs_turned(pages)
    compressor = compression.tifffile
    predictor = compression.predictor and (pages.dtype.kind == "f" or pages.dtype.itemsize <= DIFFERENCES)
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream, byteorder="<", bigtiff=pages.nbytes > MOST_BYTES) as file:
        for page in pages:
            file.write(
                page if channels > 1 else page[..., 0],
                photometric=photometric,
                planarconfig="contig" if channels > 1 else None,
                extrasamples=extra or None,
                compression=compressor,
                compressionargs=QUICK if (compressor, predictor, pages.dtype.name) in NOISY else None,
                predictor=predictor,
                metadata=None,
                software=False,
            )
    return stream.getvalue()
