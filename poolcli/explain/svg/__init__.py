"""Shows a plan as SVG, as a page that answers the pointer, and in notebooks: two axes as a grid, others as strips."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import product
from math import inf, prod
from pathlib import Path
from textwrap import wrap

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain import Window, divisor_of, example_outputs, window
from poolcli.explain.svg.canvas import CELL, LETTER_WIDTH, BrokenAxis, Canvas, input_axis, output_axis, text_width
from poolcli.message_fields import field
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.attributes import OPERATORS
from poolcli.windows import Bins, Sliding, ceil_div

TOP, LEFT = 50.0, 72.0  # space above and left of a drawing
HEADING_HEIGHT, GRID_DISTANCE = 52.0, 96.0  # space above a grid, and between two
DOT_OFFSETS = {"first": -6.0, "second": 0.0, "last": 6.0}  # of windows that share elements
INSET = 4.0  # of the second window, whose border would cover that of the first
MAX_DIVISOR_DIGITS = 4  # longer divisors do not fit into a cell
ROW_HEIGHT, BAR_HEIGHT = 20.0, 12.0  # of a window in a strip, and of its elements
MAX_ROWS = 8  # of more windows, three are drawn
READERS = ("read by no window", "read by 1", "read by 2", "read by 3", "read by 4 or more")  # of each shade
MAX_READERS = len(READERS) - 1
MAX_OVERLAP = 1000  # dilated windows that are asked whether they read a position
MIN_LEGEND_WIDTH = 560.0  # a legend may be wider than a narrow drawing
SAMPLE = 14.0  # width of a sample in the legend


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """The picture of a plan as SVG or an HTML page, in the reader's theme; notebooks display it.

    >>> from poolcli import MaxPool
    >>> picture = MaxPool(2, strides=2).plan((1, 3, 8, 8)).picture()
    >>> picture
    <Picture of max pooling, as OpenVINO: H=8 W=8 to H=4 W=4>
    >>> picture.svg().startswith("<svg ")
    True
    """

    plan: Plan

    def __repr__(self) -> str:
        return f"<Picture of {title(self.plan)}>"

    def svg(self) -> str:
        """The picture as SVG."""
        canvas, sentences = Canvas(), caption(self.plan)
        canvas.text(26, 28, title(self.plan), 15, bold=True)
        if len(self.plan.axes) == 2:
            _draw_grid(canvas, self.plan)
        else:
            top = TOP
            for axis in self.plan.axes:
                _draw_strip(canvas, self.plan, axis, top)
                top = canvas.height + 22
        _draw_legend(canvas)
        letters = int((max(canvas.width, MIN_LEGEND_WIDTH) - 26) / (LETTER_WIDTH * 12))
        y = canvas.height + 30
        for line in (line for sentence in sentences for line in wrap(sentence, letters)):
            canvas.text(26, y, line, 12, fill="soft")
            y += 17
        return canvas.svg(title(self.plan), " ".join(sentences))

    _repr_svg_ = svg

    def html(self) -> str:
        """A self-contained page: the picture, and the window, divisor and formula of the output under the pointer."""
        text = files("poolcli").joinpath("explain", "svg", "page.html").read_text("utf-8")
        return text.replace("{{title}}", escape(title(self.plan))).replace("{{picture}}", self.svg())

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the picture atomically to a file, `.svg` or `.html`; an existing one is refused without `overwrite`."""
        path = os.fspath(path)
        writer = {".svg": self.svg, ".html": self.html}.get(Path(path).suffix.lower())
        if writer is None:
            raise RequestError(f"{field('picture', path)} must end in .svg or .html")
        from poolcli.formats.atomic import write_bytes

        write_bytes(path, writer().encode(), overwrite)


def title(plan: Plan) -> str:
    """Operator, dialect if any has it, and sizes: `avg pooling, as OpenVINO: H=6 W=7 to H=3 W=4`."""
    like = f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else ""
    return f"{plan.op} pooling{like}: {_sizes(plan, 'size')} to {_sizes(plan, 'output')}"


def _sizes(plan: Plan, what: str) -> str:
    return " ".join(f"{axis.name}={getattr(axis.windows, what)}" for axis in plan.axes)


