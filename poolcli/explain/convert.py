"""Converts a pooling to another framework: the same elements and divisors in its terms, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from poolcli.dialects import Dialect, dialect_of
from poolcli.dialects.steps import Pool, Step, Whole
from poolcli.errors import RequestError
from poolcli.explain.compose import Composition, compositions
from poolcli.explain.conversion_search import Searched, candidates, records_of, searched_in, told, with_own_numbers
from poolcli.explain.equivalence import equivalents, planned, same, same_at_every_size
from poolcli.message_fields import marked_message, without_hints
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.windows import Bins, Cells

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
            return _composed(each, dialect, only_this_size=False)
    found = kept or _elsewhere(plan, dialect, refusals)
    if found is not None and (every_size or dialect.exports(found[1]) or not composed):
        return _found(plan, *found, dialect, only_this_size=not every_size and not _holds(plan, *found))
    if composed:
        return _composed(composed[0], dialect, only_this_size=True)
    why = _never(plan, dialect) or (refusals[0] if refusals else None) or _nothing(dialect)
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
    step = Whole(None, plan) if whole else Pool(None, other)
    only = only_this_size and not whole
    return Conversion(dialect.name, op, dialect.write(step), None, only_this_size=only, step=step)


def _composed(found: Composition, dialect: Dialect, only_this_size: bool) -> Conversion:
    text, step = dialect.write(found.step), found.step
    return Conversion(dialect.name, None, text, None, only_this_size=only_this_size, step=step)


def _nothing(dialect: Dialect) -> str:
    return f"{dialect.title} has no attributes that give these windows and divisors"


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
