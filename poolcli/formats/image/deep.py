"""Pictures that Pillow cannot read or write without loss: 16 bits a channel, and TIFF of other number types.

The libraries are tifffile for TIFF and imagecodecs for PNG and for compressed TIFF; both may be missing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from poolcli.core.dtypes import DTYPES
from poolcli.core.errors import FileError
from poolcli.core.fields import field
from poolcli.core.lazy import need
from poolcli.formats.atomic import byte_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIBRARIES = ("imagecodecs", "tifffile")
PHOTOMETRIC = {0: "white is zero", 1: "grey", 2: "RGB", 5: "CMYK", 8: "LAB"}


def read_deep(path: str, name: str, most_pixels: int) -> tuple[NDArray[Any], dict[str, Any]]:
    """The pixels of all pages as N, H, W, C, upright, and the metadata; whatever a library raises is a FileError."""
    why = f"{path}: has colour of 16 bits a channel, or numbers, that Pillow cannot read without loss; install what can"
    imagecodecs, tifffile = need(*LIBRARIES, why=why, kind=FileError)
    logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # it logs what it also raises
    try:
        if name == "png":
            with open(path, "rb") as stream:
                pixels: NDArray[Any] = imagecodecs.png_decode(stream.read())
            return _as_pages(pixels, 1), {}
        return _tiff(path, tifffile, most_pixels)
    except FileError:
        raise
    except Exception as error:  # decoders of damaged files raise whatever they come across
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileError(f"{path}: the image cannot be read: {text[:200]}") from error


def _tiff(path: str, tifffile: Any, most_pixels: int) -> tuple[NDArray[Any], dict[str, Any]]:
    with tifffile.TiffFile(path) as file:
        page, count = file.pages[0], len(file.pages)
        photometric = int(page.photometric)
        if photometric not in (1, 2) or page.dtype is None or page.dtype.name not in DTYPES:
            kind = PHOTOMETRIC.get(photometric, str(photometric))
            raise FileError(f"{path}: is a TIFF of {page.dtype} ({kind}); grey and RGB of integers and floats are read")
        pixels = count * int(page.imagelength) * int(page.imagewidth)
        if pixels > most_pixels:
            raise FileError(
                f"{path}: has {pixels:,} pixels; at most {most_pixels:,} are read (decompression bomb?); "
                f"{field('max_pixels')} sets the limit"
            )
        if any(other.shape != page.shape or other.dtype != page.dtype for other in file.pages):
            raise FileError(f"{path}: its pages differ in size or type; split them into files of their own")
        import numpy as np

        planes = [_upright(_channels_last(p.asarray(), int(p.planarconfig)), p.tags.get(274)) for p in file.pages]
        profile = page.tags.get(34675)
        return _as_pages(np.stack(planes), count), {"icc_profile": profile.value} if profile else {}


def _channels_last(pixels: NDArray[Any], planar: int) -> NDArray[Any]:
    return pixels.transpose(1, 2, 0) if planar == 2 and pixels.ndim == 3 else pixels


def _upright(pixels: NDArray[Any], tag: Any) -> NDArray[Any]:
    """Turned as the orientation tag says: 2 to 4 mirror, 5 to 8 also exchange the axes."""
    orientation = int(tag.value) if tag else 1
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def _as_pages(pixels: NDArray[Any], count: int) -> NDArray[Any]:
    """As N, H, W, C, whichever of N and C the pixels have."""
    if count == 1 and pixels.ndim < 4 and not (pixels.ndim == 3 and pixels.shape[0] == 1):
        pixels = pixels[None]
    return pixels[..., None] if pixels.ndim == 3 else pixels


def write_deep(path: str, pages: NDArray[Any], name: str, kept: Mapping[str, Any], overwrite: bool) -> None:
    """Writes N, H, W, C of 16 bits a channel."""
    why = f"{path}: {name} with 16 bits a channel, which Pillow cannot write; install what can"
    imagecodecs, tifffile = need(*LIBRARIES, why=why, kind=FileError)
    with byte_stream(path, overwrite) as stream:
        if name == "png":
            stream.write(imagecodecs.png_encode(pages[0]))
            return
        options: dict[str, Any] = {"iccprofile": kept.get("icc_profile"), "resolution": kept.get("dpi")}
        if pages.shape[-1] in (2, 4):
            options["extrasamples"] = ["unassalpha"]
        tifffile.imwrite(stream, pages, photometric="rgb", metadata=None, **options)
