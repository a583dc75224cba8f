"""The cells of an input and of an output: shades by how many windows read them, pads, and what a sum is divided by."""

from __future__ import annotations

from math import inf, prod

from poolcli.explain.picture.axis_breaks import CELL, Line
from poolcli.explain.picture.canvas import Box, Canvas, Words, wide
from poolcli.explain.picture.theme import READ, Role
from poolcli.plan import AxisPlan, Plan
from poolcli.windows import Bins, Sliding, ceil_div

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


def divisor_of(plan: Plan, outputs: tuple[int, ...]) -> int | None:
    """What the sum of a window is divided by; None where nothing is divided."""
    if not plan.reducer.divides:
        return None
    if plan.divisor_override is not None:
        return plan.divisor_override
    return prod(w.divisor(o) for w, o in zip(plan.windows, outputs, strict=True))


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
