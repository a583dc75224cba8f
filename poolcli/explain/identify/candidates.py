"""Operators that may have made a plane, chosen by a few windows, and what the caller of identify() fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.explain.identify.filter import UNLIKE, Combination, sieved
from poolcli.explain.identify.samples import (
    OVERRIDDEN,
    Hypothesis,
    Plane,
    Rule,
    divided,
    further_places,
    hits,
    hypotheses,
    places,
    rules,
)
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes, BinAttributes
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import Lazy

NUMBERS = ("kernel", "strides", "pads_begin", "dilations")  # those that guesses are made of


@dataclass(frozen=True, slots=True)
class Constraints:
    """The operator and the attributes that stay; refused where no operator has them."""

    op: str | None
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.op is not None:
            one_of("op", self.op, tuple(OPERATORS))
        if not any(map(self.takes, OPERATORS.values())):
            which = "no operator" if self.op is None else self.op
            names = [name for name in self.given if self.op is None or not _has(OPERATORS[self.op], name)]
            known = [own.name for op in OPERATORS.values() if self.op in (None, op.name) for own in fields(op)]
            meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
            which = f"{which} has {'no' if self.op or meant else 'all of'}"
            raise RequestError(f"{which} {' and '.join(map(field, names))}{meant}")

    def takes(self, record: type[Attributes]) -> bool:
        """Whether an operator may be the one, going by its name and by the attributes that it has."""
        return self.op in (None, record.name) and all(_has(record, name) for name in self.given)

    def numbers(self, i: int, rank: int) -> dict[str, int]:
        """The numbers that are given for axis `i` of `rank`."""
        found: dict[str, int] = {}
        for name in NUMBERS:
            if name in self.given:
                value = self.given[name]
                listed = (value,) if isinstance(value, int) else tuple(value)
                if len(listed) not in (1, rank):
                    raise RequestError(
                        f"{field(name)} has {len(listed)} numbers, the input has {rank} spatial axes; give 1 or {rank}"
                    )
                found[name] = listed[i] if len(listed) > 1 else listed[0]
        return found

    def kept(self, op: Attributes) -> Attributes | None:
        """`op` with what is given; None where that cannot be planned with the rest."""
        try:
            return replace(op, **self.given) if self.takes(type(op)) else None
        except RequestError:
            return None


def _has(record: type[Attributes], name: str) -> bool:
    return any(own.name == name for own in fields(record))


np: Any = Lazy("numpy")

VERIFIED = 60  # of each rule, the plainest that all windows allow
SCORED = {1: 200, 2: 200}  # guesses for each axis that are scored where nothing fits, by the number of axes
FEW = 60  # of more axes
NEAREST = 12
VOTED = 100  # guesses whose votes are counted


def likely(plane: Plane, held: Constraints) -> Iterator[Attributes]:
    """Operators that give what the probed windows show, for each rule the plainest first."""
    axes = _axes(plane, held)
    if all(axes):
        allowed = _sieve(plane, axes)
        for rule in _rules(held):
            for combination, _ in allowed(rule):
                yield from _operators(rule, combination, held)
        yield from _voted(plane, axes, held)
    yield from _bins(plane, held)


def overridden(plane: Plane, held: Constraints) -> Iterator[Attributes]:
    """The same for averages that are divided by a number of their own."""
    axes = _axes(plane, held)
    if held.takes(OPERATORS["avg"]) and all(axes):
        for combination, divisor in _sieve(plane, axes)(OVERRIDDEN):
            yield from _operators(divided(divisor), combination, held)


def _sieve(plane: Plane, axes: Sequence[Sequence[Hypothesis]]) -> Callable[[Rule], list[tuple[Combination, int]]]:
    """What a rule allows at the outputs that are looked at, which are the same for every rule."""
    at, further = places(plane), further_places(plane)
    return lambda rule: sieved(plane, rule, axes, at, further, VERIFIED)


def nearest(plane: Plane, held: Constraints) -> Iterator[Attributes]:
    """Operators that give most of what the probed windows show."""
    axes, scored = [axis[: SCORED.get(plane.x.ndim, FEW)] for axis in _axes(plane, held)], []
    costs = _costs(axes)
    for rule in _rules(held) if all(axes) else ():
        found = hits(plane, rule, axes)
        score = found - costs / (1 + costs.max(initial=0.0))
        for at in zip(*np.unravel_index(np.argsort(-score, axis=None)[:NEAREST], found.shape), strict=True):
            scored.append((float(score[at]), rule, tuple(axis[i] for axis, i in zip(axes, at, strict=True))))
    for _, rule, combination in sorted(scored, key=lambda each: -each[0])[:NEAREST]:
        yield from filter(None, map(held.kept, _operators(rule, combination, held)))
    yield from _bins(plane, held)


def _rules(held: Constraints) -> list[Rule]:
    return [rule for rule in rules() if held.takes(OPERATORS[rule.op])]


def _axes(plane: Plane, held: Constraints) -> list[list[Hypothesis]]:
    rank = plane.x.ndim
    sizes = zip(plane.x.shape, plane.y.shape, strict=True)
    return [hypotheses(n, t, held.numbers(i, rank)) for i, (n, t) in enumerate(sizes)]


def _bins(plane: Plane, held: Constraints) -> Iterator[Attributes]:
    for record in OPERATORS.values():
        if issubclass(record, BinAttributes) and held.takes(record):
            op = held.kept(record(tuple(plane.y.shape)))
            if op is not None:
                yield op


def _shared(axes: Sequence[Sequence[Hypothesis]]) -> list[Combination]:
    keyed = [{g.numbers: g for g in axis} for axis in axes]
    return [tuple(one[key] for one in keyed) for key in keyed[0] if all(key in one for one in keyed)]


def _costs(axes: Sequence[Sequence[Hypothesis]]) -> Any:
    """How seldom each combination is used: the sum over its axes, and more where these are not alike."""
    rank = len(axes)
    total: Any = np.zeros([len(axis) for axis in axes])
    keys = [np.array([hash(g.numbers) for g in axis]) for axis in axes]
    for i, axis in enumerate(axes):
        total = total + np.array([g.cost for g in axis]).reshape(_along(i, rank)) / rank
    for i in range(rank - 1):
        total = total + UNLIKE * (keys[i].reshape(_along(i, rank)) != keys[i + 1].reshape(_along(i + 1, rank)))
    return total


def _along(i: int, rank: int) -> list[int]:
    return [-1 if axis == i else 1 for axis in range(rank)]


def _voted(plane: Plane, axes: Sequence[Sequence[Hypothesis]], held: Constraints) -> Iterator[Attributes]:
    """Operators that take what occurs most often, with the same numbers on every axis."""
    if plane.stored[0].dtype.kind not in "biu" or plane.stored[0].dtype != plane.stored[1].dtype:
        return
    looked_at = places(plane)
    for record in OPERATORS.values():
        if record.reducer.votes and held.takes(record):
            rule = Rule(record.name, {}, lambda x: x, "add", lambda total, inside, whole: total)
            for one in _shared(axes)[:VOTED]:
                if all(_vote(plane, at, one) == plane.y[at] for at in looked_at):
                    yield from _operators(rule, one, held)


def _vote(plane: Plane, at: tuple[int, ...], combination: Combination) -> float:
    spans = [guess.windows.span(o) for guess, o in zip(combination, at, strict=True)]
    values, counts = np.unique(plane.x[np.ix_(*map(list, spans))], return_counts=True)
    return float(values[counts.argmax()]) if len(values) else float("nan")


def _operators(rule: Rule, combination: Combination, held: Constraints) -> Iterator[Attributes]:
    """The rule on these windows: as OpenVINO pads them; where an overhang may be counted otherwise, as ONNX does."""
    windows = [guess.windows for guess in combination]
    numbers = {
        "kernel": tuple(w.kernel for w in windows), "strides": tuple(w.stride for w in windows),
        "dilations": tuple(w.dilation for w in windows), "pads_begin": tuple(w.pad_begin for w in windows),
    }  # fmt: skip
    record: Any = OPERATORS[rule.op]
    ends = tuple(w.pad_end for w in windows)
    made = [{"pads_end": ends, "rounding_type": "floor"} | rule.given]
    if not rule.at_end and any(ends):
        made += [
            {"pads_end": shorter, "rounding_type": "ceil"} | {"like": "onnx"} | rule.given
            for shorter in product(*[_shorter(guess) for guess in combination])
        ]
    if rule.given.get("like") == "pytorch" and any(ends):  # which pads no end of these
        made.append({"pads_end": (0,) * len(ends), "rounding_type": "ceil"} | rule.given)
    for attributes in made:
        with suppress(RequestError):
            op: Attributes = record(**{**numbers, **attributes})
            if held.takes(type(op)):
                yield op


def _shorter(guess: Hypothesis) -> list[int]:
    """Pads at the end under which rounding up gives as many windows, the last of them overhanging."""
    low = max(0, guess.overhang - guess.stride + 1)
    ends = [end for end in (guess.pad_begin, 0, low, *range(low, guess.overhang + 1)) if low <= end <= guess.overhang]
    return list(dict.fromkeys(ends))[:3] or [max(0, guess.overhang)]
