"""Converts a pooling to another framework: the call that reads the same elements and divides by the same numbers.

If no operator of the framework does it alone, standard operators are composed: padding before a pool, changed signs,
quotients, or products with constant matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from poolcli.dialects import Dialect, dialect_of
from poolcli.dialects import dialect as ex
from poolcli.dialects.dialect import MOST_AXES
from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.explain.conversion_search import (
    Searched,
    candidates,
    numbers_of,
    operators_of,
    own_attributes,
    search_sentences,
    searched,
)
from poolcli.explain.equivalence import equivalent_windows, plan_at_shape, same_at_every_size, same_pooling
from poolcli.message_fields import marked_message, without_hints
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import MAXIMUM, MEAN, Attributes, DividingAttributes, SlidingAttributes
from poolcli.windows import Bins, Cells, Counted, Sliding

ONLY_THIS_SIZE = "for this input size only"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The equivalent call in another framework, or the reason why there is none.

    Attributes
    ----------
    like : str
        Framework.
    op : record or None
        Attributes in that framework; None where several operators are composed.
    text : str or None
        The call, or the composition of calls; None if there is none.
    reason : str or None
        Why there is none.
    searched : Searched or None
        What was searched; None if the framework has no such operator.
    only_this_size : bool
        Whether the call is equivalent at the plan's input size, but not at every size that the framework accepts.
    """

    like: str
    op: Attributes | None
    text: str | None
    reason: str | None
    searched: Searched | None = None
    only_this_size: bool = False
    expression: ex.Expression | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.text is None:
            return "\n".join((f"none: {self.reason}", *search_sentences(self.searched)))
        return f"{self.text}\n{ONLY_THIS_SIZE}" if self.only_this_size else self.text


def convert(plan: Plan, like: str) -> Conversion:
    """Convert a plan to the equivalent call in another framework, verified by planning it there.

    A call that holds for every input size is preferred: the plan's own attributes in one operator, then padding and
    other standard operators around one. For the plan's size alone, the search covers all operators of the framework
    with the same reducer, and for fixed windows every kernel, stride, dilation and padding that reads the same
    elements, with each of its auto_pad and rounding words; then compositions.

    Parameters
    ----------
    plan : Plan
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}

    Returns
    -------
    Conversion
        Its record `op` and the call as `text`; both None if there is none, with a `reason`.

    Raises
    ------
    RequestError
        For an unknown framework.

    Examples
    --------
    >>> from poolcli import AdaptiveAvgPool
    >>> found = convert(AdaptiveAvgPool(3).plan((1, 3, 5, 5)), "onnx")
    >>> found.op.kernel, found.op.strides, found.op.pads_begin, found.op.exclude_pad
    ((3, 3), (2, 2), (1, 1), True)
    """
    dialect = dialect_of(like)
    refusals: list[str] = []
    own, every_size = _own_operator(plan, dialect, refusals)
    if own and every_size and dialect.exports(own[1]):
        return _in_one_operator(plan, *own, dialect, only_this_size=False)
    composed = [each for each in compositions(plan, dialect) if same_pooling(plan, each.plan)]
    for each in composed:
        if each.plan_at is not None and same_at_every_size(plan, each.plan, each.plan_at):
            return _from_expression(each.expression, None, dialect, only_this_size=False)
    found = own or _other_operator(plan, dialect, refusals)
    if found is not None and (every_size or dialect.exports(found[1]) or not composed):
        return _in_one_operator(
            plan, *found, dialect, only_this_size=not every_size and not _at_every_size(plan, *found)
        )
    if composed:
        return _from_expression(composed[0].expression, None, dialect, only_this_size=True)
    no_attributes = f"{dialect.title} has no attributes that give these windows and divisors"
    why = _why_impossible(plan, dialect) or next(iter(refusals), no_attributes)
    return Conversion(dialect.name, None, None, why, searched(plan, dialect))


def in_one_operator(plan: Plan, like: str) -> Attributes | None:
    """The attributes with which one operator of the framework gives the same, at every size if possible, or None."""
    dialect = dialect_of(like)
    found = _own_operator(plan, dialect, [])[0] or _other_operator(plan, dialect, [])
    return found[0] if found else None


