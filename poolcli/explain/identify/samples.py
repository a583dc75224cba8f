"""Sampled outputs: which combinations of hypotheses, one for each axis, give them exactly, and which come closest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.explain.identify.hypotheses import Hypothesis, Rule
from poolcli.layouts import spatial_axes
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array

np: Any = Lazy("numpy")

PLANES = 256  # of which those are sampled whose output varies most
SAMPLED = 4
ADDED = 32  # elements whose roundings a sampled sum may have
FLOAT32 = 2.0**-23
COMBINED = 2**23  # combinations of the most usual hypotheses of each axis that are held against the first sample
SCORED = 2**20  # of those that are scored, or have a divisor of their own
HELD = 2**18  # combinations, the plainest, that are held against further samples
DECIDED = 4  # matches that need no further samples
COMMON = 8  # a number that more than one in so many outputs have says little
RARE = 6  # outputs with the rarest number
FURTHER = 24  # samples of each plane where the first leave much open
SPREAD = 16  # samples of each plane for a score
FIRST = 4  # samples for a score of all combinations
KEPT = 2**12  # combinations that are scored at all samples
UNLIKE = 3  # cost of different numbers on two axes
LARGEST_DIVISOR = 10_000

Place = tuple[int, ...]
Combination = tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of input and output: its spatial axes as float64, and as stored; by how much elements may differ.

    `step` is that of the output's type, relative; `slack` what sums may differ by besides. `spread` is the standard
    deviation of the output: differences above it count the same.
    """

    x: Array
    y: Array
    stored: tuple[Array, Array]
    step: float
    slack: float
    spread: float
    atol: float
    rtol: float

    def room(self, wanted: float, rule: Rule) -> float:
        """By how much an output may differ."""
        if not np.isfinite(wanted):
            return 0.0
        return self.atol + (self.rtol + self.step) * abs(wanted) + self.slack * (rule.join == "add")


def planes_of(x: Array, y: Array, layout: str, atol: float, rtol: float) -> list[Plane]:
    """The planes whose output says most, as it is finite and varied."""
    axes = [layout.index(letter) for letter in "NC" if letter in layout] + [*spatial_axes(layout)]
    rank = len(spatial_axes(layout))
    inputs, outputs = (np.transpose(a, axes).reshape(-1, *np.transpose(a, axes).shape[-rank:]) for a in (x, y))
    order = sorted(range(min(len(outputs), PLANES)), key=lambda i: _variety(outputs[i]), reverse=True)
    return [_plane(inputs[i], outputs[i], atol, rtol) for i in order[:SAMPLED]]


def _plane(x: Array, y: Array, atol: float, rtol: float) -> Plane:
    a, b = x.astype(np.float64), y.astype(np.float64)
    finite = b[np.isfinite(b)]
    room = slack(y) * ADDED * largest(a) or (0.0 if is_float(y) else 1.0)  # integers are rounded or cut off
    spread = float(finite.std()) if finite.size else 0.0
    return Plane(a, b, (x[None, None], y[None, None]), step(y), room, spread or 1.0, atol, rtol)


def _variety(plane: Array) -> tuple[bool, int]:
    values = plane.astype(np.float64)
    return bool(np.isfinite(values).all()), len(np.unique(values))


