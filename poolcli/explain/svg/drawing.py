"""Draws a plan as SVG: two axes as a grid, any other number as one strip each, with a legend and a caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, prod
from textwrap import wrap

from poolcli.dialects import DIALECTS
from poolcli.explain import Window, divisor_of, example_outputs, window
from poolcli.explain.svg.axis_breaks import CELL, BrokenAxis, input_axis, output_axis
from poolcli.explain.svg.canvas import LETTER_WIDTH, READ_SHADES, Canvas, Role, text_width
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.attributes import OPERATORS
from poolcli.windows import Bins, Sliding, ceil_div

TOP, LEFT = 50.0, 72.0  # space above and left of a drawing
HEADING_HEIGHT, GRID_DISTANCE = 52.0, 96.0  # space above a grid, and between two
DOT_OFFSETS: dict[Role, float] = {"first": -6.0, "second": 0.0, "last": 6.0}  # of windows that share elements
INSET = 4.0  # of the second window, whose border would cover that of the first
MAX_DIVISOR_DIGITS = 4  # longer divisors do not fit into a cell
ROW_HEIGHT, BAR_HEIGHT = 20.0, 12.0  # of a window in a strip, and of its elements
MAX_ROWS = 8  # of more windows, three are drawn
MAX_READERS = len(READ_SHADES) - 1  # the darkest shade is for as many windows and more
SIDES = {"D": ("front", "back"), "H": ("top", "bottom"), "W": ("left", "right")}
MIN_LEGEND_WIDTH = 560.0  # a legend may be wider than a narrow drawing
SAMPLE = 14.0  # width of a sample in the legend


def draw(plan: Plan, theme: str = "auto") -> str:
    """The picture of a plan as SVG, with its title, legend and caption."""
    canvas, sentences = Canvas(), caption(plan)
    canvas.text(26, 28, title(plan), 15, bold=True)
    if len(plan.axes) == 2:
        _draw_grid(canvas, plan)
    else:
        top = TOP
        for axis in plan.axes:
            _draw_strip(canvas, plan, axis, top)
            top = canvas.height + 22
    _draw_legend(canvas)
    letters = int((max(canvas.width, MIN_LEGEND_WIDTH) - 26) / (LETTER_WIDTH * 12))
    y = canvas.height + 30
    for line in (line for sentence in sentences for line in wrap(sentence, letters)):
        canvas.text(26, y, line, 12, fill="soft")
        y += 17
    return canvas.svg(title(plan), " ".join(sentences), theme)


def title(plan: Plan) -> str:
    """Operator, dialect if any has it, and sizes: `avg pooling, as OpenVINO: H=6 W=7 to H=3 W=4`."""
    like = f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else ""
    return f"{plan.op} pooling{like}: {_sizes(plan, 'size')} to {_sizes(plan, 'output')}"


def _sizes(plan: Plan, what: str) -> str:
    """The input lengths (`size`) or output lengths of all axes, as in `H=6 W=7`."""
    return " ".join(f"{axis.name}={getattr(axis.windows, what)}" for axis in plan.axes)


def caption(plan: Plan) -> tuple[str, ...]:
    """Sentences on kernel and pads, the rounding and the reduction; only of grids, which lack them, also formulas."""
    rule = f"Each output is the {plan.reducer.noun} of its window."
    rule = f"Divisor: {plan.divisor_rule}." if plan.divisor_rule else rule
    sliding = [(axis.name, axis.windows) for axis in plan.axes if isinstance(axis.windows, Sliding)]
    formulas = "; ".join(f"{axis.name}: {axis.formula}" for axis in plan.axes) if len(plan.axes) == 2 else ""
    if not sliding:
        return ("Adaptive windows" + (f": {formulas}" if formulas else "") + ".", rule)
    numbers = [f"Kernel {_times(w.kernel for _, w in sliding)}", f"stride {_times(w.stride for _, w in sliding)}"]
    if any(w.dilation > 1 for _, w in sliding):
        numbers.append(f"dilation {_times(w.dilation for _, w in sliding)}")
    numbers.append(_pads_text(sliding))
    auto_pad = plan.attributes["auto_pad"]
    by_rule = "" if auto_pad == "explicit" else f" (auto_pad {auto_pad})"
    rounding = f"Rounding {plan.attributes['rounding_type']}" + (f": {formulas}" if formulas else "")
    return f"{', '.join(numbers)}{by_rule}.", f"{rounding}.", rule


def _times(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))


def _pads_text(sliding: list[tuple[str, Sliding]]) -> str:
    if not any(w.pad_begin or w.pad_end for _, w in sliding):
        return "no padding"
    sides = []
    for name, w in sliding:
        before, after = SIDES.get(name, (f"{name} begin", f"{name} end"))
        sides.append(f"{before} {w.pad_begin}, {after} {w.pad_end}")
    return f"pads {', '.join(sides)}"


def _role(outputs: Sequence[int], axes: Sequence[AxisPlan]) -> Role:
    """The colour of a window: of the first, its neighbour, the last, or any other."""
    if not any(outputs):
        return "first"
    if all(o == axis.windows.output - 1 for o, axis in zip(outputs, axes, strict=True)):
        return "last"
    return "second" if sum(outputs) == outputs[-1] == 1 else "other"


def element_text(plan: Plan, outputs: Sequence[int]) -> str:
    """What the pointer shows of an output element: what it is computed from, and the formula of each axis."""
    windows = [window(axis.windows, o) for axis, o in zip(plan.axes, outputs, strict=True)]
    element = ", ".join(f"{axis.name} {o}" for axis, o in zip(plan.axes, outputs, strict=True))
    lines = [_formula_text(plan, axis, w) for axis, w in zip(plan.axes, windows, strict=True)]
    if any(w.first is None for w in windows):
        result = next((fact.result for fact in plan.facts if fact.kind == "empty_windows"), None)
        return "\n".join([f"Output {element} reads nothing" + (f": {result}" if result else ""), *lines])
    verb = "weighted sum" if plan.is_weighted else "sum" if plan.reducer.divides else plan.reducer.noun
    read = ", ".join(f"{axis.name} {_reads(w)}" for axis, w in zip(plan.axes, windows, strict=True))
    divided = ""
    if plan.divisor_override is not None:
        divided = f", divided by {plan.divisor_override}"
    elif plan.reducer.divides:
        factors = [w.divisor for w in windows]
        product = f" = {prod(factors)}" if len(factors) > 1 else ""
        divided = f", divided by {' × '.join(map(str, factors))}{product}"
    return "\n".join([f"Output {element} = {verb} of input {read}{divided}", *lines])


def _formula_text(plan: Plan, axis: AxisPlan, w: Window) -> str:
    own = axis.windows
    if isinstance(own, Bins):
        start = f"{w.output} * {own.size} // {own.output}"
    else:
        start = f"{w.output} * {own.stride}" + (f" - {own.pad_begin}" if own.pad_begin else "")
    divided = f", divides by {w.divisor}" if plan.reducer.divides and plan.divisor_override is None else ""
    weights = f", weights {w.weights_text}" if w.weights else ""
    return (
        f"{axis.name}: starts at {start} = {w.start}, spans [{w.start}, {w.stop}), reads {_reads(w)}{weights}{divided}"
    )


def _reads(w: Window) -> str:
    return "nothing" if w.first is None else str(w.first) if w.first == w.last else f"{w.first} to {w.last}"


def _draw_input_cell(canvas: Canvas, x: float, y: float, positions: Sequence[int], axes: Sequence[AxisPlan]) -> None:
    """Draw an input position, which has one index per axis."""
    both = list(zip(positions, axes, strict=True))
    if all(0 <= p < axis.windows.size for p, axis in both):
        readers = min(MAX_READERS, prod(_readers(axis, p) for p, axis in both))
        canvas.used.add(READ_SHADES[readers])
        canvas.box(x, y, CELL, CELL, READ_SHADES[readers], "grid", hatched=readers == 0)
        return
    past = any(p >= axis.windows.size + getattr(axis.windows, "pad_end", 0) for p, axis in both)
    canvas.used.add("past" if past else "padding")
    canvas.box(x, y, CELL, CELL, None if past else "padding", "faint", dashed=True)


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


def _draw_indices(canvas: Canvas, line: BrokenAxis, y: float, size: int) -> None:
    """Label the cells of a row inside the axis with their indices, where they fit."""
    taken = -inf
    for position in line.shown:
        half = text_width(str(position), _index_size(position)) / 2 + 1
        middle = line.at(position) + CELL / 2
        if 0 <= position < size and middle - half >= taken:
            canvas.text(middle, y - 5, str(position), _index_size(position), "middle", "soft")
            taken = middle + half


def _index_size(number: int) -> float:
    return 9 if number < 1000 else 7


def _draw_grid(canvas: Canvas, plan: Plan) -> None:
    """Draw the input and output of a plan with two axes side by side."""
    down, across = plan.axes
    top = TOP + HEADING_HEIGHT
    rows = input_axis(down, example_outputs(down.windows), top)
    columns = input_axis(across, example_outputs(across.windows), LEFT)
    _draw_heading(canvas, rows, columns, f"input  {_sizes(plan, 'size')}", plan, "size")
    for i in rows.shown:
        for j in columns.shown:
            _draw_input_cell(canvas, columns.at(j), rows.at(i), (i, j), plan.axes)
    _draw_gaps(canvas, rows, columns)
    _draw_borders(canvas, rows, columns, plan)
    left = max(columns.end, LEFT + 170) + GRID_DISTANCE
    _draw_output(canvas, rows, columns, output_axis(down, top), output_axis(across, left), plan)


def _highlighted(plan: Plan) -> list[tuple[int, int]]:
    """The outputs whose windows are highlighted: the first, its neighbour, and the last."""
    down, across = (axis.windows.output for axis in plan.axes)
    chosen = [(0, 0), (0, 1), (down - 1, across - 1)] if across > 1 else [(0, 0), (down - 1, 0)]
    return list(dict.fromkeys(chosen))


def _draw_heading(canvas: Canvas, rows: BrokenAxis, columns: BrokenAxis, text: str, plan: Plan, what: str) -> None:
    """Title, axis letters with arrows, and indices of a grid."""
    down, across = plan.axes
    x, y = columns.origin, rows.origin
    canvas.text(x, y - HEADING_HEIGHT + 12, text, 12, fill="soft", bold=True)
    canvas.text(x, y - 22, across.name, 12, bold=True)
    canvas.arrow(x + 14, y - 26, "h32m-6 -3l6 3l-6 3")
    canvas.text(x - 46, y + 12, down.name, 12, "middle", bold=True)
    canvas.arrow(x - 46, y + 18, "v32m-3 -6l3 6l3 -6")
    _draw_indices(canvas, columns, y, getattr(across.windows, what))
    for i in rows.shown:
        if 0 <= i < getattr(down.windows, what):
            canvas.text(x - 6, rows.at(i) + 15, str(i), _index_size(i), "end", "soft")


def _draw_gaps(canvas: Canvas, rows: BrokenAxis, columns: BrokenAxis) -> None:
    """Draw dots where rows, columns or both are left out."""
    for x in columns.gaps:
        for y in rows.middles:
            canvas.dots(x, y, 1, 0)
    for y in rows.gaps:
        for x in columns.middles:
            canvas.dots(x, y, 0, 1)
        for x in columns.gaps:
            canvas.dots(x, y, 1, 1)


def _window_box(
    rows: BrokenAxis, columns: BrokenAxis, plan: Plan, outputs: Sequence[int]
) -> tuple[float, float, float, float]:
    """Where the window of an output lies in the input: x, y, width and height."""
    down, across = (window(axis.windows, o) for axis, o in zip(plan.axes, outputs, strict=True))
    left, top = columns.at(across.start), rows.at(down.start)
    return left, top, columns.stop(across.stop - 1) - left, rows.stop(down.stop - 1) - top


def _draw_borders(canvas: Canvas, rows: BrokenAxis, columns: BrokenAxis, plan: Plan) -> None:
    """Draw the borders of windows, each on a line in the page's colour so that it shows on dark shades; for dilated
    windows also a dot on each element.
    """
    chosen = [(_role(outputs, plan.axes), outputs) for outputs in _highlighted(plan)]
    for under in (True, False):
        for role, outputs in chosen:
            x, y, width, height = _window_box(rows, columns, plan, outputs)
            inset = INSET if role == "second" else 0.0
            place = (x + inset, y + inset, width - 2 * inset, height - 2 * inset)
            line: tuple[Role, float] = ("page", 5) if under else (role, 2.5)
            canvas.box(*place, None, *line, dashed=role == "second" and not under)
            canvas.used.add(role)
    if all(not isinstance(w, Sliding) or w.dilation == 1 for w in plan.windows):
        return
    canvas.used.add("element")
    for role, outputs in chosen:
        taken = [w.span(o) for w, o in zip(plan.windows, outputs, strict=True)]
        for i in (i for i in rows.shown if i in taken[0]):
            for j in (j for j in columns.shown if j in taken[1]):
                canvas.dot(columns.at(j) + CELL / 2 + DOT_OFFSETS[role], rows.at(i) + CELL / 2, 3, role)


def _draw_output(
    canvas: Canvas, rows: BrokenAxis, columns: BrokenAxis, down: BrokenAxis, across: BrokenAxis, plan: Plan
) -> None:
    """Draw the output's cells, highlighted ones in their colours, with the divisor if there is one."""
    _draw_heading(canvas, down, across, f"output  {_sizes(plan, 'output')}", plan, "output")
    chosen = _highlighted(plan)
    cells = [(i, j) for i in down.shown for j in across.shown]
    divisors = {cell: str(divisor) for cell in cells if (divisor := divisor_of(plan, cell)) is not None}
    fits = max(map(len, divisors.values()), default=MAX_DIVISOR_DIGITS + 1) <= MAX_DIVISOR_DIGITS
    canvas.used |= {"divisor"} if fits else set()
    for cell in cells:
        x, y = across.at(cell[1]), down.at(cell[0])
        role = _role(cell, plan.axes) if cell in chosen else None
        text = element_text(plan, cell)
        canvas.open_group(f"{cell[0]},{cell[1]}", text, _window_box(rows, columns, plan, cell))
        canvas.box(x, y, CELL, CELL, role or "page", "grid")
        if fits:
            size = 10 if len(divisors[cell]) <= 2 else 8
            canvas.text(x + CELL / 2, y + 15, divisors[cell], size, "middle", "on" if role else "ink")
        canvas.close_group()
    _draw_gaps(canvas, down, across)


