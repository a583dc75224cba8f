"""Compositions of a framework's standard operators that compute what no operator of it does alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from poolcli.dialects import Dialect
from poolcli.dialects.dialect import MOST_AXES
from poolcli.dialects.steps import (
    Dilated,
    Gathered,
    Matrices,
    Negate,
    Ones,
    Pad,
    Pool,
    Power,
    Ratio,
    Scale,
    Step,
    can_write,
)
from poolcli.dtypes import lookup
from poolcli.explain.equivalence import planned
from poolcli.ops import OPERATORS
from poolcli.plan import Plan
from poolcli.plan.attributes import MAXIMUM, MEAN, DividingAttributes, Reducer, SlidingAttributes
from poolcli.windows import Counted, Sliding

Ends = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Composition:
    """Steps, the plan of what they read and divide by, and that plan for other shapes; None where they are for one."""

    step: Step
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None


def compositions(plan: Plan, dialect: Dialect) -> Iterator[Composition]:
    """What gives the same at the plan's size, or may, in the operators of `dialect`; plainest first."""
    core = _core(plan)
    if core is None or plan.missing:
        return
    reducer, override, before, after = core
    found = _padded(plan, reducer, override, before, dialect) if len(plan.axes) <= MOST_AXES else iter(())
    for each in (*found, *_spelled_out(plan, reducer, override, before)):
        step = after(each.step)
        if can_write(step, dialect.writers):
            yield replace(each, step=step)


Core = tuple[Reducer, int | None, Step | None, Callable[[Step], Step]]


def _core(plan: Plan) -> Core | None:
    """A mean or maximum of all that an operator needs, with the divisor in place of its own, and what is done before
    and after: a minimum is a maximum of changed signs, a sum a mean that is divided by 1, a norm the root of a sum.
    """
    reducer, kind = plan.reducer, lookup(plan.dtype).kind
    if reducer == MAXIMUM:
        return MAXIMUM, None, None, lambda step: step
    if replace(reducer, name="", noun="", better=None, nothing=0) == replace(MAXIMUM, name="", noun="", better=None):
        return (MAXIMUM, None, Negate(None), Negate) if kind == "float" and reducer.nothing else None
    like_mean = replace(MEAN, name=reducer.name, noun=reducer.noun, result=reducer.result)
    if reducer == like_mean:
        return MEAN, plan.divisor_override, None, lambda step: step
    if kind != "float" or replace(reducer, power=None, divides=True) != like_mean:
        return None
    if reducer.power is None:
        return MEAN, 1, None, lambda step: step
    power = partial(Power, dtype=plan.dtype)
    exponent = reducer.power
    return MEAN, 1, power(None, exponent), lambda step: power(step, 1 / exponent)


def _spelled_out(plan: Plan, reducer: Reducer, override: int | None, x: Step | None) -> Iterator[Composition]:
    """What each window reads as a constant, for one size."""
    if plan.empty_windows or (reducer.divides and lookup(plan.dtype).kind != "float"):
        return  # casts to integers would not round
    if reducer.divides or len(plan.axes) <= MOST_AXES:
        core = replace(plan, reducer=reducer, divisor_override=override)
        yield Composition((Gathered if reducer.picks else Matrices)(x, core), plan, None)


def _padded(
    plan: Plan, reducer: Reducer, override: int | None, x: Step | None, dialect: Dialect
) -> Iterator[Composition]:
    """Padding as an operator of its own before the pool, first as much as serves every size."""
    windows = [w for w in plan.windows if isinstance(w, Sliding)]
    record = _record(reducer)
    if len(windows) < len(plan.axes) or record.name not in dialect.operators:
        return
    up = plan.attributes["rounding_type"] != "floor"
    always = [w.pad_end + up * (w.stride - 1) for w in windows]
    here = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    made = partial(_composition, plan, reducer, override, x, dialect)
    for ends in [always] if always == here else [always, here]:
        counted, rest = _shares(windows, ends, reducer.divides and not override)
        if _any(counted) and _any(rest):
            for op in _excluding(record, dialect, windows, [end for _, end in rest]):
                yield from made(op, counted, ((0, 0),) * len(windows))
        yield from made(_operator(record, dialect, windows, "floor"), counted, rest)


def _record(reducer: Reducer) -> Any:
    """The record of sliding windows with the reducer."""
    return next(r for r in OPERATORS.values() if issubclass(r, SlidingAttributes) and r.reducer == reducer)


