"""Compares a pooling with an input and its output (`Pair.candidate`), and lists the layouts that both can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from poolcli.engine import call_of
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import diff_arrays
from poolcli.explain.identify.search import distances, eps, is_float, largest, sum_eps
from poolcli.formats.records import slices
from poolcli.layouts import check_layout, converted_shape, default_layout, named_shape
from poolcli.message_fields import field
from poolcli.plan import Plan, make_plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import Region, whole
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

Shape = tuple[int, ...]
Layouts = tuple[str, str]  # of the input and of the output
PART_OUTPUTS, PART_PLANES = 48, 4  # outputs along each spatial axis, and images and channels, that are computed first
MAX_NUMPY_VOTES = 2**24  # elements of all windows; modes of more are computed by numba
EXACT = 2**53  # sums below it are exact in float64, and their quotients correctly rounded


@dataclass(frozen=True, slots=True)
class Deviation:
    """How an output differs from the given one.

    Attributes
    ----------
    exact : bool
    max_abs : float
    max_ulp : int or None
        None for two types.
    different, elements : int
        How many of how many elements differ by more than rounding errors and the tolerance.
    where : str or None
        Where these are.
    """

    exact: bool
    max_abs: float
    max_ulp: int | None
    different: int
    elements: int
    where: str | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pooling that may have produced the output.

    Attributes
    ----------
    op : record
    plan : Plan
        Of several pairs of arrays, that of the first.
    deviation : Deviation
        Over all pairs.
    fits : bool
        Whether no element differs by more than rounding errors and the tolerance.
    apart : str or None
        An input that distinguishes it from the first candidate.
    noise : float or None
        The `atol` with which it would fit, if its differences are as small as noise.
    output_layout : str or None
        The layout of the output, if it is not the input's.
    """

    op: Attributes
    plan: Plan
    deviation: Deviation
    fits: bool
    apart: str | None = None
    noise: float | None = None
    output_layout: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """An input and its output, both in one layout, and the tolerances."""

    x: Array
    y: Array
    layout: str
    atol: float
    rtol: float

    def plan(self, op: Attributes) -> Plan | None:
        """The plan of an operator on the input; None if it is refused or gives another shape than the output's."""
        plan = plan_or_none(op, self.x.shape, self.x.dtype, layout=self.layout, output_dtype=self.y.dtype)
        return plan if plan and plan.output_shape == self.y.shape else None

    def errors(self, plan: Plan) -> list[tuple[Array, Any]]:
        """The errors of the first and the last outputs along each axis, and the tolerance: cheap for large arrays."""
        return [self._errors(plan, part) for part in dict.fromkeys((_ends(plan, first=True), _ends(plan, first=False)))]

    def _errors(self, plan: Plan, part: Region) -> tuple[Array, Any]:
        wanted = self.y[slices(part.outputs)]
        found = _pooled(part, self.x[slices(part.reads)])
        return distances(found.astype(np.float64), wanted.astype(np.float64)), self._tolerance(plan, wanted)

    def may_fit(self, plan: Plan) -> bool:
        """Whether a plan gives the first and the last outputs; averages of integers may be rounded in another way."""
        rounded = 0 if is_float(self.y) else 1
        return all(bool((error <= np.maximum(most, rounded)).all()) for error, most in self.errors(plan))

    def distance(self, plan: Plan, most: float) -> float:
        """The mean error of a plan, with errors clipped at `most` so that a few do not outweigh all others."""
        return float(np.mean([np.minimum(error, most).mean() for error, _ in self.errors(plan)]))

    def candidate(self, op: Attributes, plan: Plan) -> Candidate:
        """The operator compared with the output. Integer averages that are only rounded differently fit."""
        computed = _pooled(whole(plan), self.x)
        error = distances(computed.astype(np.float64), self.y.astype(np.float64))
        wrong = error > self._tolerance(plan, self.y)
        where = _where(wrong, plan) if wrong.any() else None
        largest_error, ulps = float(error.max(initial=0.0)), diff_arrays(computed, self.y).max_ulp
        found = Deviation(largest_error == 0, largest_error, ulps, int(wrong.sum()), error.size, where)
        word = _other_rounding(op, plan, self.x, self.y) if wrong.any() and largest_error <= 1 else None
        if word:
            return Candidate(op, plan, replace(found, where=f"only in rounding: averages are {word}"), True)
        return Candidate(op, plan, found, not wrong.any())

    def _tolerance(self, plan: Plan, y: Array) -> Any:
        """How much each of the outputs `y` may differ: the tolerance and, for sums of floats, rounding errors."""
        size = np.nan_to_num(np.abs(y.astype(np.float64)), posinf=0.0)
        tolerance = self.atol + self.rtol * size
        if plan.reducer.picks or plan.reducer.votes or not is_float(y):
            return tolerance
        taps = prod(w.longest for w in plan.windows)
        return tolerance + eps(y) * size + sum_eps(y) * (taps + 2) * largest(self.x.astype(np.float64)) / 2


