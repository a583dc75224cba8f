"""Converts a pooling to another framework: the call that reads the same elements and divides by the same numbers, of
one operator or composed of several (`poolcli.explain.export.compose`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from poolcli.dialects import Dialect, dialect_of
from poolcli.errors import RequestError
from poolcli.explain.equivalence import plan_at_shape, reads_same_elements, same_at_every_size, same_pooling
from poolcli.explain.export.calls import NGRAPH_WRITER, OPENVINO_WRITER, PYTORCH_WRITER, TENSORFLOW_WRITER
from poolcli.explain.export.compose import Composition, compositions, numbers_of
from poolcli.explain.export.onnx import ONNX_WRITER
from poolcli.explain.export.steps import GlobalPool, Pool, Steps, Writer
from poolcli.layouts import channels_moved
from poolcli.message_fields import brief, marked_message, without_hints
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import OPERATORS, SHARED, Attributes, BinAttributes, DividingAttributes, SlidingAttributes
from poolcli.windows import AxisWindows, Bins, Sliding

ONLY_THIS_SIZE = "for this input size only"
WRITERS: dict[str, Writer] = {
    "openvino": OPENVINO_WRITER,
    "ngraph": NGRAPH_WRITER,
    "onnx": ONNX_WRITER,
    "pytorch": PYTORCH_WRITER,
    "tensorflow": TENSORFLOW_WRITER,
}


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
    only_this_size : bool
        Whether the call is equivalent at the plan's input size, but not at every size that the framework accepts.
    layout : str or None
        Order of the axes that the call needs, if it is not that of the plan: channels first or last.
    """

    like: str
    op: Attributes | None
    text: str | None
    reason: str | None
    only_this_size: bool = False
    steps: Steps | None = field(default=None, repr=False, compare=False)
    layout: str | None = None

    @property
    def conditions(self) -> list[str]:
        """Under which the call is equivalent."""
        axes = [f"with x in {','.join(self.layout)}"] if self.layout else []
        return [*axes, *[ONLY_THIS_SIZE] * self.only_this_size]

    def __str__(self) -> str:
        return f"none: {self.reason}" if self.text is None else "\n".join((self.text, *self.conditions))


class OneOperator(NamedTuple):
    """An operator of the framework that gives the same at the plan's size, and whether it does at every size."""

    op: Attributes
    plan: Plan
    every_size: bool


