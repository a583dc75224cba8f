"""Pixels of Pillow's images as arrays, and arrays as files that Pillow writes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from poolcli.formats.image.plugins import load_plugin
from poolcli.formats.image.tiff_samples import with_signs_turned
from poolcli.formats.table import FORMATS
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

pil: Any = Lazy("PIL.Image")

LARGEST_PIECE = 2**31  # bytes; encoders take no larger number
END = 1  # which an encoder says when it has given all


def in_one_piece(image: Image) -> NDArray[Any]:
    """As `np.asarray` gives the pixels, in half its time: it joins pieces of 64 KiB."""
    import numpy as np

    channels = len(image.getbands())
    size = image.width * image.height * channels
    encoder_of = getattr(pil, "_getencoder", None)  # what `tobytes` asks piece by piece; it is not public
    if encoder_of is not None and size < LARGEST_PIECE:
        encoder = encoder_of(image.mode, "raw", (image.mode,))
        encoder.setimage(image.im, (0, 0, *image.size))
        _, said, data = encoder.encode(size)
        if said == END:
            shape = (image.height, image.width, channels)[: 2 if channels == 1 else 3]
            return np.frombuffer(data, np.uint8).reshape(shape)
    return np.asarray(image)


def encode(name: str, mode: str, pages: NDArray[Any], options: Mapping[str, Any]) -> bytes:
    """The pixels, N, H, W, C, as a file of the format."""
    pages = with_signs_turned(pages) if mode == "LAB" else pages
    pages = pages if pages.shape[-1] > 1 else pages[..., 0]
    # Image.fromarray takes four channels for RGBA, whatever they are.
    pictures = [
        pil.frombytes(mode, (page.shape[1], page.shape[0]), page.tobytes())
        if mode in ("CMYK", "LAB")
        else pil.fromarray(page)
        for page in pages
    ]
    several = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    load_plugin(FORMATS[name])
    stream = io.BytesIO()
    pictures[0].save(stream, format=name.upper(), **several, **options)
    return stream.getvalue()  # no view: CPython 3.12 crashes where one outlives its stream in an error
