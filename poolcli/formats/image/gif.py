"""How far the frames of a GIF reach, which Pillow gives memory before anybody can ask."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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