def combine_pairs(results: Sequence[Candidate]) -> Candidate:
    """Combine the results of one operator on several pairs into one candidate."""
    if len(results) == 1:
        return results[0]
    deviations = [each.deviation for each in results]
    ulps = [each.max_ulp for each in deviations if each.max_ulp is not None]
    wrong = [number for number, each in enumerate(results, 1) if not each.fits]
    places = list(dict.fromkeys(each.where for each in deviations if each.where))
    where = places[0] if places else None
    if wrong and not (len(places) == 1 and len(wrong) == len(results)):
        where = f"{deviations[wrong[0] - 1].where}, in pair {wrong[0]}"
    elif not wrong and len(places) > 1:
        where = "only in rounding, which is not the same in all pairs"
    total = Deviation(
        exact=all(each.exact for each in deviations),
        max_abs=max(each.max_abs for each in deviations),
        max_ulp=max(ulps) if len(ulps) == len(deviations) else None,
        different=sum(each.different for each in deviations),
        elements=sum(each.elements for each in deviations),
        where=where,
    )
    return replace(results[0], deviation=total, fits=not wrong and len(places) < 2)


def _ends(plan: Plan, *, first: bool) -> Region:
    """The region of the first or the last outputs along each axis."""
    spatial = {axis.position for axis in plan.axes}
    counts = [min(n, PART_OUTPUTS if i in spatial else PART_PLANES) for i, n in enumerate(plan.output_shape)]
    return Region(
        plan, tuple(range(n) if first else range(m - n, m) for n, m in zip(counts, plan.output_shape, strict=True))
    )


def _pooled(region: Region, slab: Array) -> Array:
    """The output by numpy, which compiles nothing, unless that would sort very many votes; NaN if it is refused."""
    plan = region.plan
    votes = prod(region.output_shape) * prod(w.longest for w in plan.windows) if plan.reducer.votes else 0
    try:
        y: Array = call_of(region, engine="auto" if votes > MAX_NUMPY_VOTES else "numpy")(slab)[0]
    except RequestError:  # a sum that its type cannot hold
        return np.full(region.output_shape, np.nan)
    return y


def _other_rounding(op: Attributes, plan: Plan, x: Array, y: Array) -> str | None:
    """How `y` rounds the averages of `plan`; None if they are no integer averages, or rounded in no known way."""
    if not plan.reducer.divides or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return None
    if float(np.abs(x.astype(np.float64)).sum()) >= EXACT:
        return None
    averages = _pooled(whole(make_plan(op, x.shape, x.dtype, layout=plan.layout, output_dtype="float64")), x)
    roundings = {
        "truncated toward zero": np.trunc(averages),
        "rounded down": np.floor(averages),
        "rounded up": np.ceil(averages),
        "rounded half up": np.floor(averages + 0.5),
        "rounded half away from zero": np.trunc(averages + np.copysign(0.5, averages)),
    }
    return next((word for word, rounded in roundings.items() if np.array_equal(rounded, y)), None)


