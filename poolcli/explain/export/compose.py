"""Compositions of standard operators that compute what no pooling operator of a framework does alone.

Padding before a pool, changed signs, quotients, products with constant matrices, or gathered elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from poolcli.dialects import Dialect
from poolcli.dtypes import lookup
from poolcli.explain.equivalence import plan_at_shape
from poolcli.explain.export import expressions as ex
from poolcli.explain.export.expressions import MOST_AXES, Expression
from poolcli.plan import Plan
from poolcli.plan.attributes import MAXIMUM, MEAN, OPERATORS, DividingAttributes, SlidingAttributes
from poolcli.windows import Counted, Sliding

Ends = tuple[tuple[int, int], ...]  # of each axis: padding at its beginning and at its end


@dataclass(frozen=True, slots=True)
class Composition:
    """An expression, the plan of what it reads and divides by, and that plan at other shapes (None: for one shape).

    `pool` is the plan of the framework's own pooling operator in it, if it has one.
    """

    expression: Expression
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None
    pool: Plan | None = None


@dataclass(frozen=True, slots=True)
class _MeanOrMax:
    """A plan as a mean or maximum of `input_expr`, whose result `output_expr` completes."""

    pool: Plan
    input_expr: Expression | None = None
    output_expr: Callable[[Expression], Expression] = lambda expr: expr


def compositions(plan: Plan, dialect: Dialect, writer: ex.Writer) -> Iterator[Composition]:
    """Compositions that may give the same as the plan, in the operators of `dialect`, simplest first."""
    reduced = _as_mean_or_max(plan)
    if reduced is None or plan.missing:
        return
    padded = _pad_then_pool(plan, reduced, dialect) if len(plan.axes) <= MOST_AXES else ()
    for each in (*padded, *_enumerated(plan, reduced)):
        expr = reduced.output_expr(each.expression)
        if writer.can_write(expr) and (each.pool is None or writer.cannot_write(each.pool) is None):
            yield replace(each, expression=expr)


def _as_mean_or_max(plan: Plan) -> _MeanOrMax | None:
    """A minimum is the negated maximum of the negated input, a sum a mean with the divisor 1, a norm the root of a sum.

    None for other reducers, and for integers, of which neither negated nor rounded values are exact.
    """
    reducer, is_float = plan.reducer, lookup(plan.dtype).kind == "float"
    if reducer.picks:
        if reducer == MAXIMUM:
            return _MeanOrMax(plan)
        return _MeanOrMax(replace(plan, reducer=MAXIMUM), ex.Negate(None), ex.Negate) if is_float else None
    if not reducer.adds or reducer.signed:
        return None
    if reducer.divides:
        return _MeanOrMax(replace(plan, reducer=MEAN))
    if not is_float:
        return None
    total, exponent = replace(plan, reducer=MEAN, divisor_override=1), reducer.power
    if exponent is None:
        return _MeanOrMax(total)
    power = partial(ex.Power, dtype=plan.dtype)
    return _MeanOrMax(total, power(None, exponent), lambda expr: power(expr, 1 / exponent))


def _enumerated(plan: Plan, reduced: _MeanOrMax) -> Iterator[Composition]:
    """Any windows, spelled out as constant matrices or indices for one input size."""
    divides = reduced.pool.reducer.divides
    if plan.empty_windows or (divides and lookup(plan.dtype).kind != "float"):
        return  # a cast to integers would truncate
    if divides or len(plan.axes) <= MOST_AXES:
        kind = ex.MatrixProduct if divides else ex.GatherPool
        yield Composition(kind(reduced.input_expr, reduced.pool), plan, None)


def _pad_then_pool(plan: Plan, reduced: _MeanOrMax, dialect: Dialect) -> Iterator[Composition]:
    """Padding as an operator of its own before the pool: first as much as is right at every size."""
    windows = [w for w in plan.windows if isinstance(w, Sliding)]
    reducer = reduced.pool.reducer
    record: Any = next(r for r in OPERATORS.values() if issubclass(r, SlidingAttributes) and r.reducer == reducer)
    if len(windows) < len(plan.axes) or record.name not in dialect.operators:
        return
    up = plan.attributes["rounding_type"] != "floor"
    always = [w.pad_end + up * (w.stride - 1) for w in windows]
    here = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    compose = partial(_composition, plan, reduced, dialect)
    for ends in [always] if always == here else [always, here]:
        counted, excluded = _split_padding(windows, ends, reducer.divides and not reduced.pool.divisor_override)
        if any(map(any, counted)) and any(map(any, excluded)):
            for op in _excluding(record, dialect, windows, [end for _, end in excluded]):
                yield from compose(op, counted, ((0, 0),) * len(windows))
        yield from compose(_unpadded_pool(record, dialect, windows, "floor"), counted, excluded)


def _excluding(
    record: Any, dialect: Dialect, windows: Sequence[Sliding], ends: Sequence[int]
) -> Iterator[SlidingAttributes]:
    """Pools that exclude what lies past the counted padding: by pads of their own, or by rounding up if the framework
    pads both ends equally. OpenVINO fuses Pad with a pool that has no pads of its own, and then counts the overhang.
    """
    if not dialect.symmetric_pads:
        yield replace(_unpadded_pool(record, dialect, windows, "floor"), pads_end=tuple(ends))
        return
    for word in dialect.rounding_types:
        if word != "floor":
            yield _unpadded_pool(record, dialect, windows, word)


def _unpadded_pool(record: Any, dialect: Dialect, windows: Sequence[Sliding], rounding: str) -> SlidingAttributes:
    """The pool without padding, under the rules of OpenVINO if the dialect has no dilation (`DilatedPool`)."""
    bare = [replace(w, dilation=w.dilation if w.kernel > 1 else 1, pad_begin=0, pad_end=0) for w in windows]
    own = all(w.dilation == 1 for w in bare) or dialect.operators[record.name].dilations
    division = {"exclude_pad": True} if issubclass(record, DividingAttributes) else {}
    like = dialect.name if own else "openvino"
    op: SlidingAttributes = record(**numbers_of(bare), rounding_type=rounding, like=like, **division)
    return op


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
    plan: Plan, reduced: _MeanOrMax, dialect: Dialect, op: SlidingAttributes, counted: Ends, excluded: Ends
) -> Iterator[Composition]:
    """Pads, then pools. If the divisor excludes padding, the result is divided by the same pooling of ones."""
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(counted, excluded, strict=True))
    plan_at = partial(_plan_at, plan, op, pads, counted)
    inner = plan_at_shape(op, _padded_shape(plan, plan.input_shape, pads), plan)
    effective = plan_at(plan.input_shape)
    if inner is None or effective is None:
        return
    own, size = op.like == dialect.name, prod(w.kernel for w in inner.windows if isinstance(w, Sliding))
    override = reduced.pool.divisor_override
    quotient, scales = any(map(any, excluded)), override not in (None, size)
    if inner.reducer.divides and lookup(plan.dtype).kind != "float" and (quotient or scales or not own):
        return  # weights and quotients of integers would be truncated
    pool = partial(ex.Pool if own else ex.DilatedPool, plan=inner)
    lowest = lookup(plan.dtype).ends[0] if inner.reducer.picks else 0

    def padded(expr: Expression | None, ends: Ends) -> Expression | None:
        return ex.Pad(expr, ends, lowest, plan.dtype) if any(map(any, ends)) else expr

    data = padded(reduced.input_expr, counted)
    expr: Expression = pool(padded(data, excluded))
    if quotient:
        expr = ex.Divide(expr, divisor=pool(padded(ex.Ones(data), excluded)))
    if override is not None and scales:
        expr = ex.Scale(expr, size / override, plan.dtype)
    yield Composition(expr, effective, plan_at, inner if own else None)


def _padded_shape(plan: Plan, shape: Sequence[int], pads: Ends) -> list[int]:
    longer = list(shape)
    for axis, ends in zip(plan.axes, pads, strict=True):
        longer[axis.position] += sum(ends)
    return longer


def _plan_at(plan: Plan, op: SlidingAttributes, pads: Ends, counted: Ends, shape: Sequence[int]) -> Plan | None:
    """The plan of what the composition reads and divides by on an input of `shape`."""
    inner = plan_at_shape(op, _padded_shape(plan, shape, pads), plan)
    if inner is None:
        return None
    rule: Counted = "clipped" if any(map(any, counted)) else "inside"
    axes = tuple(
        replace(
            axis, windows=replace(axis.windows, size=shape[axis.position], pad_begin=begin, pad_end=end, counted=rule)
        )
        for axis, (begin, _), (_, end) in zip(inner.axes, pads, counted, strict=True)
        if isinstance(axis.windows, Sliding)
    )
    inner = replace(inner, reducer=plan.reducer, divisor_override=plan.divisor_override)
    return replace(inner, input_shape=tuple(shape), axes=axes)
