"""TIFF written by tifffile (16 bits a channel, bands of any type, all compressed ones if it is installed), and the
directory of tags, which every TIFF gets afterwards.

tifffile with imagecodecs compresses 1.5 million pixels by deflate in 135 ms of CPU time (Pillow 400), by LZW in 62
(Pillow 73).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from poolcli.errors import FileError
from poolcli.formats.image import tiff_tags as tags
from poolcli.formats.image.codecs import WHY_WRITE
from poolcli.formats.image.metadata import INCH, sub_ifd
from poolcli.formats.image.modes import MODES, with_flipped_signs
from poolcli.system.lazy_imports import Array, Lazy, installed, need

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")
pil_tiff: Any = Lazy("PIL.TiffImagePlugin")


class Compression(NamedTuple):
    """A compression as Pillow and tifffile call it, None for none, and whether a predictor goes with it."""

    pillow: str | None
    tifffile: str | None
    predictor: bool

    def pillow_options(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of Pillow's `save`, with the tags that every page has."""
        info = {tags.GDAL_NODATA: kept["nodata"]} if "nodata" in kept else {}
        if not self.pillow:
            return {"tiffinfo": info} if info else {}
        info |= {tags.PREDICTOR: 2} if self.predictor else {}
        return {"compression": self.pillow} | ({"tiffinfo": info} if info else {})

    @property
    def needs_tifffile(self) -> bool:
        """Whether tifffile writes it: it alone can, or it is installed and faster."""
        return self.tifffile is not None and (self.pillow is None or installed("tifffile", "imagecodecs"))


# With whether a predictor can go with it. Some Pillows are built without the last two.
COMPRESSIONS = {
    tags.UNCOMPRESSED: Compression(None, None, False),
    tags.LZW: Compression("tiff_lzw", "lzw", True),
    tags.DEFLATE: Compression("tiff_adobe_deflate", "zlib", True),
    tags.OLD_DEFLATE: Compression("tiff_adobe_deflate", "zlib", True),
    tags.PACKBITS: Compression("packbits", "packbits", False),
    tags.LZMA: Compression(None, "lzma", True),
    tags.ZSTD: Compression(None, "zstd", True),
}
PREDICTORS = (2, 3)  # horizontal differences, of integers and of floats


def choose_compression(kept: Mapping[str, Any]) -> tuple[Compression, tuple[str, ...]]:
    """The input's compression, or deflate where that was lossy or is for bilevel images, and a note on that."""
    stored = kept.get("compression", tags.UNCOMPRESSED)
    able = COMPRESSIONS.get(stored, COMPRESSIONS[tags.DEFLATE])
    lost = () if stored in COMPRESSIONS else ("compression of the input not kept: stored with deflate, without loss",)
    return able._replace(predictor=able.predictor and kept.get("predictor") in PREDICTORS), lost


MAX_PREDICTOR_BYTES = 4  # bytes of the largest integers of which tifffile stores differences
# Differences of 16 bits are mostly noise, which no search makes shorter: photographs, microscopy and elevations take at
# the lowest level 0.99 to 1.04 of the bytes that they take at the usual one (labels 1.26), and half the time.
FAST_DEFLATE, FAST_LEVEL = {("zlib", True, "uint16"), ("zlib", True, "int16")}, {"level": 1}
MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, above which a BigTIFF is written
PHOTOMETRIC_OF_MODE = {"CMYK": tags.CMYK, "LAB": tags.LAB}  # modes whose colours their number does not tell


def encode(
    path: str, sections: Sequence[tuple[str, Array, Mapping[str, Any]]], compressions: Sequence[Compression]
) -> bytes:
    """A little-endian TIFF of modes, pixels as N, H, W, C, and what is kept, each with its compression."""
    (tifffile,) = need("tifffile", why=f"{path}: {WHY_WRITE}", kind=FileError)
    stream, size = io.BytesIO(), sum(pages.nbytes for _, pages, _ in sections)
    with tifffile.TiffWriter(stream, byteorder="<", bigtiff=size > MAX_CLASSIC_BYTES) as file:
        for (mode, pages, kept), compression in zip(sections, compressions, strict=True):
            _write_pages(file, mode, pages, kept, compression)
    return stream.getvalue()


