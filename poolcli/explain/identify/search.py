"""The windows that each axis may have, and the combinations of them whose sampled outputs are the nearest."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import pairwise, product
from math import prod
from typing import Any

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.solve import COMMON_KERNELS, axis_complexity
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field as shown
from poolcli.plan.attributes import OPERATORS, Attributes, SlidingAttributes
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Sliding, ceil_div, extent, same_pads

MAX_DILATION = 3  # largest dilation that is tried
MAX_WHOLE_OUTPUTS = 4  # outputs of windows as long as the input
MAX_GIVEN = 10_000  # largest number that may be given for a short axis; planning takes memory in proportion
POWERS, DDOFS = (2, 1, 3, 4), (0, 1)
MAX_COMBINATIONS = 2**20  # of the most common windows of each axis
MAX_STATISTIC_ELEMENTS = 2**21  # of all windows together whose statistics are computed at a sample
MAX_SAMPLES = 24
MIN_KEPT, MAX_MATCHING = 2**8, 2**16  # combinations that are kept after a sample: any, and those that give it
SAMPLED_PLANES, RANKED_PLANES = 4, 256
RANKED_OUTPUTS = 2**20  # outputs of a plane among which rare values are counted
RARE_OUTPUTS = 6
SUM_ROUNDINGS = 32  # rounding errors that a sampled sum may have
STATISTIC_RTOL = 1e-3  # of samples; at least the rounding error of float16
SINGLE_ELEMENTS = 6
UNEQUAL_AXES_COST = 3  # of different numbers on neighbouring axes
LARGEST_DIVISOR = 10_000
FLOAT32_EPS = 2.0**-23
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32_EPS}

Place = tuple[int, ...]
Columns = tuple[Array, ...]  # of each axis, the numbers of its windows in the combinations


@dataclass(frozen=True, slots=True)
class AxisWindows:
    """Windows that one axis may have, padded at the end as far as the last one reaches, and how unusual they are.

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

    def overhanging_pads(self) -> list[int]:
        """Up to three paddings at the end that give as many windows by rounding up: the last window overhangs."""
        (least, most), w = self.pads_end, self.windows
        low = max(0, most - w.stride + 1)
        return [end for end in dict.fromkeys((w.pad_begin, 0, *range(low, least + 1))) if low <= end <= least][:3]


Combination = tuple[AxisWindows, ...]


