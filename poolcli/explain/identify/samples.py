"""The combinations of windows, and the rules that `identify` tries on them, ranked by sampled outputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import pairwise, product
from math import prod
from time import process_time
from typing import Any, NamedTuple

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import distances
from poolcli.explain.identify.pair import MOST_OFF, Pair
from poolcli.explain.solve import Window, windows_of
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.plan.attributes import OPERATORS, Attributes, Reducer, SlidingAttributes
from poolcli.system.lazy_imports import Array, numpy as np

MAX_GIVEN = 10_000  # largest number that may be given for a short axis; planning takes memory in proportion
MAX_COMBINATIONS = 2**20  # of the most common windows of each axis
UNEQUAL_AXES_COST = 3  # of different numbers on neighbouring axes
POWERS = (2, 1, 3, 4)
MIN_KEPT, MAX_MATCHING = 2**8, 2**16  # combinations that are kept after a sample: nearest and simplest ones, exact ones
RANKED_OUTPUTS = 2**20  # outputs among which rare values are counted
RARE_OUTPUTS = 16
SUM_ROUNDINGS = 32  # rounding errors that a sampled sum may have
DIVISORS = {None: "", True: "inside", False: "kernel"}  # by exclude_pad


class Axis:
    """The windows that one axis may have, and what each reads at an output; `numbers` has a row for each."""

    def __init__(self, size: int, output: int, given: Mapping[str, int]) -> None:
        most = max(MAX_GIVEN, 2 * size)
        for name, number in given.items():
            if number > most:
                raise RequestError(f"{field(name)} is {number:,}; here numbers up to {most:,} are searched")
        self.size, self.windows = size, windows_of(size, output, given)
        self.costs = np.array([each.cost for each in self.windows])
        self.numbers = np.array([each[1:5] for each in self.windows])
        self._read: dict[int, tuple[list[range], Array, Array]] = {}

    def read(self, o: int) -> tuple[list[range], Array, Array]:
        """The different spans of output `o`, the number of each window's span, and whether it overhangs the end."""
        if o not in self._read:
            kernel, stride, dilation, begin = self.numbers.T
            start = o * stride - begin
            first = np.clip(-(start // dilation), 0, kernel)  # the taps before the input
            count = np.clip(-((start - self.size) // dilation), first, kernel) - first
            rows = np.stack((start + first * dilation, count, np.where(count > 1, dilation, 1)), axis=1)
            rows[count == 0] = 0, 0, 1
            different, numbers = np.unique(rows, axis=0, return_inverse=True)
            spans = [range(low, low + length * step, step) for low, length, step in different.tolist()]
            self._read[o] = spans, numbers.reshape(-1), start + (kernel - 1) * dilation >= self.size
        return self._read[o]


class Grid(NamedTuple):
    """Combinations of windows, one of each axis, the most common first: `columns` are their numbers on each axis."""

    axes: Sequence[Axis]
    columns: tuple[Array, ...]

    def taken(self, rows: Array) -> Grid:
        """Some of the combinations."""
        return Grid(self.axes, tuple(column[rows] for column in self.columns))

    def numbers(self) -> list[Array]:
        """Kernel, stride, dilation and padding at the beginning on each axis, a row for each combination."""
        return [axis.numbers[column] for axis, column in zip(self.axes, self.columns, strict=True)]


def grid_of(axes: Sequence[Axis]) -> Grid:
    """The combinations of the most common windows of each axis, and those with the same numbers on every axis."""
    counts = [len(axis.windows) for axis in axes]
    limit = max(counts)
    while prod(min(limit, count) for count in counts) > MAX_COMBINATIONS:
        limit -= 1 + limit // 50
    common = np.indices([min(limit, count) for count in counts]).reshape(len(axes), -1)
    places = [{tuple(row): i for i, row in enumerate(axis.numbers.tolist())} for axis in axes]
    rows = [[own.get(numbers, -1) for own in places] for numbers in places[0]]
    equal = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp).reshape(-1, len(axes))
    grid = Grid(axes, tuple(np.concatenate((common, equal.T), axis=1)))
    costs: Array = np.mean([axis.costs[column] for axis, column in zip(axes, grid.columns, strict=True)], axis=0)
    for one, other in pairwise(grid.numbers()):
        costs = costs + UNEQUAL_AXES_COST * (one != other).any(axis=1)
    return grid.taken(np.argsort(costs, kind="stable"))


class Rule(NamedTuple):
    """How the elements of a window are reduced to one number."""

    record: Any
    given: dict[str, Any]  # attributes beyond those of windows
    reducer: Reducer
    divisor: str | int = ""  # none, the elements "inside" the input, the whole "kernel", or a number


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
        overhanging = []  # up to three paddings at the end of each axis that give as many windows by rounding up
        for w in combination:
            enough = range(max(0, w.end - w.stride + 1), w.end + 1)
            overhanging.append([*dict.fromkeys(end for end in (w.begin, 0, *enough) if end in enough)][:3])
        variants += [{"pads_end": shorter, **ceil} for shorter in product(*overhanging)]
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
    """Outputs to sample: finite ones with the rarest values, then the middle and the corners of a plane."""
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
    pair: Pair, samples: Sequence[Sample], rule: Rule, grid: Grid, exact: int, near: int, until: float
) -> tuple[list[Attributes], list[tuple[float, Attributes]]]:
    """The operators of the `exact` simplest combinations that give every sample, and of the `near` nearest with scores.

    A score is the mean difference, as a share of the output's standard deviation. A quarter of the combinations is kept
    after each sample, what gives it, and the simplest. None is taken after `until`, a CPU time of the process.
    """
    if rule.reducer.signed:  # PyTorch's lp has no padding
        grid = grid.taken(np.all([numbers[:, 3] == 0 for numbers in grid.numbers()], axis=0))
    scores, count = np.zeros(len(grid.columns[0])), 0
    if not scores.size:
        return [], []
    for sample in samples:
        wanted = float(sample.y[sample.at])
        off = distances(_results(sample, rule, grid), np.array(wanted)) - _tolerance(pair, rule, wanted)
        scores = scores + np.clip(off / (pair.spread or 1), 0, MOST_OFF)
        matching = min(int((scores == 0).sum()), MAX_MATCHING)
        best = np.argsort(scores, kind="stable")[: max(MIN_KEPT, matching, len(scores) // 4)]
        kept = np.union1d(best, np.arange(min(MIN_KEPT, len(scores))))
        grid, scores = grid.taken(kept), scores[kept]
        count += 1
        if process_time() > until:
            break
    best = np.argsort(scores, kind="stable")[: max(exact, near)]
    grid, fitting, ranked = grid.taken(best), list[Attributes](), list[tuple[float, Attributes]]()
    for i, score in enumerate(scores[best].tolist()):
        combination = [axis.windows[column[i]] for axis, column in zip(grid.axes, grid.columns, strict=True)]
        ops = [*operators_of(rule, combination)]
        fitting += ops if score == 0 and i < exact else []
        ranked += [(score / count, op) for op in ops] if i < near else []
    return fitting, ranked


def _tolerance(pair: Pair, rule: Rule, wanted: float) -> float:
    """How much a sampled output may differ; sums and averages of integers are rounded or cut off."""
    if not np.isfinite(wanted):
        return 0.0
    relative = pair.rtol + pair.eps
    sums = pair.sum_error * SUM_ROUNDINGS if pair.eps else 1.0
    return pair.atol + relative * abs(wanted) + sums * rule.reducer.adds


def _results(sample: Sample, rule: Rule, grid: Grid) -> Array:
    read = [axis.read(o) for axis, o in zip(grid.axes, sample.at, strict=True)]
    kept = [each[1][column] for each, column in zip(read, grid.columns, strict=True)]
    used, numbers = zip(*(np.unique(each, return_inverse=True) for each in kept), strict=True)
    spans = [[own[i] for i in each.tolist()] for (own, *_), each in zip(read, used, strict=True)]
    reducer = rule.reducer
    total: Array = _reduced(sample.x, reducer, spans)[numbers]
    if isinstance(rule.divisor, int):
        return total / rule.divisor
    if rule.divisor or reducer.signed:
        lengths = [np.array([float(len(span)) for span in every])[n] for every, n in zip(spans, numbers, strict=True)]
        counted = np.prod(lengths, axis=0)
        kernel = np.prod([own[:, 0].astype(np.float64) for own in grid.numbers()], axis=0)
        if rule.divisor == "kernel":
            past = np.any([past[column] for (*_, past), column in zip(read, grid.columns, strict=True)], axis=0)
            fitting = np.nan_to_num(np.rint(total / float(sample.y[sample.at])))
            counted = np.where(past, np.clip(fitting, counted, kernel), kernel)
        total = total / counted * (kernel if reducer.signed else 1)
    if reducer.power is not None:
        total = np.sign(total) * np.abs(total) ** (1 / reducer.power)
    return total


def _reduced(x: Array, reducer: Reducer, spans: Sequence[Sequence[range]]) -> Array:
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
