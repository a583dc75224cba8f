"""Explains a plan (`Plan.explain`): the steps to each output length, some windows, and facts, as data and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from poolcli.plan import AxisPlan, Plan
from poolcli.windows import AxisWindows, Bins, Cells, Sliding, ceil_div


@dataclass(frozen=True, slots=True)
class Window:
    """One window of one axis."""

    output: int
    start: int  # an input position, which may lie in the padding
    stop: int  # exclusive
    first: int | None  # input element that it reads; None if there is none
    last: int | None
    inside: int
    divisor: int
    weights: tuple[int, int, int] | None = None  # of the first element, each between, and the last; None if all are 1

    @property
    def weights_text(self) -> str:
        """The weights as in `2, 5, 1` and `2, 7 x 5, 1`; empty if all are 1."""
        if self.weights is None:
            return ""
        first, one, last = self.weights
        between = [str(one)] if self.inside == 3 else [f"{self.inside - 2} x {one}"] if self.inside > 3 else []
        return ", ".join([str(first), *between, *([str(last)] if self.inside > 1 else [])])


@dataclass(frozen=True, slots=True)
class AxisExplanation:
    """One spatial axis: the steps to its output length, some windows, and counts of unused elements and odd windows."""

    name: str
    steps: tuple[str, ...]
    windows: tuple[Window, ...]
    covered: tuple[int, int]  # the first position that is read, and the one after the last
    extent: int | None = None
    unused: int | None = None
    overhanging: int = 0  # windows, at most the last one, that end past the input and its padding
    empty: int = 0  # windows without input
    lengths: tuple[tuple[int, int], ...] = ()  # and number of bins, shortest first
    equal_to: tuple[int, int] | None = None
    dilation: int = 1
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a plan; as text, one sentence a line."""

    axes: tuple[AxisExplanation, ...]
    divisor: str | None

    def __str__(self) -> str:
        lines = []
        for axis in self.axes:
            lines += [f"axis {axis.name}:", *(f"  {step}" for step in (*axis.steps, *facts(axis)))]
        return "\n".join([*lines, *([f"divisor: {self.divisor}"] if self.divisor else [])])


def explain(plan: Plan) -> Explanation:
    """Explain every axis of a plan."""
    return Explanation(tuple(_axis(plan, axis) for axis in plan.axes), plan.divisor_rule)


def window(w: AxisWindows, output: int) -> Window:
    """Window `output` of an axis."""
    start = w.start(output)
    stop = start + w.extent if isinstance(w, Sliding) else w.stop(output)
    span = w.span(output)
    ends = (span[0], span[-1]) if span else (None, None)
    weights = w.weights(output) if isinstance(w, Cells) else None
    return Window(output, start, stop, ends[0], ends[1], len(span), w.divisor(output), weights)


def divisor_of(plan: Plan, outputs: Sequence[int]) -> int | None:
    """The divisor of one window; None if the plan does not divide."""
    if not plan.reducer.divides:
        return None
    if plan.divisor_override is not None:
        return plan.divisor_override
    return prod(w.divisor(o) for w, o in zip(plan.windows, outputs, strict=True))


def facts(axis: AxisExplanation) -> list[str]:
    """Facts about the windows of an axis, one sentence each."""
    found = []
    if axis.extent is not None:
        taps = (axis.extent - 1) // axis.dilation + 1
        spread = f" of {axis.extent} positions, {axis.dilation} apart" if axis.dilation > 1 < taps else ""
        found.append(f"receptive field: {taps}{spread or ' ' + _plural('position', taps)}")
    if axis.equal_to:
        found.append("equals kernel {}, stride {} exactly".format(*axis.equal_to))
    elif axis.lengths:
        counts = ", ".join(f"{count} of length {length}" for length, count in axis.lengths)
        found.append(f"no fixed kernel and stride give these windows: {counts}")
    if axis.unused:
        found.append(f"{axis.unused} unused input {_plural('element', axis.unused)}")
    if axis.overhanging:
        found.append("1 window extends past the input" + (" and its pads" if axis.padded else ""))
    if axis.empty:
        found.append(f"{axis.empty} {_plural('window', axis.empty)} without any input element")
    return found


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def _axis(plan: Plan, axis: AxisPlan) -> AxisExplanation:
    w = axis.windows
    windows = tuple(window(w, o) for o in example_outputs(w))
    covered = windows[0].start, windows[-1].stop
    found = AxisExplanation(axis.name, (), windows, covered, unused=w.unused, empty=w.empty_windows)
    if isinstance(w, Bins):
        lengths = () if isinstance(w, Cells) or w.equal_to else _bin_lengths(w)
        steps = _cell_steps(w) if isinstance(w, Cells) else _bin_steps(w)
        return replace(found, steps=tuple(steps), lengths=lengths, equal_to=w.equal_to)
    return replace(
        found, steps=tuple(_sliding_steps(plan, w)), extent=w.extent, overhanging=int(w.overhang > 0),
        dilation=w.dilation, padded=w.pad_begin + w.pad_end > 0,
    )  # fmt: skip


