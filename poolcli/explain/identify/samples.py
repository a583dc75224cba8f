"""Filters hypotheses by sampled outputs: combinations, one hypothesis per axis, that match exactly, or come closest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

from poolcli.explain.identify.hypotheses import Hypothesis, Rule
from poolcli.layouts import spatial_axes
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

MAX_RANKED_PLANES = 256  # planes that are ranked by how much their outputs vary
SAMPLED_PLANES = 4
SUM_ROUNDINGS = 32  # rounding errors that a sampled sum may have
FLOAT32_EPS = 2.0**-23
MAX_FIRST_COMBINATIONS = 2**23  # of the most common hypotheses, that are compared with the first sample
MAX_SCORED_COMBINATIONS = 2**20  # the same for scores, and for a divisor_override
MAX_LATER_COMBINATIONS = 2**18  # the simplest matches, that are compared with further samples
FEW_MATCHES = 4  # no further samples for as few
COMMON_SHARE = 8  # a value that more than one in so many outputs has says little
RARE_OUTPUTS = 6  # samples with the rarest value
FURTHER_SAMPLES = 24  # of each plane, if the first samples leave many matches
SCORE_SAMPLES = 16  # of each plane, for a score
FIRST_SCORE_SAMPLES = 4  # by which all combinations are scored
MAX_RESCORED = 2**12  # the best combinations, that are scored by all samples
MAX_STATISTIC_COMBINATIONS = 2**14  # of the most common hypotheses, of which modes and statistics are computed
MAX_STATISTIC_ELEMENTS = 2**21  # elements of all windows whose modes and statistics are computed at a sample
MAX_SCORED_STATISTIC_ELEMENTS = 2**18  # the same for scores
MAX_RESCORED_STATISTICS = 2**6  # the best of them, that are scored by all samples
MAX_GATHERED_ELEMENTS = 2**22  # elements of windows that are gathered at once
STATISTIC_RTOL = 1e-3  # of samples; at least the rounding error of float16
UNEQUAL_AXES_COST = 3  # of different numbers on neighbouring axes
LARGEST_DIVISOR = 10_000

Place = tuple[int, ...]
Combination = tuple[Hypothesis, ...]
Statistic = Callable[[Array, str], Array]  # of each row of elements, for outputs of the given type


@dataclass(frozen=True, slots=True)
class Plane:
    """The spatial axes of one image and channel, as float64 and as stored, and how much outputs may differ.

    `eps` is the relative spacing of the output's type, `sum_tolerance` the rounding error of sums. `spread` is the
    standard deviation of the output; scores clip larger differences.
    """

    x: Array
    y: Array
    stored: tuple[Array, Array]
    eps: float
    sum_tolerance: float
    spread: float
    atol: float
    rtol: float

    def tolerance(self, wanted: float, rule: Rule) -> float:
        """How much an output may differ."""
        if not np.isfinite(wanted):
            return 0.0
        return self.atol + (self.rtol + self.eps) * abs(wanted) + self.sum_tolerance * (rule.reduction == "add")


def planes_of(x: Array, y: Array, layout: str, atol: float, rtol: float) -> list[Plane]:
    """The planes with the most informative outputs: finite ones with many different values."""
    axes = [layout.index(letter) for letter in "NC" if letter in layout] + [*spatial_axes(layout)]
    rank = len(spatial_axes(layout))
    inputs, outputs = (np.transpose(a, axes).reshape(-1, *np.transpose(a, axes).shape[-rank:]) for a in (x, y))
    order = sorted(range(min(len(outputs), MAX_RANKED_PLANES)), key=lambda i: _information(outputs[i]), reverse=True)
    return [_plane(inputs[i], outputs[i], atol, rtol) for i in order[:SAMPLED_PLANES]]


def _plane(x: Array, y: Array, atol: float, rtol: float) -> Plane:
    a, b = x.astype(np.float64), y.astype(np.float64)
    finite = b[np.isfinite(b)]
    sum_tolerance = sum_eps(y) * SUM_ROUNDINGS * largest(a) or (
        0.0 if is_float(y) else 1.0
    )  # integers are rounded or cut off
    spread = float(finite.std()) if finite.size else 0.0
    return Plane(a, b, (x[None, None], y[None, None]), eps(y), sum_tolerance, spread or 1.0, atol, rtol)


def _information(plane: Array) -> tuple[bool, int]:
    values = plane.astype(np.float64)
    return bool(np.isfinite(values).all()), len(np.unique(values))


def largest(x: Array) -> float:
    """The largest absolute value that is finite."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def is_float(y: Array) -> bool:
    """Whether the type is a float, bfloat16 included."""
    return y.dtype.kind in "fV"