def caption(plan: Plan) -> tuple[str, ...]:
    """Sentences on kernel and pads, the rounding and the reduction; only of grids, which lack them, also formulas."""
    rule = f"Each output is the {plan.reducer.noun} of its window."
    rule = f"Divisor: {plan.divisor_rule}." if plan.divisor_rule else rule
    sliding = [(axis.name, axis.windows) for axis in plan.axes if isinstance(axis.windows, Sliding)]
    formulas = ": " + "; ".join(f"{axis.name}: {axis.formula}" for axis in plan.axes) if len(plan.axes) == 2 else ""
    if not sliding:
        return f"Adaptive windows{formulas}.", rule
    numbers = []
    for name in ("kernel", "stride", "dilation"):
        values = [getattr(w, name) for _, w in sliding]
        if name != "dilation" or max(values) > 1:
            numbers.append(f"{name} {' x '.join(map(str, values))}")
    pads = ", ".join(f"{name} {w.pad_begin} and {w.pad_end}" for name, w in sliding if w.pad_begin or w.pad_end)
    numbers.append(f"pads {pads}" if pads else "no padding")
    numbers[0] = numbers[0].capitalize()
    auto_pad = plan.attributes["auto_pad"]
    by_rule = "" if auto_pad == "explicit" else f" (auto_pad {auto_pad})"
    return f"{', '.join(numbers)}{by_rule}.", f"Rounding {plan.attributes['rounding_type']}{formulas}.", rule


def element_text(plan: Plan, outputs: Sequence[int]) -> str:
    """What the pointer shows of an output element: how it is computed, and the formula of each axis."""
    both = list(zip(plan.axes, outputs, strict=True))
    element = ", ".join(f"{axis.name} {o}" for axis, o in both)
    verb = "weighted sum" if plan.is_weighted else "sum" if plan.reducer.divides else plan.reducer.noun
    divisor = divisor_of(plan, outputs)
    divided = "" if divisor is None else f", divided by {divisor}"
    lines = [_formula_text(plan, axis, window(axis.windows, o)) for axis, o in both]
    return "\n".join([f"Output {element}: {verb} of its window{divided}", *lines])


def _formula_text(plan: Plan, axis: AxisPlan, w: Window) -> str:
    own = axis.windows
    if isinstance(own, Bins):
        start = f"{w.output} * {own.size} // {own.output}"
    else:
        start = f"{w.output} * {own.stride}" + (f" - {own.pad_begin}" if own.pad_begin else "")
    divided = f", divides by {w.divisor}" if plan.reducer.divides and plan.divisor_override is None else ""
    weights = f", weights {w.weights_text}" if w.weights else ""
    span = f"spans [{w.start}, {w.stop}), reads {_reads(w)}"
    return f"{axis.name}: starts at {start} = {w.start}, {span}{weights}{divided}"


def _reads(w: Window) -> str:
    return "nothing" if w.first is None else str(w.first) if w.first == w.last else f"{w.first} to {w.last}"


def _role(outputs: Sequence[int], axes: Sequence[AxisPlan]) -> str:
    """The colour of a window: of the first, its neighbour, the last, or any other."""
    if not any(outputs):
        return "first"
    if all(o == axis.windows.output - 1 for o, axis in zip(outputs, axes, strict=True)):
        return "last"
    is_next = sum(outputs) == 1 and (outputs[-1] == 1 or axes[-1].windows.output == 1)
    return "second" if is_next else "other"


def _draw_input_cell(canvas: Canvas, x: float, y: float, positions: Sequence[int], axes: Sequence[AxisPlan]) -> None:
    """Draw an input position, which has one index per axis: shaded by its readers, in the padding, or past it."""
    both = [(axis.windows, p) for axis, p in zip(axes, positions, strict=True)]
    if all(0 <= p < w.size for w, p in both):
        readers = min(MAX_READERS, prod(_readers(axis, p) for axis, p in zip(axes, positions, strict=True)))
        canvas.box(x, y, CELL, CELL, f"read{readers}", "grid", hatched=readers == 0)
    else:
        past = any(p >= w.size + w.pad_end for w, p in both)
        canvas.box(x, y, CELL, CELL, "" if past else "padding", "faint", dashed=True)


