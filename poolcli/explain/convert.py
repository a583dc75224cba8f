"""Converts a pooling to another framework: the same elements and divisors in its terms, or why there is none.

Where no operator of the framework does it alone, its standard operators are composed: padding before a pool, changed
signs, quotients, or products with constant matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from poolcli.dialects import Dialect, dialect_of
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
    Whole,
    can_write,
)
from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.explain.conversion_search import Searched, candidates, records_of, searched_in, told, with_own_numbers
from poolcli.explain.equivalence import equivalents, planned, same, same_at_every_size
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
        The call, or the composition of calls.
    reason : str or None
        Why there is none.
    searched : Searched or None
        What was searched; None if the framework has no such operator.
    only_this_size : bool
        Whether the call gives other windows or divisors than the plan's attributes at another input size. Sizes that
        the framework refuses do not count.
    """

    like: str
    op: Attributes | None
    text: str | None
    reason: str | None
    searched: Searched | None = None
    only_this_size: bool = False
    step: Step | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        if self.text is None:
            return "\n".join((f"none: {self.reason}", *told(self.searched)))
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
    kept, every_size = _kept(plan, dialect, refusals)
    if kept and every_size and dialect.exports(kept[1]):
        return _found(plan, *kept, dialect, only_this_size=False)
    composed = [each for each in compositions(plan, dialect) if same(plan, each.plan)]
    for each in composed:
        if each.plan_at is not None and same_at_every_size(plan, each.plan, each.plan_at):
            return _written(each.step, None, dialect, only_this_size=False)
    found = kept or _elsewhere(plan, dialect, refusals)
    if found is not None and (every_size or dialect.exports(found[1]) or not composed):
        return _found(plan, *found, dialect, only_this_size=not every_size and not _holds(plan, *found))
    if composed:
        return _written(composed[0].step, None, dialect, only_this_size=True)
    nothing = f"{dialect.title} has no attributes that give these windows and divisors"
    why = _never(plan, dialect) or next(iter(refusals), nothing)
    return Conversion(dialect.name, None, None, why, searched_in(plan, dialect))


def in_one_operator(plan: Plan, like: str) -> Attributes | None:
    """The attributes of one operator of the framework that gives the same, of any size if there is one."""
    dialect = dialect_of(like)
    found = _kept(plan, dialect, [])[0] or _elsewhere(plan, dialect, [])
    return found[0] if found else None


def _kept(plan: Plan, dialect: Dialect, refusals: list[str]) -> tuple[tuple[Attributes, Plan] | None, bool]:
    """An operator with the plan's own numbers, and whether it holds for every size."""
    kept = list(_verified(plan, dialect, with_own_numbers(plan, dialect), refusals))
    always = next((each for each in kept if _holds(plan, *each)), None)
    return always or (kept[0] if kept else None), always is not None


def _elsewhere(plan: Plan, dialect: Dialect, refusals: list[str]) -> tuple[Attributes, Plan] | None:
    return next(_verified(plan, dialect, candidates(plan, dialect), refusals), None)


def _holds(plan: Plan, op: Attributes, other: Plan) -> bool:
    return same_at_every_size(plan, other, partial(planned, op, plan=plan))


