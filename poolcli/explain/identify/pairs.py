"""An input with its output: which layouts both can have, and how far a pooling of the one is from the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from poolcli.engine import call_of
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import diff_arrays
from poolcli.formats.records import slices
from poolcli.layouts import check_layout, converted_shape, default_layout, is_spatial, named_shape
from poolcli.message_fields import field
from poolcli.plan import Plan, make_plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import Region, whole
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

Shape = tuple[int, ...]
PART_OUTPUTS, PART_PLANES = 48, 4  # outputs along each spatial axis, and images and channels, that are computed first
MAX_NUMPY_VOTES = 2**24  # elements of all windows; modes of more are computed by numba
EXACT = 2**53  # sums below it are exact in float64, and their quotients correctly rounded
FLOAT32_EPS = 2.0**-23
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32_EPS}


@dataclass(frozen=True, slots=True)
class Deviation:
    """How an output differs from the given one.

    `different` of `elements` elements differ by more than rounding errors and the tolerance, and `where`; it `fits` if
    none does, or if averages are only rounded in another way. `max_ulp` is None for two types.
    """

    exact: bool
    max_abs: float
    max_ulp: int | None
    different: int
    elements: int
    where: str | None
    fits: bool


@dataclass(frozen=True)
class Pair:
    """An input and its output, both in one layout, and the tolerances."""

    x: Array
    y: Array
    layout: str
    atol: float
    rtol: float

    @cached_property
    def is_float(self) -> bool:
        """Whether the output is of a float type, bfloat16 included."""
        return bool(self.y.dtype.kind in "fV")

    @cached_property
    def eps(self) -> float:
        """The relative spacing of the output's type; 0 for integers."""
        return EPS.get(self.y.dtype.name, 2.0**-52) if self.is_float else 0.0

    @cached_property
    def sum_error(self) -> float:
        """The rounding error of adding the largest element, in the type that accumulates sums; 0 for integers."""
        x = self.x.astype(np.float64)
        return min(self.eps, FLOAT32_EPS) * float(np.abs(x[np.isfinite(x)]).max(initial=0.0))

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the finite outputs; 0 if there are none."""
        y = self.y.astype(np.float64)
        finite = y[np.isfinite(y)]
        return float(finite.std()) if finite.size else 0.0

    def plan(self, op: Attributes) -> Plan | None:
        """The plan of an operator on the input; None if it is refused or gives another shape than the output's."""
        plan = plan_or_none(op, self.x.shape, self.x.dtype, layout=self.layout, output_dtype=self.y.dtype)
        return plan if plan and plan.output_shape == self.y.shape else None

    def compared(self, plan: Plan, part: Region) -> tuple[Array, Array, Any]:
        """A part of the output of a plan, its errors, and how large these may be: the tolerance, and rounding."""
        y = self.y[slices(part.outputs)].astype(np.float64)
        size = np.nan_to_num(np.abs(y), posinf=0.0)
        allowed = self.atol + self.rtol * size
        if self.is_float and not (plan.reducer.picks or plan.reducer.votes):
            allowed += self.eps * size + self.sum_error * (prod(w.longest for w in plan.windows) + 2) / 2
        computed = _pooled(part, self.x[slices(part.reads)])
        return computed, distances(computed.astype(np.float64), y), allowed

    def at_ends(self, plan: Plan) -> list[tuple[Array, Any]]:
        """The errors of the first and the last outputs along each axis, and how large they may be."""
        spatial = {axis.position for axis in plan.axes}
        counts = [min(n, PART_OUTPUTS if i in spatial else PART_PLANES) for i, n in enumerate(plan.output_shape)]
        last = tuple(range(n - count, n) for n, count in zip(plan.output_shape, counts, strict=True))
        return [
            self.compared(plan, Region(plan, part))[1:] for part in dict.fromkeys((tuple(map(range, counts)), last))
        ]

    def may_fit(self, plan: Plan) -> bool:
        """Whether a plan gives the first and the last outputs; averages of integers may be rounded in another way."""
        least = 0 if self.is_float else 1
        return all(bool((error <= np.maximum(allowed, least)).all()) for error, allowed in self.at_ends(plan))

    def deviation(self, op: Attributes, plan: Plan) -> Deviation:
        """How the whole output of a plan differs."""
        computed, error, allowed = self.compared(plan, whole(plan))
        wrong, off = error > allowed, float(error.max(initial=0.0))
        where, fits = _where(wrong, plan) if wrong.any() else None, not wrong.any()
        word = self._rounding(op, plan) if not fits and off <= 1 else None
        if word:
            where, fits = f"only in rounding: averages are {word}", True
        ulps = diff_arrays(computed, self.y).max_ulp
        return Deviation(off == 0, off, ulps, int(wrong.sum()), error.size, where, fits)

    def _rounding(self, op: Attributes, plan: Plan) -> str | None:
        """How the output rounds averages; None if they are no integer averages, or rounded in no known way."""
        x, y = self.x, self.y
        integers = x.dtype.kind in "iu" and y.dtype.kind in "iu"
        if not plan.reducer.divides or not integers or float(np.abs(x.astype(np.float64)).sum()) >= EXACT:
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


