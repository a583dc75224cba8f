"""Rectangles, lines and words, written as SVG or painted as PNG."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from poolcli.core.lazy import Lazy

if TYPE_CHECKING:
    from PIL.Image import Image

pil: Any = Lazy("PIL.Image")
pil_draw: Any = Lazy("PIL.ImageDraw")
pil_font: Any = Lazy("PIL.ImageFont")

SCALE = 2  # pixels of a PNG for each unit of the drawing


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; `hatched` draws diagonals over its fill."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    thickness: float = 1
    dashed: bool = False
    hatched: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: str


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; `x` is its start, middle or end."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    fill: str = "#111827"
    bold: bool = False


@dataclass(slots=True)
class Canvas:
    """Shapes in the order in which they are drawn, and the size that holds them."""

    shapes: list[Box | Dot | Words] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, shape: Box | Dot | Words) -> None:
        """Draws `shape` over what is there; the canvas grows to hold it."""
        self.shapes.append(shape)
        if isinstance(shape, Box):
            right, bottom = shape.x + shape.width, shape.y + shape.height
        elif isinstance(shape, Dot):
            right, bottom = shape.x + shape.radius, shape.y + shape.radius
        else:
            share = {"start": 1.0, "middle": 0.5, "end": 0.0}[shape.anchor]
            right, bottom = shape.x + share * 0.6 * shape.size * len(shape.text), shape.y + shape.size / 3
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def svg(self, margin: float = 20) -> str:
        """The drawing as an SVG document."""
        width, height = self.width + margin, self.height + margin
        body = "\n".join(_svg(shape) for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">\n'
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><path d="M0 0V6" stroke="#9ca3af" stroke-width="2"/></pattern></defs>\n'
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
        )

    def image(self, margin: float = 20) -> Image:
        """The drawing as a picture of pixels."""
        size = (round((self.width + margin) * SCALE), round((self.height + margin) * SCALE))
        image: Image = pil.new("RGB", size, "#ffffff")
        pen = pil_draw.Draw(image)
        for shape in self.shapes:
            if isinstance(shape, Words):
                anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
                font = pil_font.load_default(shape.size * SCALE)
                at = (shape.x * SCALE, shape.y * SCALE)
                pen.text(at, shape.text, fill=shape.fill, font=font, anchor=anchor, stroke_width=0.4 * shape.bold)
            elif isinstance(shape, Dot):
                x, y, r = shape.x * SCALE, shape.y * SCALE, shape.radius * SCALE
                pen.ellipse((x - r, y - r, x + r, y + r), fill=shape.fill)
            else:
                _paint(pen, shape)
        return image


def _svg(shape: Box | Dot | Words) -> str:
    if isinstance(shape, Words):
        weight = ' font-weight="bold"' if shape.bold else ""
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size:g}" text-anchor="{shape.anchor}" '
            f'fill="{shape.fill}"{weight}>{escape(shape.text)}</text>'
        )
    if isinstance(shape, Dot):
        return f'<circle cx="{shape.x:g}" cy="{shape.y:g}" r="{shape.radius:g}" fill="{shape.fill}"/>'
    place = f'x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}"'
    dashes = ' stroke-dasharray="4 3"' if shape.dashed else ""
    stroke = f' stroke="{shape.stroke}" stroke-width="{shape.thickness:g}"{dashes}' if shape.stroke else ""
    drawn = f'<rect {place} fill="{shape.fill or "none"}"{stroke}/>'
    return drawn + (f'<rect {place} fill="url(#hatch)"/>' if shape.hatched else "")


def _paint(pen: Any, box: Box) -> None:
    x0, y0 = box.x * SCALE, box.y * SCALE
    x1, y1 = x0 + box.width * SCALE, y0 + box.height * SCALE
    if box.fill:
        pen.rectangle((x0, y0, x1, y1), fill=box.fill)
    if box.hatched:
        step = 8 * SCALE
        offset = step / 2
        while offset < (x1 - x0) + (y1 - y0):
            start = (min(x0 + offset, x1), y0 + max(0, offset - (x1 - x0)))
            end = (x0 + max(0, offset - (y1 - y0)), min(y0 + offset, y1))
            pen.line((*start, *end), fill="#9ca3af", width=SCALE)
            offset += step
    if not box.stroke:
        return
    width = round(box.thickness * SCALE)
    for line in ((x0, y0, x1, y0), (x1, y0, x1, y1), (x1, y1, x0, y1), (x0, y1, x0, y0)):
        for piece in _dashes(line) if box.dashed else (line,):
            pen.line(piece, fill=box.stroke, width=width)


def _dashes(line: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """An upright or level line in pieces of 4 units with gaps of 3."""
    x0, y0, x1, y1 = line
    length, on, period = abs(x1 - x0) + abs(y1 - y0), 4 * SCALE, 7 * SCALE
    pieces, at = [], 0.0
    while at < length:
        a, b = at / length, min(at + on, length) / length
        pieces.append((x0 + a * (x1 - x0), y0 + a * (y1 - y0), x0 + b * (x1 - x0), y0 + b * (y1 - y0)))
        at += period
    return pieces
