"""Draws a plan: two axes as a grid, any other number as one strip each, with a legend and a caption."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, prod
from textwrap import wrap

from poolcli.dialects import DIALECTS
from poolcli.explain.explanation import Window, divisor_of, window
from poolcli.explain.picture.axis_breaks import CELL, Line, line_of_input, line_of_output, marked
from poolcli.explain.picture.canvas import LETTER, READ, Arrow, Box, Canvas, Dot, Role, Shape, Words, wide
from poolcli.ops import OPERATORS
from poolcli.plan import AxisPlan, Plan
from poolcli.windows import Bins, Sliding, ceil_div

SIDES = {"D": ("front", "back"), "H": ("top", "bottom"), "W": ("left", "right")}


def title(plan: Plan) -> str:
    """Operator, dialect if any has it, and sizes: `avg pooling, as OpenVINO: H=6 W=7 to H=3 W=4`."""
    sizes = " to ".join((input_sizes(plan.axes), output_sizes(plan.axes)))
    like = f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else ""
    return f"{plan.op} pooling{like}: {sizes}"


def input_sizes(axes: Iterable[AxisPlan]) -> str:
    """The lengths that go in: `H=6 W=7`."""
    return " ".join(f"{axis.name}={axis.windows.size}" for axis in axes)


def output_sizes(axes: Iterable[AxisPlan]) -> str:
    """The lengths that come out."""
    return " ".join(f"{axis.name}={axis.windows.output}" for axis in axes)


def caption(plan: Plan) -> tuple[str, ...]:
    """Sentences: kernel and pads, how lengths are rounded, and what becomes of a window.

    Formulas are there where the drawing itself has no room for them: that of two axes.
    """
    sliding = [(axis.name, axis.windows) for axis in plan.axes if isinstance(axis.windows, Sliding)]
    formulas = "; ".join(f"{axis.name}: {axis.formula}" for axis in plan.axes) if len(plan.axes) == 2 else ""
    if not sliding:
        return ("Adaptive windows" + (f": {formulas}" if formulas else "") + ".", _rule(plan))
    numbers = [f"Kernel {_times(w.kernel for _, w in sliding)}", f"stride {_times(w.stride for _, w in sliding)}"]
    if any(w.dilation > 1 for _, w in sliding):
        numbers.append(f"dilation {_times(w.dilation for _, w in sliding)}")
    numbers.append(_pads(sliding))
    auto_pad = plan.attributes["auto_pad"]
    by_rule = "" if auto_pad == "explicit" else f" (auto_pad {auto_pad})"
    return (
        f"{', '.join(numbers)}{by_rule}.",
        f"Rounding {plan.attributes['rounding_type']}" + (f": {formulas}" if formulas else "") + ".",
        _rule(plan),
    )


def _times(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))


def _pads(sliding: list[tuple[str, Sliding]]) -> str:
    if not any(w.pad_begin or w.pad_end for _, w in sliding):
        return "no padding"
    sides = []
    for name, w in sliding:
        before, after = SIDES.get(name, (f"{name} begin", f"{name} end"))
        sides.append(f"{before} {w.pad_begin}, {after} {w.pad_end}")
    return f"pads {', '.join(sides)}"


def _rule(plan: Plan) -> str:
    if plan.divisor_rule:
        return f"Divisor: {plan.divisor_rule}."
    return f"Each output is the {plan.reducer.noun} of its window."


MANY = len(READ) - 1  # windows, above which their number makes no difference to the shade


def role_of(outputs: tuple[int, ...], lasts: tuple[int, ...]) -> Role:
    """The colour of a window: the first, the one beside it, the last, or any other."""
    if not any(outputs):
        return "first"
    if outputs == lasts:
        return "last"
    return "second" if outputs == (0,) * (len(outputs) - 1) + (1,) else "other"


def input_cell(x: float, y: float, positions: tuple[int, ...], axes: tuple[AxisPlan, ...]) -> Box:
    """The cell of one position along each of the axes."""
    if all(0 <= p < axis.windows.size for p, axis in zip(positions, axes, strict=True)):
        readers = min(MANY, prod(_readers(axis, p) for p, axis in zip(positions, axes, strict=True)))
        return Box(x, y, CELL, CELL, READ[readers], "grid", hatched=readers == 0)
    past = any(p >= axis.windows.size + _pad_end(axis) for p, axis in zip(positions, axes, strict=True))
    return Box(x, y, CELL, CELL, None if past else "padding", "faint", dashed=True)


def _pad_end(axis: AxisPlan) -> int:
    return axis.windows.pad_end if isinstance(axis.windows, Sliding) else 0


def _readers(axis: AxisPlan, position: int) -> int:
    """How many windows read an input position, counted up to `MANY`."""
    w = axis.windows
    if isinstance(w, Bins):
        return min(MANY, ceil_div((position + 1) * w.output, w.size) - position * w.output // w.size)
    low = max(0, ceil_div(position + w.pad_begin - w.extent + 1, w.stride))
    high = min(w.output - 1, (position + w.pad_begin) // w.stride)
    if w.dilation == 1:
        return max(0, min(MANY, high - low + 1))
    return sum((position - w.start(o)) % w.dilation == 0 for o in range(low, min(high + 1, low + 1000)))


def add_indices(canvas: Canvas, line: Line, y: float, size: int | None) -> None:
    """The numbers above the cells of a row, of an input those inside it: as many as there is room for."""
    taken = -inf
    for position in line.shown:
        half = wide(str(position), small(position)) / 2 + 1
        middle = line.at(position) + CELL / 2
        if (size is None or 0 <= position < size) and middle - half >= taken:
            canvas.add(Words(middle, y - 5, str(position), small(position), "middle", "soft"))
            taken = middle + half


def small(number: int) -> float:
    """The size of the letters of an index."""
    return 9 if number < 1000 else 7


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
    down, across = (window(axis.windows, o) for axis, o in zip(plan.axes, outputs, strict=True))
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
    role, reach, w = role_of((output,), (axis.windows.output - 1,)), window(axis.windows, output), axis.windows
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
    reads += f", weights {reach.weights_text}" if reach.weights else ""
    return f"{reads}, divides by {reach.divisor}" if divides else f"{reads}: {reach.inside}"


TOP = 50.0


def draw(plan: Plan) -> Canvas:
    """The drawing of a plan, with its title, legend and caption."""
    sentences = caption(plan)
    canvas = Canvas(title(plan), " ".join(sentences))
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
    for sentence in sentences:
        for line in wrap(sentence, letters):
            canvas.add(Words(26, y, line, 12, fill="soft"))
            y += 17
    return canvas