def combined(every: Sequence[Deviation]) -> Deviation:
    """The deviation of one pooling from all pairs; where pairs differ, of the first pair that it does not fit."""
    if len(every) == 1:
        return every[0]
    wrong = [number for number, each in enumerate(every, 1) if not each.fits]
    places = list(dict.fromkeys(each.where for each in every if each.where))
    where = places[0] if places else None
    if len(places) > 1 or 0 < len(wrong) < len(every):
        number = wrong[0] if wrong else 1
        where = f"{every[number - 1].where}, in pair {number}"
    ulps = [each.max_ulp for each in every if each.max_ulp is not None]
    return Deviation(
        exact=all(each.exact for each in every),
        max_abs=max(each.max_abs for each in every),
        max_ulp=max(ulps) if len(ulps) == len(every) else None,
        different=sum(each.different for each in every),
        elements=sum(each.elements for each in every),
        where=where,
        fits=not wrong and len(places) < 2,  # averages that each pair rounds in its own way do not fit
    )


def distances(found: Array, wanted: Any) -> Array:
    """Absolute differences: 0 for equal numbers and two nans, infinity for one nan."""
    off = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.abs(found - wanted))
    error: Array = np.where(np.isnan(off), np.inf, off)
    return error


def _pooled(region: Region, slab: Array) -> Array:
    """The output by numpy, which compiles nothing, unless that would sort very many votes; NaN if it is refused."""
    plan = region.plan
    votes = prod(region.output_shape) * prod(w.longest for w in plan.windows) if plan.reducer.votes else 0
    try:
        y: Array = call_of(region, engine="auto" if votes > MAX_NUMPY_VOTES else "numpy")(slab)[0]
    except RequestError:  # a sum that its type cannot hold
        return np.full(region.output_shape, np.nan)
    return y


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


def common_layouts(
    shapes: Sequence[tuple[Shape, Shape]], layout: str | None, output_layout: str | None
) -> list[tuple[str, str]]:
    """The layouts that all inputs and outputs can have, only those that are the same for both if there are any; a
    RequestError if there are none.
    """
    possible, names = [], []
    for number, (shape, output) in enumerate(shapes, 1):
        try:
            found = _possible_layouts(shape, output, layout, output_layout)
        except RequestError as error:
            raise error.at(f"pair {number}") if len(shapes) > 1 else error from None
        possible.append(found)
        words = [own if own == other else f"{own} to {other}" for own, other in found]
        names.append(f"pair {number}: {' or '.join(words)}")
    shared = [each for each in possible[0] if all(each in others for others in possible)]
    if not shared:
        raise RequestError(f"the pairs are in no common layout ({', '.join(names)}); give pairs of one layout")
    return [each for each in shared if each[0] == each[1]] or shared


def _possible_layouts(
    shape: Shape, output: Shape, layout: str | None, output_layout: str | None
) -> list[tuple[str, str]]:
    rank, of_output = len(shape), len(output)
    if 0 in (*shape, *output):
        raise RequestError("an empty array cannot be identified")
    if output_layout and len(output_layout) != of_output:
        named = f"{field('output_layout')} names {len(output_layout)} axes"
        raise RequestError(f"{named}, but the output has {of_output}; name each axis")
    inputs = [check_layout(layout, rank)] if layout else _usual_layouts(rank)
    outputs = [*(inputs if rank == of_output else ()), *_usual_layouts(of_output)]
    if output_layout:
        outputs = [check_layout(output_layout, of_output)]
    possible = []
    for own, other in product(inputs, dict.fromkeys(outputs)):
        with suppress(RequestError):
            converted = converted_shape(output, other, own)
            if all(a == b for a, b, letter in zip(shape, converted, own, strict=True) if not is_spatial(letter)):
                possible.append((own, other))  # only spatial axes change
    if not possible and rank != of_output:
        raise RequestError(f"the input has {rank} axes and the output {of_output}; pooling keeps the number of axes")
    if not possible:
        raise RequestError(
            f"input {named_shape(inputs[0], shape)} and output {named_shape(outputs[0], output)} differ along N or C"
            + ("" if layout else f"; name the axes with {field('layout')} if these are wrong")
        )
    return possible


def _usual_layouts(rank: int) -> list[str]:
    if rank < 3:
        return {1: ["W"], 2: ["HW", "CW"]}.get(rank, [])
    first = default_layout(rank)
    return [first, f"N{first[2:]}C", *(("CHW", "HWC") if rank == 3 else ())]
