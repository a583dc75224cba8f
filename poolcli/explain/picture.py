"""The picture of a plan: two axes as a grid, other numbers of axes as a strip each; written as SVG or PNG."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from textwrap import wrap

from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.core.values import one_of
from poolcli.explain.canvas import LETTER, Canvas, Words
from poolcli.explain.caption import caption, title
from poolcli.explain.grid import draw_grid
from poolcli.explain.legend import WIDTH, draw_legend
from poolcli.explain.strips import draw_strip
from poolcli.explain.theme import THEMES
from poolcli.plan import Plan

TOP = 50.0


def write_picture(plan: Plan, path: str, overwrite: bool = False, theme: str = "auto") -> None:
    """Writes the picture of `plan` to an .svg or .png, whole or not at all."""
    kind = Path(path).suffix.lower()
    if kind not in (".svg", ".png"):
        raise RequestError(f"{field('picture', path)} ends in {kind or 'nothing'}; use .svg or .png")
    one_of("theme", theme, THEMES)
    if Path(path).exists() and not overwrite:
        raise RequestError(f"{path} exists; use {field('overwrite')} to replace it")
    from poolcli.formats.atomic import byte_stream

    canvas = draw(plan)
    if kind == ".svg":
        content = canvas.svg(theme).encode()
    else:
        buffer = BytesIO()
        canvas.image(theme).save(buffer, "PNG", dpi=(192, 192))
        content = buffer.getvalue()
    with byte_stream(path, overwrite) as stream:
        stream.write(content)


def draw(plan: Plan) -> Canvas:
    """The drawing of a plan, with its title, legend and caption."""
    said = caption(plan)
    canvas = Canvas(title(plan), " ".join(said))
    canvas.add(Words(26, 28, canvas.title, 15, bold=True))
    if len(plan.axes) == 2:
        draw_grid(canvas, plan, TOP)
    else:
        top = TOP
        for axis in plan.axes:
            draw_strip(canvas, plan, axis, top)
            top = canvas.height + 22
    draw_legend(canvas)
    letters = int((max(canvas.width, WIDTH) - 26) / (LETTER * 12))
    y = canvas.height + 30
    for sentence in said:
        for line in wrap(sentence, letters):
            canvas.add(Words(26, y, line, 12, fill="soft"))
            y += 17
    return canvas
