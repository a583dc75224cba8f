"""What a conversion consists of: standard operators, one inside the other, which a dialect writes in its own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolcli.plan import Plan


@dataclass(frozen=True, slots=True)
class Step:
    """An operator on the result of another step, or on the input."""

    of: Step | None

    @property
    def operands(self) -> tuple[Step | None, ...]:
        """The steps whose results it takes."""
        return (self.of,)


@dataclass(frozen=True, slots=True)
class Pool(Step):
    """The framework's own operator, with the attributes of a plan by its rules."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Whole(Pool):
    """Pooling over axes of any length, to one output."""


@dataclass(frozen=True, slots=True)
class Dilated(Pool):
    """Dilated windows without padding, rounded down, where the framework's own operator has no dilation."""


@dataclass(frozen=True, slots=True)
class Matrices(Pool):
    """Any windows of averages: a product with a constant matrix for each axis."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Negate(Step):
    """With the sign changed."""


@dataclass(frozen=True, slots=True)
class Power(Step):
    """A power of the absolute values."""

    exponent: float
    dtype: str


@dataclass(frozen=True, slots=True)
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
