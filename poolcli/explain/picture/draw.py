"""The picture of a plan: two axes as a grid, other numbers of axes as a strip each."""

from __future__ import annotations

from textwrap import wrap

from poolcli.explain.picture.canvas import LETTER, Canvas, Words
from poolcli.explain.picture.caption import caption, title
from poolcli.explain.picture.grid import draw_grid
from poolcli.explain.picture.legend import WIDTH, draw_legend
from poolcli.explain.picture.strip import draw_strip
from poolcli.plan import Plan

TOP = 50.0


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