def _draw_strip(canvas: Canvas, plan: Plan, axis: AxisPlan, top: float) -> None:
    """Draw one axis: its cells, and each window in a row of its own."""
    outputs = _drawn_outputs(axis)
    line = input_axis(axis, outputs, LEFT)
    canvas.text(LEFT - 46, top + 12, axis.name, 14, "middle", bold=True)
    sizes = f"input {axis.windows.size}, output {axis.windows.output}:  {axis.formula}"
    canvas.text(LEFT, top + 12, sizes, 12, fill="soft", bold=True)
    y = top + 34
    for position in line.shown:
        _draw_input_cell(canvas, line.at(position), y, (position,), (axis,))
    _draw_indices(canvas, line, y, axis.windows.size)
    for x in line.gaps:
        canvas.dots(x, y + CELL / 2, 1, 0)
    y += CELL + 8
    last = -1
    for output in outputs:
        if output > last + 1:
            canvas.dots(LEFT - 20, y + BAR_HEIGHT / 2, 0, 1)
            y += ROW_HEIGHT
        last = output
        alone = len(plan.axes) == 1  # else an element has a window on each of the other axes as well
        text = element_text(plan, (output,)) if alone else _formula_text(plan, axis, window(axis.windows, output))
        canvas.open_group(f"{axis.name}{output}", text)
        _draw_window(canvas, plan, axis, line, output, y)
        canvas.close_group()
        y += ROW_HEIGHT


