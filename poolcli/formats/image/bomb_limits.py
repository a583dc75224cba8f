"""How many pixels a byte of a file can stand for: a file that claims more is damaged, and is refused before memory is
taken for them.
"""

from __future__ import annotations

import os

from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes

# Pixels of a byte, at most, in formats of Pillow that pack: deflate makes 1,032 bytes of one, of eight pixels each.
# What a bitmap may leave out is no more, nor what Huffman codes of a JPEG make of one byte, 512.
DENSEST, PACKED = 2**14, {"PNG", "GIF", "BMP", "PPM", "TGA", "SGI", "DDS", "QOI", "JPEG", "MPO"}


def refuse_too_dense(path: str, format_name: str, size: tuple[int, int]) -> None:
    """Refuses a picture of more pixels than its file can hold."""
    held, (width, height) = os.path.getsize(path), size
    if format_name in PACKED and width * height > DENSEST * held:
        raise FileError(f"{path}: is damaged: {human_bytes(held)} cannot hold its {width:,} x {height:,} pixels")