def _where(wrong: Array, plan: Plan) -> str:
    """Describe where elements differ, as simply as possible."""
    if wrong.all():
        return "everywhere"
    lines = [np.flatnonzero(wrong.any(axis=tuple(j for j in range(wrong.ndim) if j != i))) for i in range(wrong.ndim)]
    for letter, found, length in zip(plan.layout, lines, wrong.shape, strict=True):
        if len(found) == 1 < length:
            side = ", the last" if found[0] == length - 1 else ", the first" if found[0] == 0 else ""
            return f"only at {letter}={found[0]}{side}"
    inner: list[Any] = [slice(None)] * wrong.ndim
    for axis in plan.axes:
        span: range = getattr(axis.windows, "interior", range(axis.windows.output))
        inner[axis.position] = slice(span.start, span.stop)
        if span and not set(lines[axis.position]) & set(span):
            return f"only in windows that reach past the input along {axis.name}"
    if not wrong[tuple(inner)].any():
        return "only at the borders: in windows that reach past the input"
    first = ",".join(map(str, np.argwhere(wrong)[0]))
    return f"in {100 * float(wrong.mean()):.3g} % of the outputs, first at {first}"


def layouts_of(shapes: Sequence[tuple[Shape, Shape]], layout: str | None, output_layout: str | None) -> list[Layouts]:
    """The layouts that all inputs and outputs can have, only those that are the same for both if there are any; a
    RequestError if there are none.
    """
    possible = []
    for number, (shape, output) in enumerate(shapes, 1):
        try:
            possible.append(_possible_layouts(shape, output, layout, output_layout))
        except RequestError as error:
            raise error.at(f"pair {number}") if len(shapes) > 1 else error from None
    shared = [each for each in possible[0] if all(each in others for others in possible)]
    if not shared:
        found = [
            dict.fromkeys(own if own == other else f"{own} to {other}" for own, other in each) for each in possible
        ]
        layouts = ", ".join(f"pair {number}: {' or '.join(each)}" for number, each in enumerate(found, 1))
        raise RequestError(f"the pairs are in no common layout ({layouts}); give pairs of one layout")
    return [each for each in shared if each[0] == each[1]] or shared


def _possible_layouts(shape: Shape, output: Shape, layout: str | None, output_layout: str | None) -> list[Layouts]:
    rank, of_output = len(shape), len(output)
    if 0 in (*shape, *output):
        raise RequestError("an empty array cannot be identified")
    inputs = [check_layout(layout, rank)] if layout else _common_layouts(rank)
    if output_layout:
        if len(output_layout) != of_output:
            named = field("output_layout")
            raise RequestError(
                f"{named} names {len(output_layout)} axes, but the output has {of_output}; name each axis"
            )
        outputs = [check_layout(output_layout, of_output)]
    else:
        outputs = [*(inputs if rank == of_output else ()), *_common_layouts(of_output)]
    possible = [each for each in product(inputs, dict.fromkeys(outputs)) if _is_possible(shape, output, *each)]
    if not possible and rank != of_output:
        raise RequestError(f"the input has {rank} axes and the output {of_output}; pooling keeps the number of axes")
    if not possible:
        raise RequestError(
            f"input {named_shape(inputs[0], shape)} and output {named_shape(outputs[0], output)} differ along N or C"
            + ("" if layout else f"; name the axes with {field('layout')} if these are wrong")
        )
    return possible


def _common_layouts(rank: int) -> list[str]:
    if rank < 3:
        return {1: ["W"], 2: ["HW", "CW"]}.get(rank, [])
    first = default_layout(rank)
    return [first, f"N{first[2:]}C", *(("CHW", "HWC") if rank == 3 else ())]


def _is_possible(shape: Shape, output: Shape, own: str, other: str) -> bool:
    """Whether an output in the layout `other` can belong to an input in the layout `own`: N and C do not change."""
    try:
        converted = converted_shape(output, other, own)
    except RequestError:
        return False
    return all(a == b for a, b, letter in zip(shape, converted, own, strict=True) if letter in "NC")
