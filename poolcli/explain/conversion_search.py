"""Candidates for a conversion: attributes of a framework's operators that may give the same as a plan.

`convert` verifies each by its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice, pairwise, product
from typing import Any

from poolcli.dialects import Dialect
from poolcli.explain.equivalence import constant_divisor, divisor_ratio, equivalent_windows, reads_same_elements
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import SHARED, Attributes, BinAttributes, DividingAttributes, SlidingAttributes
from poolcli.suggestions import join_words
from poolcli.windows import AxisWindows, Bins, Sliding


@dataclass(frozen=True, slots=True)
class AxisSearched:
    """The numbers that were tried on one axis; empty if no sliding windows read the same elements."""

    axis: str
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """What was tried: operators by the framework's names, words of sliding windows, and the numbers of each axis."""

    operators: tuple[str, ...]
    auto_pad: tuple[str, ...]
    rounding_type: tuple[str, ...]
    axes: tuple[AxisSearched, ...]


def search_sentences(searched: Searched | None) -> Iterator[str]:
    """What was searched, as sentences: operators and words, then the numbers, once for axes with the same."""
    if searched is None:
        return
    words = (("auto_pad", searched.auto_pad), ("rounding_type", searched.rounding_type))
    tried = "".join(f"; {name} {join_words(found, 'and')}" for name, found in words if found)
    yield f"searched: {join_words(searched.operators, 'and')}{tried}"
    axes: dict[str, list[str]] = {}
    for axis in searched.axes:
        axes.setdefault(_numbers_text(axis), []).append(axis.axis)
    for numbers, names in axes.items():
        yield f"{'axes' if len(names) > 1 else 'axis'} {','.join(names)}: {numbers}"


def _axis_searched(axis: str, options: Sequence[Sliding]) -> AxisSearched:
    numbers = ((w.kernel, w.stride, w.dilation, w.pad_begin) for w in options)
    found = tuple(tuple(sorted(set(each))) for each in zip(*numbers, strict=True)) or ((),) * 4
    return AxisSearched(axis, *found)


