"""Previews of a job (`--preview`): thumbnails of its input and output side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isqrt
from typing import TYPE_CHECKING, Any

from poolcli.formats import ArrayReader, ReadOptions, Source, open_array
from poolcli.layouts import SPATIAL, named_shape
from poolcli.pooling.colour import shares_of_range
from poolcli.pooling.outcome import Outcome
from poolcli.system.lazy_imports import Array, Lazy
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

pil: Any = Lazy("PIL.Image")
pil_draw: Any = Lazy("PIL.ImageDraw")
pil_font: Any = Lazy("PIL.ImageFont")

MAX_CHANNELS = 9  # shown in a 3 x 3 grid
MAX_ELEMENTS = 2**24  # of a region that is read as a whole; of a larger one, evenly spaced rows are read
SAMPLED_ROWS = 512
NAN_COLOUR = (255, 0, 255)
GAP = 1  # pixels between tiles


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """Planes of an array: the colours of an image in its `mode`, or channels. `parts` describes what of the array is
    shown, if not all.
    """

    planes: Array
    mode: str | None
    parts: tuple[str, ...]

    @property
    def value_range(self) -> tuple[float, float]:
        """The minimum and maximum of the finite elements."""
        with np.errstate(invalid="ignore"):  # signalling NaN
            values = self.planes.astype(np.float64)
        finite = values[np.isfinite(values)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def thumbnail(file: ArrayReader, layout: str, mode: str | None, tiles: int = MAX_CHANNELS) -> Thumbnail:
    """Read a thumbnail of an open array: rows H and columns W (with one spatial axis, the channels are the rows), the
    first of N, and the middle of other axes.
    """
    shape = file.header.shape
    spatial = sorted((letter for letter in layout if letter not in "NC"), key=SPATIAL.find)
    channels = shape[layout.index("C")] if "C" in layout else 1
    if len(spatial) == 1:
        down, across, taken = "C", spatial[0], channels
    else:
        down, across = spatial[-2:]
        taken = min(channels, 4 if mode else tiles)
    region, shown = [], []
    for letter, size in zip(layout, shape, strict=True):
        if letter in (down, across):
            region.append(range(size))
        elif letter == "C":
            region.append(range(taken))
            if taken < channels:
                shown.append(f"C 0 to {taken - 1} of {size}")
        else:
            at = 0 if letter == "N" else size // 2
            region.append(range(at, at + 1))
            if size > 1:
                shown.append(f"{letter} {at} of {size}")
    values = _read(file, tuple(region), layout.find(down))
    order = [layout.index(letter) for letter in dict.fromkeys(("C", down, across)) if letter in layout]
    rest = [i for i in range(len(layout)) if i not in order]
    tall = values.shape[layout.index(down)] if down in layout else 1
    planes = np.transpose(values, rest + order).reshape((-1, tall, values.shape[layout.index(across)]))
    return Thumbnail(planes, mode, tuple(shown))


def _read(file: ArrayReader, region: tuple[range, ...], rows: int) -> Array:
    count = len(region[rows])
    if rows < 0 or count <= SAMPLED_ROWS or np.prod([len(each) for each in region], dtype=float) <= MAX_ELEMENTS:
        return file.read(region)
    chosen = [i * count // SAMPLED_ROWS for i in range(SAMPLED_ROWS)]
    parts = [file.read((*region[:rows], range(i, i + 1), *region[rows + 1 :])) for i in chosen]
    return np.concatenate(parts, axis=rows)


def render(thumbnail: Thumbnail, width: int, height: int, value_range: tuple[float, float]) -> NDArray[np.uint8]:
    """The thumbnail as at most `width` by `height` RGB pixels; `value_range` is shown from black to white."""
    if thumbnail.mode:
        return _resized(_coloured(thumbnail.planes, thumbnail.mode), width, height)
    side = isqrt(len(thumbnail.planes) - 1) + 1
    tiles = [
        _resized(_grey(plane, value_range), (width + GAP) // side - GAP, (height + GAP) // side - GAP)
        for plane in thumbnail.planes
    ]
    tall, wide = tiles[0].shape[:2]
    lines = -(-len(tiles) // side)
    sheet = np.full((lines * (tall + GAP) - GAP, side * (wide + GAP) - GAP, 3), 0, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // side * (tall + GAP), number % side * (wide + GAP)
        sheet[top : top + tall, left : left + wide] = tile
    return sheet


def _coloured(planes: Array, mode: str) -> Array:
    """The colours of an image as numbers from 0 to 255, rows by columns by three."""
    scale = 255 / np.iinfo(planes.dtype).max if planes.dtype.kind in "iu" else 1.0
    values = planes.astype(np.float64) * scale
    if mode == "CMYK":
        colours = (255 - values[:3]) * (255 - values[3]) / 255
    else:
        colours = values[:3] if mode.startswith("RGB") else np.repeat(values[:1], 3, 0)
        if mode.partition(";")[0] in ("RGBA", "LA"):
            share = values[-1] / 255
            colours = colours * share + 255 * (1 - share)
    return np.moveaxis(colours, 0, -1)


def _grey(plane: Array, value_range: tuple[float, float]) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = plane.astype(np.float64)
    grey = np.clip(np.nan_to_num(shares_of_range(values, *value_range), posinf=1, neginf=0) * 255, 0, 255)
    return np.where(np.isnan(values)[..., None], np.array(NAN_COLOUR, float), grey[..., None])


def _resized(colours: Array, width: int, height: int) -> NDArray[np.uint8]:
    """Resized to the box: each element a block of pixels, or each pixel the mean of several elements."""
    tall, wide = colours.shape[:2]
    share = min(max(width, 1) / wide, max(height, 1) / tall)
    size = max(1, round(wide * share)), max(1, round(tall * share))
    way = pil.Resampling.NEAREST if share >= 1 else pil.Resampling.BOX
    bands = [np.asarray(pil.fromarray(colours[..., k].astype(np.float32)).resize(size, way)) for k in range(3)]
    sized: NDArray[np.uint8] = np.clip(np.rint(np.stack(bands, -1)), 0, 255).astype(np.uint8)
    return sized


PIXELS = 480  # of each side of a thumbnail in a file
MARGIN = 16  # around it


@dataclass(frozen=True, slots=True)
class Preview:
    """Two thumbnails with their titles and notes."""

    thumbnails: tuple[Thumbnail, Thumbnail]
    titles: tuple[str, str]
    notes: tuple[str, ...]

    def render(self, width: int, height: int) -> Sequence[NDArray[np.uint8]]:
        """Input and output, each in a box of `width` by `height` pixels; numbers in the range of the input, so that
        darker means smaller in both.
        """
        before, after = self.thumbnails
        ranges = before.value_range, (after if before.mode else before).value_range
        return [render(each, width, height, own) for each, own in zip(self.thumbnails, ranges, strict=True)]


def preview_of(outcome: Outcome, options: ReadOptions, tiles: int) -> Preview | None:
    """The preview of a job that ran; None for one that did not."""
    plan, header, stored = outcome.plan, outcome.header, outcome.output
    if plan is None or header is None or stored is None or stored.path is None or outcome.engine is None:
        return None
    with open_array(outcome.job.source, options) as file:
        before = thumbnail(file, plan.layout, _mode(header.mode, plan.layout), tiles)
    with open_array(Source(stored.path, outcome.job.output_key or header.key)) as file:
        mode = file.header.mode or (header.mode if stored.dtype == plan.dtype else None)
        after = thumbnail(file, file.header.layout or stored.layout, _mode(mode, stored.layout), tiles)
    titles = (
        f"input  {named_shape(plan.layout, plan.input_shape)}",
        f"output  {named_shape(stored.layout, stored.shape)}",
    )
    return Preview((before, after), titles, tuple(_notes(before, after)))


def _mode(mode: str | None, layout: str) -> str | None:
    """The mode of an image whose channels are colours; None for other numbers."""
    return mode if mode not in ("F", "I", "LAB", "bands") and "H" in layout and "W" in layout else None


def _notes(before: Thumbnail, after: Thumbnail) -> list[str]:
    notes = [*before.parts]
    if before.mode is None:
        low, high = before.value_range
        notes.append(f"{'input: ' if after.mode else ''}black {low:.4g}, white {high:.4g}")
    elif after.mode is None:
        low, high = after.value_range
        notes.append(f"output: black {low:.4g}, white {high:.4g}")
    greys = [each.planes for each in (before, after) if each.mode is None and each.planes.dtype.kind == "f"]
    if any(np.isnan(planes).any() for planes in greys):
        notes.append("nan in magenta")
    return notes


def as_png(preview: Preview) -> bytes:
    """The preview as a PNG, its titles above and its notes below."""
    left, right = (pil.fromarray(each) for each in preview.render(PIXELS, PIXELS))
    font = pil_font.load_default(16)
    ends = [font.getlength(title) for title in preview.titles]
    wide = [max(image.width, round(end)) for image, end in zip((left, right), ends, strict=True)]
    notes = "; ".join(preview.notes)
    width = max(sum(wide) + 3 * MARGIN, round(font.getlength(notes)) + 2 * MARGIN)
    tall = max(left.height, right.height)
    sheet = pil.new("RGB", (width, tall + 3 * MARGIN + 24 + (24 if notes else 0)), "#ffffff")
    pen = pil_draw.Draw(sheet)
    for image, title, x in zip((left, right), preview.titles, (MARGIN, wide[0] + 2 * MARGIN), strict=True):
        pen.text((x, MARGIN), title, fill="#111827", font=font)
        sheet.paste(image, (x, MARGIN + 28))
    pen.text((MARGIN, tall + MARGIN + 36), notes, fill="#4b5563", font=font)
    buffer = BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()
