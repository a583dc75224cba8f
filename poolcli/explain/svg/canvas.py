"""A canvas of shapes in themed colours, written as SVG."""

from __future__ import annotations

from html import escape
from typing import Literal

Role = Literal[
    "page", "ink", "soft", "grid", "faint", "padding", "first", "second", "last", "other", "on",
    "read0", "read1", "read2", "read3", "read4",
]  # fmt: skip
READ_SHADES: tuple[Role, ...] = ("read0", "read1", "read2", "read3", "read4")  # read by 0, 1, 2, 3, 4 or more windows
THEMES = ("auto", "light", "dark")  # `auto` follows the reader's theme

COLOURS: dict[Role, tuple[str, str]] = {
    "page": ("#ffffff", "#0f172a"),
    "ink": ("#111827", "#f1f5f9"),
    "soft": ("#4b5563", "#94a3b8"),
    "grid": ("#9ca3af", "#64748b"),
    "faint": ("#cbd0d8", "#475569"),
    "padding": ("#f3f4f6", "#1e293b"),
    "first": ("#dc2626", "#f87171"),
    "second": ("#b45309", "#fbbf24"),
    "last": ("#7c3aed", "#c4b5fd"),
    "other": ("#6b7280", "#94a3b8"),
    "on": ("#ffffff", "#0f172a"),  # text on first, second and last
    "read0": ("#ffffff", "#0f172a"),
    "read1": ("#e0efff", "#172f52"),
    "read2": ("#b9d9ff", "#1d4480"),
    "read3": ("#86bcff", "#225fb8"),
    "read4": ("#559bf5", "#2c7be5"),
}
LETTER_WIDTH = 0.56  # average, relative to the font size
MARGIN = 20


def text_width(text: str, size: float) -> float:
    """The approximate width of a line of text."""
    return LETTER_WIDTH * size * len(text)


def style(theme: str, body: str) -> str:
    """The style sheet of what `body` uses: `.f-ROLE` fills and `.s-ROLE` strokes inside a picture of the theme."""
    light, dark = (
        "".join(
            f".pool-{theme} .{kind[0]}-{role}{{{kind}:{pair[i]}}}"
            for role, pair in COLOURS.items()
            for kind in ("fill", "stroke")
            if f"{kind[0]}-{role}" in body
        )
        for i in (0, 1)
    )
    if theme == "auto":
        return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
    return dark if theme == "dark" else light


class Canvas:
    """Shapes in drawing order, the size that holds them, and the entries that the legend needs."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.used: set[str] = set()
        self.width = self.height = 0.0

    def _add(self, part: str, right: float, bottom: float) -> None:
        self.parts.append(part)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def open_group(self, at: str, title: str, window: tuple[float, float, float, float] | None = None) -> None:
        """Begin the shapes of output element `at`; `title` is shown under the pointer, `window` marked in a page."""
        place = f' data-window="{" ".join(f"{number:g}" for number in window)}"' if window else ""
        self.parts.append(f'<g data-at="{at}"{place}><title>{escape(title)}</title>')

    def close_group(self) -> None:
        """End the shapes of the element."""
        self.parts.append("</g>")

    def box(
        self, x: float, y: float, width: float, height: float, fill: Role | None, stroke: Role | None = None,
        thickness: float = 1, dashed: bool = False, hatched: bool = False,
    ) -> None:  # fmt: skip
        """Draw a rectangle; `hatched` draws diagonal lines over its fill."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        classes = " ".join([*([f"f-{fill}"] if fill else []), *([f"s-{stroke}"] if stroke else [])])
        empty = "" if fill else ' fill="none"'
        thick = f' stroke-width="{thickness:g}"' if thickness != 1 else ""
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        lines = f'<rect {place} fill="url(#hatch)"/>' if hatched else ""
        self._add(f'<rect {place} class="{classes}"{empty}{thick}{dashes}/>{lines}', x + width, y + height)

    def dot(self, x: float, y: float, radius: float, fill: Role) -> None:
        """Draw a filled circle."""
        self._add(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="f-{fill}"/>', x + radius, y + radius)

    def dots(self, x: float, y: float, across: int, down: int) -> None:
        """Draw three dots around a point, in place of what is left out."""
        for k in (-4, 0, 4):
            self.dot(x + k * across, y + k * down, 1.3, "soft")
        self.used.add("left out")

    def arrow(self, x: float, y: float, shape: str) -> None:
        """Draw an arrow; `shape` is its path from that point."""
        self._add(f'<path d="M{x:g} {y:g}{shape}" fill="none" class="s-soft"/>', x, y)

    def text(
        self, x: float, y: float, text: str, size: float = 12, anchor: str = "start", fill: Role = "ink",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Draw a line of text; `x` is its start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        share = {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
        self._add(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{place}{weight} class="f-{fill}">{escape(text)}</text>',
            x + share * text_width(text, size), y + size / 3,
        )  # fmt: skip

    def svg(self, title: str, description: str, theme: str) -> str:
        """The drawing as an SVG document with a title and a description for screen readers."""
        width, height = f"{self.width + MARGIN:.0f}", f"{self.height + MARGIN:.0f}"
        body = "\n".join(self.parts)
        drawing = (
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><path d="M0 0V6" class="s-grid" stroke-width="2"/></pattern></defs>\n'
            f'<rect width="100%" height="100%" class="f-page"/>\n{body}'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="Helvetica, Arial, sans-serif" role="img" class="pool-{theme}">\n'
            f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n"
            f"<style>{style(theme, drawing)}</style>\n{drawing}\n</svg>\n"
        )