def _drawn_outputs(axis: AxisPlan) -> tuple[int, ...]:
    """The outputs whose windows are drawn: all of a short axis without breaks, else three."""
    count = axis.windows.output
    whole = len(input_axis(axis, example_outputs(axis.windows), 0).runs) == 1
    return tuple(range(count)) if whole and count <= MAX_ROWS else example_outputs(axis.windows)


def _draw_window(canvas: Canvas, plan: Plan, axis: AxisPlan, line: BrokenAxis, output: int, y: float) -> None:
    role, found, w = _role((output,), (axis,)), window(axis.windows, output), axis.windows
    canvas.used.add(role)
    canvas.text(LEFT - 8, y + 10, f"window {output}", 10, "end", role)
    left, right = line.at(found.start) + 1.5, line.stop(found.stop - 1) - 1.5
    canvas.box(left, y + BAR_HEIGHT / 2 - 0.5, right - left, 1, role)
    taken = w.span(output)
    taps = range(found.start, found.stop, w.dilation if isinstance(w, Sliding) else 1)
    for position in line.shown:
        if position in taps:
            inside = position in taken
            canvas.used |= set() if inside else {"outside"}
            place = (line.at(position) + 1.5, y + 1, CELL - 3, BAR_HEIGHT - 2)
            canvas.box(*place, role if inside else "page", role, dashed=not inside)
    reads = f"reads {_reads(found)}" + (f", weights {found.weights_text}" if found.weights else "")
    more = f", {found.inside} elements" if found.inside > 1 else ""
    more = f", divides by {found.divisor}" if plan.reducer.divides and found.inside else more
    canvas.text(line.end + 14, y + 10, reads + more, 10, fill="soft")


