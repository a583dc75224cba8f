"""TIFF, written by tifffile."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.modes import MODES, with_flipped_signs
from poolcli.system.lazy_imports import Array, Lazy
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")
pil_tiff: Any = Lazy("PIL.TiffImagePlugin")
tifffile: Any = Lazy("tifffile")

ASCII, SHORT, LONG, DOUBLE = 2, 3, 4, 12  # types of tags
HORIZONTAL = 2  # the predictor that stores differences of integers
MAX_PREDICTOR_BYTES = 4  # bytes of the largest integers of which tifffile stores differences
# Differences of 16 bits are mostly noise, which no search makes shorter: photographs, microscopy and elevations take at
# the lowest level 0.99 to 1.04 of the bytes that they take at the usual one (labels 1.26), and half the time.
FAST_LEVEL = {"level": 1}
MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, above which a BigTIFF is written
PHOTOMETRIC_OF_MODE = {"CMYK": tags.CMYK, "LAB": tags.LAB}  # modes whose colours their number does not tell
PALETTE_SIZE = 256  # colours of 8 bits
# tifffile writes no EXIF and GPS directories: tags of these numbers, just below, keep their places.
PLACES = {tags.EXIF: tags.EXIF - 1, tags.GPS: tags.GPS - 1}


def encode(mode: str, pages: Array, kept: Mapping[str, Any]) -> bytes:
    """A little-endian TIFF of pages, N, H, W, C, and what is kept; deflated if the input is compressed."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream, byteorder="<", bigtiff=pages.nbytes > MAX_CLASSIC_BYTES) as file:
        directories = _write_pages(file, mode, pages, kept)
    _add_directories(stream, directories)
    return stream.getvalue()


def _write_pages(file: Any, mode: str, pages: Array, kept: Mapping[str, Any]) -> Sequence[Mapping[int, Any]]:
    """Writes pages with their masks; returns the EXIF and GPS directories of each."""
    channels = pages.shape[-1]
    usual = PHOTOMETRIC_OF_MODE.get(mode, tags.RGB if channels in (3, 4) else tags.GREY)
    photometric, extra = kept.get("bands", (usual, ()))
    colours = tags.COLOUR_CHANNELS.get(photometric, 1)
    if colours + len(extra) != channels:
        kind = tags.UNASSOCIATED if mode in MODES and MODES[mode].alpha else tags.UNSPECIFIED
        extra = (kind,) * (channels - colours)
    if photometric == tags.LAB and pages.dtype.kind == "u":
        pages = with_flipped_signs(pages)
    is_packed = kept.get("compression", tags.UNCOMPRESSED) != tags.UNCOMPRESSED
    has_differences = pages.dtype.kind in "iu" and pages.dtype.itemsize <= MAX_PREDICTOR_BYTES
    predictor = is_packed and has_differences and kept.get("predictor") == HORIZONTAL
    options = {
        "photometric": photometric,
        "planarconfig": "contig" if channels > 1 else None,
        "extrasamples": extra or None,
        "compression": "zlib" if is_packed else None,
        "compressionargs": FAST_LEVEL if predictor and pages.dtype.itemsize == 2 else None,
        "predictor": predictor,
        "metadata": None,
        "software": False,
    }
    if "palette" in kept:
        colours, _ = kept["palette"]
        table = np.pad(colours.T, ((0, 0), (0, PALETTE_SIZE - len(colours))))
        options |= {"photometric": tags.PALETTE, "colormap": table}
    exif: Exif = pil.Exif()
    exif.load(kept.get("exif", b""))
    below = {tag: dict(exif.get_ifd(tag)) for tag in PLACES if tag in exif}
    own = _tag_options(kept, exif)
    first = own | ({"description": kept["description"]} if "description" in kept else {})
    for number, page in enumerate(pages):
        file.write(page if channels > 1 else page[..., 0], **options, **(own if number else first))
        if "mask" in kept:
            mask = {"photometric": "mask", "subfiletype": tags.MASK, "compression": "zlib"}
            file.write(~kept["mask"][number], metadata=None, software=False, **mask)
            below_of_pages = [below, {}]
        else:
            below_of_pages = [below]
    return below_of_pages * len(pages)


def _tag_options(kept: Mapping[str, Any], exif: Exif) -> dict[str, Any]:
    """What is kept of a page as arguments of tifffile's `write`."""
    options: dict[str, Any] = {}
    if "dpi" in kept:
        options |= {"resolution": kept["dpi"], "resolutionunit": "INCH"}
    if "icc_profile" in kept:
        options["iccprofile"] = kept["icc_profile"]
    texts = {tag: str(value).encode("latin-1", "replace") for tag, value in exif.items() if isinstance(value, str)}
    if tags.DESCRIPTION in texts:
        options["description"] = texts.pop(tags.DESCRIPTION)
    if "nodata" in kept:
        texts[tags.GDAL_NODATA] = kept["nodata"].encode()
    if "gdal" in kept:
        texts[tags.GDAL_METADATA] = tags.encode_gdal(kept["gdal"])
    geo = kept.get("geo", {})
    if tags.GEO_TEXT in geo:
        texts[tags.GEO_TEXT] = str(geo[tags.GEO_TEXT]).encode()
    numbers = {tag: (SHORT if tag == tags.GEO_KEYS else DOUBLE, geo[tag]) for tag in geo if tag != tags.GEO_TEXT}
    numbers |= {
        tag: (SHORT, (value,))
        for tag, value in exif.items()
        if isinstance(value, int) and tag not in (tags.EXIF, tags.GPS)
    }
    extra: list[tuple[int, int, int, Any, bool]] = [
        (tag, ASCII, len(text) + 1, text, True) for tag, text in texts.items()
    ]
    extra += [(tag, kind, len(values), values, True) for tag, (kind, values) in numbers.items()]
    extra += [(PLACES[tag], LONG, 1, 0, True) for tag in PLACES if tag in exif]
    return options | {"extratags": extra}


def _add_directories(stream: io.BytesIO, directories: Sequence[Mapping[int, Any]]) -> None:
    """Adds the EXIF and GPS directories of each page at the end of the file, and puts them into their places."""
    if not any(directories):
        return
    stream.seek(0)
    with tifffile.TiffFile(stream, mode="r+") as file:
        head = b"II+\0" + bytes(12) if file.is_bigtiff else b"II*\0" + bytes(4)
        for page, below in zip(list(file.pages), directories, strict=True):
            for tag, values in below.items():
                directory = pil_tiff.ImageFileDirectory_v2(head, group=tag)
                for key, value in tags.with_raw_texts(values).items():
                    directory[key] = value
                place = page.tags[PLACES[tag]]
                at = stream.seek(0, io.SEEK_END)
                stream.write(directory.tobytes(at))
                place.overwrite(at)
                stream.seek(place.offset)
                stream.write(struct.pack("<H", tag))