def largest(x: Array) -> float:
    """The largest absolute value that is finite."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def is_float(y: Array) -> bool:
    """Whether elements are floats, bfloat16 included."""
    return y.dtype.kind in "fV"


def step(y: Array) -> float:
    """The relative distance of two neighbouring floats of the type; 0 for integers."""
    if not is_float(y):
        return 0.0
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32}.get(y.dtype.name, 2.0**-52)


def slack(y: Array) -> float:
    """The step of the type that sums are taken in: at least that of float32."""
    return min(step(y), FLOAT32) if is_float(y) else 0.0


Sample = tuple[Plane, Place]


class Axis:
    """The hypotheses of one axis, and what each of them reads at an output."""

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.hypotheses = hypotheses
        self.costs = np.array([each.cost for each in hypotheses])
        self.kernels = np.array([float(each.windows.kernel) for each in hypotheses])
        self.names = {each.numbers: i for i, each in enumerate(hypotheses)}
        self._read: dict[int, tuple[list[range], Array, Array]] = {}

    def read(self, o: int) -> tuple[list[range], Array, Array]:
        """The spans of output `o`, the number of that of each hypothesis, and whether it reaches past the end."""
        if o not in self._read:
            spans: dict[range, int] = {}
            numbers = [spans.setdefault(each.windows.span(o), len(spans)) for each in self.hypotheses]
            past = [w.start(o) + w.extent > w.size for w in (each.windows for each in self.hypotheses)]
            self._read[o] = [*spans], np.array(numbers), np.array(past)
        return self._read[o]

    def distinct(self, o: int, rule: Rule, limit: int) -> tuple[Array, Array]:
        """Of the first hypotheses those that a rule distinguishes at output `o`, and for each which of them it is."""
        _, numbers, past = self.read(o)
        keys = numbers[:limit]
        if rule.counts_kernel:
            keys = np.stack((keys, self.kernels[:limit], past[:limit]))
        _, first, same = np.unique(keys, axis=-1, return_index=True, return_inverse=True)
        return first, same.reshape(-1)


def matching(planes: Sequence[Plane], rule: Rule, axes: Sequence[Axis], most: int) -> list[tuple[Combination, int]]:
    """The `most` plainest combinations that give every sampled output, and the divisor that they share, if any.

    Where a window overhangs, frameworks count more or less of it: any divisor that they may use is right there.
    """
    samples = [(planes[0], at) for at in telling(planes[0])]
    if rule.divisor == "override":  # which may be any at the first sample
        limit = _limit(axes, SCORED)
        right = np.ones([min(limit, len(axis.costs)) for axis in axes], bool)
    else:
        limit = _limit(axes, COMBINED)
        off, grid = _everywhere(samples[0], rule, axes, limit)
        right = (off == 0)[grid]
    rows = np.concatenate((np.argwhere(right), _shared(axes, limit)))
    rows = rows[np.argsort(_costs(axes, rows), kind="stable")[:HELD]]
    divisors = np.zeros(len(rows))
    for number, sample in enumerate((*samples, *_further(planes))):
        if len(rows) <= (DECIDED if number >= len(samples) else 0):
            break
        off, divisors = _off(sample, rule, axes, rows, divisors)
        rows, divisors = rows[off == 0], divisors[off == 0]
    return [(_combination(axes, row), int(by)) for row, by in zip(rows[:most], divisors[:most], strict=True)]


def closest(planes: Sequence[Plane], rule: Rule, axes: Sequence[Axis], most: int) -> list[tuple[float, Combination]]:
    """The `most` combinations with the smallest mean distance from sampled outputs, and that distance."""
    samples = [(plane, at) for at in _spread(planes[0]) for plane in planes]
    limit = _limit(axes, SCORED)
    first = [(plane, *_everywhere((plane, at), rule, axes, limit)) for plane, at in samples[:FIRST]]
    scores = np.mean([_score(plane, off)[grid] for plane, off, grid in first], axis=0)
    best = np.argpartition(scores, min(KEPT, scores.size - 1), axis=None)[:KEPT]
    rows = np.concatenate((np.stack(np.unravel_index(best, scores.shape), -1), _shared(axes, limit)))
    scores = np.mean([_score(sample[0], _off(sample, rule, axes, rows)[0]) for sample in samples], axis=0)
    order = np.lexsort((_costs(axes, rows), scores))[:most]
    return [(float(scores[i]), _combination(axes, rows[i])) for i in order]


def _score(plane: Plane, off: Array) -> Array:
    score: Array = np.minimum(off / plane.spread, 1)
    return score


def distances(made: Array, wanted: Any) -> Array:
    """How far numbers are from the wanted ones: 0 for equal ones and two nans, infinity for one nan."""
    with np.errstate(all="ignore"):
        off = np.where((made == wanted) | (np.isnan(made) & np.isnan(wanted)), 0.0, np.abs(made - wanted))
    apart: Array = np.where(np.isnan(off), np.inf, off)
    return apart


def _limit(axes: Sequence[Axis], most: int) -> int:
    """How many hypotheses of each axis give at most so many combinations."""
    limit = max(len(axis.costs) for axis in axes)
    while prod(min(limit, len(axis.costs)) for axis in axes) > most:
        limit -= 1 + limit // 50
    return limit


def _shared(axes: Sequence[Axis], limit: int) -> Array:
    """The combinations with the same numbers for every axis, of which some are beyond the limit."""
    rows = [[axis.names.get(numbers, -1) for axis in axes] for numbers in axes[0].names]
    beyond: Array = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp)
    return beyond.reshape(-1, len(axes))


def _everywhere(sample: Sample, rule: Rule, axes: Sequence[Axis], limit: int) -> tuple[Array, tuple[Array, ...]]:
    """By how much too far the first hypotheses of each axis are from a sample: for each combination of distinct ones,
    and which of these every combination is.
    """
    distinct = [axis.distinct(o, rule, limit) for axis, o in zip(axes, sample[1], strict=True)]
    rows = np.stack(np.meshgrid(*(first for first, _ in distinct), indexing="ij"), -1)
    off, _ = _off(sample, rule, axes, rows.reshape(-1, len(axes)))
    return off.reshape(rows.shape[:-1]), np.ix_(*(same for _, same in distinct))


def _off(
    sample: Sample, rule: Rule, axes: Sequence[Axis], rows: Array, divisors: Array | None = None
) -> tuple[Array, Array]:
    """By how much too far each row of hypotheses is from a sample, and the divisor that its outputs share, which is 0
    as long as no sample shows it.

    With `divisors`, windows that overhang may be divided by any number that frameworks may use.
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
    total = _joined(plane.x, rule, spans)[tuple(index)]
    with np.errstate(all="ignore"):
        shown = np.nan_to_num(np.rint(total / wanted))
        divisor = kernel
        if rule.divisor == "override" and divisors is not None:
            divisors = np.where((divisors == 0) & (np.abs(shown) <= LARGEST_DIVISOR), shown, divisors)
            divisor = np.where(divisors == 0, 1, divisors)
        elif rule.divisor == "kernel" and divisors is not None:
            divisor = np.where(is_past, np.clip(shown, inside, kernel), kernel)
        off = distances(rule.result(total, inside, divisor), wanted)
    return np.maximum(off - plane.room(wanted, rule), 0), np.zeros(len(rows)) if divisors is None else divisors


