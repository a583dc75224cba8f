"""The same windows and divisors under another framework's names, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.core.fields import on_command_line
from poolcli.core.windows import AxisWindows, Bins, Sliding
from poolcli.dialects import Dialect, dialect_of
from poolcli.explain.compare import same_divisors, same_reduction
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import SHARED, Attributes, BinAttributes, DividingAttributes, SlidingAttributes


@dataclass(frozen=True, slots=True)
class Conversion:
    """The attributes in the other framework and how they are written there, or the reason why there are none."""

    like: str
    op: Attributes | None
    text: str | None
    reason: str | None


def convert(plan: Plan, like: str) -> Conversion:
    """`plan` under the rules of `like`: verified by planning what is returned."""
    dialect = dialect_of(like)
    record = _record(plan, dialect)
    why = _never(plan, dialect, record)
    if why or record is None:
        return Conversion(like, None, None, why)
    reason: str | None = None
    for op in _candidates(plan, dialect, record):
        try:
            other = make_plan(op, plan.input_shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
        except RequestError as error:
            reason = reason or on_command_line(error.message)
            continue
        if _same(plan, other):
            unwritten = dialect.cannot_write(other)
            if unwritten is None:
                return Conversion(like, op, dialect.write(other), None)
            reason = reason or unwritten
        reason = reason or f"{dialect.title} has no attributes that give these windows and divisors"
    return Conversion(like, None, None, reason)


def _record(plan: Plan, dialect: Dialect) -> type[Attributes] | None:
    """The operator in the dialect: the same, or that of fixed windows where it has no adaptive ones."""
    own = OPERATORS[plan.op]
    fixed = (r for r in OPERATORS.values() if issubclass(r, SlidingAttributes) and r.reducer == own.reducer)
    return next((r for r in (own, *fixed) if r.name in dialect.operators), None)


def _never(plan: Plan, dialect: Dialect, record: type[Attributes] | None) -> str | None:
    """Why no attributes of the dialect can give the plan."""
    if record is None:
        return f"{dialect.title} has no {OPERATORS[plan.op].title}"
    uneven = next((w for w in plan.windows if isinstance(w, Bins) and w.equal_to is None), None)
    if uneven and not issubclass(record, BinAttributes):
        return f"bins of {uneven.size} into {uneven.output} differ in length, {dialect.title} has fixed windows only"
    if plan.divisor_override is not None and not dialect.operators[record.name].divisor_override:
        return f"{dialect.title} has no divisor_override"
    return None


def _candidates(plan: Plan, dialect: Dialect, record: type[Attributes]) -> Iterator[Attributes]:
    """Attributes that may give the same, plainest first."""
    if issubclass(record, BinAttributes):
        yield record(tuple(w.output for w in plan.windows), like=dialect.name)
        return
    sliding = [w for w in map(_sliding, plan.windows) if w is not None]
    begin = tuple(w.pad_begin for w in sliding)
    ends = [
        tuple(w.pad_end for w in sliding),
        begin,
        tuple(max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in sliding),
    ]
    excludes: tuple[bool | None, ...] = (None,)
    if issubclass(record, DividingAttributes):
        excludes = (True, False) if plan.attributes.get("exclude_pad", True) else (False, True)
    words = [word for word in ("explicit", "valid", "same_upper", "same_lower") if word in dialect.auto_pads]
    shared: dict[str, Any] = {
        "kernel": tuple(w.kernel for w in sliding), "strides": tuple(w.stride for w in sliding),
        "dilations": tuple(w.dilation for w in sliding), "like": dialect.name,
    } | {name: plan.attributes[name] for name in _own(record)}  # fmt: skip
    for word, end, rounding, exclude in product(words, dict.fromkeys(ends), dialect.rounding_types, excludes):
        own: dict[str, Any] = {"rounding_type": rounding, "auto_pad": word}
        if word == "explicit":
            own |= {"pads_begin": begin, "pads_end": end}
        if exclude is not None:
            own |= {"exclude_pad": exclude, "divisor_override": plan.divisor_override}
        if not (exclude is False and not dialect.operators[record.name].include_pad):
            yield record(**shared, **own)


def _own(record: type[Attributes]) -> list[str]:
    """The attributes that the operator has beyond those of its geometry."""
    return [field.name for field in fields(record) if field.name not in SHARED]


def _sliding(w: AxisWindows) -> Sliding | None:
    """The axis as sliding windows without padding, where it is one."""
    if isinstance(w, Sliding):
        return w
    if w.equal_to is None:
        return None
    kernel, stride = w.equal_to
    return Sliding(w.size, w.output, kernel, stride, 1, 0, 0)


def _same(a: Plan, b: Plan) -> bool:
    """Whether two plans read the same elements, do the same with them, and divide by the same numbers."""
    if not same_reduction(a, b):
        return False
    if a.output_shape != b.output_shape or a.divisor_override != b.divisor_override:
        return False
    for v, w in zip(a.windows, b.windows, strict=True):
        one, two = _sliding(v), _sliding(w)
        if one is None or two is None:
            if v != w:
                return False
            continue
        if replace(one, pad_end=0, counted="inside") != replace(two, pad_end=0, counted="inside"):
            return False
        if a.reducer.divides and b.reducer.divides and a.divisor_override is None and not same_divisors(one, two):
            return False
    return True
