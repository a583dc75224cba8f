"""Identifies the pooling that turns one array into another: its operator, attributes and dialect (`poolcli.identify`).

The windows that each axis may have are combined and compared with sampled outputs of a few planes. What gives these is
computed on parts of the arrays, then on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from time import process_time
from typing import TYPE_CHECKING, Any

from poolcli.arguments import one_of, per_axis
from poolcli.array_interop import as_array
from poolcli.dialects import DIALECTS
from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import check_tolerances
from poolcli.explain.equivalence import distinguishing_input, same_pooling
from poolcli.explain.export import in_one_operator
from poolcli.explain.identify.candidates import Candidate, Pair, combine_pairs, layouts_of
from poolcli.explain.identify.search import (
    OVERRIDE_RULE,
    Axis,
    Rule,
    grid_of,
    has_attribute,
    is_float,
    nearest,
    operators_of,
    planes_of,
    rules,
    samples_of,
    windows_of,
)
from poolcli.explain.solve import complexity
from poolcli.layouts import convert_layout, spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.attributes import OPERATORS, Attributes, BinAttributes, SlidingAttributes, expand_pads
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_VERIFIED = 60  # poolings of each rule that are taken from the samples, and of all rules that are computed whole
MAX_NEAREST = 6  # poolings of each rule that are computed if none fits
MAX_POOLINGS = 4  # different ones that are reported
FORMS_PER_DIALECT = 2  # equal ones that are reported, in different attributes
SAME_PADS = ("same_upper", "same_lower")
CPU_SECONDS = 10
NOISE_SHARE = 0.2  # differences below this share of the output's standard deviation are reported as noise


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
    searches, until = [], process_time() + CPU_SECONDS
    for own, other in layouts_of([(a.shape, b.shape) for a, b in pairs], layout, output_layout):
        converted = [Pair(a, convert_layout(b, other, own), own, atol, rtol) for a, b in pairs]
        searches.append((Search(converted, constraints, until), None if other == own else other))
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
    best = min(nearest, key=lambda found: found[0])[1] if nearest else None
    if best is None or (best.noise is None and any(y.size > x.size for x, y in pairs)):
        shapes = [[",".join(map(str, each.shape)) for each in pair] for pair in pairs]
        what = " and ".join(f"{output} of one of {given}" for given, output in shapes)
        larger = len(pairs) == 1 and pairs[0][1].size > pairs[0][0].size
        raise RequestError(
            f"no pooling that is searched makes an array of {what}" + ("; give the larger one first" if larger else "")
        )
    return [best]


def _pair(given: Any) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestError(f"{field('also')} takes pairs of an input and an output, such as [(x2, y2)]")
    x, y = (_in_native_order(as_array(each)) for each in given)
    return x, y


def _in_native_order(array: Array) -> Array:
    lookup(array.dtype.name)  # refuses types that are not pooled
    return array.astype(array.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True, slots=True)
class Constraints:
    """The operator and the attributes that the caller has fixed; a RequestError if no operator has them."""

    op: str | None
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.op is not None:
            one_of("op", self.op, tuple(OPERATORS))
        if not any(map(self.allows, OPERATORS.values())):
            which = "no operator" if self.op is None else self.op
            names = [name for name in self.given if self.op is None or not has_attribute(OPERATORS[self.op], name)]
            known = [own.name for op in OPERATORS.values() if self.op in (None, op.name) for own in fields(op)]
            meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
            has = "has no" if self.op else "has" if len(names) == 1 else "has all of"
            raise RequestError(f"{which} {has} {' and '.join(map(field, names))}{meant}")

    def allows(self, record: type[Attributes]) -> bool:
        """Whether an operator has the fixed name and all fixed attributes."""
        return self.op in (None, record.name) and all(has_attribute(record, name) for name in self.given)

    def numbers(self, i: int, axes: str) -> dict[str, int]:
        """The fixed numbers of axis `i` of those with these letters."""
        names = self.given.keys() & {"kernel", "strides", "pads_begin", "dilations"}
        return {name: per_axis(name, self.given[name], axes)[i] for name in names}

    def applied(self, op: Attributes) -> Attributes | None:
        """`op` with the fixed attributes; None if that is not valid."""
        try:
            return replace(op, **self.given) if self.allows(type(op)) else None
        except RequestError:
            return None


class Search:
    """The search for poolings that fit all pairs, in one layout. The pair with most outputs is sampled.

    `grids` are the windows that are tried: with explicit pads and, if inputs differ in size, with those of auto_pad.
    """

    def __init__(self, pairs: Sequence[Pair], constraints: Constraints, until: float) -> None:
        self.pairs, self.constraints, self.until = pairs, constraints, until
        base = max(pairs, key=lambda pair: pair.y.size)
        self.planes = planes_of(base.x, base.y, base.layout, base.atol, base.rtol)
        self.samples = samples_of(self.planes)
        positions = spatial_axes(base.layout)
        ordered = [base, *(pair for pair in pairs if pair is not base)]
        lengths = [[(pair.x.shape[i], pair.y.shape[i]) for pair in ordered] for i in positions]
        self.output = tuple(base.y.shape[i] for i in positions)
        self.is_varied = any(len({size for size, _ in each}) > 1 for each in lengths)
        # At a single size, the pads of auto_pad equal explicit ones.
        words = ("", *SAME_PADS) if self.is_varied else ("",)
        letters = "".join(base.layout[i] for i in positions)
        given = [constraints.numbers(i, letters) for i in range(len(positions))]
        every = [[windows_of(each, fixed, word) for each, fixed in zip(lengths, given, strict=True)] for word in words]
        self.grids = [grid_of(list(map(Axis, each))) for each in every if all(each)]
        plain = [[windows for windows in each if not windows.windows.pad_begin] for each in every[0]]
        self.without_pads = [grid_of(list(map(Axis, plain)))] if all(plain) else []
        self.near: list[tuple[float, Attributes]] = []  # of each rule, with their scores

    def fitting(self) -> list[Candidate]:
        """The poolings that fit, each in the attributes of every dialect that has it."""
        rules_of_all = rules(self.constraints.given, self.planes[0].stored[0].dtype.kind in "biu")
        exact = [found for rule in rules_of_all if self.constraints.allows(OPERATORS[rule.op]) and self._in_time()
                 for found in self._of_rule(rule)]  # fmt: skip
        bins = self._bins()
        found = self._verified([*bins, *_in_turn(exact)] if self.is_varied else [*_in_turn(exact), *bins])
        if not found and self.constraints.allows(OPERATORS[OVERRIDE_RULE.op]):
            found = self._verified(_in_turn(self._of_rule(OVERRIDE_RULE)))
        return [form for candidate in found for form in self._forms(candidate)]

    def _of_rule(self, rule: Rule) -> list[list[Attributes]]:
        """The operators that give every sample, the simplest first, for each kind of padding; notes the nearest."""
        plane, every = self.planes[0], list[list[Attributes]]()
        if rule.statistic and is_float(plane.stored[1]) and plane.sum_tolerance > plane.spread:
            return []  # rounding errors would explain any output
        for grid in self.without_pads if rule.signed else self.grids:  # PyTorch's lp has no padding
            exact, near = nearest(self.samples, rule, grid, MAX_VERIFIED, MAX_NEAREST)
            every.append([op for combination, by in exact for op in operators_of(rule, combination, by)])
            self.near += [(score, op) for score, combination, by in near for op in operators_of(rule, combination, by)]
        return every

    def nearest(self) -> tuple[float, Candidate] | None:
        """The pooling with the smallest mean distance from the output, and that distance, after `fitting`."""
        spread = self.planes[0].spread
        ordered = [op for _, op in sorted(self.near, key=lambda each: each[0])]
        found: list[tuple[float, Attributes, list[Plan]]] = []
        for op in dict.fromkeys([*ordered, *self._bins()]):
            allowed = self.constraints.applied(op)
            plans = self._plans(allowed) if allowed and (self._in_time() or not found) else []
            if allowed and plans:
                distances = (pair.distance(plan, spread) for pair, plan in zip(self.pairs, plans, strict=True))
                found.append((sum(distances), allowed, plans))
        if not found:
            return None
        distance, op, plans = min(found, key=lambda each: each[0])
        candidate = self._planned_forms(self._evaluated(op, plans), op)[0]
        error, std = candidate.deviation.max_abs, min(_spread(pair.y) for pair in self.pairs)
        noise = float(f"{1.1 * error:.2g}") if error <= NOISE_SHARE * std and not candidate.fits else None
        return distance, replace(candidate, noise=noise)

    def _bins(self) -> list[Attributes]:
        records: list[Any] = [record for record in OPERATORS.values() if issubclass(record, BinAttributes)]
        return [op for record in records if (op := self.constraints.applied(record(self.output)))]

    def _in_time(self) -> bool:
        return process_time() < self.until

    def _verified(self, ops: Iterable[Attributes]) -> list[Candidate]:
        """The operators that fit parts and then the whole, equal ones once; exact ones first."""
        tried: list[list[Plan]] = []
        fitting: list[Candidate] = []
        for op in ops:
            if len(fitting) == MAX_POOLINGS or len(tried) == MAX_VERIFIED or not self._in_time():
                break
            plans = self._plans(op)
            if not plans or not all(pair.may_fit(plan) for pair, plan in zip(self.pairs, plans, strict=True)):
                continue
            if any(_all_same(plans, others) for others in tried):
                continue
            tried.append(plans)
            if (whole := self._evaluated(op, plans)).fits:
                fitting.append(whole)
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


def _in_turn(lists: Sequence[Sequence[Attributes]]) -> Iterator[Attributes]:
    """The first operator of each list, then the second of each, and so on."""
    for row in zip_longest(*lists):
        yield from (op for op in row if op is not None)


def _spread(y: Array) -> float:
    """The standard deviation of all elements but NaN; 0 if there are none."""
    known = y[~np.isnan(y)].astype(np.float64)
    return float(known.std()) if known.size else 0.0


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
