"""Identifies the pooling that turns one array into another: its operator, attributes and dialect (`poolcli.identify`).

Hypotheses about each axis are filtered by sampled outputs; what matches is computed on one plane, then on whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, starmap, zip_longest
from typing import TYPE_CHECKING, Any

from poolcli.array_interop import as_array
from poolcli.dialects import DIALECTS
from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import check_tolerances
from poolcli.explain.equivalence import distinguishing_input, same_pooling
from poolcli.explain.export import in_one_operator
from poolcli.explain.identify.candidates import Candidate, Pair, combine_pairs, layouts_of
from poolcli.explain.identify.hypotheses import (
    OVERRIDE_RULE,
    SAME_PADS,
    Constraints,
    Rule,
    has_attribute,
    hypotheses,
    operators_of,
    rules,
)
from poolcli.explain.identify.samples import (
    Axis,
    Statistic,
    closest,
    closest_statistics,
    matching,
    matching_statistics,
    planes_of,
)
from poolcli.explain.solve import complexity
from poolcli.layouts import convert_layout, default_layout, spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.attributes import OPERATORS, Attributes, BinAttributes, SlidingAttributes, expand_pads
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_VERIFIED = 60  # poolings of each rule that are taken from the samples, and of all rules that are computed whole
MAX_NEAREST = 6  # poolings of each rule that are computed if none fits
MAX_POOLINGS = 4  # different ones that are reported
FORMS_PER_DIALECT = 2  # equal ones that are reported, in different attributes
DDOFS = (0, 1)  # of standard deviations
NOISE_SHARE = 0.05  # differences below this share of the output's standard deviation are reported as noise


def identify(
    x: ArrayLike, y: ArrayLike, *, also: Iterable[tuple[ArrayLike, ArrayLike]] = (), op: str | None = None,
    layout: str | None = None, output_layout: str | None = None, atol: float = 0, rtol: float = 0, **given: Any,
) -> list[Candidate]:  # fmt: skip
    """Find the operator, attributes and framework that turn one array into another.

    The search covers kernels up to 11, about as long as a window's share, and the whole input; dilations up to 3; pads
    shorter than the kernel; powers 1 to 4.

    Parameters
    ----------
    x, y : array_like
        The whole input and the whole output: `[N, C, spatial...]`, channels last, or as `layout` says.
    also : iterable of (array_like, array_like), optional
        Further inputs and outputs of the same pooling, of any size: what is found holds for all.
    op : str, optional
        Operator, such as "max"; default: all are tried.
    layout : str, optional
        One letter per axis of the input; default: channels first and channels last are tried.
    output_layout : str, optional
        One letter per axis of the output; default: the input's, or another common one if its lengths require that.
    atol, rtol : float, default 0
        Elements of the output may differ by `atol + rtol * abs(y)` in addition to rounding errors.
    **given
        Attributes that keep these values, such as `kernel=3` or `like="onnx"`.

    Returns
    -------
    list of Candidate
        Best first: exact ones, then those that differ by rounding; if there are none, only the nearest. A candidate
        `fits` if every element is equal within rounding errors and the tolerance; `deviation` has the error, and
        `noise` the `atol` with which the nearest fits, if its differences are small.

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
    atol, rtol = check_tolerances(atol, rtol)
    pairs = [_pair((x, y)), *map(_pair, also)]
    with np.errstate(all="ignore"):
        return _identify(pairs, Constraints(op, expand_pads(given)), layout, output_layout, atol, rtol)