def _write_pages(file: Any, mode: str, pages: Array, kept: Mapping[str, Any], compression: Compression) -> None:
    """Writes pages with their masks; `kept` says what bands are."""
    channels = pages.shape[-1]
    photometric, extra = kept.get(
        "bands", (PHOTOMETRIC_OF_MODE.get(mode, tags.RGB if channels in (3, 4) else tags.GREY), ())
    )
    if tags.COLOUR_CHANNELS[photometric] + len(extra) != channels:
        kind = tags.UNASSOCIATED if mode in MODES and MODES[mode].alpha else tags.UNSPECIFIED
        extra = (kind,) * (channels - tags.COLOUR_CHANNELS[photometric])
    if photometric == tags.LAB and pages.dtype.kind == "u":
        pages = with_flipped_signs(pages)
    compressor = compression.tifffile
    predictor = compression.predictor and (pages.dtype.kind == "f" or pages.dtype.itemsize <= MAX_PREDICTOR_BYTES)
    nodata = [(tags.GDAL_NODATA, "s", 0, kept["nodata"], True)] if "nodata" in kept else []
    for number, page in enumerate(pages):
        file.write(
            page if channels > 1 else page[..., 0],
            photometric=photometric,
            planarconfig="contig" if channels > 1 else None,
            extrasamples=extra or None,
            compression=compressor,
            compressionargs=FAST_LEVEL if (compressor, predictor, pages.dtype.name) in FAST_DEFLATE else None,
            predictor=predictor,
            metadata=None,
            software=False,
            extratags=nodata,
        )
        if "mask" in kept:
            mask = {"photometric": "mask", "subfiletype": tags.MASK, "compression": "zlib"}
            file.write(~kept["mask"][number], metadata=None, software=False, **mask)


BYTE, TEXT, UNDEFINED = 1, 2, 7  # types of tags
PAGE_METADATA = ("description", "exif", "icc_profile", "xmp", "photoshop", "dpi", "geo", "gdal")
BYTE_TAGS = {tags.ICC_PROFILE: ("icc_profile", UNDEFINED), tags.XMP: ("xmp", BYTE), tags.PHOTOSHOP: ("photoshop", BYTE)}


def with_metadata_tags(data: bytes, found: Sequence[Mapping[str, Any]]) -> bytes | bytearray:
    """A little-endian TIFF whose pages, masks left out, also have the tags that were found for each.

    Their directories are written anew at the end of the file, with the entries that they had, which say where the
    pixels are, and the new ones: tifffile cannot write EXIF directories, and Pillow not all that tifffile writes.
    """
    if not any(key in page for page in found for key in PAGE_METADATA):
        return data
    tiff, big = bytearray(data), data[2] == 43
    number, place, entry, at = ("<Q", "<Q", 20, 8) if big else ("<H", "<I", 12, 4)
    head, page = data[:at] + bytes(struct.calcsize(place)), 0

    def entries(data: bytes | bytearray, start: int) -> tuple[dict[int, bytes | bytearray], int]:
        (count,) = struct.unpack_from(number, data, start)
        start += struct.calcsize(number)
        records = (data[i : i + entry] for i in range(start, start + count * entry, entry))
        return {int.from_bytes(record[:2], "little"): record for record in records}, start + count * entry

    while first := struct.unpack_from(place, tiff, at)[0]:  # `at` is where the place of the page's directory is stored
        own, following = entries(tiff, first)
        if int.from_bytes(own.get(tags.SUBFILE, b"")[-struct.calcsize(place) :], "little") & tags.MASK:
            at = following
            continue
        tags_of_page = _metadata_ifd(found[page], head)
        if len(tags_of_page):
            tiff += bytes(len(tiff) % 2)
            added = tags_of_page.tobytes(len(tiff))
            both = {**own, **entries(added, 0)[0]}
            struct.pack_into(place, tiff, at, len(tiff) + len(added))
            tiff += added + struct.pack(number, len(both)) + b"".join(both[tag] for tag in sorted(both))
            at, page = len(tiff), page + 1
            tiff += tiff[following : following + struct.calcsize(place)]
        else:
            at, page = following, page + 1
    return tiff


def _metadata_ifd(found: Mapping[str, Any], head: bytes) -> Any:
    directory = pil_tiff.ImageFileDirectory_v2(head)
    exif: Exif = pil.Exif()
    exif.load(found.get("exif", b""))
    for tag, value in exif.items():
        directory[tag] = tags.as_read(sub_ifd(exif, tag) if tag in (tags.EXIF, tags.GPS) else value)
    values = {tag: (found[key], kind) for tag, (key, kind) in BYTE_TAGS.items() if key in found}
    iptc = tags.parse_blocks(found.get("photoshop", b"")).get(tags.IPTC_BLOCK)
    if iptc:
        values[tags.IPTC] = (iptc, UNDEFINED)
    if "description" in found:
        values[tags.DESCRIPTION] = (found["description"], TEXT)
    if "gdal" in found:
        values[tags.GDAL_METADATA] = (tags.encode_gdal(found["gdal"]), TEXT)
    for tag, (value, kind) in values.items():
        directory.tagtype[tag] = kind
        directory[tag] = value
    if "dpi" in found:
        directory[tags.RESOLUTION_UNIT] = INCH
        for tag, dots in zip(tags.RESOLUTION, found["dpi"], strict=True):
            directory[tag] = dots
    for tag, value in found.get("geo", {}).items():
        directory[tag] = tags.as_read(value)
    return directory