def convert(plan: Plan, like: str) -> Conversion:
    """Convert a plan to the equivalent call in another framework, verified by planning it there.

    A call that holds for every input size is preferred: the plan's own attributes in one operator, then padding and
    other standard operators around one. For the plan's size alone: the plan's pads as numbers, adaptive windows as
    those of a kernel, then products with constant matrices, or gathered elements.

    Parameters
    ----------
    plan : Plan
    like : "openvino", "ngraph", "onnx", "pytorch" or "tensorflow"

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
    if not isinstance(plan, Plan):
        raise RequestError(f"plan is {brief(plan)}; give a plan, as of AvgPool(2).plan((1, 3, 32, 32))")
    dialect, writer = dialect_of(like), WRITERS[like]
    layout = channels_moved(plan.layout, dialect.channels_last)
    made = partial(Conversion, like, layout=None if layout == plan.layout else layout)
    refusals: list[str] = []
    one = one_operator(plan, dialect, refusals)
    composed = list[Composition]()
    if one is None or not one.every_size:
        composed = [each for each in compositions(plan, dialect, writer) if same_pooling(plan, each.plan)]
    for each in composed:
        if each.plan_at is not None and same_at_every_size(plan, each.plan, each.plan_at):
            return made(None, writer.write(each.steps), None, False, each.steps)
    if one:
        # Adaptive pooling to one output is global pooling, which fits every size.
        whole = GlobalPool in writer.writers and all(isinstance(w, Bins) and w.output == 1 for w in plan.windows)
        step = GlobalPool(plan) if whole else Pool(one.plan)
        return made(one.op, writer.write((step,)), None, not whole and not one.every_size, (step,))
    if composed:
        return made(None, writer.write(composed[0].steps), None, True, composed[0].steps)
    refusals.append(f"{dialect.title} has no attributes that give these windows and divisors")
    title = OPERATORS[plan.op].title
    reason = refusals[0] if _operators_of(plan, dialect) else f"{dialect.title} has no {title}"
    return Conversion(like, None, None, reason)


def one_operator(plan: Plan, dialect: Dialect, refusals: list[str]) -> OneOperator | None:
    """The simplest operator that gives the same, at every size or else the plan's; `refusals` gets why others fail."""
    first = None
    for op in _attributes(plan, dialect):
        try:
            other = make_plan(op, plan.input_shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
        except RequestError as error:
            if getattr(op, "exclude_pad", None) in (None, plan.attributes.get("exclude_pad")):
                refusals.append(marked_message(without_hints(error.message)))
            continue
        if not same_pooling(plan, other):
            continue
        if lacking := WRITERS[dialect.name].cannot_write(other):
            refusals.append(lacking)
            continue
        found = OneOperator(op, other, same_at_every_size(plan, other, partial(plan_at_shape, op, plan=plan)))
        if found.every_size:
            return found
        first = first or found
    return first


def _operators_of(plan: Plan, dialect: Dialect) -> list[type[Attributes]]:
    """The dialect's operators with the plan's reducer, the plan's own operator first."""
    own = OPERATORS[plan.op]
    others = (record for record in OPERATORS.values() if record is not own and record.reducer == own.reducer)
    return [record for record in (own, *others) if record.name in dialect.operators]


def _attributes(plan: Plan, dialect: Dialect) -> Iterator[Attributes]:
    """Attributes that may give the same as the plan: its own numbers with each combination of words, its own first.

    Rounding up equals rounding down with stride - 1 more elements of padding at the end. At this size alone, as much
    padding as the last window reaches, or as at the beginning, may give the same.
    """
    windows = [found for w in plan.windows if (found := _as_sliding(w)) is not None]
    up = plan.attributes.get("rounding_type", "floor") != "floor"
    reach = [max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in windows]
    for record in _operators_of(plan, dialect):
        if issubclass(record, BinAttributes):
            bins = tuple(Bins(w.size, w.output) for w in plan.windows)
            if all(map(reads_same_elements, bins, plan.windows)):
                yield record(tuple(w.output for w in bins), like=dialect.name)
            continue
        shared: dict[str, Any] = {"like": dialect.name}
        for own in fields(record):
            if own.name not in SHARED and own.name in plan.attributes:  # such as the p of LpPool
                shared[own.name] = plan.attributes[own.name]
        choices = product((None, reach, [w.pad_begin for w in windows]), _words(plan, dialect, record))
        for ends, words in choices if len(windows) == len(plan.axes) else ():
            more = up - (words["rounding_type"] != "floor")
            own_ends = [w.pad_end + more * (w.stride - 1) for w in windows] if ends is None else ends
            numbers: dict[str, Any] = numbers_of(
                [replace(w, pad_end=e) for w, e in zip(windows, own_ends, strict=True)]
            )
            if words["auto_pad"] != "explicit":
                numbers |= {"pads_begin": (0,), "pads_end": (0,)}
            if min(own_ends) >= 0:
                yield record(**shared, **numbers, **words)


def _as_sliding(w: AxisWindows) -> Sliding | None:
    """The same windows with a kernel and a stride; of bins, padding at both ends takes part, or there are none."""
    if isinstance(w, Sliding):
        return replace(w, dilation=w.dilation if w.kernel > 1 else 1)
    if w.equal_to is not None:
        made = Sliding(w.size, w.output, *w.equal_to, 1, 0, 0)
    elif w.output > 2:  # the second window lies inside, and so does the beginning of the third
        stride = w.start(2) - w.start(1)
        kernel, begin = w.inside(1), stride - w.start(1)
        end = (w.output - 1) * stride + kernel - w.size - begin
        made = Sliding(w.size, w.output, kernel, max(stride, 1), 1, max(begin, 0), max(end, 0))
    else:
        return None
    return made if reads_same_elements(w, made) else None


def _words(plan: Plan, dialect: Dialect, record: type[SlidingAttributes]) -> Iterator[dict[str, Any]]:
    """The combinations of attributes that all axes share: auto_pad, rounding_type, exclude_pad, divisor_override."""
    there = dialect.operators[record.name]
    divisions: list[dict[str, Any]] = [{}]
    if issubclass(record, DividingAttributes):
        excludes = (True, False) if plan.attributes.get("exclude_pad", True) else (False, True)
        divisions = [{"exclude_pad": exclude} for exclude in excludes if exclude or there.include_pad]
        if plan.divisor_override is not None and there.divisor_override:
            divisions.insert(0, {"exclude_pad": excludes[0], "divisor_override": plan.divisor_override})
    auto_pads = [word for word in ("explicit", "same_upper", "same_lower") if word in dialect.auto_pads]
    auto_pads.sort(key=lambda word: word != plan.attributes.get("auto_pad"))
    up = plan.attributes.get("rounding_type", "floor") != "floor"
    roundings = sorted(dialect.rounding_types, key=lambda word: (word != "floor") != up)
    for auto_pad, division, rounding in product(auto_pads, divisions, roundings):
        yield {"auto_pad": auto_pad, "rounding_type": rounding, **division}
