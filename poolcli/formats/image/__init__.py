"""Image files: which library reads them, and their pages as one array. `write.py` writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.checks import byte_count, check_expansion
from poolcli.formats.image import boxes, codecs, pillow, stacks, tiff, tiff_write
from poolcli.formats.image.curves import curve_of
from poolcli.formats.image.metadata import metadata_of
from poolcli.formats.image.modes import MODES
from poolcli.formats.image.pages import (
    Page,
    PageDecoder,
    check_image_memory,
    check_pixel_count,
    choose_pages,
    equal_runs,
    masks_of,
    orientation_notes,
    upright,
)
from poolcli.formats.image.write import write
from poolcli.formats.records import ArrayReader, Axis, Header, InMemoryReader, Metadata, ReadOptions, Source
from poolcli.system.lazy_imports import Array, installed
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["open_array", "write"]

LATER_NODATA = ("nodata values of pages after the first", "they differ from that of the first")
DESCRIPTION_BY = "description by "  # a program


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The images, upright; pixels are decoded when they are first read."""
    with ExitStack() as stack:
        with pillow.pillow_errors(source.path):
            file = _File(stack, source.path, options)
        yield _reader(file, options)


class _File:
    """An open file, whose pages are listed once however many readers it has."""

    def __init__(self, stack: ExitStack, path: str, options: ReadOptions) -> None:
        self._stack, self.path, self._limit = stack, path, options.limit
        self.image, self.said = pillow.open_image(stack, path, options.max_pixels, options.limit)
        self.known = pillow.known_pages(path, self.image, options.limit) if self.image is not None else None

    @cached_property
    def by_tifffile(self) -> tuple[Any, BinaryIO, list[Page]]:
        return tiff.open_tiff(self._stack, self.path, self._limit)


def _reader(file: _File, options: ReadOptions) -> InMemoryReader:
    with pillow.pillow_errors(file.path):
        header, picture, pages, masks = _inspect(file, options)

    def load() -> tuple[Array, Metadata]:
        with pillow.pillow_errors(file.path):
            array, metadata = _load(file.path, header, picture, pages, options)
            if header.masked:
                planes = header.shape if picture.channels == 1 else (*header.shape[:-1], 1)
                tiff_file, stream, _ = file.by_tifffile
                hidden = tiff.read_masks(file.path, tiff_file, stream, masks, pages, array.shape[-picture.axes :][:2])
                metadata = replace(metadata, image={**metadata.image, "mask": hidden.reshape(planes)})
            return array, metadata

    return InMemoryReader(header, load, partial(_reader, file))


def _inspect(opened: _File, options: ReadOptions) -> tuple[Header, PageDecoder, Sequence[int], Sequence[int | None]]:
    """The header, how pages are decoded, which are read, and the mask of each."""
    picture, pages, taken, apart, notes = _choose_decoder(opened, options)
    for page in taken:
        check_pixel_count(opened.path, pages[page].pixels, options.max_pixels)
    first = pages[taken[0]]
    shape, layout, axes = _shape_of(opened.path, first, picture, taken, len(pages), options)
    alpha = picture.mode in MODES and MODES[picture.mode].alpha
    by_page = masks_of(pages) if options.apply_masks and not first.is_mask else {}
    masks = [by_page.get(page) for page in taken]
    masked = any(mask is not None for mask in masks)
    decoding = first.pixels * (picture.memory + masked * (2 + len(taken))) + os.path.getsize(opened.path)
    header = Header(
        picture.format, shape, picture.dtype, layout, None, (*opened.said, *picture.notes, *notes), picture.mode, alpha,
        picture.missing, decoding, picture.curve, masked, apart, axes,
    )  # fmt: skip
    return header, picture, taken, masks


def _choose_decoder(
    opened: _File, options: ReadOptions
) -> tuple[PageDecoder, Sequence[Page], Sequence[int], tuple[str, ...], tuple[str, ...]]:
    """The decoder of the library that reads all bits, all pages, and what `_select_pages` returns of them."""
    path, image, known = opened.path, opened.image, opened.known
    pages = opened.by_tifffile[2] if known is None else known
    taken, apart, notes = _select_pages(path, pages, options)
    if image is not None and len(pages) > 1 and not pillow.seek_pages(image, taken if known is None else taken[:1]):
        image = None
    if image is None or (
        image.format == "TIFF" and (_loses_bits(image) or tiff.is_faster(pillow.stored_tags(image), len(taken)))
    ):
        file, stream, pages = opened.by_tifffile
        taken, apart, notes = _select_pages(path, pages, options)
        picture = tiff.page_decoder(path, file, stream, taken[0])
    elif not _loses_bits(image):
        picture = pillow.page_decoder(path, image, pages[taken[0]], len(taken) > 1)
    elif _is_readable(image):
        if taken[0]:
            raise FileError(
                f"{path}: has more than 8 bits a channel, and of such a {image.format} only page 1 can be read"
            )
        picture, taken = _deep_decoder(path, image), [0]
    else:
        raise FileError(
            f"{path}: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss"
        )
    return picture, pages, taken, apart, notes


