"""Whether the strips (or tiles) that a page of a TIFF names can hold its pixels: of what is not there, readers make
zeros without a word, and of what is too short they take the memory before they see it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes
from poolcli.windows import ceil_div

WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS, PLANAR = 256, 257, 258, 259, 262, 277, 278, 284
TILE_WIDTH, TILE_LENGTH = 322, 323
OF_TILES = ((WIDTH, TILE_WIDTH), (LENGTH, TILE_LENGTH))
STRIPS, STRIP_BYTES, TILES, TILE_BYTES = 273, 279, 324, 325
NAMED = (
    WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS, PLANAR,
    TILE_WIDTH, TILE_LENGTH, STRIPS, STRIP_BYTES, TILES, TILE_BYTES,
)  # fmt: skip
PLAIN = 1  # not compressed
YCBCR = 6  # of whose three samples two may be stored for several pixels together
# Bytes that one byte can unpack to, at most, by the number of the compression, where there is such a number.
MOST = {5: 2**12, 7: 2**12, 8: 2**11, 32946: 2**11, 32773: 2**7, 34925: 2**13, 50000: 2**16}


def refuse_lacking(path: str, number: int, stored: Mapping[int, Any]) -> None:
    """Refuses a page with fewer strips than its rows need, or with fewer bytes than can unpack to its pixels."""
    tiled = TILES in stored
    places, counts = (_numbers(stored, tag) for tag in ((TILES, TILE_BYTES) if tiled else (STRIPS, STRIP_BYTES)))
    needed = _needed(stored, tiled)
    if not places or not needed:
        return  # it names them in some other way, or none, which its reader speaks of
    if len(places) < needed:
        kind = "tiles" if tiled else "strips"
        raise FileError(f"{path}: is damaged: page {number} names {len(places):,} of its {needed:,} {kind}")
    compression, size = _number(stored, COMPRESSION, PLAIN), os.path.getsize(path)
    most = MOST.get(
        compression, 1 if compression == PLAIN and needed > 1 else 0
    )  # one strip is often said to be shorter
    pixels, held = _bytes(stored, tiled), sum(min(count, size) for count in counts)
    if most and counts and 0 not in counts and held * most < pixels:
        raise FileError(
            f"{path}: is damaged: page {number} has {human_bytes(pixels)} of pixels, which {human_bytes(held)} "
            "cannot unpack to"
        )


def is_sparse(stored: Mapping[int, Any]) -> bool:
    """Whether some strips or tiles are not stored, and meant to be of nothing (GDAL)."""
    return any(0 in _numbers(stored, tag) for tag in (STRIP_BYTES, TILE_BYTES))


def _needed(stored: Mapping[int, Any], tiled: bool) -> int:
    """How many strips or tiles the page needs; 0 where its tags do not tell."""
    width, length = _number(stored, WIDTH, 0), _number(stored, LENGTH, 0)
    if tiled:
        across, down = _number(stored, TILE_WIDTH, 0), _number(stored, TILE_LENGTH, 0)
    else:
        across, down = width, min(_number(stored, ROWS, length), length)
    if min(width, length, across, down) < 1:
        return 0
    planes = _number(stored, SAMPLES, 1) if _number(stored, PLANAR, 1) != 1 else 1
    return ceil_div(width, across) * ceil_div(length, down) * planes


def _bytes(stored: Mapping[int, Any], tiled: bool) -> int:
    """The bytes of the pixels, at least; tiles are stored whole."""
    bits = _numbers(stored, BITS) or (1,)
    samples = 1 if _number(stored, PHOTOMETRIC, 0) == YCBCR else _number(stored, SAMPLES, 1)
    area = _number(stored, WIDTH, 0) * _number(stored, LENGTH, 0)
    if tiled:
        across, down = (ceil_div(_number(stored, n, 0), _number(stored, tile, 1)) for n, tile in OF_TILES)
        area = across * down * _number(stored, TILE_WIDTH, 0) * _number(stored, TILE_LENGTH, 0)
    return area * min(bits) * samples // 8


def _numbers(stored: Mapping[int, Any], tag: int) -> tuple[int, ...]:
    """The whole numbers of a tag; none where it has others."""
    value = stored.get(tag, ())
    values = value if isinstance(value, tuple) else (value,)
    return values if all(isinstance(each, int) for each in values) else ()


def _number(stored: Mapping[int, Any], tag: int, default: int) -> int:
    return (_numbers(stored, tag) or (default,))[0]