def _joined(x: Array, rule: Rule, spans: Sequence[Sequence[range]]) -> Array:
    """The elements joined in each combination of spans, one of each axis."""
    lows = [min((span.start for span in each if span), default=0) for each in spans]
    highs = [max((span.stop for span in each if span), default=1) for each in spans]
    joined = rule.taken(x[tuple(map(slice, lows, highs))])
    empty = {"maximum": -np.inf, "minimum": np.inf, "add": 0.0}[rule.join]
    for i, low in reversed([*enumerate(lows)]):
        parts = [joined[(slice(None),) * i + (slice(s.start - low, s.stop - low, s.step),)] if s else
                 joined[(slice(None),) * i + (slice(0),)] for s in spans[i]]  # fmt: skip
        joined = np.stack([getattr(np, rule.join).reduce(part, axis=i, initial=empty) for part in parts], axis=i)
    return joined


def _combination(axes: Sequence[Axis], row: Array) -> Combination:
    return tuple(axis.hypotheses[i] for axis, i in zip(axes, row, strict=True))


def _costs(axes: Sequence[Axis], rows: Array) -> Array:
    """How unusual combinations are: the mean over their axes, more where these differ."""
    total: Array = np.mean([axis.costs[column] for axis, column in zip(axes, rows.T, strict=True)], axis=0)
    names: dict[tuple[int, ...], int] = {}
    keys = [np.array([names.setdefault(each, len(names)) for each in axis.names]) for axis in axes]
    for (one, a), (two, b) in pairwise(zip(keys, rows.T, strict=True)):
        total = total + UNLIKE * (one[a] != two[b])
    return total


def telling(plane: Plane) -> list[Place]:
    """Corners, where hypotheses differ least, the middle, and some between. Outputs whose number is common say little
    and come last; where there are such, some with the rarest number come first.
    """
    lengths = plane.y.shape
    marks = [list(dict.fromkeys((n // 2, 0, min(1, n - 1), n // 3, n - 1))) for n in lengths]
    corners = [tuple(at) for at in product(*[(0, n - 1) for n in lengths])]
    usual = list(dict.fromkeys([*corners, *(tuple(m[i % len(m)] for m in marks) for i in range(5))]))
    _, back, counts = np.unique(plane.y, return_inverse=True, return_counts=True)
    many = counts[back.reshape(lengths)]
    common = [at for at in usual if many[at] * COMMON > many.size]
    if not common:
        return usual
    rare = [tuple(int(i) for i in at) for at in np.argwhere(many == many.min())]
    return list(dict.fromkeys([*rare[:: -(-len(rare) // RARE)], *(at for at in usual if at not in common), *common]))


def _further(planes: Sequence[Plane]) -> Iterator[tuple[Plane, Place]]:
    """More outputs, evenly over every plane."""
    shape = planes[0].y.shape
    numbers = np.unique(np.linspace(0, prod(shape) - 1, FURTHER).astype(int))
    for plane in planes:
        yield from ((plane, tuple(int(i) for i in np.unravel_index(n, shape))) for n in numbers)


def _spread(plane: Plane) -> list[Place]:
    """Outputs all over a plane, few of them at its borders."""
    each = SPREAD ** (1 / plane.y.ndim)
    lines = [sorted({int((i + 0.5) * n / each) for i in range(int(each))} & {*range(n)}) for n in plane.y.shape]
    return list(product(*lines))
