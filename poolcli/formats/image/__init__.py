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
from poolcli.formats.image import deep, pillow, stacks, tiff, tiff_write
from poolcli.formats.image.modes import MODES
from poolcli.formats.image.pages import (
    Page,
    Picture,
    alike,
    choose_pages,
    masks_of,
    refuse_many_pixels,
    refuse_memory,
)
from poolcli.formats.image.write import write
from poolcli.formats.records import ArrayReader, Axis, Header, InMemoryReader, Metadata, ReadOptions, Source
from poolcli.system.lazy_imports import installed, loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["open_array", "write"]

LATER = ("nodata values of pages after the first", "they differ from that of the first")
DESCRIBED = "description by "  # a program
MOST_PIXELS = 178_956_970  # Pillow's own limit


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The images, upright; pixels are decoded when they are first read."""
    with ExitStack() as stack:
        with pillow.translated(source.path):
            file = _File(stack, source.path, options)
        yield _reader(file, options)


class _File:
    """An open file, whose pages are listed once however many readers it has."""

    def __init__(self, stack: ExitStack, path: str, options: ReadOptions) -> None:
        self._stack, self.path, self._limit = stack, path, options.limit
        self.image, self.said = pillow.open_image(stack, path, options.max_pixels or MOST_PIXELS, options.limit)
        self.known = pillow.known_pages(path, self.image, options.limit) if self.image is not None else None

    @cached_property
    def by_tifffile(self) -> tuple[Any, BinaryIO, list[Page]]:
        return tiff.open_file(self._stack, self.path, self._limit)


def _reader(file: _File, options: ReadOptions) -> InMemoryReader:
    with pillow.translated(file.path):
        header, picture, pages, masks = _inspect(file, options)

    def load() -> tuple[NDArray[Any], Metadata]:
        with pillow.translated(file.path):
            array, metadata = _load(file.path, header, picture, pages, options)
            if header.masked:
                planes = header.shape if picture.channels == 1 else (*header.shape[:-1], 1)
                tiff_file, stream, _ = file.by_tifffile
                hidden = tiff.hidden_by(file.path, tiff_file, stream, masks, pages, array.shape[-picture.axes :][:2])
                metadata = replace(metadata, image={**metadata.image, "mask": hidden.reshape(planes)})
            return array, metadata

    return InMemoryReader(header, load, partial(_reader, file))


def _inspect(opened: _File, options: ReadOptions) -> tuple[Header, Picture, Sequence[int], Sequence[int | None]]:
    path, image, known, most = opened.path, opened.image, opened.known, options.max_pixels or MOST_PIXELS
    pages = opened.by_tifffile[2] if known is None else known
    taken, apart, notes = _taken(path, pages, options)
    if image is not None and len(pages) > 1 and not pillow.seek_pages(image, taken if known is None else taken[:1]):
        image = None
    if image is None or (
        image.format == "TIFF" and (deep.loses_bits(image) or tiff.is_slow(pillow.stored_tags(image), len(taken)))
    ):
        file, stream, pages = opened.by_tifffile
        taken, apart, notes = _taken(path, pages, options)
        picture = tiff.picture_of(path, file, stream, taken[0])
    elif not deep.loses_bits(image):
        picture = pillow.picture_of(path, image, pages[taken[0]], len(taken) > 1)
    elif deep.is_decoded(image):
        if taken[0]:
            raise FileError(
                f"{path}: has more than 8 bits a channel, and of such a {image.format} only page 1 can be read"
            )
        picture, taken = deep.picture_of(path, image), [0]
    else:
        raise FileError(
            f"{path}: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss"
        )
    for page in taken:
        refuse_many_pixels(path, pages[page].pixels, most)
    shape: tuple[int, ...] = (pages[taken[0]].height, pages[taken[0]].width)
    layout = "HW"
    if picture.channels > 1:
        shape, layout = (*shape, picture.channels), "HWC"
    if len(taken) > 1:
        shape, layout = (len(taken), *shape), f"N{layout}"
    axes: tuple[Axis, ...] = ()
    wanted = options.first_level or (options.axes or 0) > 2
    if wanted and picture.format == "tiff" and picture.channels == 1 and len(taken) == len(pages):
        axes = stacks.axes_of(path, len(pages), shape[-2:])
    if axes and (options.first_level or len(axes) == options.axes):
        shape, layout = tuple(axis.length for axis in axes), "".join(axis.letter for axis in axes)
    alpha = picture.mode in MODES and MODES[picture.mode].alpha
    notes = (*opened.said, *picture.notes, *notes)
    by_page = masks_of(pages) if options.masks and not pages[taken[0]].is_mask else {}
    masks = [by_page.get(page) for page in taken]
    masked = any(mask is not None for mask in masks)
    decoding = pages[taken[0]].pixels * (picture.memory + masked * (2 + len(taken))) + os.path.getsize(path)
    header = Header(
        picture.format, shape, picture.dtype, layout, None, notes, picture.mode, alpha, picture.missing, decoding,
        picture.curve, masked, apart, axes,
    )  # fmt: skip
    return header, picture, taken, masks


def _taken(
    path: str, pages: Sequence[Page], options: ReadOptions
) -> tuple[Sequence[int], tuple[str, ...], tuple[str, ...]]:
    """The pages that are read together, all that are read in runs of such pages if there are several, and notes."""
    able = options.apart and installed("tifffile", "imagecodecs")
    chosen, notes = choose_pages(path, pages, options.pages, options.masks, able)
    runs = alike(pages, chosen)
    return runs[0], tuple(f"{run[0] + 1}-{run[-1] + 1}" for run in runs) if len(runs) > 1 else (), notes


def _load(
    path: str, header: Header, picture: Picture, pages: Sequence[int], options: ReadOptions
) -> tuple[NDArray[Any], Metadata]:
    """The pixels as H, W or H, W, C, with N in front for several pages, and the metadata."""
    needed = byte_count(header.shape, DTYPES[header.dtype].itemsize)
    refuse_memory(path, needed + header.beside, options.limit)
    check_expansion(path, os.path.getsize(path), needed, options.allowed)
    first = _decode(path, picture, pages[0], header.shape[-picture.axes :])
    with loading():
        import numpy as np

    first = np.ascontiguousarray(first)
    found = picture.described()
    if len(pages) == 1:
        return first, Metadata(image=found)
    out, times = np.empty(header.shape, header.dtype), [picture.duration()]
    planes = out.reshape(len(pages), *first.shape)
    planes[0] = first
    own, lost, later = _of_page(found), dict.fromkeys(found.get("lost", ())), dict[int, dict[str, Any]]()
    for number, page in enumerate(pages[1:], 1):
        planes[number] = _decode(path, picture, page, first.shape)
        times.append(picture.duration())
        if picture.tells_of_pages:
            said = picture.described()
            lost |= dict.fromkeys(said.get("lost", ()))
            lost |= {LATER: None} if said.get("nodata") != found.get("nodata") else {}
            later |= {number: _of_page(said)} if _of_page(said) != own else {}
    if any(times):
        found["duration"] = [time or 0 for time in times]
    described = [each for each in lost if each[0].startswith(DESCRIBED)]
    axes = stacks.axes_of(path, len(pages), first.shape) if described and picture.channels == 1 else ()
    found |= {"axes": axes} if axes else {}
    lost = {each: None for each in lost if not (axes and each in described)}
    found |= {"lost": tuple(lost)}
    return out, Metadata(image=found | ({"pages": later} if later else {}), axes=header.axes)


def _of_page(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a TIFF says of each page by itself."""
    return {key: found[key] for key in tiff_write.BESIDE if key in found}


def _decode(path: str, picture: Picture, page: int, shape: tuple[int, ...]) -> NDArray[Any]:
    found = picture.decode(page)
    if found.shape != shape:
        raise FileError(f"{path}: page {page + 1} has pixels of the shape {found.shape}, but its header says {shape}")
    return found
