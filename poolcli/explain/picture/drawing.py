"""Draws a plan on a canvas: two axes as a grid, any other number as one strip each, with a legend and a caption."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, prod
from textwrap import wrap

from poolcli.dialects import DIALECTS
from poolcli.explain import Window, divisor_of, example_outputs, window
from poolcli.explain.picture.axis_breaks import CELL, BrokenAxis, input_axis, output_axis
from poolcli.explain.picture.canvas import (
    LETTER_WIDTH,
    READ_SHADES,
    Arrow,
    Box,
    Canvas,
    Dot,
    Label,
    Role,
    Shape,
    text_width,
)
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
    """The input lengths, as in `H=6 W=7`."""
    return " ".join(f"{axis.name}={axis.windows.size}" for axis in axes)


def output_sizes(axes: Iterable[AxisPlan]) -> str:
    """The output lengths."""
    return " ".join(f"{axis.name}={axis.windows.output}" for axis in axes)


def caption(plan: Plan) -> tuple[str, ...]:
    """Sentences on kernel and pads, the rounding and the reduction; only of grids, which lack them, also formulas."""
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


MAX_READERS = len(READ_SHADES) - 1  # the darkest shade is for as many windows and more


def role_of(outputs: tuple[int, ...], lasts: tuple[int, ...]) -> Role:
    """The colour of a window: of the first, its neighbour, the last, or any other."""
    if not any(outputs):
        return "first"
    if outputs == lasts:
        return "last"
    return "second" if outputs == (0,) * (len(outputs) - 1) + (1,) else "other"


def input_cell(x: float, y: float, positions: tuple[int, ...], axes: tuple[AxisPlan, ...]) -> Box:
    """The cell of an input position, which has one index per axis."""
    if all(0 <= p < axis.windows.size for p, axis in zip(positions, axes, strict=True)):
        readers = min(MAX_READERS, prod(_readers(axis, p) for p, axis in zip(positions, axes, strict=True)))
        return Box(x, y, CELL, CELL, READ_SHADES[readers], "grid", hatched=readers == 0)
    past = any(
        p >= axis.windows.size + getattr(axis.windows, "pad_end", 0) for p, axis in zip(positions, axes, strict=True)
    )
    return Box(x, y, CELL, CELL, None if past else "padding", "faint", dashed=True)


def _readers(axis: AxisPlan, position: int) -> int:
    """How many windows read an input position, at most `MAX_READERS`."""
    w = axis.windows
    if isinstance(w, Bins):
        return min(MAX_READERS, ceil_div((position + 1) * w.output, w.size) - position * w.output // w.size)
    low = max(0, ceil_div(position + w.pad_begin - w.extent + 1, w.stride))
    high = min(w.output - 1, (position + w.pad_begin) // w.stride)
    if w.dilation == 1:
        return max(0, min(MAX_READERS, high - low + 1))
    return sum((position - w.start(o)) % w.dilation == 0 for o in range(low, min(high + 1, low + 1000)))


def add_indices(canvas: Canvas, line: BrokenAxis, y: float, size: int | None) -> None:
    """Label the cells of a row with their indices where they fit; of an input only those inside it."""
    taken = -inf
    for position in line.shown:
        half = text_width(str(position), index_size(position)) / 2 + 1
        middle = line.at(position) + CELL / 2
        if (size is None or 0 <= position < size) and middle - half >= taken:
            canvas.add(Label(middle, y - 5, str(position), index_size(position), "middle", "soft"))
            taken = middle + half


def index_size(number: int) -> float:
    """The font size of an index."""
    return 9 if number < 1000 else 7


TOP, LEFT = 50.0, 72.0  # space above and left of a drawing
HEADING_HEIGHT, GRID_DISTANCE = 52.0, 96.0  # space above a grid, and between two
DOT_OFFSETS = {"first": -6.0, "second": 0.0, "last": 6.0}  # dots of windows that share elements lie side by side
INSET = 4.0  # of the second window, whose border would cover that of the first
MAX_DIVISOR_DIGITS = 4  # longer divisors do not fit into a cell


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the rows and columns of a grid are drawn, and the letters of their axes."""

    rows: BrokenAxis
    columns: BrokenAxis
    names: tuple[str, str]