def _identify(
    pairs: list[tuple[Array, Array]], constraints: Constraints,
    layout: str | None, output_layout: str | None, atol: float, rtol: float,
) -> list[Candidate]:  # fmt: skip
    searches = []
    for own, other in layouts_of([(a.shape, b.shape) for a, b in pairs], layout, output_layout):
        converted = [Pair(a, convert_layout(b, other, own), own, atol, rtol) for a, b in pairs]
        searches.append((Search(converted, constraints), None if other == own else other))
    for search, other_layout in searches:
        if fitting := search.fitting():
            first, *others = [replace(each, output_layout=other_layout) for each in fitting]
            apart = [distinguishing_input(first.op, first.plan, each.op, each.plan) for each in others]
            return [first, *(replace(each, apart=difference) for each, difference in zip(others, apart, strict=True))]
    nearest = [
        (found[0], replace(found[1], output_layout=other_layout))
        for search, other_layout in searches
        if (found := search.nearest())
    ]
    if not nearest:
        shapes = [[",".join(map(str, each.shape)) for each in pair] for pair in pairs]
        what = " and ".join(f"{output} of one of {given}" for given, output in shapes)
        larger = len(pairs) == 1 and pairs[0][1].size > pairs[0][0].size
        raise RequestError(
            f"no pooling that is searched makes an array of {what}" + ("; give the larger one first" if larger else "")
        )
    return [min(nearest, key=lambda found: found[0])[1]]


def _pair(given: Any) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestError(f"{field('also')} takes pairs of an input and an output, such as [(x2, y2)]")
    x, y = (_in_native_order(as_array(each)) for each in given)
    return x, y


def _in_native_order(array: Array) -> Array:
    lookup(array.dtype.name)  # refuses types that are not pooled
    return array.astype(array.dtype.newbyteorder("="), copy=False)