def _own_operator(plan: Plan, dialect: Dialect, refusals: list[str]) -> tuple[tuple[Attributes, Plan] | None, bool]:
    """An operator with the plan's own kernel, strides, dilations and pads, and whether it is equal at every size."""
    found = list(_verified(plan, dialect, own_attributes(plan, dialect), refusals))
    at_every_size = next((each for each in found if _at_every_size(plan, *each)), None)
    return at_every_size or (found[0] if found else None), at_every_size is not None


def _other_operator(plan: Plan, dialect: Dialect, refusals: list[str]) -> tuple[Attributes, Plan] | None:
    return next(_verified(plan, dialect, candidates(plan, dialect), refusals), None)


def _at_every_size(plan: Plan, op: Attributes, other: Plan) -> bool:
    return same_at_every_size(plan, other, partial(plan_at_shape, op, plan=plan))


def _verified(
    plan: Plan, dialect: Dialect, attributes: Iterable[Attributes], refusals: list[str]
) -> Iterator[tuple[Attributes, Plan]]:
    """Those that give the same at the plan's size, with their plans.

    `refusals` collects why others are refused, of those that treat padding as the plan does.
    """
    for op in attributes:
        pads_alike = getattr(op, "exclude_pad", None) in (None, plan.attributes.get("exclude_pad"))
        try:
            other = make_plan(op, plan.input_shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
        except RequestError as error:
            if pads_alike:
                refusals.append(marked_message(without_hints(error.message)))
            continue
        if same_pooling(plan, other):
            unwritten = dialect.cannot_write(other)
            if unwritten is None:
                yield op, other
            else:
                refusals.append(unwritten)


def _in_one_operator(plan: Plan, op: Attributes, other: Plan, dialect: Dialect, only_this_size: bool) -> Conversion:
    """The conversion to one operator; adaptive pooling to one output becomes global pooling, which fits every size."""
    whole = ex.GlobalPool in dialect.writers and all(isinstance(w, Bins) and w.output == 1 for w in plan.windows)
    return _from_expression(
        ex.GlobalPool(None, plan) if whole else ex.Pool(None, other), op, dialect, only_this_size and not whole
    )


def _from_expression(expr: ex.Expression, op: Attributes | None, dialect: Dialect, only_this_size: bool) -> Conversion:
    return Conversion(dialect.name, op, dialect.write(expr), None, only_this_size=only_this_size, expression=expr)


def _why_impossible(plan: Plan, dialect: Dialect) -> str | None:
    """The simplest reason why no attributes of the dialect can give the plan; None if there is no such reason."""
    records = operators_of(plan, dialect)
    if not records:
        return f"{dialect.title} has no {OPERATORS[plan.op].title}"
    for w in plan.windows:
        if isinstance(w, Cells):
            return f"cells of {w.size} into {w.output} count elements in part, which no pooling of {dialect.title} does"
        if isinstance(w, Bins) and next(equivalent_windows(w), None) is None:
            return (
                f"bins of {w.size} into {w.output} are no windows of one kernel and stride, with padding or without, "
                f"and {dialect.title} has no others"
            )
    if plan.reducer.signed and not any(r(1).reduction(dialect).signed for r in records):
        return (
            f"{dialect.title} adds abs(x)**p, {dialect_of(plan.like).title} x**p with its sign, and multiplies the "
            "mean of a window by the kernel's size"
        )
    overrides = any(dialect.operators[r.name].divisor_override for r in records)
    if plan.divisor_override is not None and not overrides:
        return f"{dialect.title} has no divisor_override, and none of its divisors is always {plan.divisor_override}"
    return None


Ends = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Composition:
    """An expression, the plan of what it reads and divides by, and that plan at other shapes (None: for one shape)."""

    expression: ex.Expression
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None


def compositions(plan: Plan, dialect: Dialect) -> Iterator[Composition]:
    """Compositions that may give the same as the plan, in the operators of `dialect`, simplest first."""
    found = _as_mean_or_max(plan)
    if found is None or plan.missing:
        return
    core, x, finish = found
    padded = _pad_then_pool(plan, core, x, dialect) if len(plan.axes) <= MOST_AXES else ()
    for each in (*padded, *_enumerated(plan, core, x)):
        expr = finish(each.expression)
        if ex.can_write(expr, dialect.writers):
            yield replace(each, expression=expr)


def _as_mean_or_max(plan: Plan) -> tuple[Plan, ex.Expression | None, Callable[[ex.Expression], ex.Expression]] | None:
    """Reduce a plan to one of a mean or maximum: returns it, its input and a function that completes its result.

    A minimum is the negated maximum of the negated input, a sum a mean with the divisor 1, a norm the root of a sum.
    """
    reducer, kind = plan.reducer, lookup(plan.dtype).kind
    if reducer == MAXIMUM:
        return plan, None, lambda expr: expr
    if replace(reducer, name="", noun="", better=None, nothing=0) == replace(MAXIMUM, name="", noun="", better=None):
        is_minimum = kind == "float" and reducer.nothing
        return (replace(plan, reducer=MAXIMUM), ex.Negate(None), ex.Negate) if is_minimum else None
    like_mean = replace(MEAN, name=reducer.name, noun=reducer.noun, result=reducer.result)
    if reducer == like_mean:
        return replace(plan, reducer=MEAN), None, lambda expr: expr
    if kind != "float" or replace(reducer, power=None, divides=True) != like_mean:
        return None
    core, exponent = replace(plan, reducer=MEAN, divisor_override=1), reducer.power
    power = partial(ex.Power, dtype=plan.dtype)
    if exponent is None:
        return core, None, lambda expr: expr
    return core, power(None, exponent), lambda expr: power(expr, 1 / exponent)


def _enumerated(plan: Plan, core: Plan, x: ex.Expression | None) -> Iterator[Composition]:
    """Any windows, spelled out as constant matrices or indices for one input size."""
    divides = core.reducer.divides
    if plan.empty_windows or (divides and lookup(plan.dtype).kind != "float"):
        return  # a cast to integers would truncate
    if divides or len(plan.axes) <= MOST_AXES:
        yield Composition((ex.GatherPool if core.reducer.picks else ex.MatrixProduct)(x, core), plan, None)


def _pad_then_pool(plan: Plan, core: Plan, x: ex.Expression | None, dialect: Dialect) -> Iterator[Composition]:
    """Padding as an operator of its own before the pool: first as much as is right at every size."""
    windows = [w for w in plan.windows if isinstance(w, Sliding)]
    record: Any = next(r for r in OPERATORS.values() if issubclass(r, SlidingAttributes) and r.reducer == core.reducer)
    if len(windows) < len(plan.axes) or record.name not in dialect.operators:
        return
    up = plan.attributes["rounding_type"] != "floor"
    always = [w.pad_end + up * (w.stride - 1) for w in windows]
    here = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    compose = partial(_composition, plan, core, x, dialect)
    for ends in [always] if always == here else [always, here]:
        counted, excluded = _split_padding(windows, ends, core.reducer.divides and not core.divisor_override)
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
    plan: Plan,
    core: Plan,
    x: ex.Expression | None,
    dialect: Dialect,
    op: SlidingAttributes,
    counted: Ends,
    excluded: Ends,
) -> Iterator[Composition]:
    """Pads, then pools. If the divisor excludes padding, the result is divided by the same pooling of ones."""
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(counted, excluded, strict=True))
    at = partial(_plan_at, plan, op, pads, counted)
    inner, effective = plan_at_shape(op, _padded_shape(plan, plan.input_shape, pads), plan), at(plan.input_shape)
    if inner is None or effective is None or (op.like == dialect.name and dialect.cannot_write(inner)):
        return
    own, size = op.like == dialect.name, prod(w.kernel for w in inner.windows if isinstance(w, Sliding))
    scales = any(map(any, excluded)) or core.divisor_override not in (None, size)
    if core.reducer.divides and lookup(plan.dtype).kind != "float" and (scales or not own):
        return  # weights and quotients of integers would be truncated
    pool = partial(ex.Pool if own else ex.DilatedPool, plan=inner)
    lowest = lookup(plan.dtype).ends[0] if core.reducer.picks else 0

    def padded(expr: ex.Expression | None, ends: Ends) -> ex.Expression | None:
        return ex.Pad(expr, ends, lowest, plan.dtype) if any(map(any, ends)) else expr

    data = padded(x, counted)
    expr: ex.Expression = pool(padded(data, excluded))
    if any(map(any, excluded)):
        expr = ex.Divide(expr, divisor=pool(padded(ex.Ones(data), excluded)))
    if core.divisor_override not in (None, size):
        expr = ex.Scale(expr, size / core.divisor_override, plan.dtype)
    yield Composition(expr, effective, at)


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