def _numbers_text(axis: AxisSearched) -> str:
    if not axis.kernel:
        return "no kernel, stride, dilation and padding read what its windows read"
    return (
        f"kernel {_ranges(axis.kernel)}, stride {_ranges(axis.strides)}, dilation {_ranges(axis.dilations)}, "
        f"padding {_ranges(axis.pads_begin)} at the beginning and as much as fits at the end"
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as ranges, as in `1 to 4 or 7`."""
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    stops = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    return " or ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, stops, strict=True))


MAX_COMBINATIONS = 256  # of the options of each axis, for each combination of words
MAX_END_PADS = 12  # pads at the end that are tried for one window, the shortest first

_Words = dict[str, Any]  # attributes that all axes share: auto_pad, rounding_type, exclude_pad, divisor_override


def searched(plan: Plan, dialect: Dialect) -> Searched | None:
    """What `candidates` tries; None if the framework has no operator with the same reducer."""
    records = operators_of(plan, dialect)
    if not records:
        return None
    words = [word for r in records if issubclass(r, SlidingAttributes) for word in _words(plan, dialect, r)]
    return Searched(
        tuple(dialect.operators[r.name].name for r in records),
        tuple(dict.fromkeys(word["auto_pad"] for word in words)),
        tuple(dict.fromkeys(word["rounding_type"] for word in words)),
        tuple(_axis_searched(axis.name, [*equivalent_windows(axis.windows)]) for axis in plan.axes) if words else (),
    )


def operators_of(plan: Plan, dialect: Dialect) -> list[type[Attributes]]:
    """The dialect's operators with the plan's reducer, the plan's own operator first."""
    own = OPERATORS[plan.op]
    others = (r for r in OPERATORS.values() if r is not own and r.reducer == own.reducer)
    return [r for r in (own, *others) if r.name in dialect.operators]


def candidates(plan: Plan, dialect: Dialect) -> Iterator[Attributes]:
    """Attributes that may give the same as the plan, simplest first."""
    for record in operators_of(plan, dialect):
        if issubclass(record, BinAttributes):
            bins = tuple(Bins(w.size, w.output) for w in plan.windows)
            if all(map(reads_same_elements, bins, plan.windows)):
                yield record(tuple(w.output for w in bins), like=dialect.name)
        else:
            yield from _sliding_candidates(plan, dialect, record)


def own_attributes(plan: Plan, dialect: Dialect) -> Iterator[SlidingAttributes]:
    """The plan's own kernel, strides, dilations and pads with each combination of words, its own words first.

    Rounding up equals rounding down with stride - 1 more elements of padding at the end.
    """
    if "kernel" not in plan.attributes:
        return
    up = plan.attributes["rounding_type"] != "floor"
    for record in operators_of(plan, dialect):
        if not issubclass(record, SlidingAttributes):
            continue
        for words in _words(plan, dialect, record):
            more = up - (words["rounding_type"] != "floor")
            axes = [
                replace(w, dilation=w.dilation if w.kernel > 1 else 1, pad_end=end)
                for w in plan.windows
                if isinstance(w, Sliding) and (end := w.pad_end + more * (w.stride - 1)) >= 0
            ]
            if len(axes) == len(plan.axes):
                yield _attributes(record, _common_attributes(plan, dialect, record), words, axes)


def _sliding_candidates(plan: Plan, dialect: Dialect, record: type[SlidingAttributes]) -> Iterator[SlidingAttributes]:
    """Sliding windows of `record` that read the plan's elements: first the plan's own numbers, then all others."""
    shared = _common_attributes(plan, dialect, record)
    windows = [tuple(equivalent_windows(w)) for w in plan.windows]
    if not all(windows):
        return
    words = list(_words(plan, dialect, record))
    for word in words:
        ends = [_end_pads(options[0], word, dialect) for options in windows]
        for axes in islice(product(*ends), MAX_COMBINATIONS):
            yield _attributes(record, shared, word, axes)
    for word in words:
        options = [
            _axis_options(plan, i, partial(_attributes, record, shared, word), word, each, dialect)
            for i, each in enumerate(windows)
        ]
        for axes in islice(product(*options), MAX_COMBINATIONS):
            yield _attributes(record, shared, word, axes)


def _words(plan: Plan, dialect: Dialect, record: type[SlidingAttributes]) -> Iterator[_Words]:
    there = dialect.operators[record.name]
    divisions: list[dict[str, Any]] = [{}]
    if issubclass(record, DividingAttributes):
        override = constant_divisor(plan) if there.divisor_override else None
        excludes = (True, False) if plan.attributes.get("exclude_pad", True) else (False, True)
        divisions = [{"exclude_pad": exclude} for exclude in excludes if exclude or there.include_pad]
        with_override = [{"exclude_pad": excludes[0], "divisor_override": override}] if override else []
        divisions = [*with_override, *divisions] if plan.divisor_override else [*divisions, *with_override]
    auto_pads = [word for word in ("explicit", "same_upper", "same_lower") if word in dialect.auto_pads]
    auto_pads.sort(key=lambda word: word != plan.attributes.get("auto_pad"))
    up = plan.attributes.get("rounding_type", "floor") != "floor"
    roundings = sorted(dialect.rounding_types, key=lambda word: (word != "floor") != up)
    for auto_pad, division, rounding in product(auto_pads, divisions, roundings):
        yield {"auto_pad": auto_pad, "rounding_type": rounding, **division}


def numbers_of(windows: Sequence[Sliding]) -> dict[str, tuple[int, ...]]:
    """The attributes of operators that have a number for each axis."""
    return {
        "kernel": tuple(w.kernel for w in windows),
        "strides": tuple(w.stride for w in windows),
        "dilations": tuple(w.dilation for w in windows),
        "pads_begin": tuple(w.pad_begin for w in windows),
        "pads_end": tuple(w.pad_end for w in windows),
    }


def _attributes(
    record: type[SlidingAttributes], shared: dict[str, Any], words: _Words, axes: Sequence[Sliding]
) -> SlidingAttributes:
    numbers: dict[str, Any] = numbers_of(axes)
    if words["auto_pad"] != "explicit":
        numbers |= {"pads_begin": (0,), "pads_end": (0,)}
    return record(**shared, **numbers, **words)


def _end_pads(w: Sliding, words: _Words, dialect: Dialect) -> list[Sliding]:
    """The windows with each padding at the end that gives the same number of outputs."""
    if words["auto_pad"] != "explicit":
        return [w]
    exact = (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin
    up = words["rounding_type"] != "floor"
    low, high = (exact - w.stride + 1, exact) if up else (exact, exact + w.stride - 1)
    if words["rounding_type"] == "ceil_torch" or (up and dialect.ceil == "ceil_torch"):
        high += w.stride  # the window more that would start past the input is dropped
    low, high = max(0, low), max(0, high) if high >= 0 else -1
    counts = words.get("exclude_pad") is False and dialect.included == "clipped"
    between = range(low, min(high + 1, low + MAX_END_PADS)) if counts else ()
    found = [w.pad_begin] if dialect.symmetric_pads else [*between, low, high, w.pad_begin, exact]
    ends = [end for end in dict.fromkeys(found) if low <= end <= high]
    ends.sort(key=lambda end: (end != w.pad_begin, end != exact, end))
    return [replace(w, pad_end=end) for end in ends]


def _axis_options(
    plan: Plan, i: int, made: Callable[[Sequence[Sliding]], Attributes], words: _Words, options: Sequence[Sliding],
    dialect: Dialect,
) -> list[Sliding]:  # fmt: skip
    """The numbers that give the windows of axis `i`, verified by a plan whose spatial axes are all as this one.

    The divisor is a product over the axes, so that one axis alone cannot show whether it is right. Of the options whose
    divisors differ by a constant factor, the simplest is kept for each factor.
    """
    rank, found = len(plan.axes), dict[object, Sliding]()
    for w in options:
        for axis in _end_pads(w, words, dialect):
            shape = (1, 1, *(w.size,) * rank)
            alone = plan_or_none(made((axis,) * rank), shape, plan.dtype, output_dtype=plan.output_dtype)
            if alone and reads_same_elements(alone.windows[0], w) and dialect.cannot_write(alone) is None:
                found.setdefault(_divisor_ratios(plan, plan.windows[i], alone), axis)
                if not plan.reducer.divides:
                    return [axis]
    return list(found.values())


def _divisor_ratios(plan: Plan, w: AxisWindows, alone: Plan) -> object:
    """The ratios of the axis' divisors to those of `alone`, which distinguish options: as it is, and where another axis
    has pads, so that the divisor counts the whole kernel.
    """
    if not plan.reducer.divides:
        return None
    mine = None if plan.divisor_override else w
    (other, *_) = alone.windows
    if alone.divisor_override or not isinstance(other, Sliding):
        return divisor_ratio(mine, None)
    return (
        divisor_ratio(mine, other),
        divisor_ratio(mine, replace(other, counted="kernel")),
        other.pad_begin + other.pad_end > 0,
    )


def _common_attributes(plan: Plan, dialect: Dialect, record: type[Attributes]) -> dict[str, Any]:
    """The dialect, and those of the plan's attributes that only some operators have, such as the p of LpPool."""
    own = (each.name for each in fields(record) if each.name not in SHARED)
    return {"like": dialect.name} | {name: plan.attributes[name] for name in own if name in plan.attributes}