def _verified(
    plan: Plan, dialect: Dialect, attributes: Iterable[Attributes], refusals: list[str]
) -> Iterator[tuple[Attributes, Plan]]:
    """Those that give the same at the plan's size, with their plans; `refusals` gets why others do not, of those that
    treat padding as the plan does.
    """
    for op in attributes:
        alike = getattr(op, "exclude_pad", None) in (None, plan.attributes.get("exclude_pad"))
        try:
            other = make_plan(op, plan.input_shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
        except RequestError as error:
            if alike:
                refusals.append(marked_message(without_hints(error.message)))
            continue
        if same(plan, other):
            unwritten = dialect.cannot_write(other)
            if unwritten is None:
                yield op, other
            else:
                refusals.append(unwritten)


def _found(plan: Plan, op: Attributes, other: Plan, dialect: Dialect, only_this_size: bool) -> Conversion:
    """The conversion; one output of adaptive windows is written as a call that takes axes of any length whole."""
    whole = Whole in dialect.writers and all(isinstance(w, Bins) and w.output == 1 for w in plan.windows)
    return _written(Whole(None, plan) if whole else Pool(None, other), op, dialect, only_this_size and not whole)


def _written(step: Step, op: Attributes | None, dialect: Dialect, only_this_size: bool) -> Conversion:
    return Conversion(dialect.name, op, dialect.write(step), None, only_this_size=only_this_size, step=step)


def _never(plan: Plan, dialect: Dialect) -> str | None:
    """The plainest reason why no attributes of the dialect can give the plan."""
    records = records_of(plan, dialect)
    if not records:
        return f"{dialect.title} has no {OPERATORS[plan.op].title}"
    for w in plan.windows:
        if isinstance(w, Cells):
            return f"cells of {w.size} into {w.output} count elements in part, which no pooling of {dialect.title} does"
        if isinstance(w, Bins) and next(equivalents(w), None) is None:
            return (
                f"bins of {w.size} into {w.output} are no windows of one kernel and stride, with padding or without, "
                f"and {dialect.title} has no others"
            )
    overrides = any(dialect.operators[r.name].divisor_override for r in records)
    if plan.divisor_override is not None and not overrides:
        return f"{dialect.title} has no divisor_override, and none of its divisors is always {plan.divisor_override}"
    return None


Ends = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Composition:
    """Steps, the plan of what they read and divide by, and that plan for other shapes; None where they are for one."""

    step: Step
    plan: Plan
    plan_at: Callable[[Sequence[int]], Plan | None] | None


def compositions(plan: Plan, dialect: Dialect) -> Iterator[Composition]:
    """What gives the same at the plan's size, or may, in the operators of `dialect`; plainest first."""
    found = _core(plan)
    if found is None or plan.missing:
        return
    core, x, after = found
    padded = _padded(plan, core, x, dialect) if len(plan.axes) <= MOST_AXES else ()
    for each in (*padded, *_spelled_out(plan, core, x)):
        step = after(each.step)
        if can_write(step, dialect.writers):
            yield replace(each, step=step)


def _core(plan: Plan) -> tuple[Plan, Step | None, Callable[[Step], Step]] | None:
    """The plan of a mean or maximum, with the divisor in place of its own, and what is done before and after: a minimum
    is a maximum of changed signs, a sum a mean that is divided by 1, a norm the root of a sum.
    """
    reducer, kind = plan.reducer, lookup(plan.dtype).kind
    if reducer == MAXIMUM:
        return plan, None, lambda step: step
    if replace(reducer, name="", noun="", better=None, nothing=0) == replace(MAXIMUM, name="", noun="", better=None):
        is_minimum = kind == "float" and reducer.nothing
        return (replace(plan, reducer=MAXIMUM), Negate(None), Negate) if is_minimum else None
    like_mean = replace(MEAN, name=reducer.name, noun=reducer.noun, result=reducer.result)
    if reducer == like_mean:
        return replace(plan, reducer=MEAN), None, lambda step: step
    if kind != "float" or replace(reducer, power=None, divides=True) != like_mean:
        return None
    core, exponent = replace(plan, reducer=MEAN, divisor_override=1), reducer.power
    power = partial(Power, dtype=plan.dtype)
    if exponent is None:
        return core, None, lambda step: step
    return core, power(None, exponent), lambda step: power(step, 1 / exponent)


def _spelled_out(plan: Plan, core: Plan, x: Step | None) -> Iterator[Composition]:
    """What each window reads as a constant, for one size."""
    divides = core.reducer.divides
    if plan.empty_windows or (divides and lookup(plan.dtype).kind != "float"):
        return  # casts to integers would not round
    if divides or len(plan.axes) <= MOST_AXES:
        yield Composition((Gathered if core.reducer.picks else Matrices)(x, core), plan, None)


def _padded(plan: Plan, core: Plan, x: Step | None, dialect: Dialect) -> Iterator[Composition]:
    """Padding as an operator of its own before the pool, first as much as serves every size."""
    windows = [w for w in plan.windows if isinstance(w, Sliding)]
    record: Any = next(r for r in OPERATORS.values() if issubclass(r, SlidingAttributes) and r.reducer == core.reducer)
    if len(windows) < len(plan.axes) or record.name not in dialect.operators:
        return
    up = plan.attributes["rounding_type"] != "floor"
    always = [w.pad_end + up * (w.stride - 1) for w in windows]
    here = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    made = partial(_composition, plan, core, x, dialect)
    for ends in [always] if always == here else [always, here]:
        counted, rest = _shares(windows, ends, core.reducer.divides and not core.divisor_override)
        if any(map(any, counted)) and any(map(any, rest)):
            for op in _excluding(record, dialect, windows, [end for _, end in rest]):
                yield from made(op, counted, ((0, 0),) * len(windows))
        yield from made(_operator(record, dialect, windows, "floor"), counted, rest)


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


def _composition(
    plan: Plan, core: Plan, x: Step | None, dialect: Dialect, op: SlidingAttributes, counted: Ends, rest: Ends
) -> Iterator[Composition]:
    """Pads what the divisor counts, then pools; what it does not count is divided by the pool of as many ones."""
    pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(counted, rest, strict=True))
    at = partial(_plan_at, plan, op, pads, counted)
    inner, effective = planned(op, _longer(plan, plan.input_shape, pads), plan), at(plan.input_shape)
    if inner is None or effective is None or (op.like == dialect.name and dialect.cannot_write(inner)):
        return
    pool = partial(Pool if op.like == dialect.name else Dilated, plan=inner)
    lowest = lookup(plan.dtype).ends[0] if core.reducer.picks else 0

    def padded(step: Step | None, ends: Ends) -> Step | None:
        return Pad(step, ends, lowest, plan.dtype) if any(map(any, ends)) else step

    whole = padded(x, counted)
    step: Step = pool(padded(whole, rest))
    if any(map(any, rest)):
        step = Ratio(step, by=pool(padded(Ones(whole), rest)))
    size, override = prod(w.kernel for w in inner.windows if isinstance(w, Sliding)), core.divisor_override
    if override not in (None, size):
        step = Scale(step, size / override, plan.dtype)
    yield Composition(step, effective, at)


def _longer(plan: Plan, shape: Sequence[int], pads: Ends) -> list[int]:
    longer = list(shape)
    for axis, ends in zip(plan.axes, pads, strict=True):
        longer[axis.position] += sum(ends)
    return longer


def _plan_at(plan: Plan, op: SlidingAttributes, pads: Ends, counted: Ends, shape: Sequence[int]) -> Plan | None:
    """What the composition reads and divides by on an input of `shape`."""
    inner = planned(op, _longer(plan, shape, pads), plan)
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
