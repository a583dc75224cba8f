"""From two arrays to the pooling that turns one into the other: operator, attributes, dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.dialects import DIALECTS
from poolcli.engine import run, run_region
from poolcli.errors import RequestError
from poolcli.explain.convert import in_one_operator
from poolcli.explain.diff_arrays import check_tolerances, diff_arrays
from poolcli.explain.equivalence import distinguishing_input, same
from poolcli.explain.identify.hypotheses import OVERRIDDEN, Constraints, Hypothesis, Rule, hypotheses, operators, rules
from poolcli.explain.identify.samples import (
    Axis,
    closest,
    distances,
    is_float,
    largest,
    matching,
    planes_of,
    slack,
    step,
    telling,
)
from poolcli.explain.solve import plainness
from poolcli.formats.records import slices
from poolcli.layouts import check_layout, default_layout, named_shape
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.ops.array_interop import as_array
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, BinAttributes, Reducer, SlidingAttributes, with_both_ends
from poolcli.plan.region import Region
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")

VERIFIED = 60  # poolings of each rule that match the samples, and of all rules the plane, that are computed whole
CLOSE = 6  # poolings of each rule that come closest to the samples, which are computed on the planes
BEHAVIOURS = 4  # different ones that are reported
FORMS = 2  # of each dialect
PART = 48  # outputs along each axis that are computed first
MOST_VOTES = 2**24  # elements of all windows, above which votes are compiled
VOTED = 100  # hypotheses whose modes and statistics are computed
NEAR = 1e-3  # relative; of float16
EXACT = 2**53  # sums below it are exact in float64, and their quotients right to the last place
NOISE = 0.05  # of the spread of the output: differences below it are taken for noise


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
    from the first candidate.
    """

    op: Attributes
    plan: Plan
    deviation: Deviation
    fits: bool
    apart: str | None = None
    noise: float | None = None


def identify(
    x: Array, y: Array, *, op: str | None = None, layout: str | None = None, atol: float = 0, rtol: float = 0,
    **given: Any,
) -> list[Candidate]:  # fmt: skip
    """Find the operator, attributes and framework that turn one array into another.

    The search covers kernels up to 11, about as long as a window's share, and the whole input; dilations up to 3; pads
    shorter than the kernel; powers 1 to 4.

    Parameters
    ----------
    x, y : array_like
        The whole input and the whole output: `[N, C, spatial...]`, channels last, or as `layout` says.
    op : str, optional
        Operator, such as "max"; default: all are tried.
    layout : str, optional
        One letter per axis; default: channels first and channels last are tried.
    atol, rtol : float, default 0
        Elements of the output may differ by `atol + rtol * abs(y)`, beside what rounding explains.
    **given
        Attributes that keep these values, such as `kernel=3` or `like="onnx"`.

    Returns
    -------
    list of Candidate
        Best first: exact ones, then those that differ by rounding; if there are none, the nearest alone. A candidate
        `fits` if every element is equal, or as near as rounding and the tolerance allow; `deviation` has the error,
        and `noise` the `atol` with which the nearest fits, where its differences are small.

    Raises
    ------
    RequestError
        If no axis is pooled, or the arrays cannot belong to one pooling.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((1, 2, 9, 9)).astype("float32")
    >>> from poolcli import max_pool
    >>> best = identify(x, max_pool(x, 3, strides=2, pads_begin=1, pads_end=1))[0]
    >>> best.op.name, best.plan.attributes["kernel"], best.plan.attributes["pads_begin"], best.deviation.exact
    ('max', [3, 3], [1, 1], True)
    """
    check_tolerances(atol, rtol)
    x, y = as_array(x), as_array(y)
    held = Constraints(op, with_both_ends(given))
    searches = [_Search(x, y, each, held, atol, rtol) for each in _layouts(x.shape, y.shape, layout)]
    for search in searches:
        if fitting := search.fitting():
            first, *others = fitting
            apart = [distinguishing_input(first.op, first.plan, each.op, each.plan) for each in others]
            return [first, *(replace(each, apart=difference) for each, difference in zip(others, apart, strict=True))]
    near = [found for search in searches if (found := search.nearest())]
    if not near:
        raise RequestError(
            f"no pooling that is searched makes an array of {','.join(map(str, y.shape))} of one of "
            f"{','.join(map(str, x.shape))}" + ("; give the larger one first" if y.size > x.size else "")
        )
    return [min(near, key=lambda found: found[0])[1]]


