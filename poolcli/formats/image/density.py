"""How many pixels a byte of a file can stand for: a file that claims more is damaged, and is refused before memory is
taken for them.
"""

from __future__ import annotations

import os

from poolcli.core.errors import FileError
from poolcli.formats.arrays import human_bytes

# Pixels of a byte, at most, by Pillow's name of the format, where there is such a number: deflate makes 1,032 bytes of
# one, of eight pixels each, and what a bitmap may leave out is no more. A block of 8 x 8 of a JPEG takes a bit.
DENSEST = {**dict.fromkeys(("PNG", "GIF", "BMP", "PPM", "TGA", "SGI", "DDS", "QOI"), 2**14), "JPEG": 2**9, "MPO": 2**9}


def refuse_too_dense(path: str, format_name: str, size: tuple[int, int]) -> None:
    """Refuses a picture of more pixels than its file can hold."""
    most, held = DENSEST.get(format_name), os.path.getsize(path)
    width, height = size
    if most and width * height > most * held:
        raise FileError(f"{path}: is damaged: {human_bytes(held)} cannot hold its {width:,} x {height:,} pixels")
