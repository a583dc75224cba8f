"""One axis as a strip: the padded input, and below it each window with what it reads and is divided by."""

from __future__ import annotations

from poolcli.explain.picture.axis_breaks import CELL, Line, line_of_input, marked
from poolcli.explain.picture.canvas import Box, Canvas, Words
from poolcli.explain.picture.cells import add_indices, input_cell, role_of
from poolcli.explain.picture.grid import LEFT, dots
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.steps import Window, window
from poolcli.windows import Sliding

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
