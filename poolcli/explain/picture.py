"""The picture of a plan: the padded input with its windows, and the output beside it."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.core.windows import Bins, Sliding, ceil_div
from poolcli.explain.canvas import Box, Canvas, Dot, Words
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.steps import window

CELL = 22.0
ENDS = 11  # positions shown at each end of an axis that is longer than two ends and a bit
FIRST, SECOND, LAST = "#dc2626", "#d97706", "#7c3aed"
COVERED = ("#ffffff", "#e0efff", "#b9d9ff", "#86bcff", "#559bf5")  # read by 0, 1, 2, 3, and more windows
PADDING, GRID, FAINT, NUMBERS = "#f3f4f6", "#9ca3af", "#d1d5db", "#6b7280"


def write_picture(plan: Plan, path: str, overwrite: bool = False) -> None:
    """Writes the picture of `plan` to an .svg or .png, whole or not at all."""
    kind = Path(path).suffix.lower()
    if kind not in (".svg", ".png"):
        raise RequestError(f"{field('picture', path)} ends in {kind or 'nothing'}; use .svg or .png")
    if Path(path).exists() and not overwrite:
        raise RequestError(f"{path} exists; use {field('overwrite')} to replace it")
    from poolcli.formats.atomic import byte_stream

    canvas = draw(plan)
    if kind == ".svg":
        content = canvas.svg().encode()
    else:
        buffer = BytesIO()
        canvas.image().save(buffer, "PNG")
        content = buffer.getvalue()
    with byte_stream(path, overwrite) as stream:
        stream.write(content)


def draw(plan: Plan) -> Canvas:
    """The drawing of a plan: a grid for one or two spatial axes, a strip for each axis for more."""
    canvas = Canvas()
    canvas.add(Words(20, 28, _title(plan), 15, bold=True))
    if len(plan.axes) <= 2:
        rows = plan.axes[0] if len(plan.axes) == 2 else None
        _panel(canvas, rows, plan.axes[-1], 50)
    else:
        top = 50.0
        for axis in plan.axes:
            canvas.add(Words(20, top + 14, f"axis {axis.name}", 12, bold=True))
            _panel(canvas, None, axis, top + 14)
            top = canvas.height + 20
    _legend(canvas)
    return canvas


def _title(plan: Plan) -> str:
    def joined(numbers: list[int]) -> str:
        return " x ".join(map(str, numbers))

    words = f"{plan.op}: {joined([w.size for w in plan.windows])} to {joined([w.output for w in plan.windows])}"
    sliding = [w for w in plan.windows if isinstance(w, Sliding)]
    if sliding:
        words += f", kernel {joined([w.kernel for w in sliding])}, stride {joined([w.stride for w in sliding])}"
        if any(w.dilation > 1 for w in sliding):
            words += f", dilation {joined([w.dilation for w in sliding])}"
        if any(w.pad_begin + w.pad_end for w in sliding):
            words += ", pads " + " and ".join(f"{w.pad_begin},{w.pad_end}" for w in sliding)
    return words


@dataclass(frozen=True)
class _Line:
    """Where the positions of one axis are drawn: all of a short axis, both ends of a long one."""

    low: int
    high: int
    origin: float

    @property
    def shown(self) -> list[int]:
        if not self.folded:
            return list(range(self.low, self.high))
        return [*range(self.low, self.low + ENDS), *range(self.high - ENDS, self.high)]

    @property
    def folded(self) -> bool:
        return self.high - self.low > 2 * ENDS + 4

    @property
    def end(self) -> float:
        return self.at(self.high)

    def at(self, position: int) -> float:
        """The near edge of a position; hidden ones lie in the gap."""
        if not self.folded or position < self.low + ENDS:
            return self.origin + (position - self.low) * CELL
        if position < self.high - ENDS:
            return self.origin + (ENDS + 0.5) * CELL
        return self.origin + (2 * ENDS + 1 - (self.high - position)) * CELL

    def stop(self, position: int) -> float:
        """The far edge of a position."""
        if self.folded and self.low + ENDS <= position < self.high - ENDS:
            return self.at(position)
        return self.at(position) + CELL


def _line_of(axis: AxisPlan, origin: float) -> _Line:
    """The positions of an axis: the input, its pads, and what the last window reaches past them."""
    w = axis.windows
    begin, end = (w.pad_begin, w.pad_end) if isinstance(w, Sliding) else (0, 0)
    return _Line(-begin, max(w.size + end, window(axis, w.output - 1).stop), origin)


def _readers(axis: AxisPlan, position: int) -> int:
    """How many windows read an input position, counted up to 4."""
    w = axis.windows
    if isinstance(w, Bins):
        return min(4, ceil_div((position + 1) * w.output, w.size) - position * w.output // w.size)
    low = max(0, ceil_div(position + w.pad_begin - w.extent + 1, w.stride))
    high = min(w.output - 1, (position + w.pad_begin) // w.stride)
    if w.dilation == 1:
        return max(0, min(4, high - low + 1))
    return sum((position - w.start(o)) % w.dilation == 0 for o in range(low, min(high + 1, low + 1000)))


def _panel(canvas: Canvas, rows: AxisPlan | None, columns: AxisPlan, top: float) -> None:
    """Input and output of one axis, or of two as a grid."""
    x = _line_of(columns, 60)
    y = _line_of(rows, top + 34) if rows else _Line(0, 1, top + 34)
    canvas.add(Words(x.origin, top + 12, "input", 12, fill="#4b5563"))
    _cells(canvas, rows, columns, x, y)
    for position in x.shown:
        if 0 <= position < columns.windows.size:
            canvas.add(
                Words(x.at(position) + CELL / 2, y.origin - 5, str(position), _small(position), "middle", NUMBERS)
            )
    if rows:
        for position in y.shown:
            if 0 <= position < rows.windows.size:
                canvas.add(Words(x.origin - 6, y.at(position) + 15, str(position), _small(position), "end", NUMBERS))
    _breaks(canvas, x, y)
    for o_row, o_column, colour, dashed in _marked(rows, columns):
        _outline(canvas, rows, columns, x, y, (o_row, o_column), colour, dashed)
    _output(canvas, rows, columns, x.end + 60, top)


def _small(position: int) -> float:
    return 9 if position < 1000 else 7


def _marked(rows: AxisPlan | None, columns: AxisPlan) -> list[tuple[int, int, str, bool]]:
    """The first, the second and the last window: their outputs, colour and whether dashed."""
    last_row, last = (rows.windows.output - 1 if rows else 0), columns.windows.output - 1
    marked = [(0, 0, FIRST, False)]
    if last > 1 or (last == 1 and last_row > 0):
        marked.append((0, 1, SECOND, True))
    if (last_row, last) != (0, 0):
        marked.append((last_row, last, LAST, False))
    return marked


def _cells(canvas: Canvas, rows: AxisPlan | None, columns: AxisPlan, x: _Line, y: _Line) -> None:
    height = rows.windows.size if rows else 1
    for i in y.shown:
        down = _readers(rows, i) if rows and 0 <= i < height else 1
        for j in x.shown:
            place = (x.at(j), y.at(i), CELL, CELL)
            if not (0 <= i < height and 0 <= j < columns.windows.size):
                past = i >= height + _pad_end(rows) or j >= columns.windows.size + _pad_end(columns)
                canvas.add(Box(*place, None if past else PADDING, FAINT, 1, dashed=True))
                continue
            readers = down * _readers(columns, j)
            canvas.add(Box(*place, COVERED[min(readers, 4)], GRID, 1, hatched=readers == 0))


def _pad_end(axis: AxisPlan | None) -> int:
    return axis.windows.pad_end if axis and isinstance(axis.windows, Sliding) else 0


def _breaks(canvas: Canvas, x: _Line, y: _Line) -> None:
    """Dots where positions are left out."""
    if x.folded:
        for k in (0.25, 0.5, 0.75):
            canvas.add(Dot(x.origin + (ENDS + k) * CELL, (y.origin + y.end) / 2, 1.8, "#4b5563"))
    if y.folded:
        for k in (0.25, 0.5, 0.75):
            canvas.add(Dot((x.origin + x.end) / 2, y.origin + (ENDS + k) * CELL, 1.8, "#4b5563"))


def _outline(
    canvas: Canvas, rows: AxisPlan | None, columns: AxisPlan, x: _Line, y: _Line, output: tuple[int, int],
    colour: str, dashed: bool,
) -> None:  # fmt: skip
    """A window's border; of a dilated window also a dot on each element."""
    across = window(columns, output[1])
    down = window(rows, output[0]) if rows else None
    top, bottom = (y.at(down.start), y.stop(down.stop - 1)) if down else (y.origin, y.end)
    left, right = x.at(across.start), x.stop(across.stop - 1)
    inset = 1.5 if dashed else 0.0
    size = (right - left - 2 * inset, bottom - top - 2 * inset)
    canvas.add(Box(left + inset, top + inset, *size, None, colour, 2.5, dashed=dashed))
    steps = [axis.windows.dilation for axis in (rows, columns) if axis and isinstance(axis.windows, Sliding)]
    if max(steps, default=1) == 1:
        return
    shown_down = [i for i in y.shown if down is None or i in rows.windows.span(output[0])] if rows else [0]
    taken = columns.windows.span(output[1])
    for i in shown_down:
        for j in x.shown:
            if j in taken:
                canvas.add(Dot(x.at(j) + CELL / 2, y.at(i) + CELL / 2, 4, colour))