def draw_grid(canvas: Canvas, plan: Plan) -> None:
    """Draw the input and output of a plan with two axes side by side."""
    down, across = plan.axes
    names = (down.name, across.name)
    at = TOP + HEADING_HEIGHT
    source = Grid(
        input_axis(down, example_outputs(down.windows), at),
        input_axis(across, example_outputs(across.windows), LEFT),
        names,
    )
    _draw_heading(canvas, source, f"input  {input_sizes(plan.axes)}", plan.axes)
    _draw_input(canvas, source, down, across)
    _draw_borders(canvas, source, plan)
    left = max(source.columns.end, LEFT + 170) + GRID_DISTANCE
    target = Grid(output_axis(down, at), output_axis(across, left), names)
    _draw_heading(canvas, target, f"output  {output_sizes(plan.axes)}", None)
    _draw_output(canvas, target, plan)


def _highlighted(plan: Plan) -> list[tuple[int, int]]:
    """The outputs whose windows are highlighted: the first, its neighbour, and the last."""
    down, across = (axis.windows.output for axis in plan.axes)
    chosen = [(0, 0), (0, 1), (down - 1, across - 1)] if across > 1 else [(0, 0), (down - 1, 0)]
    return list(dict.fromkeys(chosen))


def _draw_heading(canvas: Canvas, grid: Grid, text: str, axes: tuple[AxisPlan, ...] | None) -> None:
    """Title, axis letters with arrows, and indices of a grid; of an input (`axes`) only those inside it."""
    x, y = grid.columns.origin, grid.rows.origin
    canvas.add(Label(x, y - HEADING_HEIGHT + 12, text, 12, fill="soft", bold=True))
    canvas.add(Label(x, y - 22, grid.names[1], 12, bold=True))
    canvas.add(Arrow(x + 14, y - 26, x + 46, y - 26, "soft"))
    canvas.add(Label(x - 46, y + 12, grid.names[0], 12, "middle", bold=True))
    canvas.add(Arrow(x - 46, y + 18, x - 46, y + 50, "soft"))
    height, width = (axis.windows.size for axis in axes) if axes else (None, None)
    add_indices(canvas, grid.columns, y, width)
    for i in grid.rows.shown:
        if height is None or 0 <= i < height:
            canvas.add(Label(x - 6, grid.rows.at(i) + 15, str(i), index_size(i), "end", "soft"))


def _draw_input(canvas: Canvas, grid: Grid, down: AxisPlan, across: AxisPlan) -> None:
    for i in grid.rows.shown:
        for j in grid.columns.shown:
            canvas.add(input_cell(grid.columns.at(j), grid.rows.at(i), (i, j), (down, across)))
    _draw_gaps(canvas, grid)


def _draw_gaps(canvas: Canvas, grid: Grid) -> None:
    """Draw dots where rows, columns or both are left out."""
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


def _draw_borders(canvas: Canvas, grid: Grid, plan: Plan) -> None:
    """Draw the borders of windows, each on a line in the page's colour so that it shows on dark shades; for dilated
    windows also a dot on each element.
    """
    borders = [_border(grid, plan, outputs) for outputs in _highlighted(plan)]
    for border in borders:
        canvas.add(replace(border, stroke="page", thickness=5, dashed=False))
    for border in borders:
        canvas.add(border)
    if all(not isinstance(w, Sliding) or w.dilation == 1 for w in plan.windows):
        return
    for outputs in _highlighted(plan):
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
                canvas.add(Dot(grid.columns.at(j) + CELL / 2 + DOT_OFFSETS[role], grid.rows.at(i) + CELL / 2, 3, role))


def _draw_output(canvas: Canvas, grid: Grid, plan: Plan) -> None:
    """Draw the output's cells, highlighted ones in their colours, with the divisor if there is one."""
    chosen = _highlighted(plan)
    cells = [(i, j) for i in grid.rows.shown for j in grid.columns.shown]
    texts = {cell: str(divisor) for cell in cells if (divisor := divisor_of(plan, cell)) is not None}
    fits = max(map(len, texts.values()), default=0) <= MAX_DIVISOR_DIGITS
    for i, j in cells:
        x, y = grid.columns.at(j), grid.rows.at(i)
        role = _role(plan, (i, j)) if (i, j) in chosen else None
        canvas.add(Box(x, y, CELL, CELL, role or "page", "grid"))
        if texts and fits:
            text = texts[i, j]
            size = 10 if len(text) <= 2 else 8
            canvas.add(Label(x + CELL / 2, y + 15, text, size, "middle", "on" if role else "ink"))
    _draw_gaps(canvas, grid)