def _shape_of(
    path: str, first: Page, picture: PageDecoder, taken: Sequence[int], count: int, options: ReadOptions
) -> tuple[tuple[int, ...], str, tuple[Axis, ...]]:
    """Shape and layout of the pages that are `taken` of `count`, and the axes that the file names of such a stack."""
    shape: tuple[int, ...] = (first.height, first.width)
    layout = "HW"
    if picture.channels > 1:
        shape, layout = (*shape, picture.channels), "HWC"
    if len(taken) > 1:
        shape, layout = (len(taken), *shape), f"N{layout}"
    axes: tuple[Axis, ...] = ()
    wanted = options.as_pyramid or (options.ndim or 0) > 2
    if wanted and picture.format == "tiff" and picture.channels == 1 and len(taken) == count:
        axes = stacks.read_axes(path, count, shape[-2:])
    if axes and (options.as_pyramid or len(axes) == options.ndim):
        shape, layout = tuple(axis.length for axis in axes), "".join(axis.letter for axis in axes)
    return shape, layout, axes


def _select_pages(
    path: str, pages: Sequence[Page], options: ReadOptions
) -> tuple[Sequence[int], tuple[str, ...], tuple[str, ...]]:
    """The pages that are read together, all that are read in runs of such pages if there are several, and notes."""
    able = options.split_pages and installed("tifffile", "imagecodecs")
    chosen, notes = choose_pages(path, pages, options.pages, options.apply_masks, able)
    runs = equal_runs(pages, chosen)
    return runs[0], tuple(f"{run[0] + 1}-{run[-1] + 1}" for run in runs) if len(runs) > 1 else (), notes


def _load(
    path: str, header: Header, picture: PageDecoder, pages: Sequence[int], options: ReadOptions
) -> tuple[Array, Metadata]:
    """The pixels as H, W or H, W, C, with N in front for several pages, and the metadata."""
    needed = byte_count(header.shape, DTYPES[header.dtype].itemsize)
    check_image_memory(path, needed + header.extra_memory, options.limit)
    check_expansion(path, os.path.getsize(path), needed, options.allowed)
    first = _decode(path, picture, pages[0], header.shape[-picture.axes :])
    first = np.ascontiguousarray(first)
    found = picture.described()
    if len(pages) == 1:
        return first, Metadata(image=found)
    out, times = np.empty(header.shape, header.dtype), [picture.duration()]
    planes = out.reshape(len(pages), *first.shape)
    planes[0] = first
    own, lost, later = _page_metadata(found), dict.fromkeys(found.get("lost", ())), dict[int, dict[str, Any]]()
    for number, page in enumerate(pages[1:], 1):
        planes[number] = _decode(path, picture, page, first.shape)
        times.append(picture.duration())
        if picture.tells_of_pages:
            said = picture.described()
            lost |= dict.fromkeys(said.get("lost", ()))
            lost |= {LATER_NODATA: None} if said.get("nodata") != found.get("nodata") else {}
            later |= {number: _page_metadata(said)} if _page_metadata(said) != own else {}
    if any(times):
        found["duration"] = [time or 0 for time in times]
    described = [each for each in lost if each[0].startswith(DESCRIPTION_BY)]
    axes = stacks.read_axes(path, len(pages), first.shape) if described and picture.channels == 1 else ()
    found |= {"axes": axes} if axes else {}
    lost = {each: None for each in lost if not (axes and each in described)}
    found |= {"lost": tuple(lost)}
    return out, Metadata(image=found | ({"pages": later} if later else {}), axes=header.axes)