def eps(y: Array) -> float:
    """The relative spacing of the float type; 0 for integers."""
    if not is_float(y):
        return 0.0
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32_EPS}.get(y.dtype.name, 2.0**-52)


def sum_eps(y: Array) -> float:
    """The relative spacing of the type that accumulates sums, float32 or float64; 0 for integers."""
    return min(eps(y), FLOAT32_EPS) if is_float(y) else 0.0


Sample = tuple[Plane, Place]


class Axis:
    """The hypotheses of one axis, and what each reads at an output."""

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.hypotheses = hypotheses
        self.costs = np.array([each.cost for each in hypotheses])
        self.kernels = np.array([float(each.windows.kernel) for each in hypotheses])
        self.names = {each.numbers: i for i, each in enumerate(hypotheses)}
        self._read: dict[int, tuple[list[range], Array, Array]] = {}

    def read(self, o: int) -> tuple[list[range], Array, Array]:
        """The different spans of output `o`, the number of each hypothesis' span, and whether it overhangs the end."""
        if o not in self._read:
            spans: dict[range, int] = {}
            numbers = [spans.setdefault(each.windows.span(o), len(spans)) for each in self.hypotheses]
            past = [w.start(o) + w.extent > w.size for w in (each.windows for each in self.hypotheses)]
            self._read[o] = [*spans], np.array(numbers), np.array(past)
        return self._read[o]

    def distinct(self, o: int, rule: Rule, limit: int) -> tuple[Array, Array]:
        """One hypothesis for each result of a rule at output `o`, and the number of the result of each."""
        _, numbers, past = self.read(o)
        keys = numbers[:limit]
        if rule.signed or rule.divisor in ("kernel", "override"):  # the result depends on the size of the kernel
            keys = np.stack((keys, self.kernels[:limit], past[:limit]))
        _, first, same = np.unique(keys, axis=-1, return_index=True, return_inverse=True)
        return first, same.reshape(-1)


def matching(planes: Sequence[Plane], rule: Rule, axes: Sequence[Axis], most: int) -> list[tuple[Combination, int]]:
    """The `most` simplest combinations that give every sampled output, each with its divisor_override, if any.

    The divisor of an overhanging window may be any that a framework uses.
    """
    samples = [(planes[0], at) for at in informative_outputs(planes[0])]
    if rule.divisor == "override":  # some divisor always fits the first sample
        limit = _limit(axes, MAX_SCORED_COMBINATIONS)
        right = np.ones([min(limit, len(axis.costs)) for axis in axes], bool)
    else:
        limit = _limit(axes, MAX_FIRST_COMBINATIONS)
        off, grid = _excess_grid(samples[0], rule, axes, limit)
        right = (off == 0)[grid]
    rows = np.concatenate((np.argwhere(right), _equal_axes(axes, limit)))
    rows = rows[np.argsort(_costs(axes, rows), kind="stable")[:MAX_LATER_COMBINATIONS]]
    divisors = np.zeros(len(rows))
    for number, sample in enumerate((*samples, *_further_samples(planes))):
        if len(rows) <= (FEW_MATCHES if number >= len(samples) else 0):
            break
        off, divisors = _excess(sample, rule, axes, rows, divisors)
        rows, divisors = rows[off == 0], divisors[off == 0]
    return [(_combination(axes, row), int(by)) for row, by in zip(rows[:most], divisors[:most], strict=True)]


