"""Steps, standard operators applied one after the other, and compositions of them that compute what no pooling operator
of a framework does alone: padding before a pool, changed signs, quotients, constant matrices, or gathered elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, prod
from typing import Any, NamedTuple, cast

from poolcli.dialects import Dialect
from poolcli.dtypes import lookup
from poolcli.explain.equivalence import plan_at_shape
from poolcli.plan import Plan
from poolcli.plan.attributes import MAXIMUM, MEAN, OPERATORS, DividingAttributes, SlidingAttributes
from poolcli.windows import Cells, Counted, Sliding

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

    def subscripts(self) -> tuple[str, str, str]:
        """The letters for `einsum`: of the input's axes, of the matrices, and of the output's axes."""
        count = len(self.plan.windows)
        inputs, outputs = "abcdefghijk"[:count], "mnopqrstuvw"[:count]
        return inputs, ",".join(map("".join, zip(inputs, outputs, strict=True))), outputs


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


Ends = tuple[tuple[int, int], ...]  # of each axis: padding at its beginning and at its end


class Composition(NamedTuple):
    """Steps, and the plan of what they read and divide by."""

    steps: Steps
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None = None  # that plan at other shapes; None: for one shape
    pool: Plan | None = None  # of the framework's own operator in them


def compositions(plan: Plan, dialect: Dialect, writer: Writer) -> Iterator[Composition]:
    """Compositions that may give the same as the plan, in the operators of `dialect`, simplest first."""
    reduced = _as_mean_or_max(plan)
    if reduced is None or plan.missing:
        return
    before, pool, after = reduced
    padded = _pad_then_pool(plan, pool, before, dialect) if len(plan.axes) <= MOST_AXES else ()
    for each in (*padded, *_enumerated(plan, pool, before)):
        steps = (*each.steps, *after)
        if writer.can_write(steps) and (each.pool is None or writer.cannot_write(each.pool) is None):
            yield each._replace(steps=steps)


def _as_mean_or_max(plan: Plan) -> tuple[Steps, Plan, Steps] | None:
    """The plan as a mean or maximum, and the steps around it; None for others, and where integers are inexact."""
    reducer, is_float = plan.reducer, lookup(plan.dtype).kind == "float"
    if reducer == MAXIMUM:
        return (), plan, ()
    if reducer.picks:
        return ((Negate(),), replace(plan, reducer=MAXIMUM), (Negate(),)) if is_float else None
    if not reducer.adds or reducer.signed or not (reducer.divides or is_float):
        return None
    if reducer.divides:
        return (), replace(plan, reducer=MEAN), ()
    total = replace(plan, reducer=MEAN, divisor_override=1)
    if reducer.power is None:
        return (), total, ()
    return (Power(reducer.power, plan.dtype),), total, (Power(1 / reducer.power, plan.dtype),)


def _enumerated(plan: Plan, pool: Plan, before: Steps) -> Iterator[Composition]:
    """Any windows, spelled out as constant matrices or indices for one input size."""
    divides = pool.reducer.divides
    if plan.empty_windows or (divides and lookup(plan.dtype).kind != "float"):
        return  # a cast to integers would truncate
    if divides or len(plan.axes) <= MOST_AXES:
        yield Composition((*before, (MatrixProduct if divides else GatherPool)(pool)), plan)


def _pad_then_pool(plan: Plan, pool: Plan, before: Steps, dialect: Dialect) -> Iterator[Composition]:
    """Padding as an operator of its own before the pool: first as much as is right at every size."""
    windows = [replace(w, dilation=w.dilation if w.kernel > 1 else 1) for w in plan.windows if isinstance(w, Sliding)]
    record: Any = OPERATORS["max" if pool.reducer.picks else "avg"]
    if len(windows) < len(plan.axes) or record.name not in dialect.operators:
        return
    if not dialect.operators[record.name].dilations and any(w.dilation > 1 for w in windows):
        return
    words: dict[str, Any] = {"exclude_pad": True} if issubclass(record, DividingAttributes) else {}
    numbers = numbers_of([replace(w, pad_begin=0, pad_end=0) for w in windows])
    bare: SlidingAttributes = record(**numbers, like=dialect.name, **words)
    up = plan.attributes["rounding_type"] != "floor"
    always = [w.pad_end + up * (w.stride - 1) for w in windows]
    here = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    compose = partial(_composition, plan, pool, before)
    for ends in [always] if always == here else [always, here]:
        counted, excluded = _split_padding(windows, ends, pool.reducer.divides and not pool.divisor_override)
        if any(map(any, counted)) and any(map(any, excluded)):
            # The pool excludes what lies past the counted padding: by pads of its own, or by rounding up if the
            # framework pads both ends equally. OpenVINO fuses Pad with a pool without pads, and counts the overhang.
            overhang = [replace(bare, rounding_type=word) for word in dialect.rounding_types if word != "floor"]
            if not dialect.symmetric_pads:
                overhang = [replace(bare, pads_end=tuple(end for _, end in excluded))]
            for op in overhang:
                yield from compose(op, counted, ((0, 0),) * len(windows))
        yield from compose(bare, counted, excluded)


def numbers_of(windows: Sequence[Sliding]) -> dict[str, tuple[int, ...]]:
    """The attributes of operators that have a number for each axis."""
    return {
        "kernel": tuple(w.kernel for w in windows),
        "strides": tuple(w.stride for w in windows),
        "dilations": tuple(w.dilation for w in windows),
        "pads_begin": tuple(w.pad_begin for w in windows),
        "pads_end": tuple(w.pad_end for w in windows),
    }


def _split_padding(windows: Sequence[Sliding], ends: Sequence[int], divides: bool) -> tuple[Ends, Ends]:
    """The padding that the divisor counts, and the padding that it excludes; without a divisor, all is counted."""
    every = tuple((w.pad_begin, end) for w, end in zip(windows, ends, strict=True))
    none = ((0, 0),) * len(windows)
    rules: set[Counted] = {w.counted for w in windows}
    if not divides or rules == {"kernel"}:
        return every, none
    if rules == {"inside"}:
        return none, every
    counted = tuple((w.pad_begin, min(w.pad_end, end)) for w, end in zip(windows, ends, strict=True))
    return counted, tuple((0, end - own) for end, (_, own) in zip(ends, counted, strict=True))


def _composition(
    plan: Plan, pool: Plan, before: Steps, op: SlidingAttributes, counted: Ends, excluded: Ends
) -> Iterator[Composition]:
    """Pads, then pools. If the divisor excludes padding, the result is divided by the same pooling of ones."""
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(counted, excluded, strict=True))
    plan_at = partial(_plan_at, plan, op, pads, counted)
    inner, effective = _padded_plan(plan, op, pads, plan.input_shape), plan_at(plan.input_shape)
    if inner is None or effective is None:
        return
    size = prod(w.kernel for w in inner.windows if isinstance(w, Sliding))
    override = pool.divisor_override
    quotient, scales = any(map(any, excluded)), override not in (None, size)
    if inner.reducer.divides and lookup(plan.dtype).kind != "float" and (quotient or scales):
        return  # weights and quotients of integers would be truncated
    lowest = lookup(plan.dtype).ends[0] if inner.reducer.picks else 0

    def pad(ends: Ends) -> Steps:
        return (Pad(ends, lowest, plan.dtype),) if any(map(any, ends)) else ()

    pooled: Steps = (*pad(excluded), Pool(inner))
    scale: tuple[Step, ...] = (Scale(size / override, plan.dtype),) if override is not None and scales else ()
    steps = (*before, *pad(counted), *((OverOnes(pooled),) if quotient else pooled), *scale)
    yield Composition(steps, effective, plan_at, inner)


def _padded_plan(plan: Plan, op: SlidingAttributes, pads: Ends, shape: Sequence[int]) -> Plan | None:
    longer = list(shape)
    for axis, ends in zip(plan.axes, pads, strict=True):
        longer[axis.position] += sum(ends)
    return plan_at_shape(op, longer, plan)


def _plan_at(plan: Plan, op: SlidingAttributes, pads: Ends, counted: Ends, shape: Sequence[int]) -> Plan | None:
    """The plan of what the composition reads and divides by on an input of `shape`."""
    inner = _padded_plan(plan, op, pads, shape)
    if inner is None:
        return None
    rule: Counted = "clipped" if any(map(any, counted)) else "inside"
    axes = []
    for axis, (begin, _), (_, end) in zip(inner.axes, pads, counted, strict=True):
        windows: Any = axis.windows
        windows = replace(windows, size=shape[axis.position], pad_begin=begin, pad_end=end, counted=rule)
        axes.append(replace(axis, windows=windows))
    inner = replace(inner, reducer=plan.reducer, divisor_override=plan.divisor_override)
    return replace(inner, input_shape=tuple(shape), axes=tuple(axes))
