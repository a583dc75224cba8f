"""PNG of 16 bits a channel, which Pillow cannot hold: read and written by imagecodecs."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.core.errors import FileError
from poolcli.core.lazy import Lazy, need

if TYPE_CHECKING:
    from numpy.typing import NDArray

pil: Any = Lazy("PIL.Image")

SIGNATURE = 8  # bytes
HEADER = 25  # bytes of the first chunk
PIXELS = (b"IHDR", b"IDAT", b"IEND")
WHY_READ = "has colour of 16 bits a channel, or numbers, that Pillow cannot read without loss; install what can"
WHY_WRITE = "16 bits a channel, or numbers, which Pillow cannot write; install what can"


def decode(path: str) -> NDArray[Any]:
    """The pixels as H, W, C, with alpha where one colour is transparent."""
    (imagecodecs,) = need("imagecodecs", why=f"{path}: {WHY_READ}", kind=FileError)
    with open(path, "rb") as stream:
        pixels: NDArray[Any] = imagecodecs.png_decode(stream.read())
    return pixels


def encode(path: str, pixels: NDArray[Any], options: Mapping[str, Any]) -> bytes:
    """The pixels, H, W, C, as a PNG with what Pillow's `save` would write beside them."""
    (imagecodecs,) = need("imagecodecs", why=f"{path}: {WHY_WRITE}", kind=FileError)
    data: bytes = imagecodecs.png_encode(pixels)
    beside = io.BytesIO()
    pil.new("RGB", (1, 1)).save(beside, "PNG", **options)
    words = b"".join(beside.getvalue()[at:end] for kind, at, end in chunks(beside) if kind not in PIXELS)
    return data[: SIGNATURE + HEADER] + words + data[SIGNATURE + HEADER :]


def exif_of(stream: BinaryIO) -> bytes | None:
    """The EXIF data, which may lie behind the pixels; None where there is none."""
    for kind, at, end in chunks(stream):
        if kind == b"eXIf":
            stream.seek(at + 8)
            return stream.read(end - at - 12)
    return None


def chunks(stream: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """The kind of each chunk, and where it begins and ends."""
    at = SIGNATURE
    while True:
        stream.seek(at)
        head = stream.read(8)
        if len(head) < 8:
            return
        end = at + struct.unpack(">I", head[:4])[0] + 12
        yield head[4:], at, end
        at = end
