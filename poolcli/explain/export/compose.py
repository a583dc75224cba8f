"""Compositions of steps that compute what no pooling operator of a framework does alone: padding before a pool, changed
signs, quotients, constant matrices, or gathered elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

from poolcli.dialects import Dialect
from poolcli.dtypes import lookup
from poolcli.explain.equivalence import plan_at_shape
from poolcli.explain.export import steps as st
from poolcli.plan import Plan
from poolcli.plan.attributes import MAXIMUM, MEAN, OPERATORS, DividingAttributes, SlidingAttributes
from poolcli.windows import Counted, Sliding

Ends = tuple[tuple[int, int], ...]  # of each axis: padding at its beginning and at its end


class Composition(NamedTuple):
    """Steps, and the plan of what they read and divide by."""

    steps: st.Steps
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None = None  # that plan at other shapes; None: for one shape
    pool: Plan | None = None  # of the framework's own operator in them


def compositions(plan: Plan, dialect: Dialect, writer: st.Writer) -> Iterator[Composition]:
    """Compositions that may give the same as the plan, in the operators of `dialect`, simplest first."""
    reduced = _as_mean_or_max(plan)
    if reduced is None or plan.missing:
        return
    before, pool, after = reduced
    padded = _pad_then_pool(plan, pool, before, dialect) if len(plan.axes) <= st.MOST_AXES else ()
    for each in (*padded, *_enumerated(plan, pool, before)):
        steps = (*each.steps, *after)
        if writer.can_write(steps) and (each.pool is None or writer.cannot_write(each.pool) is None):
            yield each._replace(steps=steps)


def _as_mean_or_max(plan: Plan) -> tuple[st.Steps, Plan, st.Steps] | None:
    """The plan as a mean or maximum, and the steps around it; None for others, and where integers are inexact."""
    reducer, is_float = plan.reducer, lookup(plan.dtype).kind == "float"
    if reducer == MAXIMUM:
        return (), plan, ()
    if reducer.picks:
        return ((st.Negate(),), replace(plan, reducer=MAXIMUM), (st.Negate(),)) if is_float else None
    if not reducer.adds or reducer.signed or not (reducer.divides or is_float):
        return None
    if reducer.divides:
        return (), replace(plan, reducer=MEAN), ()
    total = replace(plan, reducer=MEAN, divisor_override=1)
    if reducer.power is None:
        return (), total, ()
    return (st.Power(reducer.power, plan.dtype),), total, (st.Power(1 / reducer.power, plan.dtype),)


def _enumerated(plan: Plan, pool: Plan, before: st.Steps) -> Iterator[Composition]:
    """Any windows, spelled out as constant matrices or indices for one input size."""
    divides = pool.reducer.divides
    if plan.empty_windows or (divides and lookup(plan.dtype).kind != "float"):
        return  # a cast to integers would truncate
    if divides or len(plan.axes) <= st.MOST_AXES:
        yield Composition((*before, (st.MatrixProduct if divides else st.GatherPool)(pool)), plan)


def _pad_then_pool(plan: Plan, pool: Plan, before: st.Steps, dialect: Dialect) -> Iterator[Composition]:
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
    plan: Plan, pool: Plan, before: st.Steps, op: SlidingAttributes, counted: Ends, excluded: Ends
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

    def pad(ends: Ends) -> st.Steps:
        return (st.Pad(ends, lowest, plan.dtype),) if any(map(any, ends)) else ()

    pooled: st.Steps = (*pad(excluded), st.Pool(inner))
    scale: tuple[st.Step, ...] = (st.Scale(size / override, plan.dtype),) if override is not None and scales else ()
    steps = (*before, *pad(counted), *((st.OverOnes(pooled),) if quotient else pooled), *scale)
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