def _layouts(shape: Sequence[int], output: Sequence[int], layout: str | None) -> list[str]:
    """The layouts in which the arrays can be input and output; refused where there is none."""
    if len(shape) != len(output):
        raise RequestError(
            f"the input has {len(shape)} axes and the output {len(output)}; pooling keeps the number of axes"
        )
    if 0 in shape or 0 in output:
        raise RequestError("an empty array cannot be identified")
    if layout:
        asked = [check_layout(layout, len(shape))]
    else:
        asked = {1: ["W"], 2: ["HW", "CW"]}.get(len(shape), [])
        if len(shape) > 2:
            first = default_layout(len(shape))
            asked = [first, f"N{first[2:]}C"] + (["CHW", "HWC"] if len(shape) == 3 else [])
    able = [each for each in asked if all(
        a == b for a, b, letter in zip(shape, output, each, strict=True) if letter in "NC"
    )]  # fmt: skip
    if not able:
        named = asked[0]
        raise RequestError(
            f"input {named_shape(named, shape)} and output {named_shape(named, output)} differ along N or C"
            + ("" if layout else f"; name the axes with {field('layout')} if these are wrong")
        )
    return able


class _Search:
    """The search in one layout: hypotheses that match samples are computed on a plane, then on the whole arrays."""

    def __init__(self, x: Array, y: Array, layout: str, held: Constraints, atol: float, rtol: float) -> None:
        self.x, self.y, self.layout, self.held, self.atol, self.rtol = x, y, layout, held, atol, rtol
        self.planes = planes_of(x, y, layout, atol, rtol)
        self.plane = self.planes[0].stored
        self.plane_layout = default_layout(self.plane[0].ndim)
        sizes = [*zip(self.planes[0].x.shape, self.planes[0].y.shape, strict=True)]
        self.axes = [Axis(hypotheses(n, t, held.numbers(i, len(sizes)))) for i, (n, t) in enumerate(sizes)]
        without_pads = ([each for each in axis.hypotheses if not each.windows.pad_begin] for axis in self.axes)
        self.without_pads = [*map(Axis, without_pads)]

    def fitting(self) -> list[Candidate]:
        """What fits, in every dialect."""
        found = self._verified(self._likely()) or self._verified(self._matching([OVERRIDDEN]))
        return [form for candidate in found for form in self._forms(candidate)]

    def nearest(self) -> tuple[float, Candidate] | None:
        """The pooling with the smallest mean distance from the output, and that distance."""
        best: list[tuple[float, Attributes]] = []
        for op in dict.fromkeys([*self._closest(), *self._bins()]):
            if plan := _planned(op, *self.plane, self.plane_layout):
                best.append((self._distance(plan, *self.plane), op))
        found: list[tuple[float, Candidate]] = []
        for _, op in sorted(best, key=lambda each: each[0])[:CLOSE]:
            if plan := _planned(op, self.x, self.y, self.layout):
                found.append((self._distance(plan, self.x, self.y), self._candidate(op, plan, self.x, self.y)))
        if not found:
            return None
        distance, candidate = min(found, key=lambda each: each[0])
        candidate = self._planned_forms(candidate, candidate.op)[0]
        spread, off = float(np.nanstd(self.y.astype(np.float64))), candidate.deviation.max_abs
        return distance, replace(candidate, noise=float(f"{1.1 * off:.2g}")) if off <= NOISE * spread else candidate

    def _likely(self) -> Iterator[Attributes]:
        """Operators that match the samples, of each rule the plainest first."""
        yield from self._matching(rules())
        yield from self._voted()
        yield from self._bins()

    def _rules(self, among: Iterable[Rule]) -> Iterator[tuple[Rule, list[Axis]]]:
        for rule in among:
            axes = self.without_pads if rule.signed else self.axes  # PyTorch's lp has no padding
            if self.held.allows(OPERATORS[rule.op]) and all(axis.hypotheses for axis in axes):
                yield rule, axes

    def _matching(self, among: Iterable[Rule]) -> Iterator[Attributes]:
        for rule, axes in self._rules(among):
            for combination, divisor in matching(self.planes, rule, axes, VERIFIED):
                yield from operators(rule, combination, divisor)

    def _closest(self) -> list[Attributes]:
        """Operators that come closest to the samples, closest first."""
        found = [
            (score, op)
            for rule, axes in self._rules(rules())
            for score, combination in closest(self.planes, rule, axes, CLOSE)
            for op in map(self.held.applied, operators(rule, combination))
            if op
        ]
        return [op for _, op in sorted(found, key=lambda each: each[0])]

    def _bins(self) -> Iterator[Attributes]:
        bins = [record for record in OPERATORS.values() if issubclass(record, BinAttributes)]
        ops = (self.held.applied(record(self.planes[0].y.shape)) for record in bins)
        return (op for op in ops if op)

    def _voted(self) -> Iterator[Attributes]:
        """Operators that take modes or statistics of windows, with the same numbers on every axis."""
        (x, y), places = self.plane, telling(self.planes[0])
        shared = [tuple(axis.hypotheses[axis.names[numbers]] for axis in self.axes)
                  for numbers in self.axes[0].names if all(numbers in axis.names for axis in self.axes)]  # fmt: skip
        for record in OPERATORS.values():
            reducer = record.reducer
            computed = reducer.statistic or (reducer.votes and x.dtype.kind in "biu")
            if computed and self.held.allows(record):
                for combination in shared[:VOTED]:
                    if all(_is_near(y[0, 0][at], x[0, 0], at, combination, reducer) for at in places):
                        yield from operators(Rule(record.name), combination)

    def _verified(self, ops: Iterable[Attributes]) -> list[Candidate]:
        """Those that fit the plane and then the whole, each behaviour once; exact ones first."""
        tried: list[Plan] = []
        fitting: list[Candidate] = []
        for op in ops:
            small = _planned(op, *self.plane, self.plane_layout)
            if small is None or not self._fits_a_part(small) or any(same(small, plan) for plan in tried):
                continue
            if not self._candidate(op, small, *self.plane).fits:
                continue
            tried.append(small)
            plan = _planned(op, self.x, self.y, self.layout)
            if plan and (whole := self._candidate(op, plan, self.x, self.y)).fits:
                fitting.append(whole)
            if len(fitting) == BEHAVIOURS or len(tried) == VERIFIED:
                break
        return sorted(fitting, key=lambda candidate: not candidate.deviation.exact)

    def _fits_a_part(self, plan: Plan) -> bool:
        """Whether a plan may give the first outputs of the plane, which costs little however large that is."""
        x, y = self.plane
        part = Region(plan, tuple(range(min(n, PART)) for n in y.shape))
        wanted = y[slices(part.outputs)]
        with np.errstate(all="ignore"):
            made = run_region(part, x[slices(part.reads)], engine="numpy")[0]
        off = distances(made.astype(np.float64), wanted.astype(np.float64))
        return bool((off <= (self._room(plan, x, wanted) if is_float(y) else 1)).all())  # 1: rounded in another way

    def _candidate(self, op: Attributes, plan: Plan, x: Array, y: Array) -> Candidate:
        """The operator held against the output."""
        made = _made(plan, x)
        off = distances(made.astype(np.float64), y.astype(np.float64))
        wrong = off > self._room(plan, x, y)
        where = _where(wrong, plan) if wrong.any() else None
        furthest, ulps = float(off.max(initial=0.0)), diff_arrays(made, y).max_ulp
        found = Deviation(furthest == 0, furthest, ulps, int(wrong.sum()), off.size, where)
        word = otherwise_rounded(op, plan, x, y) if wrong.any() and furthest <= 1 else None
        if word:
            return Candidate(op, plan, replace(found, where=f"only in rounding: averages are {word}"), True)
        return Candidate(op, plan, found, not wrong.any())

    def _room(self, plan: Plan, x: Array, y: Array) -> Any:
        """By how much each element may differ: the tolerance, and where floats are added up, roundings."""
        size = np.nan_to_num(np.abs(y.astype(np.float64)), posinf=0.0)
        room = self.atol + self.rtol * size
        if plan.reducer.picks or plan.reducer.votes or not is_float(y):
            return room
        taps = prod(w.longest for w in plan.windows)
        return room + step(y) * size + slack(y) * (taps + 2) * largest(x.astype(np.float64)) / 2

    def _distance(self, plan: Plan, x: Array, y: Array) -> float:
        """The mean distance of what a plan gives, in which a few far elements do not outweigh all others."""
        off = distances(_made(plan, x).astype(np.float64), y.astype(np.float64))
        return float(np.minimum(off, self.planes[0].spread).mean())

    def _forms(self, candidate: Candidate) -> list[Candidate]:
        """The same pooling in each dialect that has it, with the given attributes: the plainest forms of each, by how
        plain the plainest one is.
        """
        found = []
        for like in [self.held.given["like"]] if "like" in self.held.given else DIALECTS:
            converted = in_one_operator(candidate.plan, like) or (candidate.op if candidate.op.like == like else None)
            if converted and (forms := self._planned_forms(candidate, converted)[:FORMS]):
                found.append((DIALECTS[like].retired, _plainness(forms[0]), forms))
        return [form for *_, forms in sorted(found, key=lambda each: each[:2]) for form in forms]

    def _planned_forms(self, candidate: Candidate, op: Attributes) -> list[Candidate]:
        """The candidate as `op` and its variants, where these are equal for its sizes, plainest first."""
        variants = [kept for each in _variants(op, candidate) if (kept := self.held.applied(each))]
        return sorted((form for each in variants if (form := _as_form(each, candidate))), key=_plainness)


