"""Steps, the standard operators that a conversion applies one after the other, and how a framework writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, cast

from poolcli.plan import Plan
from poolcli.windows import Cells

MOST_AXES = 3  # spatial axes for which the frameworks have operators


@dataclass(frozen=True, slots=True)
class Pool:
    """The framework's own pooling operator, with the attributes of a plan under its rules."""

    plan: Plan


class GlobalPool(Pool):
    """Global pooling: axes of any length to one output."""


class MatrixProduct(Pool):
    """Averages or areas over any windows, as the product with a constant matrix for each axis."""

    def rows(self, number: int) -> list[list[float]]:
        """The matrix of axis `number`: a row of weights for each window; the first axis applies divisor_override."""
        w = self.plan.windows[number]
        if isinstance(w, Cells):
            return [[max(0, w.weight(i, j)) / w.parts[0] for j in range(w.size)] for i in range(w.output)]
        return [[(j in r) / d for j in range(w.size)] for r, d in self._spans_and_divisors(number)]

    def text(self, number: int, rows: bool = False) -> str:
        """The matrix as a Python expression, with a column for each window, or with a row."""
        w, elements = self.plan.windows[number], f"j in range({self.plan.windows[number].size})"
        weight, windows = "(j in r) / d", f"r, d in {self._spans_and_divisors(number)}"
        if isinstance(w, Cells):
            cell, one = w.parts
            overlap = f"min((i + 1) * {cell}, (j + 1) * {one}) - max(i * {cell}, j * {one})"
            weight, windows = f"max(0, {overlap}) / {cell}", f"i in range({w.output})"
        inner, outer = (elements, windows) if rows else (windows, elements)
        return f"[[{weight} for {inner}] for {outer}]"

    def _spans_and_divisors(self, number: int) -> list[tuple[range, int]]:
        w, override = self.plan.windows[number], self.plan.divisor_override
        divisors = (w.divisor(o) if override is None else 1 if number else override for o in range(w.output))
        return [(w.span(o), divisor) for o, divisor in enumerate(divisors)]

    def einsum(self, x: str, axes: str, matrix: str) -> str:
        """The product with `x`, whose `axes` are as in `yz{}`, by `einsum`; a `matrix` is made of its text."""
        count = len(self.plan.windows)
        inputs, outputs = "abcdefghijk"[:count], "mnopqrstuvw"[:count]
        pairs = ",".join(map("".join, zip(inputs, outputs, strict=True)))
        matrices = ", ".join(matrix.format(self.text(number)) for number in range(count))
        return f'einsum("{axes.format(inputs)},{pairs}->{axes.format(outputs)}", {x}, {matrices})'


class GatherPool(Pool):
    """Maxima over any windows: gathers the elements of all windows side by side, then pools without overlap."""

    def indices(self) -> list[tuple[int, list[int]]]:
        """For each axis the longest window and the elements of all; shorter windows repeat their last one."""
        found = []
        for w in self.plan.windows:
            spans = [w.span(o) for o in range(w.output)]
            longest = max(map(len, spans))
            found.append((longest, [i for span in spans for i in (*span, *[span[-1]] * (longest - len(span)))]))
        return found


class Pad(NamedTuple):
    """Constant padding: (begin, end) of each spatial axis."""

    pads: tuple[tuple[int, int], ...]
    value: float
    dtype: str


class Scale(NamedTuple):
    """The product with a number."""

    factor: float
    dtype: str


class Power(NamedTuple):
    """The absolute values, raised to a power."""

    exponent: float
    dtype: str


@dataclass(frozen=True, slots=True)
class Negate:
    """A changed sign."""


@dataclass(frozen=True, slots=True)
class OverOnes:
    """The quotient of what the steps make of the value, and of ones in its shape."""

    steps: Steps


Step = Pool | Pad | Scale | Power | Negate | OverOnes
Steps = tuple[Step, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """How a framework writes steps."""

    title: str  # the name of what computes them
    writers: Mapping[type[Step], Callable[[Any, Any], Any]]  # of a step and what is written so far
    start: Any = "x"  # the input, written
    text: Callable[[Any], str] = str  # makes the final text
    ones: str | None = None  # the name of what makes ones, if anything does
    refuses: Callable[[Plan], str | None] = lambda plan: None  # why it cannot compute a plan that follows its rules

    def cannot_write(self, plan: Plan) -> str | None:
        """Why the framework cannot compute a plan that follows its rules; None: it can."""
        if len(plan.axes) > MOST_AXES:
            return f"{self.title} has pooling for 1 to {MOST_AXES} spatial axes only"
        return self.refuses(plan)

    def write(self, steps: Steps) -> str:
        """The steps as text."""
        return self.text(self.after(self.start, steps))

    def after(self, value: Any, steps: Steps) -> Any:
        """What is written after the steps, from `value` on."""
        for step in steps:
            if isinstance(step, OverOnes):
                value = f"{self.after(value, step.steps)} / {self.after(f'{self.ones}({value})', step.steps)}"
            else:
                value = self.writers[type(step)](step, value)
        return value

    def can_write(self, steps: Steps) -> bool:
        """Whether there are writers for all steps."""
        return all(
            bool(self.ones) and self.can_write(step.steps) if isinstance(step, OverOnes) else type(step) in self.writers
            for step in steps
        )


def numbers(plan: Plan, name: str) -> list[int]:
    """The numbers of an attribute, one for each axis."""
    return cast("list[int]", plan.attributes[name])


def comma_separated(plan: Plan, name: str) -> str:
    """The numbers of an attribute as in `2,2`."""
    return ",".join(map(str, numbers(plan, name)))


def argument(plan: Plan, name: str) -> str:
    """The numbers of an attribute as a Python argument: a single number if all are equal."""
    found = numbers(plan, name)
    return str(found[0]) if len(set(found)) == 1 else str(tuple(found))


def literal(value: float) -> str:
    """A number as Python reads it."""
    return repr(value) if isfinite(value) else f'float("{value}")'


def is_dilated(plan: Plan) -> bool:
    """Whether any axis is dilated."""
    return max(numbers(plan, "dilations")) > 1


def has_gaps(plan: Plan) -> bool:
    """Whether a kernel is shorter than its stride."""
    return any(k < s for k, s in zip(numbers(plan, "kernel"), numbers(plan, "strides"), strict=True))
