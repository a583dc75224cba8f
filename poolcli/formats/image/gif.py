"""How far the frames of a GIF reach, which Pillow gives memory before anybody can ask."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from poolcli.errors import FileError

SCREEN = 13  # bytes of the signature and the screen's description
EXTENSION, FRAME = b"\x21", b"\x2c"


def refuse_wide_frames(path: str, stream: BinaryIO) -> int:
    """The pixels of the picture; refuses frames that reach beyond it."""
    stream.seek(6)
    screen: tuple[int, int] = struct.unpack("<HH", stream.read(4).ljust(4, b"\0"))
    width, height = screen
    for number, (right, bottom) in enumerate(frames(stream), 1):
        if number == 1:  # in files of one picture it may be larger than the screen that they describe
            width, height = max(width, right), max(height, bottom)
        if right > width or bottom > height:
            raise FileError(f"{path}: page {number} reaches to {right} x {bottom}, the image is {width} x {height}")
    return width * height


def frames(stream: BinaryIO) -> Iterator[tuple[int, int]]:
    """Where each frame ends, to the right and at the bottom; none behind damage."""
    stream.seek(SCREEN - 3)
    (flags,) = stream.read(1) or b"\0"
    stream.seek(SCREEN + _colours(flags))
    while kind := stream.read(1):
        if kind == EXTENSION:
            stream.read(1)
        elif kind == FRAME:
            data = stream.read(9)
            if len(data) < 9:
                return
            left, top, width, height, flags = struct.unpack("<HHHHB", data)
            yield left + width, top + height
            stream.seek(_colours(flags) + 1, 1)
        else:
            return
        while size := stream.read(1):
            if size == b"\0":
                break
            stream.seek(size[0], 1)


def _colours(flags: int) -> int:
    """The bytes of a table of colours."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
