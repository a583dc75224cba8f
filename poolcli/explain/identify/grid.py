"""The poolings that `identify` tries: windows of each axis, their combinations, and sampled outputs that rank them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.identify.pairs import Pair, distances
from poolcli.explain.solve import COMMON_KERNELS, axis_complexity
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.plan.attributes import OPERATORS, Attributes, Reducer, SlidingAttributes
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import ceil_div, extent, same_pads

MAX_DILATION = 3  # largest dilation that is tried
MAX_WHOLE_OUTPUTS = 4  # outputs of windows as long as the input
MAX_GIVEN = 10_000  # largest number that may be given for a short axis; planning takes memory in proportion
POWERS, DDOFS = (2, 1, 3, 4), (0, 1)
MAX_COMBINATIONS = 2**20  # of the most common windows of each axis
MAX_STATISTIC_ELEMENTS = 2**21  # of all windows together whose statistics are computed at a sample
MIN_KEPT, MAX_MATCHING = 2**8, 2**16  # combinations that are kept after a sample: any, and those that give it
RANKED_OUTPUTS = 2**20  # outputs among which rare values are counted
RARE_OUTPUTS = 16
SUM_ROUNDINGS = 32  # rounding errors that a sampled sum may have
STATISTIC_RTOL = 1e-3  # of samples; at least the rounding error of float16
SINGLE_ELEMENTS = 6
UNEQUAL_AXES_COST = 3  # of different numbers on neighbouring axes
LARGEST_DIVISOR = 10_000


class Window(NamedTuple):
    """The numbers of one axis and how unusual they are. `least_end` and `most_end` are the smallest and the largest
    padding at the end over inputs of all sizes, as far as the last window reaches.
    """

    cost: float
    kernel: int
    stride: int
    dilation: int
    begin: int
    least_end: int
    most_end: int

    def overhanging_ends(self) -> list[int]:
        """Up to three paddings at the end that give as many windows by rounding up: the last window overhangs."""
        low = max(0, self.most_end - self.stride + 1)
        ends = dict.fromkeys((self.begin, 0, *range(low, self.least_end + 1)))
        return [end for end in ends if low <= end <= self.least_end][:3]


def windows_of(lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str) -> list[Window]:
    """List the windows that give the right output length for all inputs, the most common first.

    Kernels up to 11, those about as long as the input's share of an output, and the whole input; dilations up to 3;
    pads shorter than the kernel or half of its extent, or those of the word `auto_pad`; every stride. `lengths` are
    those of each input and its output, `given` the numbers that are known.
    """
    found, size = [], lengths[0][0]
    longest, most = max(lengths, key=lambda each: each[1])
    for kernel, dilation, pad in _geometries(lengths, given, auto_pad):
        window = extent(kernel, dilation)
        for stride in [given["strides"]] if "strides" in given else _strides(longest + pad, most, window):
            begins = [pad] * len(lengths)
            if auto_pad:
                begins = [same_pads(n, kernel, stride, dilation, auto_pad == "same_upper")[0] for n, _ in lengths]
            # How far each last window reaches past its input; the padding covers the furthest.
            reaches = [(t - 1) * stride + window - pb - n for (n, t), pb in zip(lengths, begins, strict=True)]
            if auto_pad:
                gives_all = all(ceil_div(n, stride) == t for n, t in lengths)
            else:
                gives_all = max(0, *reaches) - min(reaches) < stride
            fits = all(r < window <= n + pb + max(0, r) for (n, _), pb, r in zip(lengths, begins, reaches, strict=True))
            if gives_all and fits:
                end = max(begins[0], reaches[0])
                cost = axis_complexity(size, kernel, stride, begins[0], end, dilation) + 2 * (dilation - 1)
                cost -= SINGLE_ELEMENTS * (kernel == 1 < stride)  # less unusual than gaps between longer windows
                ends = max(0, min(reaches)), max(0, *reaches)
                found.append(Window(cost, kernel, stride, dilation, begins[0], *ends))
    return sorted(found)


def _geometries(
    lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str
) -> Iterator[tuple[int, int, int]]:
    """Kernels, dilations and explicit pads at the beginning to try; the pads of `auto_pad` depend on the stride."""
    most = max(MAX_GIVEN, *(2 * size for size, _ in lengths))
    for name, number in given.items():
        if number > most:
            raise RequestError(f"{field(name)} is {number:,}; here numbers up to {most:,} are searched")
    kernels = {*range(1, min(COMMON_KERNELS, 2 * lengths[0][0]) + 1)}
    for size, output in lengths:
        share = max(1, size // output)
        kernels |= {*range(max(1, share - 1), share + 3), 2 * share, 2 * share - 1}
        kernels |= {size} if output <= MAX_WHOLE_OUTPUTS else set()
    for kernel in [given["kernel"]] if "kernel" in given else kernels:
        dilations = range(1, MAX_DILATION + 1) if 1 < kernel <= COMMON_KERNELS else (1,)
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            longest = max(kernel, extent(kernel, dilation) // 2 + 1)
            pads: Iterable[int] = range(longest) if kernel <= 2 * COMMON_KERNELS else (0, kernel // 2)
            if auto_pad or "pads_begin" in given:
                pads = (given.get("pads_begin", 0),)
            yield from ((kernel, dilation, pad) for pad in pads)


def _strides(padded: int, output: int, window: int) -> Iterator[int]:
    """The strides that give `output` windows on an input of length `padded`, padding at the beginning included."""
    if output == 1:
        yield max(window, padded - window + 1)
    else:
        yield from range(max(1, ceil_div(padded - window + 1, output)), (padded - 1) // (output - 1) + 1)


class Axis:
    """The windows that one axis may have, and what each reads at an output; `numbers` has a row for each."""

    def __init__(self, lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str) -> None:
        self.size, self.windows = lengths[0][0], windows_of(lengths, given, auto_pad)
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


@dataclass(frozen=True, slots=True)
class Grid:
    """Combinations of windows, one of each axis, the most common first: `columns` are their numbers on each axis."""

    axes: Sequence[Axis]
    columns: tuple[Array, ...]
    auto_pad: str

    def taken(self, rows: Array) -> Grid:
        """Some of the combinations."""
        return Grid(self.axes, tuple(column[rows] for column in self.columns), self.auto_pad)

    def combination(self, row: int) -> tuple[Window, ...]:
        """The windows of each axis."""
        return tuple(axis.windows[column[row]] for axis, column in zip(self.axes, self.columns, strict=True))

    def numbers(self) -> list[Array]:
        """Kernel, stride, dilation and padding at the beginning on each axis, a row for each combination."""
        return [axis.numbers[column] for axis, column in zip(self.axes, self.columns, strict=True)]

    def kernels(self) -> Array:
        """The number of elements of the kernels."""
        sizes: Array = np.prod([numbers[:, 0].astype(np.float64) for numbers in self.numbers()], axis=0)
        return sizes


def grid_of(axes: Sequence[Axis], auto_pad: str) -> Grid:
    """The combinations of the most common windows of each axis, and those with the same numbers on every axis."""
    counts = [len(axis.windows) for axis in axes]
    limit = max(counts)
    while prod(min(limit, count) for count in counts) > MAX_COMBINATIONS:
        limit -= 1 + limit // 50
    common = np.indices([min(limit, count) for count in counts]).reshape(len(axes), -1)
    places = [{tuple(row): i for i, row in enumerate(axis.numbers.tolist())} for axis in axes]
    rows = [[own.get(numbers, -1) for own in places] for numbers in places[0]]
    equal = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp).reshape(-1, len(axes))
    grid = Grid(axes, tuple(np.concatenate((common, equal.T), axis=1)), auto_pad)
    costs: Array = np.mean([axis.costs[column] for axis, column in zip(axes, grid.columns, strict=True)], axis=0)
    for one, other in pairwise(grid.numbers()):
        costs = costs + UNEQUAL_AXES_COST * (one != other).any(axis=1)
    return grid.taken(np.argsort(costs, kind="stable"))


class Rule(NamedTuple):
    """How the elements of a window are reduced to one number.

    `given` are attributes beyond those of windows. The divisor is none, the number of elements inside the input, the
    whole kernel, or any number that all windows share (`override`).
    """

    record: Any
    given: dict[str, Any]
    reducer: Reducer
    divisor: str = ""

    @property
    def needs_all(self) -> bool:
        """Whether it needs all elements of a window at once."""
        return self.reducer.votes or self.reducer.statistic is not None


def rules(given: Mapping[str, Any], votes: bool) -> list[Rule]:
    """The rules of every operator with sliding windows, those that pick an element first, and averages with any divisor
    last; `votes`: also modes.
    """
    records = [record for record in OPERATORS.values() if issubclass(record, SlidingAttributes)]
    found = []
    for record in sorted(records, key=lambda record: not record.reducer.picks):
        variants: list[dict[str, Any]] = [{}]
        if has_attributes(record, ("ddof",)):
            variants = [{"ddof": ddof} for ddof in ([given["ddof"]] if "ddof" in given else DDOFS)]
        elif has_attributes(record, ("p",)):
            likes = [like for like, dialect in DIALECTS.items() if record.name in dialect.operators]
            variants = [{"p": p, "like": like} for like in likes for p in POWERS]
        elif record.reducer.divides:
            variants = [{"exclude_pad": True}, {"exclude_pad": False}]
        for own in variants:
            with suppress(RequestError):
                op: Any = record(1, **own)
                divisor = {None: "", True: "inside", False: "kernel"}[own.get("exclude_pad")]
                rule = Rule(record, own, op.reduction(DIALECTS[op.like]), divisor)
                if votes or not rule.reducer.votes:
                    found.append(rule)
    return [*found, Rule(OPERATORS["avg"], {}, OPERATORS["avg"].reducer, "override")]


def has_attributes(record: type[Attributes], names: Iterable[str]) -> bool:
    """Whether an operator has attributes of all these names."""
    return {*names} <= {own.name for own in fields(record)}


def operators_of(rule: Rule, combination: Sequence[Window], auto_pad: str, divisor: int) -> Iterator[Attributes]:
    """The operators of a rule on these windows: with enough padding, and rounded up where that changes divisors."""
    _, kernel, strides, dilations, begins, _, ends = zip(*combination, strict=True)
    numbers: dict[str, Any] = {"kernel": kernel, "strides": strides, "dilations": dilations} | rule.given
    if rule.divisor == "override":
        numbers["divisor_override"] = divisor
    variants: list[dict[str, Any]] = [{"pads_begin": begins, "pads_end": ends}]
    if auto_pad:
        variants = [{"auto_pad": auto_pad}]
    elif any(ends) and rule.reducer.signed:  # PyTorch's lp has no padding, but windows that overhang
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
    if rule.needs_all:  # of windows of one element, statistics say nothing
        elements = grid.kernels()
        grid = grid.taken((np.cumsum(np.maximum(elements, 2)) < MAX_STATISTIC_ELEMENTS) & (elements > 1))
    divisors = np.ones(len(grid.columns[0]))
    if rule.divisor == "override":
        first = samples[0]
        divisors = np.rint(_results(first, rule, grid, divisors) / first.y[first.at])
        kept = np.isfinite(divisors) & (np.abs(divisors) <= LARGEST_DIVISOR) & (divisors != 0)
        grid, divisors = grid.taken(kept), divisors[kept]
    scores = np.zeros(len(divisors))
    for sample in samples:
        wanted = float(sample.y[sample.at])
        off = distances(_results(sample, rule, grid, divisors), wanted) - _tolerance(pair, rule, wanted)
        scores = scores + np.minimum(np.maximum(off, 0) / (pair.spread or 1), 1)
        matching = min(int((scores == 0).sum()), MAX_MATCHING)
        best = np.argsort(scores, kind="stable")[: max(MIN_KEPT, matching, len(scores) // 4)]
        grid, divisors, scores = grid.taken(best), divisors[best], scores[best]
    fitting, ranked = list[Attributes](), list[tuple[float, Attributes]]()
    for i, score in enumerate(scores[: max(exact, near)].tolist()):
        ops = [*operators_of(rule, grid.combination(i), grid.auto_pad, int(divisors[i]))]
        fitting += ops if score == 0 and i < exact else []
        ranked += [(score, op) for op in ops] if i < near else []
    return fitting, ranked


def _tolerance(pair: Pair, rule: Rule, wanted: float) -> float:
    """How much a sampled output may differ; sums and averages of integers are rounded or cut off."""
    if not np.isfinite(wanted):
        return 0.0
    relative = pair.rtol + max(STATISTIC_RTOL * rule.needs_all, pair.eps)
    sums = pair.sum_error * SUM_ROUNDINGS if pair.is_float else 1.0
    return pair.atol + relative * abs(wanted) + sums * rule.reducer.adds


def _results(sample: Sample, rule: Rule, grid: Grid, divisors: Array) -> Array:
    """What the combinations give at an output."""
    read = [axis.read(o) for axis, o in zip(grid.axes, sample.at, strict=True)]
    spans = [spans for spans, *_ in read]
    numbers = tuple(numbers[column] for (_, numbers, _), column in zip(read, grid.columns, strict=True))
    reducer = rule.reducer
    if rule.needs_all:
        return _statistics(sample, reducer, spans, numbers)
    total: Array = _reduced(sample.x, reducer, spans)[numbers]
    if rule.divisor == "override":
        return total / divisors
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


def _statistics(sample: Sample, reducer: Reducer, spans: Sequence[Sequence[range]], numbers: Sequence[Array]) -> Array:
    """The statistic of the window of each combination, NaN without elements; windows of one shape at once."""
    from poolcli.engine.numpy.statistics import STATISTICS

    take = STATISTICS["mode" if reducer.votes else reducer.statistic or ""]
    windows, same = np.unique(np.stack(numbers, -1), axis=0, return_inverse=True)
    lengths = np.stack([np.array([*map(len, every)])[n] for every, n in zip(spans, windows.T, strict=True)], -1)
    found = np.full(len(windows), np.nan)
    for shape in {tuple(each) for each in lengths.tolist() if all(each)}:
        alike = np.flatnonzero((lengths == shape).all(axis=1))
        places = []
        for i, every in enumerate(spans):
            along = np.array([every[number] for number in windows[alike, i]])
            places.append(along.reshape(len(alike), *(-1 if j == i else 1 for j in range(len(spans)))))
        rows = sample.x[tuple(places)].reshape(len(alike), -1)
        taken = take(rows, np.ones(rows.shape, np.bool_), reducer, sample.y.dtype.name)
        found[alike] = np.asarray(taken, np.float64)
    statistics: Array = found[same.reshape(-1)]
    return statistics
