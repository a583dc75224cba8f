"""Conversions as expressions: standard operators applied to the input or to each other, which each dialect writes in
its own terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poolcli.windows import Cells

if TYPE_CHECKING:
    from poolcli.plan import Plan


@dataclass(frozen=True, slots=True)
class Expression:
    """An operator applied to `operand`, another expression; None is the input.

    Classes without fields of their own are no dataclasses: each of those adds 0.5 ms to every start.
    """

    operand: Expression | None

    @property
    def operands(self) -> tuple[Expression | None, ...]:
        """All operands, in the order in which writers take them."""
        return (self.operand,)


@dataclass(frozen=True, slots=True)
class Pool(Expression):
    """The framework's own pooling operator, with the attributes of a plan under its rules."""

    plan: Plan


class GlobalPool(Pool):
    """Global pooling: axes of any length to one output."""


class DilatedPool(Pool):
    """Dilated windows without padding, rounded down, for frameworks whose pooling operator has no dilation."""


class MatrixProduct(Pool):
    """Averages or areas over any windows, as the product with a constant matrix for each axis."""

    def rows(self, number: int) -> list[list[float]]:
        """Return the matrix of axis `number`: a row of weights for each window. The first axis applies the
        divisor_override.
        """
        w = self.plan.windows[number]
        if isinstance(w, Cells):
            spans = [w.span(i) for i in range(w.output)]
            return [[w.weight(i, j) / w.parts[0] if j in r else 0 for j in range(w.size)] for i, r in enumerate(spans)]
        return [[(j in r) / d for j in range(w.size)] for r, d in self._spans_and_divisors(number)]

    def text(self, number: int, rows: bool = False) -> str:
        """Return the matrix as a Python expression, with a column for each window, or with a row."""
        w = self.plan.windows[number]
        weight, windows, elements = (
            "(j in r) / d",
            f"r, d in {self._spans_and_divisors(number)}",
            f"j in range({w.size})",
        )
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

    def subscripts(self) -> tuple[str, str, str]:
        """Return the letters for `einsum`: of the input's axes, of the matrices, and of the output's axes."""
        count = len(self.plan.windows)
        inputs, outputs = "abcdefghijk"[:count], "mnopqrstuvw"[:count]
        return inputs, ",".join(map("".join, zip(inputs, outputs, strict=True))), outputs


class GatherPool(Pool):
    """Maxima over any windows: gathers the elements of all windows side by side, then pools without overlap."""


@dataclass(frozen=True, slots=True)
class Pad(Expression):
    """Constant padding: (begin, end) of each spatial axis."""

    pads: tuple[tuple[int, int], ...]
    value: float
    dtype: str


@dataclass(frozen=True, slots=True)
class Scale(Expression):
    """The operand times a number."""

    factor: float
    dtype: str


class Negate(Expression):
    """The operand with its sign changed."""


@dataclass(frozen=True, slots=True)
class Power(Expression):
    """The absolute values of the operand, raised to a power."""

    exponent: float
    dtype: str


class Ones(Expression):
    """An array of ones in the shape of the operand."""


@dataclass(frozen=True, slots=True)
class Divide(Expression):
    """The operand divided by another expression."""

    divisor: Expression = field(kw_only=True)

    @property
    def operands(self) -> tuple[Expression | None, ...]:
        """The dividend and the divisor."""
        return (self.operand, self.divisor)


def gather_indices(plan: Plan) -> list[tuple[int, list[int]]]:
    """Return for each axis the length of its longest window and the elements of all windows, one after the other.

    Shorter windows repeat their last element, which changes no maximum.
    """
    found = []
    for w in plan.windows:
        spans = [w.span(o) for o in range(w.output)]
        longest = max(map(len, spans))
        found.append((longest, [i for span in spans for i in (*span, *[span[-1]] * (longest - len(span)))]))
    return found


Writers = Mapping[type[Expression], Callable[..., Any]]


def translate(expr: Expression | None, writers: Writers, start: Any) -> Any:
    """Write an expression from the inside out: each writer takes an expression and its written operands. `start` is the
    input, written.
    """
    if expr is None:
        return start
    return writers[type(expr)](expr, *(translate(operand, writers, start) for operand in expr.operands))


def can_write(expr: Expression | None, writers: Writers) -> bool:
    """Whether there are writers for the whole expression."""
    return expr is None or (type(expr) in writers and all(can_write(each, writers) for each in expr.operands))