def _draw_legend(canvas: Canvas) -> None:
    """Draw the legend below the drawing, with entries for what occurs in it."""
    y, x, edge = canvas.height + 28, 26.0, max(canvas.width, MIN_LEGEND_WIDTH)
    for text, sample in _legend_entries(canvas.used):
        width = 20 + text_width(text, 12) + 18
        if x > 26 and x + width > edge:
            x, y = 26.0, y + 22
        sample(canvas, x, y)
        canvas.text(x + 20, y + 12, text, 12)
        x += width


Sample = Callable[[Canvas, float, float], None]


def _legend_entries(used: set[str]) -> list[tuple[str, Sample]]:
    """The texts and samples of what is used; of the shades only the first is named in full."""
    past = "past the padding" if "padding" in used else "past the input"
    numbers = ["1 window", "2 windows", "3 windows", "4 windows or more"]
    shades = {f"read{n}": f"read by {text}" for n, text in enumerate(["no window", *numbers])}
    shown = [shade for shade in shades if shade in used and shade != "read0"]
    shades |= {shade: numbers[int(shade[-1]) - 1].replace(" windows", "") for shade in shown[1:]}
    entries: dict[str, tuple[str, Sample]] = {
        "first": ("first window", _square(None, "first", 2.5)),
        "second": ("second", _square(None, "second", 2.5, dashed=True)),
        "other": ("others", _square(None, "other", 2.5)),
        "last": ("last", _square(None, "last", 2.5)),
        "element": ("element of a window", lambda canvas, x, y: canvas.dot(x + SAMPLE / 2, y + SAMPLE / 2, 4, "first")),
        **{s: (shades[s], _square(s, "grid", hatched=s == "read0")) for s in READ_SHADES},
        "padding": ("padding", _square("padding", "faint", dashed=True)),
        "past": (past, _square(None, "faint", dashed=True)),
        "outside": ("outside the input", _square("page", "first", dashed=True)),
        "left out": ("left out", lambda canvas, x, y: canvas.dots(x + SAMPLE / 2, y + SAMPLE / 2, 1, 0)),
        "divisor": ("a number in the output: what its sum is divided by", _square("page", "grid", text="9")),
    }
    return [entry for name, entry in entries.items() if name in used]


def _square(
    fill: Role | None, stroke: Role, thickness: float = 1, dashed: bool = False, hatched: bool = False, text: str = ""
) -> Sample:
    def sample(canvas: Canvas, x: float, y: float) -> None:
        canvas.box(x, y, SAMPLE, SAMPLE, fill, stroke, thickness, dashed, hatched)
        if text:
            canvas.text(x + SAMPLE / 2, y + 11, text, 10, "middle")

    return sample