def example_outputs(w: AxisWindows) -> tuple[int, ...]:
    """The first two outputs of an axis and the last one."""
    return tuple(sorted({0, min(1, w.output - 1), w.output - 1}))


def _sliding_steps(plan: Plan, w: Sliding) -> list[str]:
    auto_pad, rounding = str(plan.attributes["auto_pad"]), str(plan.attributes["rounding_type"])
    positions = f"{w.extent} {_plural('position', w.extent)}"
    dilated = f"window: ({w.kernel} - 1) * {w.dilation} + 1 = {positions} (kernel and dilation)"
    steps = [dilated if w.dilation > 1 else f"window: {positions} (the kernel)"]
    if auto_pad.startswith("same"):
        wanted = ceil_div(w.size, w.stride)
        total = (wanted - 1) * w.stride + w.extent - w.size
        steps.append(f"{auto_pad} pads for ceil({w.size} / {w.stride}) = {wanted} outputs")
        floor = ", at least 0" if total < 0 else ""
        steps.append(f"padding in all: ({wanted} - 1) * {w.stride} + {w.extent} - {w.size} = {total}{floor}")
        side = "after" if auto_pad == "same_upper" else "before"
        extra = f", the odd one {side}" if total > 0 and total % 2 else ""
        steps.append(f"split: {w.pad_begin} before, {w.pad_end} after{extra}")
    elif auto_pad == "valid":
        steps.append("valid: no padding")
    padded = w.size + w.pad_begin + w.pad_end
    steps.append(f"padded size: {w.size} + {w.pad_begin} + {w.pad_end} = {padded}")
    steps.append(f"last start: {padded} - {w.extent} = {w.slack}")
    whole, rest = divmod(w.slack, w.stride)
    up = rounding != "floor" and rest > 0
    exact = _mixed_number(whole, rest, w.stride)
    rounded = whole + up
    word = "" if not rest else f", rounded {'up' if up else 'down'} ({rounding}) to {rounded}"
    quotient = f" = {exact}" if w.slack >= 0 else ""
    steps.append(f"steps: {w.slack} / {w.stride}{quotient}{word}")
    if rounded + 1 > w.output:
        start = rounded * w.stride - w.pad_begin
        steps.append(f"window {rounded} would start at {start}, past the input of {w.size}: dropped")
        steps.append(f"outputs: {rounded} + 1 - 1 = {w.output}")
    else:
        steps.append(f"outputs: {rounded} + 1 = {w.output}")
    return steps


def _cell_steps(w: Cells) -> list[str]:
    cell, one = w.parts
    steps = [f"cell i covers i * {w.size} / {w.output} to (i + 1) * {w.size} / {w.output}, of each element a part"]
    steps.append(f"a cell has {cell} {_plural('part', cell)}, an element {one}: the weights of a cell add up to {cell}")
    for i in example_outputs(w):
        ends = [_mixed_number(*divmod(end * w.size, w.output), w.output) for end in (i, i + 1)]
        steps.append(f"cell {i}: {ends[0]} to {ends[1]}, weights {window(w, i).weights_text} of {cell}")
    return steps


def _bin_steps(w: Bins) -> list[str]:
    steps = [f"bin i reads from floor(i * {w.size} / {w.output}) to ceil((i + 1) * {w.size} / {w.output})"]
    for i in example_outputs(w):
        low, high = divmod(i * w.size, w.output), divmod((i + 1) * w.size, w.output)
        steps.append(
            f"bin {i}: {i * w.size}/{w.output} = {_mixed_number(*low, w.output)}, down to {w.start(i)}; "
            f"{(i + 1) * w.size}/{w.output} = {_mixed_number(*high, w.output)}, up to {w.stop(i)}: {w.inside(i)} long"
        )
    return steps


def _mixed_number(whole: int, rest: int, parts: int) -> str:
    return f"{whole} and {rest}/{parts}" if rest else str(whole)


def _bin_lengths(w: Bins) -> tuple[tuple[int, int], ...]:
    """(length, number of bins) for each length; two bins overlap by the element that the cut between them divides."""
    low, high = w.lengths
    longer = w.size + w.output - gcd(w.size, w.output) - low * w.output
    return ((low, w.output - longer), (high, longer)) if longer else ((low, w.output),)
