"""A pooling held against an input and its output, in a layout that both can have: how far it is off, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.engine import run, run_region
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import diff_arrays
from poolcli.explain.identify.samples import distances, is_float, largest, slack, step
from poolcli.formats.records import slices
from poolcli.layouts import check_layout, converted_shape, default_layout, named_shape
from poolcli.message_fields import field
from poolcli.plan import Plan, make_plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.plan.region import Region
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array

np: Any = Lazy("numpy")

Shape = tuple[int, ...]
Layouts = tuple[str, str]  # of the input and of the output
PART = 48  # outputs along each axis that are computed first
MOST_VOTES = 2**24  # elements of all windows, above which votes are compiled
EXACT = 2**53  # sums below it are exact in float64, and their quotients right to the last place


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
        How many of how many elements differ by more than roundings or the tolerance.
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
    """A pooling that may have made the output.

    `fits` says whether no element differs by more than roundings or the tolerance. `noise` is the tolerance under which
    one would fit that does not, where its differences are as small as noise. `apart` is an input that distinguishes it
    from the first candidate. `output_layout` is the layout of the output, where the input has another. Of several pairs
    of arrays `plan` is that of the first, and `deviation` is of all.
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
    """An input and the output that was made of it, both in one layout, and by how much outputs may differ."""

    x: Array
    y: Array
    layout: str
    atol: float
    rtol: float

    def planned(self, op: Attributes) -> Plan | None:
        """The plan of an operator on the input; None where it is refused or gives another shape."""
        plan = plan_or_none(op, self.x.shape, self.x.dtype, layout=self.layout, output_dtype=self.y.dtype)
        return plan if plan and plan.output_shape == self.y.shape else None

    def may_fit(self, plan: Plan) -> bool:
        """Whether a plan may give the first outputs, which costs little however many there are."""
        part = Region(plan, tuple(range(min(n, PART)) for n in self.y.shape))
        wanted = self.y[slices(part.outputs)]
        with np.errstate(all="ignore"):
            made = run_region(part, self.x[slices(part.reads)], engine="numpy")[0]
        off = distances(made.astype(np.float64), wanted.astype(np.float64))
        room = self._room(plan, wanted) if is_float(wanted) else 1  # rounded in another way
        return bool((off <= room).all())

    def candidate(self, op: Attributes, plan: Plan) -> Candidate:
        """The operator held against the output."""
        made = _made(plan, self.x)
        off = distances(made.astype(np.float64), self.y.astype(np.float64))
        wrong = off > self._room(plan, self.y)
        where = _where(wrong, plan) if wrong.any() else None
        furthest, ulps = float(off.max(initial=0.0)), diff_arrays(made, self.y).max_ulp
        found = Deviation(furthest == 0, furthest, ulps, int(wrong.sum()), off.size, where)
        word = _otherwise_rounded(op, plan, self.x, self.y) if wrong.any() and furthest <= 1 else None
        if word:
            return Candidate(op, plan, replace(found, where=f"only in rounding: averages are {word}"), True)
        return Candidate(op, plan, found, not wrong.any())

    def distance(self, plan: Plan, most: float) -> float:
        """The mean distance of what a plan gives, in which elements further than `most` do not outweigh all others."""
        off = distances(_made(plan, self.x).astype(np.float64), self.y.astype(np.float64))
        return float(np.minimum(off, most).mean())

    def _room(self, plan: Plan, y: Array) -> Any:
        """By how much each of the outputs `y` may differ: the tolerance, and where floats are added up, roundings."""
        size = np.nan_to_num(np.abs(y.astype(np.float64)), posinf=0.0)
        room = self.atol + self.rtol * size
        if plan.reducer.picks or plan.reducer.votes or not is_float(y):
            return room
        taps = prod(w.longest for w in plan.windows)
        return room + step(y) * size + slack(y) * (taps + 2) * largest(self.x.astype(np.float64)) / 2


def of_all(judged: Sequence[Candidate]) -> Candidate:
    """One operator, held against several pairs, as one candidate."""
    if len(judged) == 1:
        return judged[0]
    off = [each.deviation for each in judged]
    ulps = [each.max_ulp for each in off if each.max_ulp is not None]
    wrong = [number for number, each in enumerate(judged, 1) if not each.fits]
    places = list(dict.fromkeys(each.where for each in off if each.where))
    where = places[0] if places else None
    if wrong and not (len(places) == 1 and len(wrong) == len(judged)):
        where = f"{off[wrong[0] - 1].where}, in pair {wrong[0]}"
    elif not wrong and len(places) > 1:
        where = "only in rounding, which is not the same in all pairs"
    total = Deviation(
        exact=all(each.exact for each in off),
        max_abs=max(each.max_abs for each in off),
        max_ulp=max(ulps) if len(ulps) == len(off) else None,
        different=sum(each.different for each in off),
        elements=sum(each.elements for each in off),
        where=where,
    )
    return replace(judged[0], deviation=total, fits=not wrong and len(places) < 2)


