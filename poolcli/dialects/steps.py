"""What a conversion consists of: standard operators, one inside the other, which a dialect writes in its own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poolcli.windows import Cells

if TYPE_CHECKING:
    from poolcli.plan import Plan


@dataclass(frozen=True, slots=True)
class Step:
    """An operator on the result of another step, or on the input.

    Steps without fields of their own inherit what they need: a dataclass takes half a millisecond of every start.
    """

    of: Step | None

    @property
    def operands(self) -> tuple[Step | None, ...]:
        """The steps whose results it takes."""
        return (self.of,)


@dataclass(frozen=True, slots=True)
class Pool(Step):
    """The framework's own operator, with the attributes of a plan by its rules."""

    plan: Plan


class Whole(Pool):
    """Pooling over axes of any length, to one output."""


class Dilated(Pool):
    """Dilated windows without padding, rounded down, where the framework's own operator has no dilation."""


class Matrices(Pool):
    """Any windows of averages or areas: a product with a constant matrix for each axis."""

    def rows(self, number: int) -> list[list[float]]:
        """What each window of an axis takes of each element: means, or sums that the first axis divides."""
        w = self.plan.windows[number]
        if isinstance(w, Cells):
            spans = [w.span(i) for i in range(w.output)]
            return [[w.weight(i, j) / w.parts[0] if j in r else 0 for j in range(w.size)] for i, r in enumerate(spans)]
        return [[(j in r) / d for j in range(w.size)] for r, d in self._divided(number)]

    def text(self, number: int, rows: bool = False) -> str:
        """How Python makes the matrix: a column for each window, or a row."""
        w = self.plan.windows[number]
        share, windows, elements = "(j in r) / d", f"r, d in {self._divided(number)}", f"j in range({w.size})"
        if isinstance(w, Cells):
            cell, one = w.parts
            part = f"min((i + 1) * {cell}, (j + 1) * {one}) - max(i * {cell}, j * {one})"
            share, windows = f"max(0, {part}) / {cell}", f"i in range({w.output})"
        inner, outer = (elements, windows) if rows else (windows, elements)
        return f"[[{share} for {inner}] for {outer}]"

    def _divided(self, number: int) -> list[tuple[range, int]]:
        """What each window reads, and what it is divided by."""
        w, override = self.plan.windows[number], self.plan.divisor_override
        divisors = (w.divisor(o) if override is None else 1 if number else override for o in range(w.output))
        return [(w.span(o), divisor) for o, divisor in enumerate(divisors)]

    def subscripts(self) -> tuple[str, str, str]:
        """Letters for `einsum`: the axes of the input, those of the matrices, and the axes of the output."""
        count = len(self.plan.windows)
        inputs, outputs = "abcdefghijk"[:count], "mnopqrstuvw"[:count]
        return inputs, ",".join(map("".join, zip(inputs, outputs, strict=True))), outputs


class Gathered(Pool):
    """Any windows of maxima: the elements of all windows side by side, then windows that do not overlap."""


@dataclass(frozen=True, slots=True)
class Pad(Step):
    """A constant around the input: (at the beginning, at the end) of each spatial axis."""

    pads: tuple[tuple[int, int], ...]
    value: float
    dtype: str


@dataclass(frozen=True, slots=True)
class Scale(Step):
    """Times a number."""

    factor: float
    dtype: str


class Negate(Step):
    """With the sign changed."""


@dataclass(frozen=True, slots=True)
class Power(Step):
    """A power of the absolute values."""

    exponent: float
    dtype: str


class Ones(Step):
    """As long as the operand, all 1."""


@dataclass(frozen=True, slots=True)
class Ratio(Step):
    """Divided by the result of another step."""

    by: Step = field(kw_only=True)

    @property
    def operands(self) -> tuple[Step | None, ...]:
        """The dividend and the divisor."""
        return (self.of, self.by)


def side_by_side(plan: Plan) -> list[tuple[int, list[int]]]:
    """For each axis the longest window, and the elements of all windows one after the other: those of shorter ones end
    with repetitions, which change no maximum.
    """
    every = []
    for w in plan.windows:
        spans = [w.span(o) for o in range(w.output)]
        longest = max(map(len, spans))
        every.append((longest, [i for span in spans for i in (*span, *[span[-1]] * (longest - len(span)))]))
    return every


Writers = Mapping[type[Step], Callable[..., Any]]


def fold(step: Step | None, writers: Writers, start: Any) -> Any:
    """What the writer of each step makes of the step and of what was made of its operands; `start` is the input."""
    if step is None:
        return start
    return writers[type(step)](step, *(fold(operand, writers, start) for operand in step.operands))


def can_write(step: Step | None, writers: Writers) -> bool:
    """Whether there is a writer for the step and for all that it takes."""
    return step is None or (type(step) in writers and all(can_write(each, writers) for each in step.operands))
