"""What `identify` searches: hypotheses about the windows of one axis, and rules that reduce a window to a number."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Literal

from poolcli.arguments import one_of, per_axis
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.export.compose import numbers_of
from poolcli.explain.solve import COMMON_KERNELS, axis_complexity
from poolcli.message_fields import field as shown
from poolcli.plan.attributes import OPERATORS, Attributes, SlidingAttributes, is_supported
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Sliding, ceil_div, extent, same_pads

SAME_PADS = ("same_upper", "same_lower")
MAX_DILATION = 3  # largest dilation that is tried
MAX_GIVEN = 10_000  # largest number that may be given for a short axis; planning takes memory in proportion


@dataclass(frozen=True, slots=True)
class Constraints:
    """The operator and the attributes that the caller has fixed; a RequestError if no operator has them."""

    op: str | None
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.op is not None:
            one_of("op", self.op, tuple(OPERATORS))
        if not any(map(self.allows, OPERATORS.values())):
            which = "no operator" if self.op is None else self.op
            names = [name for name in self.given if self.op is None or not has_attribute(OPERATORS[self.op], name)]
            known = [own.name for op in OPERATORS.values() if self.op in (None, op.name) for own in fields(op)]
            meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
            has = "has no" if self.op else "has" if len(names) == 1 else "has all of"
            raise RequestError(f"{which} {has} {' and '.join(map(shown, names))}{meant}")

    def allows(self, record: type[Attributes]) -> bool:
        """Whether an operator has the fixed name and all fixed attributes."""
        return self.op in (None, record.name) and all(has_attribute(record, name) for name in self.given)

    def numbers(self, i: int, axes: str) -> dict[str, int]:
        """The fixed numbers of axis `i` of those with these letters."""
        names = self.given.keys() & {"kernel", "strides", "pads_begin", "dilations"}
        return {name: per_axis(name, self.given[name], axes)[i] for name in names}

    def applied(self, op: Attributes) -> Attributes | None:
        """`op` with the fixed attributes; None if that is not valid."""
        try:
            return replace(op, **self.given) if self.allows(type(op)) else None
        except RequestError:
            return None


def has_attribute(record: type[Attributes], name: str) -> bool:
    """Whether an operator has an attribute of that name."""
    return any(own.name == name for own in fields(record))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Windows that an axis may have, padded at the end as far as the last one reaches, and how unusual they are.

    `pads_end` are the smallest and the largest padding at the end over inputs of all sizes. `auto_pad` is empty for
    explicit pads.
    """

    windows: Sliding
    cost: float
    pads_end: tuple[int, int]
    auto_pad: str = ""

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Kernel, stride, dilation and padding at the beginning."""
        w = self.windows
        return w.kernel, w.stride, w.dilation, w.pad_begin


def hypotheses(lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str = "") -> list[Hypothesis]:
    """List the windows of the first input that give the right output length for all inputs, the most common first.

    Kernels up to 11, those about as long as the input's share of an output, and the whole input; dilations up to 3;
    pads shorter than the kernel or half of its extent, or those of the word `auto_pad`; every stride.
    """
    (size, output), found = lengths[0], []
    longest, most = max(lengths, key=lambda each: each[1])
    for kernel, dilation, pad in _geometries(lengths, given, auto_pad):
        window = extent(kernel, dilation)
        for stride in [given["strides"]] if "strides" in given else _strides(longest + pad, most, window):
            begins = [pad] * len(lengths)
            if auto_pad:
                begins = [same_pads(n, kernel, stride, dilation, auto_pad == "same_upper")[0] for n, _ in lengths]
            # How far each last window reaches past its input; the padding covers the furthest.
            reaches = [(t - 1) * stride + window - pb - n for (n, t), pb in zip(lengths, begins, strict=True)]
            ends = max(0, min(reaches)), max(0, *reaches)
            if auto_pad:
                gives_all = all(ceil_div(n, stride) == t for n, t in lengths)
            else:
                gives_all = ends[1] - min(reaches) < stride
            fits = all(r < window <= n + pb + max(0, r) for (n, _), pb, r in zip(lengths, begins, reaches, strict=True))
            if gives_all and fits:
                begin, end = begins[0], max(0, reaches[0])
                cost = axis_complexity(size, kernel, stride, begin, max(begin, end), dilation) + 2 * (dilation - 1)
                windows = Sliding(size, output, kernel, stride, dilation, begin, end)
                found.append(Hypothesis(windows, cost, ends, auto_pad))
    return sorted(found, key=lambda each: (each.cost, each.numbers))


def _geometries(
    lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str
) -> Iterator[tuple[int, int, int]]:
    """Kernels, dilations and explicit pads at the beginning to try; the pads of `auto_pad` depend on the stride."""
    most = max(MAX_GIVEN, *(2 * size for size, _ in lengths))
    for name, number in given.items():
        if number > most:
            raise RequestError(f"{shown(name)} is {number:,}; here numbers up to {most:,} are searched")
    usual = {*range(1, min(COMMON_KERNELS, 2 * lengths[0][0]) + 1)}
    for size, output in lengths:
        share = max(1, size // output)
        usual |= {*range(max(1, share - 1), share + 3), 2 * share, 2 * share - 1, size}
    for kernel in [given["kernel"]] if "kernel" in given else usual:
        dilations = range(1, MAX_DILATION + 1) if 1 < kernel <= COMMON_KERNELS else (1,)
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            if auto_pad or "pads_begin" in given:
                pads: Sequence[int] = (given.get("pads_begin", 0),)
            else:
                longest = max(kernel, extent(kernel, dilation) // 2 + 1)
                pads = range(longest) if kernel <= 2 * COMMON_KERNELS else (0, kernel // 2)
            yield from ((kernel, dilation, pad) for pad in pads)


def _strides(padded: int, output: int, window: int) -> Iterator[int]:
    """The strides that give `output` windows on an input of length `padded`, padding at the beginning included."""
    if output == 1:
        yield max(window, padded - window + 1)
    else:
        yield from range(max(1, ceil_div(padded - window + 1, output)), (padded - 1) // (output - 1) + 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """How the elements of a window are reduced to one number.

    Attributes
    ----------
    op : str
    given : dict
        Attributes of the operator beyond those of its windows.
    join : str
        The ufunc that reduces the terms.
    power : int or None
        The power of which elements are added and of whose sum the root is taken; `signed` as PyTorch has it.
    divisor : str
        Nothing, the elements inside the input, the whole kernel, or a number that all windows share.
    """

    op: str
    given: dict[str, Any] = field(default_factory=dict)
    reduction: Literal["maximum", "minimum", "add"] = "add"
    power: int | None = None
    signed: bool = False
    divisor: Literal["", "inside", "kernel", "override"] = ""

    def terms(self, x: Array) -> Array:
        """The terms that are reduced: the elements or their powers."""
        if self.power is None:
            return x
        powers: Array = x**self.power if self.signed else np.abs(x) ** self.power
        return powers

    def result(self, total: Array, inside: Array, divisor: Array) -> Array:
        """The outputs, from the reduced terms, the number of elements inside the input, and the divisor."""
        if self.divisor:
            return total / (inside if self.divisor == "inside" else divisor)
        if self.signed:
            total = total / inside * divisor
        if self.power is not None:
            total = np.sign(total) * np.abs(total) ** (1 / self.power)
        return total


OVERRIDE_RULE = Rule("avg", divisor="override")
READ_FIELDS = frozenset({"name", "noun", "result", "better", "nothing", "divides", "power", "votes", "adds"})
REDUCTIONS: dict[Any, Literal["maximum", "minimum"]] = {operator.gt: "maximum", operator.lt: "minimum"}
POWERS = (2, 1, 3, 4)


def rules() -> list[Rule]:
    """The rules of every operator with sliding windows, those that pick an element first.

    Operators that vote have none: the search counts their votes.
    """
    records = [record for record in OPERATORS.values() if issubclass(record, SlidingAttributes)]
    return [rule for record in sorted(records, key=lambda r: not r.reducer.picks) for rule in _rules_of(record)]


def _rules_of(record: type[SlidingAttributes]) -> Iterator[Rule]:
    """The rules that follow from an operator's reducer; none if it sets fields that are not read here."""
    name, reducer = record.name, record.reducer
    if reducer.votes or not is_supported(reducer, READ_FIELDS):
        return
    if reducer.picks:
        if reducer.better in REDUCTIONS:
            yield Rule(name, reduction=REDUCTIONS[reducer.better])
    elif reducer.power is not None:
        signed = [d.name for d in DIALECTS.values() if name in d.operators and record(1).reduction(d).signed]
        yield from (Rule(name, {"p": p}, power=p) for p in POWERS)
        yield from (Rule(name, {"p": p, "like": like}, power=p, signed=True) for like in signed for p in POWERS)
    elif reducer.divides:
        yield Rule(name, {"exclude_pad": True}, divisor="inside")
        yield Rule(name, {"exclude_pad": False}, divisor="kernel")
    else:
        yield Rule(name)


