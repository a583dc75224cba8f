"""A job's input and output side by side, read again from their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from poolcli.explain.thumbnail import Thumbnail, paint, thumbnail
from poolcli.formats import ReadOptions, Source, open_array
from poolcli.layouts import named_shape
from poolcli.pooling.outcome import Outcome
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

pil: Any = Lazy("PIL.Image")
pil_draw: Any = Lazy("PIL.ImageDraw")
pil_font: Any = Lazy("PIL.ImageFont")

PIXELS = 480  # of each side of a picture in a file
ROOM = 16  # around them


@dataclass(frozen=True, slots=True)
class Preview:
    """Two looks with their titles, and what is to be said of both."""

    looks: tuple[Thumbnail, Thumbnail]
    titles: tuple[str, str]
    notes: tuple[str, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Black and white of numbers: those of the input serve both, so that what is darker has become less."""
        return self.looks[0].ends

    def painted(self, width: int, height: int) -> Sequence[NDArray[np.uint8]]:
        """Input and output, each in a box of so many pixels; of numbers, black and white are those of the input."""
        return [paint(each, width, height, self.ends if not self.looks[0].mode else each.ends) for each in self.looks]


def preview_of(outcome: Outcome, options: ReadOptions, tiles: int) -> Preview | None:
    """What there is to see of a job that ran; None for one that did not."""
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
    """The mode of a picture whose channels still are its colours, and whose numbers are colours at all."""
    return mode if mode not in ("F", "I", "LAB", "bands") and "H" in layout and "W" in layout else None


def _notes(before: Thumbnail, after: Thumbnail) -> list[str]:
    import numpy as np

    notes = [*before.of]
    if before.mode is None:
        low, high = before.ends
        notes.append(f"{'input: ' if after.mode else ''}black {low:.4g}, white {high:.4g}")
    elif after.mode is None:
        low, high = after.ends
        notes.append(f"output: black {low:.4g}, white {high:.4g}")
    greys = [each.planes for each in (before, after) if each.mode is None and each.planes.dtype.kind == "f"]
    if any(np.isnan(planes).any() for planes in greys):
        notes.append("nan in magenta")
    return notes


def as_png(preview: Preview) -> bytes:
    """The preview as a PNG, its titles above and its notes below."""
    left, right = (pil.fromarray(each) for each in preview.painted(PIXELS, PIXELS))
    font = pil_font.load_default(16)
    ends = [font.getlength(title) for title in preview.titles]
    wide = [max(image.width, round(end)) for image, end in zip((left, right), ends, strict=True)]
    notes = "; ".join(preview.notes)
    width = max(sum(wide) + 3 * ROOM, round(font.getlength(notes)) + 2 * ROOM)
    tall = max(left.height, right.height)
    sheet = pil.new("RGB", (width, tall + 3 * ROOM + 24 + (24 if notes else 0)), "#ffffff")
    pen = pil_draw.Draw(sheet)
    for image, title, x in zip((left, right), preview.titles, (ROOM, wide[0] + 2 * ROOM), strict=True):
        pen.text((x, ROOM), title, fill="#111827", font=font)
        sheet.paste(image, (x, ROOM + 28))
    pen.text((ROOM, tall + ROOM + 36), notes, fill="#4b5563", font=font)
    buffer = BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()
