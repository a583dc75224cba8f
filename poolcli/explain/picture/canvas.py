"""A canvas of shapes in themed colours that is written as SVG or painted as PNG."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from PIL.Image import Image

Role = Literal[
    "page", "ink", "soft", "grid", "faint", "padding", "first", "second", "last", "other", "on",
    "read0", "read1", "read2", "read3", "read4",
]  # fmt: skip
READ_SHADES: tuple[Role, ...] = ("read0", "read1", "read2", "read3", "read4")  # read by 0, 1, 2, 3, 4 or more windows
THEMES = ("auto", "light", "dark")  # `auto`: an SVG follows its reader's theme, a PNG is light

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


def colour(role: Role, theme: str) -> str:
    """The colour of a role; that of `auto` is the light one."""
    return COLOURS[role][theme == "dark"]


pil: Any = Lazy("PIL.Image")
pil_draw: Any = Lazy("PIL.ImageDraw")
pil_font: Any = Lazy("PIL.ImageFont")

SCALE = 2  # pixels of a PNG for each unit of the drawing
PAINT_SCALE = 2 * SCALE  # a PNG is painted larger and reduced, for smooth edges
LETTER_WIDTH = 0.56  # average, relative to the font size
MARGIN = 20


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; `hatched` draws diagonal lines over its fill."""

    x: float
    y: float
    width: float
    height: float
    fill: Role | None = None
    stroke: Role | None = None
    thickness: float = 1
    dashed: bool = False
    hatched: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: Role


@dataclass(frozen=True, slots=True)
class Arrow:
    """A straight line with an arrow head."""

    x: float
    y: float
    to_x: float
    to_y: float
    stroke: Role


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; `x` is its start, middle or end."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    fill: Role = "ink"
    bold: bool = False


Shape = Box | Dot | Arrow | Label


@dataclass(slots=True)
class Canvas:
    """Shapes in drawing order, and the size that holds them; `title` and `description` are for screen readers."""

    title: str = ""
    description: str = ""
    shapes: list[Shape] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, shape: Shape) -> None:
        """Draw `shape` on top; the canvas grows to hold it."""
        self.shapes.append(shape)
        if isinstance(shape, Box):
            right, bottom = shape.x + shape.width, shape.y + shape.height
        elif isinstance(shape, Dot):
            right, bottom = shape.x + shape.radius, shape.y + shape.radius
        elif isinstance(shape, Arrow):
            right, bottom = max(shape.x, shape.to_x), max(shape.y, shape.to_y)
        else:
            share = {"start": 1.0, "middle": 0.5, "end": 0.0}[shape.anchor]
            right, bottom = shape.x + share * text_width(shape.text, shape.size), shape.y + shape.size / 3
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def svg(self, theme: str = "auto") -> str:
        """The drawing as an SVG document. Text remains text; readers without style sheets see the light colours."""
        width, height = f"{self.width + MARGIN:.0f}", f"{self.height + MARGIN:.0f}"
        used = {getattr(shape, name, None) for shape in self.shapes for name in ("fill", "stroke")}
        roles = used | {"page", "grid"}
        dark = "".join(f".{name}-{role}{{{kind}:{COLOURS[role][1]}}}" for role in COLOURS if role in roles
                       for name, kind in (("f", "fill"), ("s", "stroke")))  # fmt: skip
        style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>\n" if theme == "auto" else ""
        body = "\n".join(_svg(shape, theme) for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<desc>{escape(self.description)}</desc>\n"
            f"{style}"
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><path d="M0 0V6" {_paint(theme, stroke="grid")} stroke-width="2"/>'
            f'</pattern></defs>\n<rect width="100%" height="100%" {_paint(theme, "page")}/>\n{body}\n</svg>\n'
        )

    def image(self, theme: str = "light") -> Image:
        """The drawing as an image, two pixels for each unit."""
        size = (round((self.width + MARGIN) * SCALE), round((self.height + MARGIN) * SCALE))
        image: Image = pil.new(
            "RGB", (size[0] * PAINT_SCALE // SCALE, size[1] * PAINT_SCALE // SCALE), colour("page", theme)
        )
        pen = pil_draw.Draw(image)
        for shape in self.shapes:
            _PAINTERS[type(shape)](pen, shape, theme)
        return image.reduce(PAINT_SCALE // SCALE)


def text_width(text: str, size: float) -> float:
    """The approximate width of a line of text."""
    return LETTER_WIDTH * size * len(text)


def _paint(theme: str, fill: Role | None = None, stroke: Role | None = None, hollow: bool = False) -> str:
    """The attributes of fill and stroke, with one class attribute for both; `hollow` shapes have no fill."""
    roles = [(kind, role) for kind, role in (("fill", fill), ("stroke", stroke)) if role]
    classes = f'class="{" ".join(f"{kind[0]}-{role}" for kind, role in roles)}" ' if roles else ""
    colours = [f'{kind}="{colour(role, theme)}"' for kind, role in roles]
    return classes + " ".join(['fill="none"', *colours] if hollow else colours)


def _svg(shape: Shape, theme: str) -> str:
    if isinstance(shape, Label):
        weight = ' font-weight="bold"' if shape.bold else ""
        anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size:g}"{anchor}{weight} '
            f"{_paint(theme, shape.fill)}>{escape(shape.text)}</text>"
        )
    if isinstance(shape, Dot):
        return f'<circle cx="{shape.x:g}" cy="{shape.y:g}" r="{shape.radius:g}" {_paint(theme, shape.fill)}/>'
    if isinstance(shape, Arrow):
        points = " ".join(f"{x:g},{y:g}" for x, y in _head(shape))
        line = f"M{shape.x:g} {shape.y:g}L{shape.to_x:g} {shape.to_y:g}"
        point = f'<polygon points="{points}" {_paint(theme, shape.stroke)}/>'
        return f'<path d="{line}" {_paint(theme, stroke=shape.stroke)}/>{point}'
    place = f'x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}"'
    thick = f' stroke-width="{shape.thickness:g}"' if shape.stroke and shape.thickness != 1 else ""
    dashes = ' stroke-dasharray="4 3"' if shape.stroke and shape.dashed else ""
    drawn = f"<rect {place} {_paint(theme, shape.fill, shape.stroke, not shape.fill)}{thick}{dashes}/>"
    return drawn + (f'<rect {place} fill="url(#hatch)"/>' if shape.hatched else "")