def windows_of(lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str = "") -> list[AxisWindows]:
    """List the windows of the first input that give the right output length for all inputs, the most common first.

    Kernels up to 11, those about as long as the input's share of an output, and the whole input; dilations up to 3;
    pads shorter than the kernel or half of its extent, or those of the word `auto_pad`; every stride. `lengths` are
    those of each input and its output, `given` the numbers that are known.
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
                cost -= SINGLE_ELEMENTS * (kernel == 1 < stride)  # less unusual than gaps between longer windows
                windows = Sliding(size, output, kernel, stride, dilation, begin, end)
                found.append(AxisWindows(windows, cost, ends, auto_pad))
    return sorted(found, key=lambda each: (each.cost, each.numbers))


def _geometries(
    lengths: Sequence[tuple[int, int]], given: Mapping[str, int], auto_pad: str
) -> Iterator[tuple[int, int, int]]:
    """Kernels, dilations and explicit pads at the beginning to try; the pads of `auto_pad` depend on the stride."""
    most = max(MAX_GIVEN, *(2 * size for size, _ in lengths))
    for name, number in given.items():
        if number > most:
            raise RequestError(f"{shown(name)} is {number:,}; here numbers up to {most:,} are searched")
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


@dataclass(frozen=True, slots=True)
class Rule:
    """How the elements of a window are reduced to one number.

    Attributes
    ----------
    op : str
    given : dict
        Attributes of the operator beyond those of its windows.
    join : str
        The ufunc that joins the elements or their powers.
    power : int or None
        The power of which elements are added and of whose sum the root is taken; `signed` as PyTorch has it.
    divisor : str
        Nothing, the elements inside the input, the whole kernel, or a number that all windows share.
    statistic : operator or None
        An operator that needs all elements of a window at once.
    """

    op: str
    given: dict[str, Any] = field(default_factory=dict)
    join: str = "add"
    power: int | None = None
    signed: bool = False
    divisor: str = ""
    statistic: Attributes | None = None


OVERRIDE_RULE = Rule("avg", divisor="override")
JOINS: dict[Any, str] = {operator.gt: "maximum", operator.lt: "minimum"}


def rules(given: Mapping[str, Any], votes: bool) -> list[Rule]:
    """The rules of every operator with sliding windows, those that pick an element first; `votes`: also modes."""
    records = [record for record in OPERATORS.values() if issubclass(record, SlidingAttributes)]
    picking = sorted(records, key=lambda record: not record.reducer.picks)
    return [rule for record in picking for rule in _rules_of(record, given, votes)]


def _rules_of(record: Any, given: Mapping[str, Any], votes: bool) -> Iterator[Rule]:
    name, reducer = record.name, record.reducer
    if reducer.statistic or reducer.votes:
        ddofs = [given["ddof"]] if "ddof" in given else DDOFS
        for own in [{"ddof": ddof} for ddof in ddofs] if has_attribute(record, "ddof") else [{}]:
            with suppress(RequestError):
                if votes or not reducer.votes:
                    yield Rule(name, own, statistic=record(1, **own))
    elif reducer.better in JOINS:
        yield Rule(name, join=JOINS[reducer.better])
    elif not reducer.adds:
        return
    elif reducer.power is not None:
        signed = [d.name for d in DIALECTS.values() if name in d.operators and record(1).reduction(d).signed]
        yield from (Rule(name, {"p": p}, power=p) for p in POWERS)
        yield from (Rule(name, {"p": p, "like": like}, power=p, signed=True) for like in signed for p in POWERS)
    elif reducer.divides:
        yield Rule(name, {"exclude_pad": True}, divisor="inside")
        yield Rule(name, {"exclude_pad": False}, divisor="kernel")
    else:
        yield Rule(name)


def has_attribute(record: type[Attributes], name: str) -> bool:
    """Whether an operator has an attribute of that name."""
    return any(own.name == name for own in fields(record))


def operators_of(rule: Rule, combination: Combination, divisor: int = 0) -> Iterator[Attributes]:
    """The operators of a rule on these windows: with enough padding, and rounded up where that changes divisors."""
    ends, auto_pad = tuple(each.pads_end[1] for each in combination), combination[0].auto_pad
    kernel, strides, dilations, begins = zip(*(each.numbers for each in combination), strict=True)
    numbers: dict[str, Any] = {"kernel": kernel, "strides": strides, "dilations": dilations}
    own = rule.given | ({"divisor_override": divisor} if rule.divisor == "override" else {})
    record: Any = OPERATORS[rule.op]
    variants: list[dict[str, Any]] = [{"pads_begin": begins, "pads_end": ends}]
    if auto_pad:
        variants = [{"auto_pad": auto_pad}]
    elif any(ends) and rule.signed:  # PyTorch's lp has no padding, but windows that overhang
        variants.append({"rounding_type": "ceil"})
    elif any(ends) and rule.divisor == "kernel":
        overhanging = product(*(each.overhanging_pads() for each in combination))
        ceil = {"pads_begin": begins, "rounding_type": "ceil", "like": "onnx"}
        variants += [{"pads_end": shorter, **ceil} for shorter in overhanging]
    for words in variants:
        with suppress(RequestError):
            op: Attributes = record(**numbers | words | own)
            yield op


class Axis:
    """The windows that one axis may have, and what each reads at an output."""

    def __init__(self, windows: Sequence[AxisWindows]) -> None:
        self.windows = windows
        self.costs = np.array([each.cost for each in windows])
        self.kernels = np.array([float(each.windows.kernel) for each in windows])
        self.places = {each.numbers: i for i, each in enumerate(windows)}
        self._read: dict[int, tuple[list[range], Array, Array]] = {}

    def read(self, o: int) -> tuple[list[range], Array, Array]:
        """The different spans of output `o`, the number of each window's span, and whether it overhangs the end."""
        if o not in self._read:
            spans: dict[range, int] = {}
            numbers = [spans.setdefault(each.windows.span(o), len(spans)) for each in self.windows]
            past = [w.start(o) + w.extent > w.size for w in (each.windows for each in self.windows)]
            self._read[o] = [*spans], np.array(numbers), np.array(past)
        return self._read[o]


