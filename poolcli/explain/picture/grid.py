"""Two axes as a grid: the padded input with three of its windows, and the output beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poolcli.explain.picture.axis_breaks import CELL, Line, line_of_input, line_of_output, marked
from poolcli.explain.picture.canvas import Arrow, Box, Canvas, Dot, Words
from poolcli.explain.picture.caption import input_sizes, output_sizes
from poolcli.explain.picture.cells import add_indices, divisor_of, input_cell, role_of, small
from poolcli.explain.picture.theme import Role
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.steps import window
from poolcli.windows import Sliding

LEFT, HEAD, BETWEEN = 72.0, 52.0, 96.0  # room beside a grid, above it, and between two
BESIDE = {"first": -6.0, "second": 0.0, "last": 6.0}  # of an element's middle: windows share elements
INSET = 4.0  # of the second window, which shares lines with the first
DIGITS = 4  # of the longest divisor that fits into a cell


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the rows and the columns of a grid are drawn, and what their axes are called."""

    rows: Line
    columns: Line
    names: tuple[str, str]


def draw_grid(canvas: Canvas, plan: Plan, top: float) -> None:
    """Input and output of a plan of two axes."""
    down, across = plan.axes
    names = (down.name, across.name)
    at = top + HEAD
    source = Grid(line_of_input(down, marked(down), at), line_of_input(across, marked(across), LEFT), names)
    _heading(canvas, source, f"input  {input_sizes(plan.axes)}", plan.axes)
    _input(canvas, source, down, across)
    _outlines(canvas, source, plan)
    left = max(source.columns.end, LEFT + 170) + BETWEEN
    target = Grid(line_of_output(down, at), line_of_output(across, left), names)
    _heading(canvas, target, f"output  {output_sizes(plan.axes)}", None)
    _output(canvas, target, plan)


def _windows(plan: Plan) -> list[tuple[int, int]]:
    """The first window, the one beside it, and the last."""
    down, across = (axis.windows.output for axis in plan.axes)
    chosen = [(0, 0), (0, 1), (down - 1, across - 1)] if across > 1 else [(0, 0), (down - 1, 0)]
    return list(dict.fromkeys(chosen))


def _heading(canvas: Canvas, grid: Grid, text: str, axes: tuple[AxisPlan, ...] | None) -> None:
    """What a grid is, the letters of its axes with the way they count, and the numbers of its cells; of an input
    (`axes`) those inside it alone.
    """
    x, y = grid.columns.origin, grid.rows.origin
    canvas.add(Words(x, y - HEAD + 12, text, 12, fill="soft", bold=True))
    canvas.add(Words(x, y - 22, grid.names[1], 12, bold=True))
    canvas.add(Arrow(x + 14, y - 26, x + 46, y - 26, "soft"))
    canvas.add(Words(x - 46, y + 12, grid.names[0], 12, "middle", bold=True))
    canvas.add(Arrow(x - 46, y + 18, x - 46, y + 50, "soft"))
    height, width = (axis.windows.size for axis in axes) if axes else (None, None)
    add_indices(canvas, grid.columns, y, width)
    for i in grid.rows.shown:
        if height is None or 0 <= i < height:
            canvas.add(Words(x - 6, grid.rows.at(i) + 15, str(i), small(i), "end", "soft"))


def _input(canvas: Canvas, grid: Grid, down: AxisPlan, across: AxisPlan) -> None:
    for i in grid.rows.shown:
        for j in grid.columns.shown:
            canvas.add(input_cell(grid.columns.at(j), grid.rows.at(i), (i, j), (down, across)))
    _left_out(canvas, grid)


def _left_out(canvas: Canvas, grid: Grid) -> None:
    """Dots where rows, columns or both are left out."""
    for x in grid.columns.gaps:
        for y in grid.rows.middles:
            dots(canvas, x, y, 1, 0)
    for y in grid.rows.gaps:
        for x in grid.columns.middles:
            dots(canvas, x, y, 0, 1)
        for x in grid.columns.gaps:
            dots(canvas, x, y, 1, 1)


def dots(canvas: Canvas, x: float, y: float, across: int, down: int) -> None:
    """Three dots around a point."""
    for k in (-4, 0, 4):
        canvas.add(Dot(x + k * across, y + k * down, 1.3, "soft"))


def _outlines(canvas: Canvas, grid: Grid, plan: Plan) -> None:
    """The borders of windows, each on a line of the page's colour, or a dark shade would hide it; of dilated windows
    also a dot on each element.
    """
    borders = [_border(grid, plan, outputs) for outputs in _windows(plan)]
    for border in borders:
        canvas.add(replace(border, stroke="page", thickness=5, dashed=False))
    for border in borders:
        canvas.add(border)
    if all(not isinstance(w, Sliding) or w.dilation == 1 for w in plan.windows):
        return
    for outputs in _windows(plan):
        _dot_elements(canvas, grid, plan, outputs)


def _border(grid: Grid, plan: Plan, outputs: tuple[int, int]) -> Box:
    role = _role(plan, outputs)
    down, across = (window(axis, o) for axis, o in zip(plan.axes, outputs, strict=True))
    top, bottom = grid.rows.at(down.start), grid.rows.stop(down.stop - 1)
    left, right = grid.columns.at(across.start), grid.columns.stop(across.stop - 1)
    inset = INSET if role == "second" else 0.0
    size = right - left - 2 * inset, bottom - top - 2 * inset
    return Box(left + inset, top + inset, *size, None, role, 2.5, dashed=role == "second")


def _role(plan: Plan, outputs: tuple[int, int]) -> Role:
    return role_of(outputs, tuple(w.output - 1 for w in plan.windows))


def _dot_elements(canvas: Canvas, grid: Grid, plan: Plan, outputs: tuple[int, int]) -> None:
    role = _role(plan, outputs)
    taken = [w.span(o) for w, o in zip(plan.windows, outputs, strict=True)]
    for i in grid.rows.shown:
        for j in grid.columns.shown:
            if i in taken[0] and j in taken[1]:
                canvas.add(Dot(grid.columns.at(j) + CELL / 2 + BESIDE[role], grid.rows.at(i) + CELL / 2, 3, role))


def _output(canvas: Canvas, grid: Grid, plan: Plan) -> None:
    """The output's cells, those of marked windows in their colours, with the divisor where there is one."""
    chosen = _windows(plan)
    cells = [(i, j) for i in grid.rows.shown for j in grid.columns.shown]
    texts = {cell: str(divisor) for cell in cells if (divisor := divisor_of(plan, cell)) is not None}
    fits = max(map(len, texts.values()), default=0) <= DIGITS
    for i, j in cells:
        x, y = grid.columns.at(j), grid.rows.at(i)
        role = _role(plan, (i, j)) if (i, j) in chosen else None
        canvas.add(Box(x, y, CELL, CELL, role or "page", "grid"))
        if texts and fits:
            text = texts[i, j]
            size = 10 if len(text) <= 2 else 8
            canvas.add(Words(x + CELL / 2, y + 15, text, size, "middle", "on" if role else "ink"))
    _left_out(canvas, grid)
