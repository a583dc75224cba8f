"""JPEG through imagecodecs, where it is installed: the pixels that Pillow decodes, without the copies it makes of them.

Both decode by libjpeg-turbo. From file to file, half the size, a picture of 6 million pixels takes
45 ms of a core; with Pillow and numpy's copy of its pixels 89; Pillow alone, reducing it itself, 47.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from poolcli.errors import FileError, RequestError
from poolcli.formats.image.modes import is_of
from poolcli.system.lazy_imports import need

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

ALONE, END = (0x01, 0xD8), 0xD9  # markers without a segment, and the one behind which nothing comes
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
ARITHMETIC = 0xC9  # the first of the markers of frames that are coded so
FILLING = 0xFF  # before a marker, any number of them
DECODED = ("L", "RGB")  # the modes that are decoded here
# In the coded pixels, 0 follows a byte of 255, or the number of a part that is coded by itself, or filling.
MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")


def decoded(image: Image, path: str) -> NDArray[Any] | None:
    """The pixels of a JPEG as they are stored; None where they are left to Pillow, which says what is wrong."""
    codecs = _codecs() if image.format == "JPEG" and image.mode in DECODED else None
    if codecs is None:
        return None
    with open(path, "rb") as stream:
        data = stream.read()
    if not is_whole(data):  # libjpeg makes grey of what is not there
        return None
    try:
        pixels: NDArray[Any] = codecs.jpeg8_decode(data)
    except MemoryError:
        raise
    except Exception:  # whatever a codec says: Pillow says it again, in the words that are shown
        return None
    return pixels if is_of(image.mode, pixels, image.size) else None


def refuse_other_bits(path: str, stream: BinaryIO) -> None:
    """Refuses a JPEG whose samples are not of 8 bits, and says so, which Pillow does not."""
    frame = _frame(stream)
    if frame and frame.bits != 8:
        raise FileError(
            f"{path}: is a JPEG of {frame.bits} bits a sample, and those of 8 are read; convert it to a TIFF or PNG of "
            "16 bits"
        )


def is_arithmetic(stream: BinaryIO) -> bool:
    """Whether the pixels are coded arithmetically, of which there may be any number in a byte."""
    frame = _frame(stream)
    return frame is not None and frame.kind >= ARITHMETIC


class _Frame(NamedTuple):
    """Of what kind the coded pixels are, by the number of their marker, and the bits of a sample."""

    kind: int
    bits: int


def _frame(stream: BinaryIO) -> _Frame | None:
    """What the segment says that is before all pixels; None where there is none."""
    stream.seek(2)
    while len(head := stream.read(5)) == 5 and head[0] == 0xFF:
        kind, length = head[1], int.from_bytes(head[2:4], "big")
        if kind in FRAMES:
            return _Frame(kind, head[4])
        stream.seek(-4 if kind == FILLING else max(length, 2) - 3, io.SEEK_CUR)
    return None


def is_whole(data: bytes) -> bool:
    """Whether the segments of a JPEG lie in it one behind the other up to its end marker."""
    at = 2
    while found := MARKER.search(data, at):
        kind, at = found[1][0], found.end()
        if kind == END:
            return True
        if kind not in ALONE:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return False


@cache
def _codecs() -> Any:
    """imagecodecs, where it and Pillow decode by the same library; else None."""
    try:
        codecs, features = need("imagecodecs", "PIL.features", why="JPEG")
    except RequestError:
        return None
    turbo = features.check_feature("libjpeg_turbo") and "turbo" in codecs.jpeg8_version()
    return codecs if turbo else None