def _readers(axis: AxisPlan, position: int) -> int:
    """How many windows read an input position, at most `MAX_READERS`."""
    w = axis.windows
    if isinstance(w, Bins):
        return min(MAX_READERS, ceil_div((position + 1) * w.output, w.size) - position * w.output // w.size)
    low = max(0, ceil_div(position + w.pad_begin - w.extent + 1, w.stride))
    high = min(w.output - 1, (position + w.pad_begin) // w.stride)
    if w.dilation == 1:
        return max(0, min(MAX_READERS, high - low + 1))
    return sum((position - w.start(o)) % w.dilation == 0 for o in range(low, min(high + 1, low + MAX_OVERLAP)))


def _draw_indices(canvas: Canvas, line: BrokenAxis, y: float, size: int) -> None:
    """Label the cells of a row inside the axis with their indices, where they fit."""
    taken = -inf
    for position in line.shown:
        font = 9 if position < 1000 else 7
        half, middle = text_width(str(position), font) / 2 + 1, line.at(position) + CELL / 2
        if 0 <= position < size and middle - half >= taken:
            canvas.text(middle, y - 5, str(position), font, "middle", "soft")
            taken = middle + half


def _draw_grid(canvas: Canvas, plan: Plan) -> None:
    """Draw the input and output of a plan with two axes side by side, with the first window, the next and the last."""
    down, across = plan.axes
    top = TOP + HEADING_HEIGHT
    rows = input_axis(down, example_outputs(down.windows), top)
    columns = input_axis(across, example_outputs(across.windows), LEFT)
    _draw_frame(canvas, rows, columns, plan, "input", "size")
    for i, j in product(rows.shown, columns.shown):
        _draw_input_cell(canvas, columns.at(j), rows.at(i), (i, j), plan.axes)
    last = tuple(w.output - 1 for w in plan.windows)
    chosen = {cell: _role(cell, plan.axes) for cell in ((0, 0), (0, 1) if last[1] else (1, 0), last) if cell <= last}
    for thickness in (5, 2.5):  # a line in the page's colour first, so that borders show on dark shades
        for cell, role in chosen.items():
            x, y, width, height = _place(rows, columns, plan, cell)
            inset = INSET * (role == "second")
            stroke, dashed = ("page", False) if thickness == 5 else (role, role == "second")
            canvas.box(
                x + inset, y + inset, width - 2 * inset, height - 2 * inset, "", stroke, thickness, dashed=dashed
            )
    if any(w.dilation > 1 for w in plan.windows):
        for cell, role in chosen.items():
            taken = [w.span(o) for w, o in zip(plan.windows, cell, strict=True)]
            for i, j in product(rows.shown, columns.shown):
                if i in taken[0] and j in taken[1]:
                    canvas.dot(columns.at(j) + CELL / 2 + DOT_OFFSETS[role], rows.at(i) + CELL / 2, 3, role)
    lines = output_axis(down, top), output_axis(across, max(columns.end, LEFT + 170) + GRID_DISTANCE)
    _draw_frame(canvas, *lines, plan, "output", "output")
    divisors = {cell: divisor_of(plan, cell) for cell in product(lines[0].shown, lines[1].shown)}
    fits = plan.reducer.divides and max(len(str(each)) for each in divisors.values()) <= MAX_DIVISOR_DIGITS
    for cell, divisor in divisors.items():
        x, y = lines[1].at(cell[1]), lines[0].at(cell[0])
        place = " ".join(f"{number:g}" for number in _place(rows, columns, plan, cell))
        canvas.add(f'<g data-at="{cell[0]},{cell[1]}" data-window="{place}"><title>{element_text(plan, cell)}</title>')
        canvas.box(x, y, CELL, CELL, chosen.get(cell, "page"), "grid")
        if fits:
            size = 10 if len(str(divisor)) <= 2 else 8
            canvas.text(x + CELL / 2, y + 15, str(divisor), size, "middle", "on" if cell in chosen else "ink")
        canvas.add("</g>")


def _place(rows: BrokenAxis, columns: BrokenAxis, plan: Plan, cell: Sequence[int]) -> tuple[float, float, float, float]:
    """Where the window of an output lies in the input: x, y, width and height."""
    down, across = (window(w, o) for w, o in zip(plan.windows, cell, strict=True))
    left, top = columns.at(across.start), rows.at(down.start)
    return left, top, columns.stop(across.stop - 1) - left, rows.stop(down.stop - 1) - top


def _draw_frame(canvas: Canvas, rows: BrokenAxis, columns: BrokenAxis, plan: Plan, name: str, size: str) -> None:
    """Title, axis letters with arrows, and indices of a grid, with dots where rows or columns are left out."""
    down, across = plan.axes
    x, y = columns.origin, rows.origin
    canvas.text(x, y - HEADING_HEIGHT + 12, f"{name}  {_sizes(plan, size)}", 12, fill="soft", bold=True)
    canvas.text(x, y - 22, across.name, 12, bold=True)
    canvas.text(x - 46, y + 12, down.name, 12, "middle", bold=True)
    for path in (f"M{x + 14:g} {y - 26:g}h32m-6 -3l6 3l-6 3", f"M{x - 46:g} {y + 18:g}v32m-3 -6l3 6l3 -6"):
        canvas.add(f'<path d="{path}" fill="none" class="s-soft"/>')
    _draw_indices(canvas, columns, y, getattr(across.windows, size))
    for i in rows.shown:
        if 0 <= i < getattr(down.windows, size):
            canvas.text(x - 6, rows.at(i) + 15, str(i), 9 if i < 1000 else 7, "end", "soft")
    for gap in columns.gaps:
        canvas.dots(gap, y - 8, 1, 0)
    for gap in rows.gaps:
        canvas.dots(x - 10, gap, 0, 1)


def _draw_strip(canvas: Canvas, plan: Plan, axis: AxisPlan, top: float) -> None:
    """Draw one axis: its cells, and each window in a row of its own; of a long axis three windows."""
    w = axis.windows
    outputs: Sequence[int] = example_outputs(w)
    if not input_axis(axis, outputs, 0).gaps and w.output <= MAX_ROWS:
        outputs = range(w.output)
    line = input_axis(axis, outputs, LEFT)
    canvas.text(LEFT - 46, top + 12, axis.name, 14, "middle", bold=True)
    canvas.text(LEFT, top + 12, f"input {w.size}, output {w.output}:  {axis.formula}", 12, fill="soft", bold=True)
    y = top + 34
    for position in line.shown:
        _draw_input_cell(canvas, line.at(position), y, (position,), (axis,))
    _draw_indices(canvas, line, y, w.size)
    for x in line.gaps:
        canvas.dots(x, y + CELL / 2, 1, 0)
    y += CELL + 8
    for number, output in enumerate(outputs):
        if output > number == 2:
            canvas.dots(LEFT - 20, y + BAR_HEIGHT / 2, 0, 1)
            y += ROW_HEIGHT
        alone = len(plan.axes) == 1  # else an element has a window on each of the other axes as well
        text = element_text(plan, (output,)) if alone else _formula_text(plan, axis, window(w, output))
        canvas.add(f'<g data-at="{axis.name}{output}"><title>{text}</title>')
        role, found = _role((output,), (axis,)), window(w, output)
        canvas.text(LEFT - 8, y + 10, f"window {output}", 10, "end", role)
        left, right = line.at(found.start) + 1.5, line.stop(found.stop - 1) - 1.5
        canvas.box(left, y + BAR_HEIGHT / 2 - 0.5, right - left, 1, role)
        taken, taps = w.span(output), range(found.start, found.stop, w.dilation)
        for position in (position for position in line.shown if position in taps):
            fill, dashed = (role, False) if position in taken else ("page", True)
            canvas.box(line.at(position) + 1.5, y + 1, CELL - 3, BAR_HEIGHT - 2, fill, role, dashed=dashed)
        reads = f"reads {_reads(found)}" + (f", weights {found.weights_text}" if found.weights else "")
        more = f", {found.inside} elements" if found.inside > 1 else ""
        more = f", divides by {found.divisor}" if plan.reducer.divides and found.inside else more
        canvas.text(line.end + 14, y + 10, reads + more, 10, fill="soft")
        canvas.add("</g>")
        y += ROW_HEIGHT


def _draw_legend(canvas: Canvas) -> None:
    drawn = "\n".join(canvas.parts)
    past = "past the padding" if "f-padding" in drawn else "past the input"
    entries: list[tuple[str, str, str, str, str]] = [  # what is drawn, its name, and the sample: fill, stroke and style
        ('-first"', "first window", "", "first", "thick"),
        ('-second"', "second", "", "second", "thick dashed"),
        ('-other"', "others", "", "other", "thick"),
        ('-last"', "last", "", "last", "thick"),
        ('r="3"', "element of a window", "first", "", "dot"),
        *((f"f-read{n} ", text, f"read{n}", "grid", "" if n else "hatched") for n, text in enumerate(READERS)),
        ("f-padding", "padding", "padding", "faint", "dashed"),
        ('class="s-faint"', past, "", "faint", "dashed"),
        ("f-page s-(first|second|other|last)", "outside the input", "page", "first", "dashed"),
        ('r="1.3"', "left out", "", "", "dots"),
        ('size="(10|8)" text-anchor="middle"', "divisor of a sum", "page", "grid", "9"),
    ]
    y, x, edge = canvas.height + 28, 26.0, max(canvas.width, MIN_LEGEND_WIDTH)
    for pattern, text, fill, stroke, style in entries:
        if not re.search(pattern, drawn):
            continue
        width = 20 + text_width(text, 12) + 18
        if x > 26 and x + width > edge:
            x, y = 26.0, y + 22
        if style == "dot":
            canvas.dot(x + SAMPLE / 2, y + SAMPLE / 2, 4, fill)
        elif style == "dots":
            canvas.dots(x + SAMPLE / 2, y + SAMPLE / 2, 1, 0)
        else:
            thickness = 2.5 if "thick" in style else 1
            canvas.box(x, y, SAMPLE, SAMPLE, fill, stroke, thickness, "dashed" in style, style == "hatched")
        if style == "9":
            canvas.text(x + SAMPLE / 2, y + 11, style, 10, "middle")
        canvas.text(x + 20, y + 12, text, 12)
        x += width