def _excluding(
    record: Any, dialect: Dialect, windows: Sequence[Sliding], ends: Sequence[int]
) -> Iterator[SlidingAttributes]:
    """The pool that excludes what lies past the counted padding: as pads of its own, or by rounding up where it pads
    both ends equally. OpenVINO joins Pad and a pool without pads of its own, and then counts what lies past them.
    """
    if not dialect.symmetric_pads:
        yield replace(_operator(record, dialect, windows, "floor"), pads_end=tuple(ends))
        return
    for word in dialect.rounding_types:
        if word != "floor":
            yield _operator(record, dialect, windows, word)


def _operator(record: Any, dialect: Dialect, windows: Sequence[Sliding], rounding: str) -> SlidingAttributes:
    """The pool without padding; by the rules of OpenVINO where the dialect has no dilation."""
    dilations = tuple(w.dilation if w.kernel > 1 else 1 for w in windows)
    own = max(dilations) == 1 or dialect.operators[record.name].dilations
    division = {"exclude_pad": True} if issubclass(record, DividingAttributes) else {}
    made: SlidingAttributes = record(
        tuple(w.kernel for w in windows), tuple(w.stride for w in windows), dilations=dilations,
        rounding_type=rounding, like=dialect.name if own else "openvino", **division,
    )  # fmt: skip
    return made


def _shares(windows: Sequence[Sliding], ends: Sequence[int], divides: bool) -> tuple[Ends, Ends]:
    """What is padded, where the divisor counts it and where it does not; all is counted where there is no divisor."""
    every = tuple((w.pad_begin, end) for w, end in zip(windows, ends, strict=True))
    none = ((0, 0),) * len(windows)
    rules: set[Counted] = {w.counted for w in windows}
    if not divides or rules == {"kernel"}:
        return every, none
    if rules == {"inside"}:
        return none, every
    counted = tuple((w.pad_begin, min(w.pad_end, end)) for w, end in zip(windows, ends, strict=True))
    return counted, tuple((0, end - own) for end, (_, own) in zip(ends, counted, strict=True))


def _any(pads: Ends) -> bool:
    return any(map(any, pads))


def _composition(
    plan: Plan, reducer: Reducer, override: int | None, x: Step | None, dialect: Dialect, op: SlidingAttributes,
    counted: Ends, rest: Ends,
) -> Iterator[Composition]:  # fmt: skip
    """Pads what the divisor counts, then pools; what it does not count is divided by the pool of as many ones."""
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(counted, rest, strict=True))
    at = partial(_plan_at, plan, op, pads, counted, override)
    inner, effective = planned(op, _longer(plan, plan.input_shape, pads), plan), at(plan.input_shape)
    if inner is None or effective is None or (op.like == dialect.name and dialect.cannot_write(inner)):
        return
    pool = partial(Pool if op.like == dialect.name else Dilated, plan=inner)
    lowest = lookup(plan.dtype).ends[0] if reducer.picks else 0

    def padded(step: Step | None, ends: Ends) -> Step | None:
        return Pad(step, ends, lowest, plan.dtype) if _any(ends) else step

    whole = padded(x, counted)
    step: Step = pool(padded(whole, rest))
    if _any(rest):
        step = Ratio(step, by=pool(padded(Ones(whole), rest)))
    size = prod(w.kernel for w in inner.windows if isinstance(w, Sliding))
    if override not in (None, size):
        step = Scale(step, size / override, plan.dtype)
    yield Composition(step, effective, at)


def _longer(plan: Plan, shape: Sequence[int], pads: Ends) -> list[int]:
    longer = list(shape)
    for axis, ends in zip(plan.axes, pads, strict=True):
        longer[axis.position] += sum(ends)
    return longer


def _plan_at(
    plan: Plan, op: SlidingAttributes, pads: Ends, counted: Ends, override: int | None, shape: Sequence[int]
) -> Plan | None:
    """What the composition reads and divides by on an input of `shape`."""
    inner = planned(op, _longer(plan, shape, pads), plan)
    if inner is None:
        return None
    rule: Counted = "clipped" if _any(counted) else "inside"
    axes = tuple(
        replace(
            axis, windows=replace(axis.windows, size=shape[axis.position], pad_begin=begin, pad_end=end, counted=rule)
        )
        for axis, (begin, _), (_, end) in zip(inner.axes, pads, counted, strict=True)
        if isinstance(axis.windows, Sliding)
    )
    return replace(
        inner, reducer=plan.reducer, input_shape=tuple(shape), axes=axes,
        divisor_override=override if plan.divisor_override else None,
    )  # fmt: skip