def _is_near(found: Any, x: Array, at: tuple[int, ...], combination: Sequence[Hypothesis], reducer: Reducer) -> bool:
    """Whether an output may be the statistic of its window; whether it is, engines tell."""
    from poolcli.engine.numpy.statistics import STATISTICS

    spans = [each.windows.span(o) for each, o in zip(combination, at, strict=True)]
    elements = x[np.ix_(*map(list, spans))].reshape(1, -1)
    if not elements.size:
        return bool(np.isnan(found))
    take = STATISTICS["mode" if reducer.votes else reducer.statistic or ""]
    (value,) = take(elements, np.ones(elements.shape, np.bool_), reducer, found.dtype.name)
    return bool(np.isclose(value, found, rtol=NEAR, equal_nan=True))


def _planned(op: Attributes, x: Array, y: Array, layout: str) -> Plan | None:
    """The plan of an operator on the input; None where it is refused or gives another shape."""
    try:
        plan = make_plan(op, x.shape, x.dtype, layout=layout, output_dtype=y.dtype)
    except RequestError:
        return None
    return plan if plan.output_shape == y.shape else None


def _made(plan: Plan, x: Array) -> Array:
    """The output by the numpy engine, for which nothing is compiled, unless it would sort very many votes."""
    votes = prod(plan.output_shape) * prod(w.longest for w in plan.windows) if plan.reducer.votes else 0
    with np.errstate(all="ignore"):
        made: Array = run(plan, x, engine="auto" if votes > MOST_VOTES else "numpy")[0]
    return made