class Search:
    """The search for poolings that fit all pairs, in one layout. The pair with most outputs is sampled.

    `axes` are the hypotheses of each axis: with explicit pads and, if inputs differ in size, with those of auto_pad.
    """

    def __init__(self, pairs: Sequence[Pair], constraints: Constraints) -> None:
        self.pairs, self.constraints = pairs, constraints
        base = max(pairs, key=lambda pair: pair.y.size)
        self.planes = planes_of(base.x, base.y, base.layout, base.atol, base.rtol)
        x, y = self.planes[0].stored
        self.plane = Pair(x, y, default_layout(x.ndim), base.atol, base.rtol)
        positions = spatial_axes(base.layout)
        ordered = [base, *(pair for pair in pairs if pair is not base)]
        lengths = [[(pair.x.shape[i], pair.y.shape[i]) for pair in ordered] for i in positions]
        self.is_varied = any(len({size for size, _ in each}) > 1 for each in lengths)
        # At a single size, the pads of auto_pad equal explicit ones.
        words = ("", *SAME_PADS) if self.is_varied else ("",)
        letters = "".join(base.layout[i] for i in positions)
        given = [constraints.numbers(i, letters) for i in range(len(positions))]
        self.axes = [
            [Axis(hypotheses(each, numbers, word)) for each, numbers in zip(lengths, given, strict=True)]
            for word in words
        ]
        self.without_pads = [
            Axis([each for each in axis.hypotheses if not each.windows.pad_begin]) for axis in self.axes[0]
        ]

    def fitting(self) -> list[Candidate]:
        """The poolings that fit, each in the attributes of every dialect that has it."""
        found = self._verified(self._candidates()) or self._verified(
            chain.from_iterable(self._matching([OVERRIDE_RULE]))
        )
        return [form for candidate in found for form in self._forms(candidate)]

    def nearest(self) -> tuple[float, Candidate] | None:
        """The pooling with the smallest mean distance from the output, and that distance."""
        spread = self.planes[0].spread
        ops = dict.fromkeys([*self._closest(), *self._closest_statistics(), *self._bins()])
        on_plane = [(self.plane.distance(plan, spread), op) for op in ops if (plan := self.plane.plan(op))]
        found: list[tuple[float, Candidate]] = []
        for _, op in sorted(on_plane, key=lambda each: each[0])[:MAX_NEAREST]:
            if plans := self._plans(op):
                distances = (pair.distance(plan, spread) for pair, plan in zip(self.pairs, plans, strict=True))
                found.append((sum(distances), self._evaluated(op, plans)))
        if not found:
            return None
        distance, candidate = min(found, key=lambda each: each[0])
        candidate = self._planned_forms(candidate, candidate.op)[0]
        error, std = candidate.deviation.max_abs, min(_spread(pair.y) for pair in self.pairs)
        noise = float(f"{1.1 * error:.2g}") if error <= NOISE_SHARE * std else None
        return distance, replace(candidate, noise=noise)

    def _candidates(self) -> Iterator[Attributes]:
        """Operators that match the samples: the simplest of each rule in turn, so that many of one operator do not hide
        those of another; adaptive ones first if sizes differ, else last.
        """
        if self.is_varied:
            yield from self._bins()
        yield from _in_turn([*self._matching(rules()), *self._statistics()])
        yield from self._bins()

    def _rules(self, among: Iterable[Rule]) -> Iterator[tuple[Rule, list[Axis]]]:
        for rule in among:
            if self.constraints.allows(OPERATORS[rule.op]):
                every = [self.without_pads] if rule.signed else self.axes  # PyTorch's lp has no padding
                yield from ((rule, axes) for axes in every if all(axis.hypotheses for axis in axes))

    def _matching(self, among: Iterable[Rule]) -> Iterator[Iterator[Attributes]]:
        """Of each rule, the operators that match the samples, simplest first."""
        for rule, axes in self._rules(among):
            found = matching(self.planes, rule, axes, MAX_VERIFIED)
            yield chain.from_iterable(starmap(partial(operators_of, rule), found))

    def _closest(self) -> list[Attributes]:
        """Operators by their distance from the samples, the nearest first."""
        found = [
            (score, op)
            for rule, axes in self._rules(rules())
            for score, combination in closest(self.planes, rule, axes, MAX_NEAREST)
            for op in map(self.constraints.applied, operators_of(rule, combination))
            if op
        ]
        return [op for _, op in sorted(found, key=lambda each: each[0])]

    def _bins(self) -> Iterator[Attributes]:
        bins = [record for record in OPERATORS.values() if issubclass(record, BinAttributes)]
        ops = (self.constraints.applied(record(self.planes[0].y.shape)) for record in bins)
        return (op for op in ops if op)

    def _statistics(self) -> Iterator[Iterator[Attributes]]:
        """Of each mode and statistic, those that match the samples, simplest first."""
        for rule, statistic in self._statistic_rules():
            for axes in self._possible_axes():
                found = matching_statistics(self.planes[0], statistic, axes, MAX_VERIFIED)
                yield chain.from_iterable(map(partial(operators_of, rule), found))

    def _possible_axes(self) -> list[list[Axis]]:
        return [axes for axes in self.axes if all(axis.hypotheses for axis in axes)]

    def _closest_statistics(self) -> list[Attributes]:
        """Modes and statistics whose samples are nearest to the output's."""
        return [
            op
            for rule, statistic in self._statistic_rules()
            for axes in self._possible_axes()
            for combination in closest_statistics(self.planes[0], statistic, axes, MAX_NEAREST)
            for op in map(self.constraints.applied, operators_of(rule, combination))
            if op
        ]

    def _statistic_rules(self) -> Iterator[tuple[Rule, Statistic]]:
        """The operators that need all elements of a window at once, and what they compute of them."""
        for record in OPERATORS.values():
            reducer = record.reducer
            is_statistic = reducer.statistic or (reducer.votes and self.plane.x.dtype.kind in "biu")
            if is_statistic and self.constraints.allows(record):
                every = [self.constraints.given["ddof"]] if "ddof" in self.constraints.given else DDOFS
                for given in [{"ddof": ddof} for ddof in every] if has_attribute(record, "ddof") else [{}]:
                    with suppress(RequestError):
                        made: Any = record
                        yield Rule(record.name, given), _statistic_of(made(1, **given))

    def _verified(self, ops: Iterable[Attributes]) -> list[Candidate]:
        """The operators that fit the plane and then the whole, equal ones once; exact ones first."""
        tried: list[list[Plan]] = []
        fitting: list[Candidate] = []
        for op in ops:
            small = self.plane.plan(op)
            if small is None or not self.plane.may_fit(small):
                continue
            plans = self._plans(op)
            if not plans or any(_all_same(plans, others) for others in tried):
                continue
            if not self.plane.candidate(op, small).fits:
                continue
            tried.append(plans)
            if (whole := self._evaluated(op, plans)).fits:
                fitting.append(whole)
            if len(fitting) == MAX_POOLINGS or len(tried) == MAX_VERIFIED:
                break
        return sorted(fitting, key=lambda candidate: not candidate.deviation.exact)

    def _plans(self, op: Attributes) -> list[Plan]:
        """The plans of an operator on every input; empty if one of them does not give the output's shape."""
        plans = [plan for pair in self.pairs if (plan := pair.plan(op))]
        return plans if len(plans) == len(self.pairs) else []

    def _evaluated(self, op: Attributes, plans: Sequence[Plan]) -> Candidate:
        return combine_pairs([pair.candidate(op, plan) for pair, plan in zip(self.pairs, plans, strict=True)])

    def _forms(self, candidate: Candidate) -> list[Candidate]:
        """The same pooling in each dialect that has it, with the given attributes: dialects in the order of their
        simplest form, retired ones last.
        """
        found = []
        for like in [self.constraints.given["like"]] if "like" in self.constraints.given else DIALECTS:
            converted = in_one_operator(candidate.plan, like) or (candidate.op if candidate.op.like == like else None)
            if converted and (forms := self._planned_forms(candidate, converted)[:FORMS_PER_DIALECT]):
                found.append((DIALECTS[like].retired, self._complexity(forms[0]), forms))
        return [form for *_, forms in sorted(found, key=lambda each: each[:2]) for form in forms]

    def _planned_forms(self, candidate: Candidate, op: Attributes) -> list[Candidate]:
        """The candidate as `op` and its variants that are equal at the sizes of all pairs, simplest first."""
        known = self._plans(candidate.op)
        variants = [allowed for each in _variants(op, candidate) if (allowed := self.constraints.applied(each))]
        forms = [(each, plans) for each in variants if (plans := self._plans(each)) and _all_same(plans, known)]
        return sorted((replace(candidate, op=each, plan=plans[0]) for each, plans in forms), key=self._complexity)

    def _complexity(self, candidate: Candidate) -> tuple[object, ...]:
        """A sort key, simplest first: adaptive windows are the simplest if the inputs differ in size."""
        op, sizes = candidate.op, [axis.windows.size for axis in candidate.plan.axes]
        return (1, *complexity(op, sizes)[:2]) if isinstance(op, SlidingAttributes) else (2 - 2 * self.is_varied,)