@dataclass(frozen=True, slots=True)
class Plane:
    """The spatial axes of one image and channel, as float64 and as stored, and how much outputs may differ.

    `sum_tolerance` is the rounding error of sums. `spread` is the standard deviation of the output; scores clip larger
    differences.
    """

    x: Array
    y: Array
    stored: tuple[Array, Array]
    sum_tolerance: float
    spread: float
    atol: float
    rtol: float

    def tolerance(self, rule: Rule, wanted: float) -> float:
        """How much a sampled output may differ."""
        if not np.isfinite(wanted):
            return 0.0
        relative = max(STATISTIC_RTOL * (rule.statistic is not None), eps(self.stored[1]))
        sums = self.sum_tolerance * (rule.join == "add" and rule.statistic is None)
        return self.atol + (self.rtol + relative) * abs(wanted) + sums


Sample = tuple[Plane, Place]


def planes_of(x: Array, y: Array, layout: str, atol: float, rtol: float) -> list[Plane]:
    """The planes with the most informative outputs: finite ones with many different values."""
    spatial = spatial_axes(layout)
    order = [*(i for i in range(len(layout)) if i not in spatial), *spatial]
    inputs, outputs = (np.transpose(a, order).reshape(-1, *(a.shape[i] for i in spatial)) for a in (x, y))
    numbers = sorted(range(min(len(outputs), RANKED_PLANES)), key=lambda i: _information(outputs[i]), reverse=True)
    return [_plane(inputs[i], outputs[i], atol, rtol) for i in numbers[:SAMPLED_PLANES]]


def _plane(x: Array, y: Array, atol: float, rtol: float) -> Plane:
    a, b = x.astype(np.float64), y.astype(np.float64)
    finite = b[np.isfinite(b)]
    sums = sum_eps(y) * SUM_ROUNDINGS * largest(a) if is_float(y) else 1.0  # integers are rounded or cut off
    return Plane(a, b, (x, y), sums, float(finite.std() if finite.size else 0) or 1.0, atol, rtol)


def _information(plane: Array) -> tuple[bool, int]:
    values = plane.ravel()[:RANKED_OUTPUTS].astype(np.float64)
    return bool(np.isfinite(values).all()), len(np.unique(values))


def samples_of(planes: Sequence[Plane]) -> list[Sample]:
    """Outputs to sample: of each plane in turn those with the rarest values, the corners, the middle, and others."""
    each = [[(plane, at) for at in _places(plane.y)] for plane in planes]
    return [found[i] for i in range(max(map(len, each))) for found in each if i < len(found)][:MAX_SAMPLES]


