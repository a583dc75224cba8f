"""GIF: every frame with a table of its own 256 colours, one of which is transparent where the picture has alpha."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

pil: Any = Lazy("PIL.Image")

COLOURS = 256  # of a frame
TICK = 10  # milliseconds, of which every duration is a multiple
OPAQUE = 255
TO_BACKGROUND = 2  # what becomes of a frame before the next one: without it that would be seen through its holes
ROUNDED = f"colours rounded to {COLOURS} of each frame's own"
HALVED = "alpha rounded to none or all"
LATE = "durations of the pages rounded to hundredths of a second"


def encode(pages: Array, kept: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...]]:
    """The pixels, N, H, W, C of bytes, as a GIF, and notes on what it could not hold."""
    notes: list[str] = []
    frames = [_frame(page, notes) for page in pages]
    options = {key: kept[key] for key in ("comment", "loop") if key in kept}
    times = kept.get("duration")
    if times and len(frames) > 1:
        options["duration"] = times
        notes += [LATE] if any(time % TICK for time in times) else []
    if pages.shape[-1] == 4:
        options["disposal"] = TO_BACKGROUND
    several = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    stream = io.BytesIO()
    frames[0].save(stream, "GIF", optimize=False, **several, **options)
    return stream.getvalue(), tuple(dict.fromkeys(notes))


def _frame(page: Array, notes: list[str]) -> Any:
    """One frame with its own colours; `notes` gets what is lost of it."""
    if page.shape[-1] == 1:
        return pil.fromarray(page[..., 0])
    alpha = page[..., 3] if page.shape[-1] == 4 else None
    if alpha is not None and ((alpha > 0) & (alpha < OPAQUE)).any():
        notes.append(HALVED)
    hidden = None if alpha is None else alpha <= OPAQUE // 2
    places, colours = _indexed(page[..., :3], hidden, notes)
    frame = pil.fromarray(places)
    frame.putpalette(colours.tobytes())  # which makes of grey an image with a palette
    if hidden is not None and hidden.any():
        frame.info["transparency"] = COLOURS - 1
    return frame


def _indexed(pixels: Array, hidden: Array | None, notes: list[str]) -> tuple[Array, Array]:
    """The place of each pixel's colour in a table, and the table; those that are hidden have the last place."""
    import numpy as np

    free = COLOURS - (hidden is not None)
    seen = pixels if hidden is None else np.where(hidden[..., None], np.uint8(0), pixels)
    codes = seen.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    found, places = np.unique(codes, return_inverse=True)
    if found.size <= free:
        colours = (found[:, None] >> np.array([16, 8, 0], np.uint32) & 255).astype(np.uint8)
        places = places.reshape(codes.shape).astype(np.uint8)
    else:
        notes.append(ROUNDED)
        rounded = pil.fromarray(np.ascontiguousarray(seen)).quantize(free, pil.Quantize.MEDIANCUT)
        places, colours = np.array(rounded), np.array(rounded.getpalette(), np.uint8).reshape(-1, 3)
    if hidden is not None:
        places[hidden] = COLOURS - 1
        colours = np.concatenate([colours, np.zeros((COLOURS - len(colours), 3), np.uint8)])
    return places, colours