def _in_turn(iterators: Sequence[Iterator[Attributes]]) -> Iterator[Attributes]:
    """The first operator of each iterator, then the second of each, and so on."""
    for row in zip_longest(*iterators):
        yield from (op for op in row if op is not None)


def _spread(y: Array) -> float:
    """The standard deviation of all elements but NaN; 0 if there are none."""
    known = y[~np.isnan(y)].astype(np.float64)
    return float(known.std()) if known.size else 0.0


def _statistic_of(op: Attributes) -> Statistic:
    """The function that reduces the elements of a window."""
    from poolcli.engine.numpy.statistics import STATISTICS

    reducer = op.reduction(DIALECTS[op.like])
    take = STATISTICS["mode" if reducer.votes else reducer.statistic or ""]
    return lambda rows, dtype: np.asarray(take(rows, np.ones(rows.shape, np.bool_), reducer, dtype), np.float64)


def _all_same(plans: Sequence[Plan], others: Sequence[Plan]) -> bool:
    return all(same_pooling(a, b) for a, b in zip(plans, others, strict=True))


def _variants(op: Attributes, candidate: Candidate) -> list[Attributes]:
    """The operator, and others that may be equal at these sizes: rounded up, with equal pads, adaptive."""
    found = [op]
    dialect = DIALECTS[op.like]
    if isinstance(op, SlidingAttributes):
        symmetric = replace(op, pads_end=op.pads_begin)
        if "ceil" in dialect.rounding_types and op.rounding_type == "floor":
            found += [replace(each, rounding_type="ceil") for each in (op, symmetric)]
        found.append(symmetric)
        output = tuple(axis.windows.output for axis in candidate.plan.axes)
        bins = (r for r in OPERATORS.values() if issubclass(r, BinAttributes) and r.reducer == op.reducer)
        found += [record(output, like=op.like) for record in bins if record.name in dialect.operators]
    return list(dict.fromkeys(found))