def _output(canvas: Canvas, rows: AxisPlan | None, columns: AxisPlan, left: float, top: float) -> None:
    """The output grid, with the marked windows' cells in their colours."""
    x = _Line(0, columns.windows.output, left)
    y = _Line(0, rows.windows.output if rows else 1, top + 34)
    canvas.add(Words(left, top + 12, "output", 12, fill="#4b5563"))
    colours = {(row, column): colour for row, column, colour, _ in _marked(rows, columns)}
    for i in y.shown:
        for j in x.shown:
            canvas.add(Box(x.at(j), y.at(i), CELL, CELL, colours.get((i, j), "#ffffff"), GRID))
    for j in x.shown:
        canvas.add(Words(x.at(j) + CELL / 2, y.origin - 5, str(j), _small(j), "middle", NUMBERS))
    if rows:
        for i in y.shown:
            canvas.add(Words(x.origin - 6, y.at(i) + 15, str(i), _small(i), "end", NUMBERS))
    _breaks(canvas, x, y)


def _legend(canvas: Canvas) -> None:
    """What the colours mean: only what occurs."""
    y, x = canvas.height + 28, 60.0
    drawn = [shape for shape in canvas.shapes if isinstance(shape, Box)]
    strokes, fills = {box.stroke for box in drawn}, {box.fill for box in drawn}
    entries = (
        (FIRST in strokes, Box(0, 0, 14, 14, None, FIRST, 2.5), "first window"),
        (SECOND in strokes, Box(0, 0, 14, 14, None, SECOND, 2, dashed=True), "second"),
        (LAST in strokes, Box(0, 0, 14, 14, None, LAST, 2.5), "last"),
        (COVERED[1] in fills, Box(0, 0, 14, 14, COVERED[1], GRID), "read by one window"),
        (not fills.isdisjoint(COVERED[2:]), Box(0, 0, 14, 14, COVERED[3], GRID), "by several"),
        (PADDING in fills, Box(0, 0, 14, 14, PADDING, FAINT, dashed=True), "padding"),
        (any(box.hatched for box in drawn), Box(0, 0, 14, 14, "#ffffff", GRID, hatched=True), "by none"),
    )
    for occurs, box, text in entries:
        if not occurs:
            continue
        if x > 60 and x + 24 + 7 * len(text) > max(canvas.width, 520):
            x, y = 60.0, y + 22
        canvas.add(Box(x, y, box.width, box.height, box.fill, box.stroke, box.thickness, box.dashed, box.hatched))
        canvas.add(Words(x + 20, y + 12, text, 12))
        x += 40 + 7 * len(text)