def operators_of(rule: Rule, combination: Sequence[Hypothesis], divisor: int = 0) -> Iterator[Attributes]:
    """The operators of a rule on these windows: with enough padding, and rounded up where that changes divisors."""
    ends, auto_pad = tuple(each.pads_end[1] for each in combination), combination[0].auto_pad
    numbers: dict[str, Any] = numbers_of([each.windows for each in combination])
    given = rule.given | ({"divisor_override": divisor} if rule.divisor == "override" else {})
    record: Any = OPERATORS[rule.op]
    variants = [{"pads_end": ends, "rounding_type": "floor"}]
    if auto_pad:
        del numbers["pads_begin"], numbers["pads_end"]
        variants = [{"auto_pad": auto_pad}]
    elif rule.divisor == "kernel" and any(ends):
        overhanging = product(*map(_overhanging_pads, combination))
        variants += [{"pads_end": shorter, "rounding_type": "ceil", "like": "onnx"} for shorter in overhanging]
    elif rule.signed and any(ends):  # PyTorch's lp has no padding, but windows that overhang
        variants.append({"pads_end": (0,) * len(ends), "rounding_type": "ceil"})
    for attributes in variants:
        with suppress(RequestError):
            op: Attributes = record(**numbers | attributes | given)
            yield op


def _overhanging_pads(each: Hypothesis) -> list[int]:
    """Up to three paddings at the end that give as many windows by rounding up, so that the last window overhangs."""
    (least, most), w = each.pads_end, each.windows
    low = max(0, most - w.stride + 1)
    found = dict.fromkeys((w.pad_begin, 0, *range(low, least + 1)))
    return [end for end in found if low <= end <= least][:3]
