"""What pictures are drawn with: a canvas of shapes in themed colours, and axes whose middle is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise

from poolcli.explain import window
from poolcli.plan import AxisPlan

LETTER_WIDTH, BOLD = 0.56, 1.2  # average, relative to the font size; of bold letters, relative to others
MARGIN = 20
CELL, GAP = 22.0, 16.0  # width of a position of an axis, and of a break
MAX_INPUTS, MAX_OUTPUTS = 28, 16  # positions of an axis without breaks
END_CELLS = 5  # of a longer axis, which are drawn at each end
MAX_DOTTED_TAPS = 5  # of a dilated window, all of which are drawn
HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V6" class="s-grid" stroke-width="2"/></pattern></defs>\n'
    '<rect width="100%" height="100%" class="f-page"/>'
)


def text_width(text: str, size: float) -> float:
    """The approximate width of a line of text."""
    return LETTER_WIDTH * size * len(text)


class Canvas:
    """Shapes in drawing order, and the size that holds them. A colour is a role in `style.css`, or empty."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def add(self, part: str, right: float = 0, bottom: float = 0) -> None:
        """Add an element that reaches that far."""
        self.parts.append(part)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = "", stroke: str = "",
        thickness: float = 1, dashed: bool = False, hatched: bool = False,
    ) -> None:  # fmt: skip
        """Draw a rectangle; `hatched` draws diagonal lines over its fill."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        classes = " ".join([f"f-{fill}"] * bool(fill) + [f"s-{stroke}"] * bool(stroke))
        more = "" if fill else ' fill="none"'
        more += f' stroke-width="{thickness:g}"' if thickness != 1 else ""
        more += ' stroke-dasharray="4 3"' if dashed else ""
        lines = f'<rect {place} fill="url(#hatch)"/>' if hatched else ""
        self.add(f'<rect {place} class="{classes}"{more}/>{lines}', x + width, y + height)

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        """Draw a filled circle."""
        self.add(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="f-{fill}"/>', x + radius, y + radius)

    def dots(self, x: float, y: float, across: int, down: int) -> None:
        """Draw three dots around a point, in place of what is left out."""
        for k in (-4, 0, 4):
            self.dot(x + k * across, y + k * down, 1.3, "soft")

    def text(
        self, x: float, y: float, text: str, size: float = 12, anchor: str = "start", fill: str = "ink",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Draw a line of text; `x` is its start, middle or end."""
        words = f' text-anchor="{anchor}"' * (anchor != "start") + ' font-weight="bold"' * bold
        right = x + {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor] * text_width(text, size) * (BOLD if bold else 1)
        part = f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{words} class="f-{fill}">{escape(text)}</text>'
        self.add(part, right, y + size / 3)

    def svg(self, title: str, description: str) -> str:
        """The drawing as an SVG document with a title and a description for screen readers."""
        width, height = f"{self.width + MARGIN:.0f}", f"{self.height + MARGIN:.0f}"
        body = "\n".join((HATCH, *self.parts))
        style = files("poolcli").joinpath("explain", "svg", "style.css").read_text("utf-8")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="Helvetica, Arial, sans-serif" role="img" class="pool">\n'
            f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n"
            f"<style>{style}</style>\n{body}\n</svg>\n"
        )


class BrokenAxis:
    """An axis as it is drawn from `origin` on: the positions that are `shown`, and the centres of breaks."""

    def __init__(self, shown: Sequence[int], origin: float) -> None:
        self.shown, self.origin, self.end = shown, origin, origin
        self.gaps: list[float] = []
        self._edges: dict[int, float] = {}
        for before, position in pairwise((shown[0] - 1, *shown)):
            if position > before + 1:
                self.gaps.append(self.end + GAP / 2)
                self.end += GAP
            self._edges[position] = self.end
            self.end += CELL

    def at(self, position: int) -> float:
        """The near edge of a position; the middle of the break if it is left out."""
        after = (edge - GAP / 2 for shown, edge in self._edges.items() if shown > position)
        return self._edges[position] if position in self._edges else next(after, self.end)

    def stop(self, position: int) -> float:
        """The far edge of a position; the middle of the break if it is left out."""
        return self.at(position) + CELL * (position in self._edges)


def input_axis(axis: AxisPlan, outputs: Iterable[int], origin: float) -> BrokenAxis:
    """The input positions of an axis: all of a short one, else both ends and the edges of the windows of `outputs`."""
    w = axis.windows
    low, high = -w.pad_begin, max(w.size + w.pad_end, window(w, w.output - 1).stop)
    wanted = {low, -1, w.size, high - 1, *range(END_CELLS), *range(w.size - END_CELLS, w.size)}
    for found in (window(w, o) for o in outputs):
        wanted |= {found.start - 1, found.start, found.stop - 1, found.stop}
        if w.dilation > 1 and w.longest <= MAX_DOTTED_TAPS:
            wanted |= {*range(found.start, found.stop, w.dilation)}
    return _broken_axis(range(low, high), wanted, MAX_INPUTS, origin)


def output_axis(axis: AxisPlan, origin: float) -> BrokenAxis:
    """The output positions of an axis: all of a short one, else both ends."""
    count = axis.windows.output
    return _broken_axis(range(count), {*range(END_CELLS), *range(count - END_CELLS, count)}, MAX_OUTPUTS, origin)


def _broken_axis(whole: range, wanted: set[int], most: int, origin: float) -> BrokenAxis:
    """The axis with breaks in place of what is not wanted, if that is more than one position."""
    kept = whole if len(whole) <= most else [*sorted(wanted.intersection(whole))]
    single = [a + 1 for a, b in pairwise(kept) if b == a + 2]
    return BrokenAxis(sorted([*kept, *single]), origin)