SAMPLE_SIZE = 14.0
WINDOW_TEXTS: dict[Role, str] = {"first": "first window", "second": "second", "other": "others", "last": "last"}
MIN_LEGEND_WIDTH = 560.0  # a legend may be wider than a narrow drawing
SHADE_TEXTS = (  # the text of a shade, and the short one after another shade
    ("read by no window", ""),
    ("read by 1 window", "1"),
    ("read by 2 windows", "2"),
    ("read by 3 windows", "3"),
    ("read by 4 windows or more", "4 or more"),
)
DIVISOR_TEXT = "a number in the output: what its sum is divided by"


def draw_legend(canvas: Canvas) -> None:
    """Draw the legend below the drawing, with entries for what occurs in it."""
    y, x = canvas.height + 28, 26.0
    edge = max(canvas.width, MIN_LEGEND_WIDTH)
    for sample, text in _entries(canvas.shapes):
        room = 20 + text_width(text, 12) + 18
        if x > 26 and x + room > edge:
            x, y = 26.0, y + 22
        for shape in sample:
            canvas.add(replace(shape, x=x + shape.x, y=y + shape.y))
        canvas.add(Label(x + 20, y + 12, text, 12))
        x += room


def _entries(shapes: list[Shape]) -> list[tuple[tuple[Box | Dot | Label, ...], str]]:
    boxes = [shape for shape in shapes if isinstance(shape, Box)]
    borders, fills = {box.stroke for box in boxes}, {box.fill for box in boxes}
    hollow = {(box.fill, box.stroke, box.dashed) for box in boxes}
    found: list[tuple[tuple[Box | Dot | Label, ...], str]] = []

    def entry(occurs: bool, text: str, *sample: Box | Dot | Label) -> None:
        if occurs:
            found.append((sample, text))

    for role, text in WINDOW_TEXTS.items():
        samples = [box for box in boxes if box.stroke == role]
        filled, dashed = any(box.fill == role for box in samples), all(box.dashed for box in samples)
        entry(
            role in borders,
            text,
            Box(0, 0, SAMPLE_SIZE, SAMPLE_SIZE, role if filled else None, role, 2.5, dashed=dashed),
        )
    dilated = any(isinstance(shape, Dot) and shape.fill == "first" for shape in shapes)
    entry(dilated, "element of a window", Dot(SAMPLE_SIZE / 2, SAMPLE_SIZE / 2, 4, "first"))
    shades = [shade for shade in READ_SHADES if any(box.fill == shade and box.stroke == "grid" for box in boxes)]
    for before, shade in zip((None, *shades), shades, strict=False):
        entry(
            True,
            SHADE_TEXTS[READ_SHADES.index(shade)][before not in (None, READ_SHADES[0])],
            Box(0, 0, SAMPLE_SIZE, SAMPLE_SIZE, shade, "grid", hatched=shade == READ_SHADES[0]),
        )
    entry("padding" in fills, "padding", Box(0, 0, SAMPLE_SIZE, SAMPLE_SIZE, "padding", "faint", dashed=True))
    past = (None, "faint", True) in hollow
    entry(past, "past the padding" if "padding" in fills else "past the input",
          Box(0, 0, SAMPLE_SIZE, SAMPLE_SIZE, None, "faint", dashed=True))  # fmt: skip
    outside = any(box.fill == "page" and box.dashed for box in boxes)
    entry(outside, "outside the input", Box(0, 1, SAMPLE_SIZE, SAMPLE_SIZE - 2, "page", "first", dashed=True))
    left_out = any(isinstance(shape, Dot) and shape.fill == "soft" for shape in shapes)
    entry(left_out, "left out", *(Dot(SAMPLE_SIZE / 2 + k, SAMPLE_SIZE / 2, 1.3, "soft") for k in (-4, 0, 4)))
    numbers = any(isinstance(shape, Label) and shape.fill == "on" for shape in shapes)
    entry(
        numbers,
        DIVISOR_TEXT,
        Box(0, 0, SAMPLE_SIZE, SAMPLE_SIZE, "page", "grid"),
        Label(SAMPLE_SIZE / 2, 11, "9", 10, "middle"),
    )
    return found


