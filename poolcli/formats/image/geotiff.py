"""Where the pixels of a GeoTIFF lie on the earth, for a picture with fewer of them (OGC 19-008r4, section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS = 33550, 33922, 34264, 34735
RASTER_TYPE, OF_POINTS = 1025, 2  # the key, and its value where a place is that of a pixel's middle


class Grid(NamedTuple):
    """Along one axis: input pixels from one output pixel to the next, and where in the input the first one begins."""

    step: float
    start: float


def scaled_geo(tags: Mapping[int, Any], x: Grid, y: Grid) -> dict[int, Any]:
    """The tags of a picture whose pixels lie on the grids `x` and `y` of the input's; raises for tags of odd forms."""
    points = _key(tags.get(KEYS, ()), RASTER_TYPE) == OF_POINTS
    first = [grid.start + (grid.step - 1) / 2 if points else grid.start for grid in (x, y)]
    kept = dict(tags)
    if PIXEL_SCALE in tags:
        across, down, depth = tags[PIXEL_SCALE]
        kept[PIXEL_SCALE] = (float(across * x.step), float(down * y.step), float(depth))
    if TIE_POINTS in tags:
        kept[TIE_POINTS] = _tie_points(tags[TIE_POINTS], first, (x.step, y.step))
    if TRANSFORMATION in tags:
        kept[TRANSFORMATION] = _transformation(tags[TRANSFORMATION], first, (x.step, y.step))
    return kept


def _key(keys: Sequence[int], wanted: int) -> int | None:
    """The value of a GeoKey that is stored in the directory itself: four numbers a key, after four of a header."""
    entries = (keys[i : i + 4] for i in range(4, len(keys), 4))
    return next((entry[3] for entry in entries if len(entry) == 4 and entry[:2] == (wanted, 0)), None)


def _tie_points(values: Sequence[float], first: Sequence[float], steps: Sequence[float]) -> tuple[float, ...]:
    """Each is six numbers: a place in the raster (i, j, k), and the place on the earth that it is tied to."""
    kept: list[float] = []
    for i, j, *others in (values[at : at + 6] for at in range(0, len(values), 6)):
        kept += [(i - first[0]) / steps[0], (j - first[1]) / steps[1], *others]
    return tuple(float(value) for value in kept)


def _transformation(values: Sequence[float], first: Sequence[float], steps: Sequence[float]) -> tuple[float, ...]:
    """A matrix of 4 x 4, row by row, from (i, j, k, 1) to the earth."""
    kept: list[float] = []
    for row in range(0, 16, 4):
        a, b, c, d = values[row : row + 4]
        kept += [a * steps[0], b * steps[1], c, d + a * first[0] + b * first[1]]
    return tuple(float(value) for value in kept)
