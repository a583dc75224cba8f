"""Frames of an animated PNG, each blended over the one before.

Pillow blends the indices of palettes, and the alpha of what lies below as if it were a colour.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from poolcli.formats.image.codecs import scale_transparency
from poolcli.system.lazy_imports import Array, Lazy
from poolcli.system.lazy_imports import numpy as np

pil: Any = Lazy("PIL.Image")

TO_BACKGROUND, TO_PREVIOUS = 1, 2  # what becomes of a frame before the next one
REPLACE, OVER = 0, 1  # whether a frame replaces what is below, or is blended over it
BLENDING = 64  # bytes a pixel that blending takes


class Animation:
    """The frames of a file, blended on a canvas of `mode`, which has alpha last."""

    def __init__(self, path: str, mode: str) -> None:
        self._path, self._mode = path, mode
        self._next = 0

    def _rewind(self) -> None:
        self._image = pil.open(io.BytesIO(Path(self._path).read_bytes()), formats=("PNG",))
        scale_transparency(self._image)
        width, height = self._image.size
        self._canvas, self._next = np.zeros((height, width, len(self._mode)), np.uint8), 0

    def page(self, number: int) -> Array:
        """A frame as it is shown; quickest in their order."""
        if self._next == 0 or number < self._next:
            self._rewind()
        while self._next < number:
            self._compose()
        return self._compose()

    def _compose(self) -> Array:
        """The next frame as it is shown; leaves on the canvas what is below the one after it."""
        image = self._image
        image.seek(self._next)
        image.blend_op = REPLACE  # else Pillow would blend it
        # The image before an animation that does not begin with it has none of these.
        left, top, right, bottom = box = image.info.get("bbox", (0, 0, *image.size))
        disposal, blend = image.info.get("disposal", TO_BACKGROUND), image.info.get("blend", REPLACE)
        region = (slice(top, bottom), slice(left, right))
        pixels = np.asarray(image.crop(box).convert(self._mode))
        shown = self._canvas.copy()
        shown[region] = _over(pixels, shown[region]) if blend == OVER else pixels
        if disposal != TO_PREVIOUS:
            self._canvas = shown.copy()
        if disposal == TO_BACKGROUND:
            self._canvas[region] = 0
        self._next += 1
        return shown


def _over(above: Array, below: Array) -> Array:
    """One image over another, both with alpha last and not multiplied by it, rounded to the nearest."""
    upper = above[..., -1:].astype(np.uint32) * 255
    lower = below[..., -1:] * (255 - above[..., -1:].astype(np.uint32))
    alpha = upper + lower  # in units of 1 / 255**2
    out = np.empty_like(above)
    most = np.maximum(alpha, 1)
    out[..., :-1] = (above[..., :-1] * upper + below[..., :-1] * lower + most // 2) // most
    out[..., -1:] = (alpha + 127) // 255
    return out
