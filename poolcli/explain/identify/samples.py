"""The rules that `identify` tries on combinations of windows, ranked by sampled outputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import product
from typing import Any, NamedTuple

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import distances
from poolcli.explain.identify.grid import Grid, Window
from poolcli.explain.identify.pair import Pair
from poolcli.layouts import spatial_axes
from poolcli.plan.attributes import OPERATORS, Attributes, Reducer, SlidingAttributes
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

POWERS = (2, 1, 3, 4)
MIN_KEPT, MAX_MATCHING = 2**8, 2**16  # combinations that are kept after a sample: any, and those that give it
RANKED_OUTPUTS = 2**20  # outputs among which rare values are counted
RARE_OUTPUTS = 16
SUM_ROUNDINGS = 32  # rounding errors that a sampled sum may have
DIVISORS = {None: "", True: "inside", False: "kernel"}  # by exclude_pad


class Rule(NamedTuple):
    """How the elements of a window are reduced to one number.

    `given` are attributes beyond those of windows. The divisor is none, the number of elements inside the input, the
    whole kernel, or a number that all windows share.
    """

    record: Any
    given: dict[str, Any]
    reducer: Reducer
    divisor: str | int = ""


def rules(given: Mapping[str, Any]) -> list[Rule]:
    """The rules of the operators with sliding windows, those that pick an element first."""
    records = [record for record in searched_operators().values() if issubclass(record, SlidingAttributes)]
    found = []
    for record in sorted(records, key=lambda record: not record.reducer.picks):
        variants: list[dict[str, Any]] = [{}]
        if has_attributes(record, ("p",)):
            likes = [like for like, dialect in DIALECTS.items() if record.name in dialect.operators]
            variants = [{"p": p, "like": like} for like in likes for p in POWERS]
        elif given.get("divisor_override") and record.reducer.divides:
            variants = [{"divisor_override": given["divisor_override"]}]
        elif record.reducer.divides:
            variants = [{"exclude_pad": True}, {"exclude_pad": False}]
        for own in variants:
            with suppress(RequestError):
                op: Any = record(1, **own)
                divisor = own.get("divisor_override", DIVISORS[own.get("exclude_pad")])
                found.append(Rule(record, own, op.reduction(DIALECTS[op.like]), divisor))
    return found


def searched_operators() -> dict[str, type[Attributes]]:
    """The operators that compare or add elements; modes, medians and deviations are in no framework."""
    return {name: each for name, each in OPERATORS.items() if each.reducer.picks or each.reducer.adds}


def has_attributes(record: type[Attributes], names: Iterable[str]) -> bool:
    """Whether an operator has attributes of all these names."""
    return {*names} <= {own.name for own in fields(record)}


def operators_of(rule: Rule, combination: Sequence[Window]) -> Iterator[Attributes]:
    """The operators of a rule on these windows: with enough padding, and rounded up where that changes divisors."""
    _, kernel, strides, dilations, begins, ends = zip(*combination, strict=True)
    numbers: dict[str, Any] = {"kernel": kernel, "strides": strides, "dilations": dilations} | rule.given
    variants: list[dict[str, Any]] = [{"pads_begin": begins, "pads_end": ends}]
    if any(ends) and rule.reducer.signed:  # PyTorch's lp has no padding, but windows that overhang
        variants.append({"rounding_type": "ceil"})
    elif any(ends) and rule.divisor == "kernel":
        ceil = {"pads_begin": begins, "rounding_type": "ceil", "like": "onnx"}
        variants += [{"pads_end": shorter, **ceil} for shorter in product(*(w.overhanging_ends() for w in combination))]
    for words in variants:
        with suppress(RequestError):
            op: Attributes = rule.record(**numbers | words)
            yield op


class Sample(NamedTuple):
    """An output of one image and channel: the planes of the input and the output, and the place."""

    x: Array
    y: Array
    at: tuple[int, ...]


def samples_of(pair: Pair) -> list[Sample]:
    """Outputs to sample: finite ones with the rarest values, as one that many share says little; the middle and the
    corners of a plane come last, as borders may differ more than all else.
    """
    spatial = spatial_axes(pair.layout)
    order = [*(i for i in range(len(pair.layout)) if i not in spatial), *spatial]
    xs, ys = (np.transpose(a, order).reshape(-1, *(a.shape[i] for i in spatial)) for a in (pair.x, pair.y))
    ranked = ys.reshape(-1)[:RANKED_OUTPUTS].astype(np.float64)
    _, back, counts = np.unique(ranked, return_inverse=True, return_counts=True)
    shared = counts[back] + ranked.size * ~np.isfinite(ranked)
    rare = np.flatnonzero(shared == shared.min())
    steps = np.linspace(0, len(rare), RARE_OUTPUTS, endpoint=False) + len(rare) / RARE_OUTPUTS / 2
    places = [tuple(map(int, np.unravel_index(rare[int(step)], ys.shape))) for step in steps]
    usual = (tuple(n // 2 for n in ys.shape[1:]), *product(*((0, n - 1) for n in ys.shape[1:])))
    places += [(places[0][0], *at) for at in usual]
    return [Sample(xs[plane], ys[plane], tuple(at)) for plane, *at in dict.fromkeys(places)]


def nearest(
    pair: Pair, samples: Sequence[Sample], rule: Rule, grid: Grid, exact: int, near: int
) -> tuple[list[Attributes], list[tuple[float, Attributes]]]:
    """The operators of the `exact` simplest combinations that give every sampled output, and those of the `near`
    nearest with their scores.

    A score is the mean difference, as a share of the output's standard deviation. The divisor of an overhanging window
    may be any that a framework uses. A quarter of the combinations is kept after each sample, and what gives it.
    """
    if rule.reducer.signed:  # PyTorch's lp has no padding
        grid = grid.taken(np.all([numbers[:, 3] == 0 for numbers in grid.numbers()], axis=0))
    scores = np.zeros(len(grid.columns[0]))
    for sample in samples:
        wanted = float(sample.y[sample.at])
        off = distances(_results(sample, rule, grid), np.array(wanted)) - _tolerance(pair, rule, wanted)
        scores = scores + np.minimum(np.maximum(off, 0) / (pair.spread or 1), 1)
        matching = min(int((scores == 0).sum()), MAX_MATCHING)
        best = np.argsort(scores, kind="stable")[: max(MIN_KEPT, matching, len(scores) // 4)]
        grid, scores = grid.taken(best), scores[best]
    fitting, ranked = list[Attributes](), list[tuple[float, Attributes]]()
    for i, score in enumerate(scores[: max(exact, near)].tolist()):
        ops = [*operators_of(rule, grid.combination(i))]
        fitting += ops if score == 0 and i < exact else []
        ranked += [(score, op) for op in ops] if i < near else []
    return fitting, ranked


def _tolerance(pair: Pair, rule: Rule, wanted: float) -> float:
    """How much a sampled output may differ; sums and averages of integers are rounded or cut off."""
    if not np.isfinite(wanted):
        return 0.0
    relative = pair.rtol + pair.eps
    sums = pair.sum_error * SUM_ROUNDINGS if pair.is_float else 1.0
    return pair.atol + relative * abs(wanted) + sums * rule.reducer.adds


def _results(sample: Sample, rule: Rule, grid: Grid) -> Array:
    """What the combinations give at an output."""
    read = [axis.read(o) for axis, o in zip(grid.axes, sample.at, strict=True)]
    spans = [spans for spans, *_ in read]
    numbers = tuple(numbers[column] for (_, numbers, _), column in zip(read, grid.columns, strict=True))
    reducer = rule.reducer
    total: Array = _reduced(sample.x, reducer, spans)[numbers]
    if isinstance(rule.divisor, int):
        return total / rule.divisor
    if rule.divisor or reducer.signed:
        lengths = [np.array([float(len(span)) for span in every])[n] for every, n in zip(spans, numbers, strict=True)]
        counted, kernel = np.prod(lengths, axis=0), grid.kernels()
        if rule.divisor == "kernel":
            past = np.any([past[column] for (*_, past), column in zip(read, grid.columns, strict=True)], axis=0)
            fitting = np.nan_to_num(np.rint(total / float(sample.y[sample.at])))
            counted = np.where(past, np.clip(fitting, counted, kernel), kernel)
        total = total / counted * (kernel if reducer.signed else 1)
    if reducer.power is not None:
        total = np.sign(total) * np.abs(total) ** (1 / reducer.power)
    return total


def _reduced(x: Array, reducer: Reducer, spans: Sequence[Sequence[range]]) -> Array:
    """The reduction of the elements in each combination of spans, one per axis."""
    lows = [min((span.start for span in each if span), default=0) for each in spans]
    highs = [max((span.stop for span in each if span), default=1) for each in spans]
    reduced = x[tuple(map(slice, lows, highs))].astype(np.float64)
    if reducer.power is not None:
        reduced = (reduced if reducer.signed else np.abs(reduced)) ** reducer.power
    joins = {operator.gt: (np.maximum, -np.inf), operator.lt: (np.minimum, np.inf), None: (np.add, 0.0)}
    join, empty = joins[reducer.better]
    for i, low in reversed([*enumerate(lows)]):
        slices = [slice(span.start - low, span.stop - low, span.step) if span else slice(0) for span in spans[i]]
        parts = [reduced[(*(slice(None),) * i, part)] for part in slices]
        reduced = np.stack([join.reduce(part, axis=i, initial=empty) for part in parts], axis=i)
    return reduced