ROW_HEIGHT = 20.0  # of a window
BAR_HEIGHT = 12.0  # of its elements
MAX_ROWS = 8  # of more windows, three are drawn


def draw_strip(canvas: Canvas, plan: Plan, axis: AxisPlan, top: float) -> None:
    """Draw one axis: its cells, and each window in a row of its own."""
    outputs = _drawn_outputs(axis)
    line = input_axis(axis, outputs, LEFT)
    canvas.add(Label(LEFT - 46, top + 12, axis.name, 14, "middle", bold=True))
    sizes = f"input {axis.windows.size}, output {axis.windows.output}:  {axis.formula}"
    canvas.add(Label(LEFT, top + 12, sizes, 12, fill="soft", bold=True))
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
            dots(canvas, LEFT - 20, y + BAR_HEIGHT / 2, 0, 1)
            y += ROW_HEIGHT
        last = output
        _draw_window(canvas, plan, axis, line, output, y)
        y += ROW_HEIGHT


def _drawn_outputs(axis: AxisPlan) -> tuple[int, ...]:
    """The outputs whose windows are drawn: all of a short axis without breaks, else three."""
    count = axis.windows.output
    whole = len(input_axis(axis, example_outputs(axis.windows), 0).runs) == 1
    return tuple(range(count)) if whole and count <= MAX_ROWS else example_outputs(axis.windows)


def _draw_window(canvas: Canvas, plan: Plan, axis: AxisPlan, line: BrokenAxis, output: int, y: float) -> None:
    role, found, w = role_of((output,), (axis.windows.output - 1,)), window(axis.windows, output), axis.windows
    canvas.add(Label(LEFT - 8, y + 10, f"window {output}", 10, "end", role))
    left, right = line.at(found.start) + 1.5, line.stop(found.stop - 1) - 1.5
    canvas.add(Box(left, y + BAR_HEIGHT / 2 - 0.5, right - left, 1, role))
    step = w.dilation if isinstance(w, Sliding) else 1
    taken = w.span(output)
    for position in line.shown:
        if position in range(found.start, found.stop, step):
            inside = position in taken
            place = (line.at(position) + 1.5, y + 1, CELL - 3, BAR_HEIGHT - 2)
            canvas.add(Box(*place, role if inside else "page", role, dashed=not inside))
    canvas.add(Label(line.end + 14, y + 10, _window_text(found, plan.reducer.divides), 10, fill="soft"))


def _window_text(found: Window, divides: bool) -> str:
    if found.first is None:
        return "reads nothing"
    reads = f"reads {found.first}" if found.first == found.last else f"reads {found.first} to {found.last}"
    reads += f", weights {found.weights_text}" if found.weights else ""
    if divides:
        return f"{reads}, divides by {found.divisor}"
    return f"{reads}, {found.inside} elements" if found.inside > 1 else reads


def draw(plan: Plan) -> Canvas:
    """The drawing of a plan, with its title, legend and caption."""
    sentences = caption(plan)
    canvas = Canvas(title(plan), " ".join(sentences))
    canvas.add(Label(26, 28, canvas.title, 15, bold=True))
    if len(plan.axes) == 2:
        draw_grid(canvas, plan)
    else:
        top = TOP
        for axis in plan.axes:
            draw_strip(canvas, plan, axis, top)
            top = canvas.height + 22
    draw_legend(canvas)
    letters = int((max(canvas.width, MIN_LEGEND_WIDTH) - 26) / (LETTER_WIDTH * 12))
    y = canvas.height + 30
    for sentence in sentences:
        for line in wrap(sentence, letters):
            canvas.add(Label(26, y, line, 12, fill="soft"))
            y += 17
    return canvas
