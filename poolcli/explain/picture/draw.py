"""Draws a plan: two axes as a grid, any other number as one strip each, and the legend of the colours."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap

from poolcli.explain.picture.axis_breaks import CELL, Line, line_of_input, marked
from poolcli.explain.picture.canvas import LETTER, READ, Box, Canvas, Dot, Role, Shape, Words, wide
from poolcli.explain.picture.grid import LEFT, add_indices, caption, dots, draw_grid, input_cell, role_of, title
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.steps import Window, window
from poolcli.windows import Sliding

SIZE = 14.0
WINDOWS: dict[Role, str] = {"first": "first window", "second": "second", "other": "others", "last": "last"}
WIDTH = 560.0  # to which a legend may go where the drawing is narrower
READERS = (  # of a shade, and where it goes on from one that some windows read
    ("read by no window", ""),
    ("read by 1 window", "1"),
    ("read by 2 windows", "2"),
    ("read by 3 windows", "3"),
    ("read by 4 windows or more", "4 or more"),
)
NUMBER = "a number in the output: what its sum is divided by"


def draw_legend(canvas: Canvas) -> None:
    """The legend below the drawing."""
    y, x = canvas.height + 28, 26.0
    edge = max(canvas.width, WIDTH)
    for sample, text in _entries(canvas.shapes):
        room = 20 + wide(text, 12) + 18
        if x > 26 and x + room > edge:
            x, y = 26.0, y + 22
        for shape in sample:
            canvas.add(replace(shape, x=x + shape.x, y=y + shape.y))
        canvas.add(Words(x + 20, y + 12, text, 12))
        x += room


def _entries(shapes: list[Shape]) -> list[tuple[tuple[Box | Dot | Words, ...], str]]:
    boxes = [shape for shape in shapes if isinstance(shape, Box)]
    borders, fills = {box.stroke for box in boxes}, {box.fill for box in boxes}
    hollow = {(box.fill, box.stroke, box.dashed) for box in boxes}
    found: list[tuple[tuple[Box | Dot | Words, ...], str]] = []

    def entry(occurs: bool, text: str, *sample: Box | Dot | Words) -> None:
        if occurs:
            found.append((sample, text))

    for role, text in WINDOWS.items():
        samples = [box for box in boxes if box.stroke == role]
        filled, dashed = any(box.fill == role for box in samples), all(box.dashed for box in samples)
        entry(role in borders, text, Box(0, 0, SIZE, SIZE, role if filled else None, role, 2.5, dashed=dashed))
    dilated = any(isinstance(shape, Dot) and shape.fill == "first" for shape in shapes)
    entry(dilated, "element of a window", Dot(SIZE / 2, SIZE / 2, 4, "first"))
    shades = [shade for shade in READ if any(box.fill == shade and box.stroke == "grid" for box in boxes)]
    for before, shade in zip((None, *shades), shades, strict=False):
        entry(
            True,
            READERS[READ.index(shade)][before not in (None, READ[0])],
            Box(0, 0, SIZE, SIZE, shade, "grid", hatched=shade == READ[0]),
        )
    entry("padding" in fills, "padding", Box(0, 0, SIZE, SIZE, "padding", "faint", dashed=True))
    past = (None, "faint", True) in hollow
    entry(past, "past the padding" if "padding" in fills else "past the input",
          Box(0, 0, SIZE, SIZE, None, "faint", dashed=True))  # fmt: skip
    outside = any(box.fill == "page" and box.dashed for box in boxes)
    entry(outside, "outside the input", Box(0, 1, SIZE, SIZE - 2, "page", "first", dashed=True))
    left_out = any(isinstance(shape, Dot) and shape.fill == "soft" for shape in shapes)
    entry(left_out, "left out", *(Dot(SIZE / 2 + k, SIZE / 2, 1.3, "soft") for k in (-4, 0, 4)))
    numbers = any(isinstance(shape, Words) and shape.fill == "on" for shape in shapes)
    entry(numbers, NUMBER, Box(0, 0, SIZE, SIZE, "page", "grid"), Words(SIZE / 2, 11, "9", 10, "middle"))
    return found


ROW = 20.0  # the height of a window's row
BAR = 12.0  # and of its elements
ALL = 8  # windows, up to which each is drawn


def draw_strip(canvas: Canvas, plan: Plan, axis: AxisPlan, top: float) -> None:
    """The axis called by its letter; its windows in rows of their own, so that none hides another."""
    outputs = _drawn(axis)
    line = line_of_input(axis, outputs, LEFT)
    canvas.add(Words(LEFT - 46, top + 12, axis.name, 14, "middle", bold=True))
    sizes = f"input {axis.windows.size}, output {axis.windows.output}:  {axis.formula}"
    canvas.add(Words(LEFT, top + 12, sizes, 12, fill="soft", bold=True))
    y = top + 34
    for position in line.shown:
        canvas.add(input_cell(line.at(position), y, (position,), (axis,)))
    add_indices(canvas, line, y, axis.windows.size)
    for x in line.gaps:
        dots(canvas, x, y + CELL / 2, 1, 0)
    y += CELL + 8
    last = -1
    for output in outputs:
        if output > last + 1:
            dots(canvas, LEFT - 20, y + BAR / 2, 0, 1)
            y += ROW
        last = output
        _row(canvas, plan, axis, line, output, y)
        y += ROW


def _drawn(axis: AxisPlan) -> tuple[int, ...]:
    """All windows of an axis that is drawn whole, or three."""
    count = axis.windows.output
    whole = len(line_of_input(axis, marked(axis), 0).runs) == 1
    return tuple(range(count)) if whole and count <= ALL else marked(axis)


def _row(canvas: Canvas, plan: Plan, axis: AxisPlan, line: Line, output: int, y: float) -> None:
    role, reach, w = role_of((output,), (axis.windows.output - 1,)), window(axis, output), axis.windows
    canvas.add(Words(LEFT - 8, y + 10, f"window {output}", 10, "end", role))
    left, right = line.at(reach.start) + 1.5, line.stop(reach.stop - 1) - 1.5
    canvas.add(Box(left, y + BAR / 2 - 0.5, right - left, 1, role))
    step = w.dilation if isinstance(w, Sliding) else 1
    taken = w.span(output)
    for position in line.shown:
        if position in range(reach.start, reach.stop, step):
            inside = position in taken
            place = (line.at(position) + 1.5, y + 1, CELL - 3, BAR - 2)
            canvas.add(Box(*place, role if inside else "page", role, dashed=not inside))
    canvas.add(Words(line.end + 14, y + 10, _words(reach, plan.reducer.divides), 10, fill="soft"))


def _words(reach: Window, divides: bool) -> str:
    if reach.first is None:
        return "reads nothing"
    reads = f"reads {reach.first}" if reach.first == reach.last else f"reads {reach.first} to {reach.last}"
    return f"{reads}, divides by {reach.divisor}" if divides else f"{reads}: {reach.inside}"


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