def _places(y: Array) -> list[Place]:
    """A value that many outputs share (a maximum that many windows read) says little: the rarest come first."""
    marks = [list(dict.fromkeys((n // 2, n // 3, 2 * n // 3, min(1, n - 1)))) for n in y.shape]
    corners = product(*[(0, n - 1) for n in y.shape])  # last, as borders may differ more than all else
    usual = [*(tuple(m[i % len(m)] for m in marks) for i in range(4)), *corners]
    few = y[tuple(slice(max(1, int(RANKED_OUTPUTS ** (1 / y.ndim)))) for _ in y.shape)]
    _, back, counts = np.unique(few, return_inverse=True, return_counts=True)
    many = counts[back.reshape(few.shape)]
    rare = np.argwhere(many == many.min())
    inside = rare[((rare > 0) & (rare < np.array(y.shape) - 1)).all(axis=1)]
    rare = inside if len(inside) else rare
    chosen = [tuple(map(int, at)) for at in rare[:: -(-len(rare) // RARE_OUTPUTS)]]
    return list(dict.fromkeys([*chosen, *usual] if many.min() < many.max() else [*usual, *chosen]))


@dataclass(frozen=True, slots=True)
class Grid:
    """Combinations of windows, one of each axis, the most common first; `columns` are their numbers on each axis."""

    axes: Sequence[Axis]
    columns: Columns

    def taken(self, rows: Array) -> Grid:
        """Some of the combinations."""
        return Grid(self.axes, tuple(column[rows] for column in self.columns))

    def combination(self, row: int) -> Combination:
        """The windows of each axis."""
        return tuple(axis.windows[column[row]] for axis, column in zip(self.axes, self.columns, strict=True))

    def kernels(self) -> Array:
        """The number of elements of the kernels."""
        lengths = [axis.kernels[column] for axis, column in zip(self.axes, self.columns, strict=True)]
        return np.asarray(np.prod(lengths, axis=0))


def grid_of(axes: Sequence[Axis]) -> Grid:
    """The combinations of the most common windows of each axis, and those with the same numbers on every axis."""
    counts = [len(axis.windows) for axis in axes]
    limit = max(counts)
    while prod(min(limit, count) for count in counts) > MAX_COMBINATIONS:
        limit -= 1 + limit // 50
    every = np.indices([min(limit, count) for count in counts]).reshape(len(axes), -1)
    rows = [[axis.places.get(numbers, -1) for axis in axes] for numbers in axes[0].places]
    equal = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp).reshape(-1, len(axes))
    grid = Grid(axes, tuple(np.concatenate((every, equal.T), axis=1)))
    return grid.taken(np.argsort(_costs(axes, grid.columns), kind="stable"))


def nearest(
    samples: Sequence[Sample], rule: Rule, grid: Grid, exact: int, near: int
) -> tuple[list[tuple[Combination, int]], list[tuple[float, Combination, int]]]:
    """The `exact` simplest combinations that give every sampled output, and the `near` nearest with their scores.

    Each has its divisor_override, if any. A score is the mean difference, as a share of the output's standard
    deviation. The divisor of an overhanging window may be any that a framework uses. A quarter of the combinations is
    kept after each sample, and what gives it.
    """
    if rule.statistic:
        elements = np.maximum(grid.kernels(), 2)  # of windows of one element, statistics say nothing
        grid = grid.taken((np.cumsum(elements) < MAX_STATISTIC_ELEMENTS) & (grid.kernels() > 1))
    by = np.zeros(len(grid.columns[0]))
    if rule.divisor == "override":
        plane, at = samples[0]
        by = np.rint(_results(plane, at, Rule(rule.op), grid, by) / plane.y[at])
        kept = np.isfinite(by) & (np.abs(by) <= LARGEST_DIVISOR) & (by != 0)
        grid, by = grid.taken(kept), by[kept]
    scores = np.zeros(len(by))
    for sample in samples:
        scores = scores + _score(sample, rule, grid, by)
        matching = min(int((scores == 0).sum()), MAX_MATCHING)
        best = np.argsort(scores, kind="stable")[: max(MIN_KEPT, matching, len(scores) // 4)]
        grid, by, scores = grid.taken(best), by[best], scores[best]
    found = [
        (float(score), grid.combination(i), int(by[i])) for i, score in enumerate(scores[: max(exact, near)].tolist())
    ]
    return [each[1:] for each in found[:exact] if each[0] == 0], found[:near]


def _costs(axes: Sequence[Axis], columns: Columns) -> Array:
    """How unusual combinations are: the mean over their axes, plus a cost for neighbouring axes that differ."""
    total: Array = np.mean([axis.costs[column] for axis, column in zip(axes, columns, strict=True)], axis=0)
    names: dict[Place, int] = {}
    keys = [np.array([names.setdefault(each, len(names)) for each in axis.places]) for axis in axes]
    for (one, a), (two, b) in pairwise(zip(keys, columns, strict=True)):
        total = total + UNEQUAL_AXES_COST * (one[a] != two[b])
    return total


def _score(sample: Sample, rule: Rule, grid: Grid, by: Array) -> Array:
    """How far the combinations are from a sampled output beyond the tolerance: 0 to 1."""
    plane, at = sample
    wanted = float(plane.y[at])
    off = distances(_results(plane, at, rule, grid, by), wanted)
    score: Array = np.minimum(np.maximum(off - plane.tolerance(rule, wanted), 0) / plane.spread, 1)
    return score


def _results(plane: Plane, at: Place, rule: Rule, grid: Grid, by: Array) -> Array:
    """What the combinations give at an output."""
    read = [axis.read(o) for axis, o in zip(grid.axes, at, strict=True)]
    numbers = tuple(numbers[column] for (_, numbers, _), column in zip(read, grid.columns, strict=True))
    spans = [spans for spans, *_ in read]
    if rule.statistic:
        return _statistics(plane, rule.statistic, spans, numbers)
    total: Array = _reduced(plane.x, rule, spans)[numbers]
    if rule.divisor == "override":
        total /= by
    elif rule.divisor or rule.signed:
        lengths = [np.array([float(len(span)) for span in every])[n] for every, n in zip(spans, numbers, strict=True)]
        inside, kernel = np.prod(lengths, axis=0), grid.kernels()
        if rule.divisor == "kernel":
            past = np.any([past[column] for (*_, past), column in zip(read, grid.columns, strict=True)], axis=0)
            fitting = np.nan_to_num(np.rint(total / float(plane.y[at])))
            total /= np.where(past, np.clip(fitting, inside, kernel), kernel)
        else:
            total = total / inside * (kernel if rule.signed else 1)
    if rule.power is not None:
        total = np.sign(total) * np.abs(total) ** (1 / rule.power)
    return total


def _reduced(x: Array, rule: Rule, spans: Sequence[Sequence[range]]) -> Array:
    """The reduction of the elements in each combination of spans, one per axis."""
    lows = [min((span.start for span in each if span), default=0) for each in spans]
    highs = [max((span.stop for span in each if span), default=1) for each in spans]
    reduced = x[tuple(map(slice, lows, highs))]
    if rule.power is not None:
        reduced = (reduced if rule.signed else np.abs(reduced)) ** rule.power
    empty = {"maximum": -np.inf, "minimum": np.inf, "add": 0.0}[rule.join]
    for i, low in reversed([*enumerate(lows)]):
        before = (slice(None),) * i
        parts = [
            reduced[(*before, slice(span.start - low, span.stop - low, span.step) if span else slice(0))]
            for span in spans[i]
        ]
        reduced = np.stack([getattr(np, rule.join).reduce(part, axis=i, initial=empty) for part in parts], axis=i)
    return reduced


def _statistics(plane: Plane, op: Attributes, spans: Sequence[Sequence[range]], numbers: Sequence[Array]) -> Array:
    """The statistic of the window of each combination, NaN without elements; windows of one shape at once."""
    from poolcli.engine.numpy.statistics import STATISTICS

    reducer = op.reduction(DIALECTS[op.like])
    take = STATISTICS["mode" if reducer.votes else reducer.statistic or ""]
    x, y = plane.stored
    x = plane.x if is_float(x) else x  # integers of 64 bits would lose digits
    windows, same = np.unique(np.stack(numbers, -1), axis=0, return_inverse=True)
    lengths = np.stack([np.array([*map(len, every)])[n] for every, n in zip(spans, windows.T, strict=True)], -1)
    found = np.full(len(windows), np.nan)
    for shape in {tuple(map(int, each)) for each in lengths if each.all()}:
        alike = np.flatnonzero((lengths == shape).all(axis=1))
        places = []
        for i, every in enumerate(spans):
            along = np.array([every[number] for number in windows[alike, i]])
            places.append(along.reshape(len(alike), *(-1 if j == i else 1 for j in range(len(spans)))))
        rows = x[tuple(places)].reshape(len(alike), -1)
        found[alike] = np.asarray(take(rows, np.ones(rows.shape, np.bool_), reducer, y.dtype.name), np.float64)
    statistics: Array = found[same.reshape(-1)]
    return statistics


def distances(found: Array, wanted: Any) -> Array:
    """Absolute differences: 0 for equal numbers and two nans, infinity for one nan."""
    off = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.abs(found - wanted))
    error: Array = np.where(np.isnan(off), np.inf, off)
    return error


def largest(x: Array) -> float:
    """The largest absolute value that is finite."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def is_float(y: Array) -> bool:
    """Whether the type is a float, bfloat16 included."""
    return y.dtype.kind in "fV"


def eps(y: Array) -> float:
    """The relative spacing of the float type; 0 for integers."""
    return EPS.get(y.dtype.name, 2.0**-52) if is_float(y) else 0.0


def sum_eps(y: Array) -> float:
    """The relative spacing of the type that accumulates sums, float32 or float64; 0 for integers."""
    return min(eps(y), FLOAT32_EPS) if is_float(y) else 0.0
