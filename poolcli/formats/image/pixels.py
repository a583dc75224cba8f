"""Pixels of Pillow's images as arrays, and arrays as files that Pillow writes."""

from __future__ import annotations

import io
import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from poolcli.formats.image.tiff_samples import with_signs_turned
from poolcli.formats.table import FORMATS, Format
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

MOST_BYTES = 10_000  # that are read of what was written

# Files for what is caught, empty ones, kept for the next time: a new one takes as long as opening a picture.
_spare: list[IO[bytes]] = []


def _close_spare() -> None:
    while _spare:
        _spare.pop().close()


if hasattr(os, "register_at_fork"):  # what two processes write into one file would be mixed
    os.register_at_fork(after_in_child=_close_spare)


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """A list that holds, at the end, the lines that native code wrote to file descriptor 2 meanwhile."""
    lines: list[str] = []
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield lines
        return
    caught = _spare.pop() if _spare else tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # kept
    os.dup2(caught.fileno(), 2)
    try:
        yield lines
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        if caught.seek(0, os.SEEK_CUR):
            caught.seek(0)
            lines += caught.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
            caught.seek(0)
            caught.truncate()
        _spare.append(caught)


FRAME, LOSSY = b"ANMF", b"VP8 "
FRAME_HEADER = 16  # bytes before the chunks of a frame


def has_losses(path: str) -> bool:
    """Whether the first picture of the file is stored with loss."""
    at = 12
    with open(path, "rb") as stream:
        while True:
            stream.seek(at)
            head = stream.read(8)
            if len(head) < 8:
                return False
            kind, size = head[:4], struct.unpack("<I", head[4:])[0]
            if kind in (LOSSY, b"VP8L"):
                return kind == LOSSY
            at += 8 + (FRAME_HEADER if kind == FRAME else size + size % 2)


PACKAGE = "poolcli.formats.image"
HEIF = "HEIF"  # known to Pillow after pillow_heif has said so


def pillow_names() -> tuple[str, ...]:
    """The formats that Pillow may try: those of the table and no others (it would start Ghostscript for EPS)."""
    return tuple(row.name.upper() for row in FORMATS.values() if row.module == PACKAGE)


def likeliest_first(start: bytes) -> tuple[str, ...]:
    """The formats in the order in which Pillow tries them, the one first that a file has by its first bytes."""
    likely = [row for row in FORMATS.values() if row.plugin and start.startswith(row.magic)]
    for row in likely:
        load_plugin(row)
    first = tuple(row.name.upper() for row in likely)
    return (*first, *(name for name in pillow_names() if name not in (*first, HEIF)))


def load_plugin(row: Format) -> None:
    """Loads the plugin of a format: for one that it does not know yet, Pillow loads all of its forty, in 50 ms."""
    with suppress(ImportError):
        import_module(row.plugin)


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