def otherwise_rounded(op: Attributes, plan: Plan, x: Array, y: Array) -> str | None:
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


def _plainness(candidate: Candidate) -> tuple[object, ...]:
    op, sizes = candidate.op, [axis.windows.size for axis in candidate.plan.axes]
    return (0, *plainness(op, sizes)[:2]) if isinstance(op, SlidingAttributes) else (1,)


def _variants(op: Attributes, candidate: Candidate) -> list[Attributes]:
    """The operator, and others that may be equal for these sizes: rounding up, equal pads, the adaptive one."""
    found = [op]
    dialect = DIALECTS[op.like]
    if isinstance(op, SlidingAttributes):
        alike = replace(op, pads_end=op.pads_begin)
        if "ceil" in dialect.rounding_types and op.rounding_type == "floor":
            found += [replace(each, rounding_type="ceil") for each in (op, alike)]
        found.append(alike)
        output = tuple(axis.windows.output for axis in candidate.plan.axes)
        bins = (r for r in OPERATORS.values() if issubclass(r, BinAttributes) and r.reducer == op.reducer)
        found += [record(output, like=op.like) for record in bins if record.name in dialect.operators]
    return list(dict.fromkeys(found))


def _as_form(op: Attributes, candidate: Candidate) -> Candidate | None:
    """The candidate as `op`, where that is equal for these sizes."""
    known = candidate.plan
    try:
        plan = make_plan(op, known.input_shape, known.dtype, layout=known.layout, output_dtype=known.output_dtype)
    except RequestError:
        return None
    return replace(candidate, op=op, plan=plan) if same(plan, known) else None