def _page_metadata(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a TIFF says of each page by itself."""
    return {key: found[key] for key in tiff_write.PAGE_METADATA if key in found}


def _decode(path: str, picture: PageDecoder, page: int, shape: tuple[int, ...]) -> Array:
    found = picture.decode(page)
    if found.shape != shape:
        raise FileError(f"{path}: page {page + 1} has pixels of the shape {found.shape}, but its header says {shape}")
    return found


# Images of more than 8 bits a channel, of which Pillow would keep 8: PNG, PPM, AVIF, JPEG 2000 and HEIC.

# Modes of a PNG of 16 bits a channel, by Pillow's raw mode and whether one colour is transparent.
PNG_16_BIT = {
    ("I;16B", True): "LA;16", ("LA;16B", False): "LA;16", ("RGB;16B", False): "RGB;16", ("RGB;16B", True): "RGBA;16",
    ("RGBA;16B", False): "RGBA;16",
}  # fmt: skip
DECODERS = {"AVIF": "avif_decode", "JPEG2000": "jpeg2k_decode", "HEIF": "heif_decode"}
# Pillow's raw modes of 16 bits a pixel, 5 or 6 a channel.
PACKED_16_BIT = ("RGB;16", "BGR;16")


def _loses_bits(image: Image) -> bool:
    """Whether Pillow decodes more bits than 8 to 8, which only the settings of its decoder tell, or nothing."""
    if image.format == "TIFF":
        stored = image.tag_v2  # type: ignore[attr-defined]
        return not tiff.pillow_reads(stored, stored.prefix == b"MM")
    if image.format == "HEIF":
        return _bits_of(image) > 8
    if image.mode.startswith("I;16"):
        return "transparency" in image.info
    if image.mode == "I":
        return False
    for decoder, _, _, settings in getattr(image, "tile", ()):
        args = settings if isinstance(settings, tuple) else (settings,)
        if decoder == "SGI16" or any(
            isinstance(arg, str) and ";16" in arg and arg not in PACKED_16_BIT for arg in args
        ):
            return True
        if image.format == "PPM" and any(isinstance(arg, int) and arg > 255 for arg in args[1:]):
            return True
    return image.format in DECODERS and _bits_of(image) > 8


def _bits_of(image: Image) -> int:
    """Bits a channel, as pillow_heif reports them or as the file says; 8 if nothing does."""
    if image.format == "HEIF":
        return int(image.info.get("bit_depth", 8))
    file: Any = image
    with open(file.fp.name, "rb") as stream:
        return (boxes.jpeg2000_bits(stream) if image.format == "JPEG2000" else boxes.avif_bits(stream)) or 8


def _is_readable(image: Image) -> bool:
    """Whether all bits of such an image can be read."""
    tile: Any = next(iter(getattr(image, "tile", ())), (None,))
    return image.format == "PNG" or tile[0] == "ppm" or (image.format in DECODERS and _mode(image) in MODES)


def _mode(image: Image) -> str:
    """The mode of 16 bits a channel for what Pillow decodes to this one."""
    return "I;16" if image.mode in ("L", "I;16") else f"{image.mode};16"


def _deep_decoder(path: str, image: Image) -> PageDecoder:
    """The picture of 16 bits a channel; fewer bits are scaled."""
    tile: Any = image.tile[0] if image.tile else None  # type: ignore[attr-defined]
    bits, most = 16, 65535
    if image.format == "PNG":
        mode = PNG_16_BIT[tile.args, "transparency" in image.info]
    elif image.format == "PPM":
        mode, most = _mode(image), tile.args[1]
    else:
        bits, mode = _bits_of(image), _mode(image)
        most = (1 << bits) - 1
    orientation = pillow.orientation_of(image)
    channels, dtype, _ = MODES[mode]
    pages = getattr(image, "n_frames", 1)

    def decode(_: int) -> Array:
        if image.format == "PPM":
            pixels = codecs.read_ppm(path, tile.offset, (image.height, image.width, channels), most)
        else:
            pixels = codecs.decode_all_bits(path, DECODERS.get(str(image.format), "png_decode"))
        if pages > 1 and len(pixels) == pages:  # of an AVIF with several
            pixels = pixels[0]
        if pixels.dtype.name != dtype:
            raise FileError(f"{path}: has samples of {pixels.dtype}, and {dtype} is read; convert it to TIFF")
        if most < 65535:
            pixels = tiff.rounded_quotient(pixels, 65535, most)
        return upright(pixels, orientation)

    def described() -> dict[str, Any]:
        return metadata_of(pillow.full_info(path, image), pillow.exif_of(image), False)

    notes = orientation_notes(orientation)
    if bits < 16:
        notes = (*notes, f"{bits} bits a sample, scaled to 16")
    elif most < 65535:
        notes = (*notes, f"numbers up to {most} scaled to 16 bits")
    if pages > 1:
        notes = (*notes, f"page 1 of {pages} is read")
    memory = (
        2 + 2 * pages if most == 65535 else 2 + 2 * pages + tiff.DIVISION_BYTES
    ) * channels  # all pages are decoded
    return PageDecoder(
        pillow.format_name(image), mode, channels, dtype, memory, decode, described, notes, curve=curve_of(image.info)
    )