def closest(planes: Sequence[Plane], rule: Rule, axes: Sequence[Axis], most: int) -> list[tuple[float, Combination]]:
    """The `most` combinations with the smallest mean score over the samples, and that score."""
    samples = [(plane, at) for at in _spread_outputs(planes[0]) for plane in planes]
    limit = _limit(axes, MAX_SCORED_COMBINATIONS)
    first = [(plane, *_excess_grid((plane, at), rule, axes, limit)) for plane, at in samples[:FIRST_SCORE_SAMPLES]]
    scores = np.mean([_score(plane, off)[grid] for plane, off, grid in first], axis=0)
    best = np.argpartition(scores, min(MAX_RESCORED, scores.size - 1), axis=None)[:MAX_RESCORED]
    rows = np.concatenate((np.stack(np.unravel_index(best, scores.shape), -1), _equal_axes(axes, limit)))
    scores = np.mean([_score(sample[0], _excess(sample, rule, axes, rows)[0]) for sample in samples], axis=0)
    order = np.lexsort((_costs(axes, rows), scores))[:most]
    return [(float(scores[i]), _combination(axes, rows[i])) for i in order]


def matching_statistics(plane: Plane, statistic: Statistic, axes: Sequence[Axis], most: int) -> list[Combination]:
    """The `most` simplest combinations whose windows have about the sampled statistic; the engine compares exactly."""
    rows = _usual_rows(axes, MAX_STATISTIC_ELEMENTS)
    for at in informative_outputs(plane):
        wanted = float(plane.y[at])
        relative = plane.rtol + max(STATISTIC_RTOL, plane.eps)
        tolerance = plane.atol + relative * abs(wanted) if np.isfinite(wanted) else 0.0
        rows = rows[distances(_statistics_of(plane, at, statistic, axes, rows), wanted) <= tolerance]
    return [_combination(axes, row) for row in rows[:most]]


def closest_statistics(plane: Plane, statistic: Statistic, axes: Sequence[Axis], most: int) -> list[Combination]:
    """The `most` combinations whose windows have the nearest statistics, on average over the samples; none if rounding
    errors would explain any output.
    """
    if is_float(plane.stored[1]) and plane.sum_tolerance > plane.spread:
        return []
    rows, samples = _usual_rows(axes, MAX_SCORED_STATISTIC_ELEMENTS), _spread_outputs(plane)
    for some, left in (samples[:FIRST_SCORE_SAMPLES], MAX_RESCORED_STATISTICS), (samples, most):
        off = [distances(_statistics_of(plane, at, statistic, axes, rows), float(plane.y[at])) for at in some]
        scores = np.mean([_score(plane, each) for each in off], axis=0)
        rows = rows[np.argsort(scores, kind="stable")[:left]]
    return [_combination(axes, row) for row in rows]


def _usual_rows(axes: Sequence[Axis], most: int) -> Array:
    """The most common combinations, and those with the same numbers on every axis, simplest first: as many as have
    windows of `most` elements together. Windows of one element say nothing about statistics.
    """
    limit = _limit(axes, MAX_STATISTIC_COMBINATIONS)
    grid = np.indices([min(limit, len(axis.costs)) for axis in axes]).reshape(len(axes), -1).T
    rows = np.concatenate((grid, _equal_axes(axes, limit)))
    rows = rows[np.argsort(_costs(axes, rows), kind="stable")]
    elements = np.prod([axis.kernels[column] for axis, column in zip(axes, rows.T, strict=True)], axis=0)
    rows, elements = rows[elements > 1], elements[elements > 1]
    few: Array = rows[np.cumsum(elements) - elements < most]
    return few