def _made(plan: Plan, x: Array) -> Array:
    """The output by the numpy engine, for which nothing is compiled, unless it would sort very many votes."""
    votes = prod(plan.output_shape) * prod(w.longest for w in plan.windows) if plan.reducer.votes else 0
    with np.errstate(all="ignore"):
        made: Array = run(plan, x, engine="auto" if votes > MOST_VOTES else "numpy")[0]
    return made


def _otherwise_rounded(op: Attributes, plan: Plan, x: Array, y: Array) -> str | None:
    """How the averages that `plan` makes of `x` are rounded in `y`; None where they are none, or in no known way."""
    if not plan.reducer.divides or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return None
    if float(np.abs(x.astype(np.float64)).sum()) >= EXACT:
        return None
    averages = _made(make_plan(op, x.shape, x.dtype, layout=plan.layout, output_dtype="float64"), x)
    with np.errstate(all="ignore"):
        ways = {
            "truncated toward zero": np.trunc(averages),
            "rounded down": np.floor(averages),
            "rounded up": np.ceil(averages),
            "rounded half up": np.floor(averages + 0.5),
            "rounded half away from zero": np.trunc(averages + np.copysign(0.5, averages)),
        }
    return next((word for word, rounded in ways.items() if np.array_equal(rounded, y)), None)


def _where(wrong: Array, plan: Plan) -> str:
    """Where elements differ, in the plainest words."""
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
    """The layouts in which all arrays can be inputs and outputs, the same of both if there are such; refused where
    there are none.
    """
    able = []
    for number, (shape, output) in enumerate(shapes, 1):
        try:
            able.append(_able(shape, output, layout, output_layout))
        except RequestError as error:
            raise error.at(f"pair {number}") if len(shapes) > 1 else error from None
    shared = [each for each in able[0] if all(each in others for others in able)]
    if not shared:
        found = [dict.fromkeys(own if own == other else f"{own} to {other}" for own, other in each) for each in able]
        told = ", ".join(f"pair {number}: {' or '.join(each)}" for number, each in enumerate(found, 1))
        raise RequestError(f"the pairs are in no common layout ({told}); give pairs of one layout")
    return [each for each in shared if each[0] == each[1]] or shared


def _able(shape: Shape, output: Shape, layout: str | None, output_layout: str | None) -> list[Layouts]:
    """All layouts in which the arrays can be input and output."""
    rank, of_output = len(shape), len(output)
    if 0 in (*shape, *output):
        raise RequestError("an empty array cannot be identified")
    inputs = [check_layout(layout, rank)] if layout else _usual(rank)
    if output_layout:
        if len(output_layout) != of_output:
            named = field("output_layout")
            raise RequestError(
                f"{named} names {len(output_layout)} axes, but the output has {of_output}; name each axis"
            )
        outputs = [check_layout(output_layout, of_output)]
    else:
        outputs = [*(inputs if rank == of_output else ()), *_usual(of_output)]
    able = [each for each in product(inputs, dict.fromkeys(outputs)) if _agree(shape, output, *each)]
    if not able and rank != of_output:
        raise RequestError(f"the input has {rank} axes and the output {of_output}; pooling keeps the number of axes")
    if not able:
        raise RequestError(
            f"input {named_shape(inputs[0], shape)} and output {named_shape(outputs[0], output)} differ along N or C"
            + ("" if layout else f"; name the axes with {field('layout')} if these are wrong")
        )
    return able


def _usual(rank: int) -> list[str]:
    """Layouts that arrays of so many axes usually have."""
    if rank < 3:
        return {1: ["W"], 2: ["HW", "CW"]}.get(rank, [])
    first = default_layout(rank)
    return [first, f"N{first[2:]}C", *(("CHW", "HWC") if rank == 3 else ())]


def _agree(shape: Shape, output: Shape, own: str, other: str) -> bool:
    """Whether an output in the layout `other` can be that of an input in the layout `own`: N and C are kept."""
    try:
        converted = converted_shape(output, other, own)
    except RequestError:
        return False
    return all(a == b for a, b, letter in zip(shape, converted, own, strict=True) if letter in "NC")
