"""Image files: TIFF read by tifffile, others by Pillow, and their pages as one array. `write.py` writes them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from poolcli.formats.checks import check_expansion
from poolcli.formats.image.metadata import ARRAY_NOTE, read_axes
from poolcli.formats.image.modes import MODES, choose_pages, image_errors, masks_of
from poolcli.formats.image.pillow import PillowImage
from poolcli.formats.image.tiff import TiffImage
from poolcli.formats.image.write import write
from poolcli.formats.records import ArrayReader, Axis, Header, InMemoryReader, Metadata, ReadOptions, Source
from poolcli.formats.table import MAGIC_LENGTH, format_by_magic
from poolcli.system.lazy_imports import Array, numpy as np

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
            opened = TiffImage if kind == "tiff" else partial(PillowImage, kind=kind)
            reader = _reader(opened(stack, path, stream, options.limit), options)
        yield reader


def _reader(image: TiffImage | PillowImage, options: ReadOptions) -> InMemoryReader:
    path, stored = image.path, os.path.getsize(image.path)
    pages, notes = choose_pages(path, image.pages, options.pages, options.apply_masks)
    several, first = len(pages) > 1, image.pages[pages[0]]
    decoder = image.decoder(pages[0], several, options)
    colours = decoder.channels > 1
    plane = (first.height, first.width) + (decoder.channels,) * colours
    shape, layout = (len(pages),) * several + plane, "N" * several + "HW" + "C" * colours
    notes += image.notes_on(pages) if isinstance(image, TiffImage) else ()
    described: tuple[Axis, ...] = ()
    is_stack = options.as_pyramid or options.volume or (options.ndim or 0) > 2
    if isinstance(image, TiffImage) and (is_stack or several) and not colours and len(pages) == len(image.pages):
        described = read_axes(image.file, len(pages), plane)
    axes, named = described if is_stack else (), "".join(axis.letter for axis in described)
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
        extra_memory=first.pixels * (decoder.memory + masked * (2 + len(pages))) + stored,
        masked=masked,
        axes=axes,
        compressed=decoder.compressed,
    )

    def load() -> tuple[Array, Metadata]:
        """The pixels, and the metadata of the first page."""
        found, times = dict[str, Any](), list[int]()
        check_expansion(path, stored, header.nbytes, options.allowed)
        with image_errors(path):
            pixels = np.empty((len(pages), *plane), decoder.dtype)
            for place, number in enumerate(pages):
                pixels[place] = decoder.decode(number)
                times.append(decoder.duration() or 0)
                if place == 0:
                    found = decoder.read_metadata()
            if isinstance(image, TiffImage) and (later := image.lost_of(pages)):
                found["lost"] = (*found.get("lost", ()), *later)
            if isinstance(image, TiffImage) and masked:
                hidden = image.read_masks(masks, pages, plane[:2])
                found["mask"] = hidden.reshape((*shape[:-1], 1) if colours else shape)
        if several and any(times):
            found["duration"] = times
        if several and described:
            found["axes"] = described
            found["lost"] = tuple(name for name in found.get("lost", ()) if name != ARRAY_NOTE)
        return pixels.reshape(shape), Metadata(image=found, axes=axes)

    return InMemoryReader(header, load)