def _statistics_of(plane: Plane, at: Place, statistic: Statistic, axes: Sequence[Axis], rows: Array) -> Array:
    """The statistic of the window of each row at an output, NaN without elements; windows of one shape at once."""
    x, y = (each[0, 0] for each in plane.stored)
    x = plane.x if is_float(x) else x  # as float64, of which integers of 64 bits would lose digits
    read = [axis.read(o) for axis, o in zip(axes, at, strict=True)]
    numbers = np.stack([each[column] for (_, each, _), column in zip(read, rows.T, strict=True)], -1)
    windows, same = np.unique(numbers, axis=0, return_inverse=True)
    lengths = np.stack([np.array([*map(len, spans)])[i] for (spans, *_), i in zip(read, windows.T, strict=True)], -1)
    found = np.full(len(windows), np.nan)
    for shape in {tuple(int(n) for n in each) for each in lengths if each.all()}:
        alike = np.flatnonzero((lengths == shape).all(axis=1))
        for part in np.array_split(alike, -(-len(alike) * prod(shape) // MAX_GATHERED_ELEMENTS)):
            places = []
            for i, (spans, *_) in enumerate(read):
                along = np.array([spans[number] for number in windows[part, i]])
                places.append(along.reshape(len(part), *(-1 if j == i else 1 for j in range(len(read)))))
            found[part] = statistic(x[tuple(places)].reshape(len(part), -1), y.dtype.name)
    statistics: Array = found[same.reshape(-1)]
    return statistics


def _score(plane: Plane, off: Array) -> Array:
    score: Array = np.minimum(off / plane.spread, 1)
    return score


def distances(found: Array, wanted: Any) -> Array:
    """Absolute differences: 0 for equal numbers and two nans, infinity for one nan."""
    off = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.abs(found - wanted))
    error: Array = np.where(np.isnan(off), np.inf, off)
    return error


def _limit(axes: Sequence[Axis], most: int) -> int:
    """How many hypotheses of each axis to combine, so that there are at most `most` combinations."""
    limit = max(len(axis.costs) for axis in axes)
    while prod(min(limit, len(axis.costs)) for axis in axes) > most:
        limit -= 1 + limit // 50
    return limit


def _equal_axes(axes: Sequence[Axis], limit: int) -> Array:
    """The combinations with the same numbers on every axis that the limit would leave out."""
    rows = [[axis.names.get(numbers, -1) for axis in axes] for numbers in axes[0].names]
    beyond: Array = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp)
    return beyond.reshape(-1, len(axes))


def _excess_grid(sample: Sample, rule: Rule, axes: Sequence[Axis], limit: int) -> tuple[Array, tuple[Array, ...]]:
    """How much the combinations of the first `limit` hypotheses exceed the tolerance at a sample.

    Returns an array over distinct combinations, and the index that expands it to all combinations.
    """
    distinct = [axis.distinct(o, rule, limit) for axis, o in zip(axes, sample[1], strict=True)]
    rows = np.stack(np.meshgrid(*(first for first, _ in distinct), indexing="ij"), -1)
    off, _ = _excess(sample, rule, axes, rows.reshape(-1, len(axes)))
    return off.reshape(rows.shape[:-1]), np.ix_(*(same for _, same in distinct))


def _excess(
    sample: Sample, rule: Rule, axes: Sequence[Axis], rows: Array, divisors: Array | None = None
) -> tuple[Array, Array]:
    """How much each row of hypotheses exceeds the tolerance at a sample, and its divisor_override (0: unknown).

    With `divisors` (those found so far), overhanging windows may have any divisor that a framework uses.
    """
    plane, at = sample
    wanted = float(plane.y[at])
    spans: list[list[range]] = []
    index: list[Array] = []
    inside, kernel, is_past = np.ones(len(rows)), np.ones(len(rows)), np.zeros(len(rows), bool)
    for axis, o, column in zip(axes, at, rows.T, strict=True):
        every, numbers, past = axis.read(o)
        read = numbers[column]
        used = np.flatnonzero(np.bincount(read, minlength=len(every)))
        spans.append([every[i] for i in used])
        index.append(np.searchsorted(used, read))
        if rule.divisor or rule.signed:
            inside = inside * np.array([float(len(span)) for span in every])[read]
            kernel = kernel * axis.kernels[column]
            is_past |= past[column]
    total = _reduced(plane.x, rule, spans)[tuple(index)]
    shown = np.nan_to_num(np.rint(total / wanted))
    divisor = kernel
    if rule.divisor == "override" and divisors is not None:
        divisors = np.where((divisors == 0) & (np.abs(shown) <= LARGEST_DIVISOR), shown, divisors)
        divisor = np.where(divisors == 0, 1, divisors)
    elif rule.divisor == "kernel" and divisors is not None:
        divisor = np.where(is_past, np.clip(shown, inside, kernel), kernel)
    off = distances(rule.result(total, inside, divisor), wanted)
    return np.maximum(off - plane.tolerance(wanted, rule), 0), np.zeros(len(rows)) if divisors is None else divisors