def _head(arrow: Arrow) -> list[tuple[float, float]]:
    """The three corners of an arrow head."""
    length = max(abs(arrow.to_x - arrow.x), abs(arrow.to_y - arrow.y)) or 1
    ahead = (arrow.to_x - arrow.x) / length, (arrow.to_y - arrow.y) / length
    back = arrow.to_x - 6 * ahead[0], arrow.to_y - 6 * ahead[1]
    aside = -3 * ahead[1], 3 * ahead[0]
    return [
        (arrow.to_x, arrow.to_y),
        (back[0] + aside[0], back[1] + aside[1]),
        (back[0] - aside[0], back[1] - aside[1]),
    ]


def _paint_text(pen: Any, words: Label, theme: str) -> None:
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[words.anchor]
    font, at = pil_font.load_default(words.size * PAINT_SCALE), (words.x * PAINT_SCALE, words.y * PAINT_SCALE)
    pen.text(
        at,
        words.text,
        fill=colour(words.fill, theme),
        font=font,
        anchor=anchor,
        stroke_width=0.2 * PAINT_SCALE * words.bold,
    )


def _paint_dot(pen: Any, dot: Dot, theme: str) -> None:
    x, y, r = dot.x * PAINT_SCALE, dot.y * PAINT_SCALE, dot.radius * PAINT_SCALE
    pen.ellipse((x - r, y - r, x + r, y + r), fill=colour(dot.fill, theme))


def _paint_arrow(pen: Any, arrow: Arrow, theme: str) -> None:
    ink = colour(arrow.stroke, theme)
    pen.line(
        [number * PAINT_SCALE for number in (arrow.x, arrow.y, arrow.to_x, arrow.to_y)], fill=ink, width=PAINT_SCALE
    )
    pen.polygon([(x * PAINT_SCALE, y * PAINT_SCALE) for x, y in _head(arrow)], fill=ink)


def _paint_box(pen: Any, box: Box, theme: str) -> None:
    x0, y0 = box.x * PAINT_SCALE, box.y * PAINT_SCALE
    x1, y1 = x0 + box.width * PAINT_SCALE, y0 + box.height * PAINT_SCALE
    if box.fill:
        pen.rectangle((x0, y0, x1, y1), fill=colour(box.fill, theme))
    if box.hatched:
        step = 8 * PAINT_SCALE
        offset = step / 2
        while offset < (x1 - x0) + (y1 - y0):
            start = (min(x0 + offset, x1), y0 + max(0, offset - (x1 - x0)))
            end = (x0 + max(0, offset - (y1 - y0)), min(y0 + offset, y1))
            pen.line((*start, *end), fill=colour("grid", theme), width=PAINT_SCALE)
            offset += step
    if not box.stroke:
        return
    width, ink = round(box.thickness * PAINT_SCALE), colour(box.stroke, theme)
    for line in ((x0, y0, x1, y0), (x1, y0, x1, y1), (x1, y1, x0, y1), (x0, y1, x0, y0)):
        for piece in _dashes(line) if box.dashed else (line,):
            pen.line(piece, fill=ink, width=width)


def _dashes(line: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """Cut a horizontal or vertical line into dashes of 4 units with gaps of 3."""
    x0, y0, x1, y1 = line
    length = abs(x1 - x0) + abs(y1 - y0)
    parts = [
        (at / length, min(at + 4 * PAINT_SCALE, length) / length) for at in range(0, ceil(length), 7 * PAINT_SCALE)
    ]
    return [(x0 + a * (x1 - x0), y0 + a * (y1 - y0), x0 + b * (x1 - x0), y0 + b * (y1 - y0)) for a, b in parts]


_PAINTERS: dict[type, Any] = {Box: _paint_box, Dot: _paint_dot, Arrow: _paint_arrow, Label: _paint_text}
