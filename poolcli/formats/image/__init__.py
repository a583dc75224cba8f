"""Image files: TIFF read by tifffile, others by Pillow, and their pages as one array. `write.py` writes them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.checks import byte_count, check_expansion
from poolcli.formats.image.modes import MODES
from poolcli.formats.image.pages import (
    PageDecoder,
    check_image_memory,
    choose_pages,
    image_errors,
    masks_of,
)
from poolcli.formats.image.pillow import PillowImage
from poolcli.formats.image.tiff import TiffImage
from poolcli.formats.image.write import write
from poolcli.formats.records import ArrayReader, Axis, Header, InMemoryReader, Metadata, ReadOptions, Source
from poolcli.formats.table import MAGIC_LENGTH, format_by_magic
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

__all__ = ["open_array", "write"]


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The images, upright; pixels are decoded when they are first read."""
    path = source.path
    with ExitStack() as stack:
        with image_errors(path):
            # Without a buffer: some of Pillow's decoders read its descriptor.
            stream = stack.enter_context(io.FileIO(path))
            row = format_by_magic(stream.read(MAGIC_LENGTH))
            kind = row.name if row and row.is_image else ""
            image = (
                TiffImage(stack, path, stream, options.limit)
                if kind == "tiff"
                else PillowImage(stack, path, stream, kind, options.limit)
            )
            header, decoder, pages, masks = _plan_reading(image, options)

        def load() -> tuple[Array, Metadata]:
            with image_errors(path):
                return _load(image, header, decoder, pages, masks, options)

        yield InMemoryReader(header, load)


def _plan_reading(
    image: TiffImage | PillowImage, options: ReadOptions
) -> tuple[Header, PageDecoder, Sequence[int], Sequence[int | None]]:
    """What is read as one array, how pages are decoded, which they are, and the mask of each."""
    pages, notes = choose_pages(image.path, image.pages, options.pages, options.apply_masks)
    decoder = image.decoder(pages[0], len(pages) > 1, options)
    first = image.pages[pages[0]]
    several, colours = len(pages) > 1, decoder.channels > 1
    shape = (len(pages),) * several + (first.height, first.width) + (decoder.channels,) * colours
    layout = "N" * several + "HW" + "C" * colours
    is_stack = (options.as_pyramid or options.volume or (options.ndim or 0) > 2) and not colours
    axes: tuple[Axis, ...] = ()
    if isinstance(image, TiffImage) and is_stack and len(pages) == len(image.pages):
        axes = image.stack_axes(shape[-2:])
    named = "".join(axis.letter for axis in axes)
    if axes and (options.as_pyramid or len(axes) == options.ndim or (options.volume and "D" in named)):
        shape, layout = tuple(axis.length for axis in axes), named
    by_page = masks_of(image.pages) if options.apply_masks and not first.is_mask else {}
    masks = [by_page.get(page) for page in pages]
    masked = any(mask is not None for mask in masks)
    header = Header(
        decoder.format,
        shape,
        decoder.dtype,
        layout,
        notes=(*image.notes, *decoder.notes, *notes),
        mode=decoder.mode,
        alpha=decoder.mode in MODES and MODES[decoder.mode].alpha,
        missing=decoder.missing,
        extra_memory=first.pixels * (decoder.memory + masked * (2 + len(pages))) + os.path.getsize(image.path),
        curve=decoder.curve,
        masked=masked,
        axes=axes,
    )
    return header, decoder, pages, masks


def _load(
    image: TiffImage | PillowImage,
    header: Header,
    decoder: PageDecoder,
    pages: Sequence[int],
    masks: Sequence[int | None],
    options: ReadOptions,
) -> tuple[Array, Metadata]:
    """The pixels as H, W or H, W, C, with N in front for several pages, and the metadata of the first one."""
    path = image.path
    needed = byte_count(header.shape, DTYPES[header.dtype].itemsize)
    check_image_memory(path, needed + header.extra_memory, options.limit)
    check_expansion(path, os.path.getsize(path), needed, options.allowed)
    count, plane = len(pages), header.shape[-2 - (decoder.channels > 1) :]
    pixels = np.empty((count, *plane), header.dtype)
    found, times = dict[str, Any](), list[int]()
    for place, number in enumerate(pages):
        page = decoder.decode(number)
        if page.shape != plane:
            raise FileError(f"{path}: page {number + 1} has pixels of the shape {page.shape}, not {plane}")
        pixels[place] = page
        times.append(decoder.duration() or 0)
        if place == 0:
            found = decoder.read_metadata()
    lost = list(found.pop("lost", ()))
    if any(times) and count > 1:
        found["duration"] = times
    axes: tuple[Axis, ...] = ()
    if isinstance(image, TiffImage) and 1 < count == len(image.pages) and decoder.channels == 1:
        axes = image.stack_axes(plane)
    if axes:
        found["axes"] = axes
        lost = [name for name in lost if not name.startswith("description by")]
    if isinstance(image, TiffImage) and header.masked:
        hidden = image.read_masks(masks, pages, plane[:2])
        found["mask"] = hidden.reshape(header.shape if decoder.channels == 1 else (*header.shape[:-1], 1))
    found |= {"lost": tuple(lost)} if lost else {}
    return pixels.reshape(header.shape), Metadata(image=found, axes=header.axes)