def _reduced(x: Array, rule: Rule, spans: Sequence[Sequence[range]]) -> Array:
    """The reduction of the elements in each combination of spans, one per axis."""
    lows = [min((span.start for span in each if span), default=0) for each in spans]
    highs = [max((span.stop for span in each if span), default=1) for each in spans]
    reduced = rule.terms(x[tuple(map(slice, lows, highs))])
    empty = {"maximum": -np.inf, "minimum": np.inf, "add": 0.0}[rule.reduction]
    for i, low in reversed([*enumerate(lows)]):
        parts = [reduced[(slice(None),) * i + (slice(s.start - low, s.stop - low, s.step),)] if s else
                 reduced[(slice(None),) * i + (slice(0),)] for s in spans[i]]  # fmt: skip
        reduced = np.stack([getattr(np, rule.reduction).reduce(part, axis=i, initial=empty) for part in parts], axis=i)
    return reduced


def _combination(axes: Sequence[Axis], row: Array) -> Combination:
    return tuple(axis.hypotheses[i] for axis, i in zip(axes, row, strict=True))


def _costs(axes: Sequence[Axis], rows: Array) -> Array:
    """How unusual combinations are: the mean over their axes, plus a cost for neighbouring axes that differ."""
    total: Array = np.mean([axis.costs[column] for axis, column in zip(axes, rows.T, strict=True)], axis=0)
    names: dict[tuple[int, ...], int] = {}
    keys = [np.array([names.setdefault(each, len(names)) for each in axis.names]) for axis in axes]
    for (one, a), (two, b) in pairwise(zip(keys, rows.T, strict=True)):
        total = total + UNEQUAL_AXES_COST * (one[a] != two[b])
    return total


def informative_outputs(plane: Plane) -> list[Place]:
    """Choose outputs to sample: the corners, the middle and some between.

    A value that many outputs share (a maximum that many windows read) says little: such outputs come last, and some
    with the rarest value first.
    """
    lengths = plane.y.shape
    marks = [list(dict.fromkeys((n // 2, 0, min(1, n - 1), n // 3, n - 1))) for n in lengths]
    corners = [tuple(at) for at in product(*[(0, n - 1) for n in lengths])]
    usual = list(dict.fromkeys([*corners, *(tuple(m[i % len(m)] for m in marks) for i in range(5))]))
    _, back, counts = np.unique(plane.y, return_inverse=True, return_counts=True)
    many = counts[back.reshape(lengths)]
    common = [at for at in usual if many[at] * COMMON_SHARE > many.size]
    if not common:
        return usual
    rare = [tuple(int(i) for i in at) for at in np.argwhere(many == many.min())]
    return list(
        dict.fromkeys([*rare[:: -(-len(rare) // RARE_OUTPUTS)], *(at for at in usual if at not in common), *common])
    )


def _further_samples(planes: Sequence[Plane]) -> Iterator[tuple[Plane, Place]]:
    """More samples, evenly spaced over every plane."""
    shape = planes[0].y.shape
    numbers = np.unique(np.linspace(0, prod(shape) - 1, FURTHER_SAMPLES).astype(int))
    for plane in planes:
        yield from ((plane, tuple(int(i) for i in np.unravel_index(n, shape))) for n in numbers)


def _spread_outputs(plane: Plane) -> list[Place]:
    """A regular grid of outputs, without the borders where possible."""
    each = SCORE_SAMPLES ** (1 / plane.y.ndim)
    lines = [sorted({int((i + 0.5) * n / each) for i in range(int(each))} & {*range(n)}) for n in plane.y.shape]
    return list(product(*lines))
