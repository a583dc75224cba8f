"""An input with its output: the layouts that both can have, and how far a pooling of the one is from the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, permutations
from math import inf, prod
from time import process_time
from typing import Any

from poolcli import layouts
from poolcli.dialects import DIALECTS
from poolcli.engine import NUMPY_PIECE_BYTES, call_of
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import Difference, compare, differences, distances
from poolcli.message_fields import field
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import Region, parts_of, whole
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import slices

MOST_OFF = 4  # standard deviations of the output that an error counts
PART_OUTPUTS, PART_PLANES = 48, 4  # outputs along each spatial axis, and images and channels, that are computed first
MOST_ADDED = 2**12  # elements whose rounding errors add up; of more, most cancel, and anything would fit
SHORT = 1024  # elements; of longer windows as many fewer outputs
MOST_BYTES_OF_TAPS = 2**33  # of a part, times the taps of an axis: about 1.5 s (AMD EPYC)
Part = tuple[tuple[slice, ...], Array]  # a place in the output, and what is there
FLOAT32_EPS = 2.0**-23
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32_EPS}
ROUNDINGS: dict[str, Callable[[Array], Array]] = {  # of integers, other than halves to even
    "halves away from zero": lambda exact: np.copysign(np.floor(np.abs(exact) + 0.5), exact),
    "halves up": lambda exact: np.floor(exact + 0.5),
    "halves down": lambda exact: np.ceil(exact - 0.5),
    "toward zero": lambda exact: np.trunc(exact),
    "down": lambda exact: np.floor(exact),
}


@dataclass(frozen=True)
class Pair:
    """An input and its output, both in one layout, and the tolerances."""

    x: Array
    y: Array
    layout: str
    atol: float
    rtol: float
    until: float = inf  # CPU time of the process, after which no further part is computed

    @cached_property
    def eps(self) -> float:
        """The relative spacing of the output's type; 0 for integers."""
        return EPS.get(self.y.dtype.name, 2.0**-52) if self.y.dtype.kind in "fV" else 0.0  # V: bfloat16

    @cached_property
    def sum_error(self) -> float:
        """The rounding error of adding the largest element, in the type that accumulates sums; 0 for integers."""
        x = np.abs(self.x.astype(np.float64))
        return min(self.eps, FLOAT32_EPS) * float(x.max(where=np.isfinite(x), initial=0.0))

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

    def tolerances(self, plan: Plan) -> tuple[float, float]:
        """How much the output of a plan may differ, absolute and relative: the given tolerance, and rounding errors."""
        if not self.eps or plan.reducer.picks:
            return self.atol, self.rtol
        longest = min(prod(w.longest for w in plan.windows), MOST_ADDED)
        return self.atol + self.sum_error * (longest + 2) / 2, self.rtol + self.eps

    def ends(self, plan: Plan) -> Iterator[Part]:
        """The first and the last outputs along each axis, as a plan gives them."""
        spatial = {axis.position for axis in plan.axes}
        most = max(1, PART_OUTPUTS * SHORT // max(SHORT, *(windows.longest for windows in plan.windows)))
        counts = [min(n, most if i in spatial else PART_PLANES) for i, n in enumerate(plan.output_shape)]
        last = tuple(range(n - count, n) for n, count in zip(plan.output_shape, counts, strict=True))
        for outputs in dict.fromkeys((tuple(map(range, counts)), last)):
            yield slices(outputs), self._pooled(Region(plan, outputs))

    def may_fit(self, plan: Plan) -> bool:
        """Whether a plan gives the first and the last outputs."""
        atol, rtol = self.tolerances(plan)
        return all(compare(found, self.y[at], atol=atol, rtol=rtol).equal for at, found in self.ends(plan))

    def distance(self, plan: Plan) -> float:
        """The mean distance at the ends; errors are clipped at MOST_OFF, so that a few do not outweigh all others."""
        most = MOST_OFF * (self.spread or 1)
        return float(np.mean([np.minimum(distances(found, self.y[at]), most).mean() for at, found in self.ends(plan)]))

    def difference(self, plan: Plan) -> Difference:
        """How the whole output of a plan differs, or what of it there is time for."""
        atol, rtol = self.tolerances(plan)
        return differences(self._parts(plan), self.y, self.y.dtype, atol, rtol)

    def _parts(self, plan: Plan) -> Iterator[Part]:
        """The whole output of a plan in parts; where there is no time for one, the first outputs."""
        taps = max(windows.longest for windows in plan.windows)
        for i, part in enumerate(parts_of(whole(plan), NUMPY_PIECE_BYTES)):
            if process_time() > self.until or part.aligned.nbytes * taps > MOST_BYTES_OF_TAPS:
                yield from islice(self.ends(plan), 0 if i else 1)
                return
            yield slices(part.outputs), self._pooled(part.aligned)[slices(part.outputs, part.aligned.outputs)]

    def rounding(self, op: Attributes) -> str | None:
        """The rounding to integers that turns the exact results of an operator into the whole output, if one does."""
        plan = plan_or_none(op, self.x.shape, self.x.dtype, layout=self.layout, output_dtype=np.dtype(np.float64))
        if plan is None or self.y.dtype.kind not in "iu":
            return None
        fits = ROUNDINGS
        for at, exact in chain(self.ends(plan), self._parts(plan)):
            fits = {k: f for k, f in fits.items() if (f(exact) == self.y[at]).all()}
            if not fits:
                break
        return next(iter(fits), None)

    def _pooled(self, region: Region) -> Array:
        """The output by numpy, which compiles nothing; NaN if it is refused."""
        try:
            return call_of(region, engine="numpy")(self.x[slices(region.reads)])[0]
        except RequestError:  # a sum that its type cannot hold
            return np.full(region.output_shape, np.nan)


def possible_layouts(
    shape: tuple[int, ...], output: tuple[int, ...], layout: str | None, named: str | None, given: Mapping[str, Any]
) -> list[str]:
    """The layouts in which only spatial axes change: as `read_axes` reads or proposes them, else with as many."""
    rank = len(shape)
    if 0 in (*shape, *output) or not shape:
        raise RequestError("an empty array cannot be identified")
    if rank != len(output):
        raise RequestError(f"the input has {rank} axes and the output {len(output)}; pooling keeps the number of axes")
    lists = [len(value) for value in given.values() if isinstance(value, tuple | list)]
    values = [max(lists)] if max(lists, default=1) > 1 else [1, 2, 3]
    lasts = [DIALECTS[given["like"]].channels_last] if given.get("like") in DIALECTS else [False, True]
    readings = [layouts.read_axes(shape, n, layout=layout, named=named, last=last) for last in lasts for n in values]
    usual = [each.layout for each in readings] + [other for each in readings for other in each.others]
    is_open = not (layout or named) and all(a >= b for a, b in zip(shape, output, strict=True))
    more = [found for n in values if is_open and (found := layouts.layout_for(shape, n))]
    changed = [i for i in range(rank) if shape[i] != output[i]]
    for choices in (usual, more):
        fits = [own for own in dict.fromkeys(choices) if all(layouts.is_spatial(own[i]) for i in changed)]
        if fits:
            return fits
    orders = (layouts.default_layout(rank), layouts.channels_last(rank)) if rank > 3 else ("CHW", "HWC")
    for source, target in permutations(orders):
        moved = layouts.converted_shape(output, source, target) if rank > 2 else ()
        if moved and all(layouts.is_spatial(letter) or shape[i] == moved[i] for i, letter in enumerate(target)):
            how = f"transpose one in Python, as with convert_layout(y, {source!r}, {target!r})"
            raise RequestError(f"the input looks like {target} and the output like {source}; {how}")
    before, after = (layouts.named_shape(usual[0], each) for each in (shape, output))
    how = "" if layout or named else f"; if these are wrong, name the axes with {field('layout')}, or transpose one"
    raise RequestError(f"input {before} and output {after} differ along N or C{how}")
