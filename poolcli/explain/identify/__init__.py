"""Identifies the pooling that turns one array into another (`poolcli.identify`): the windows that each axis may have
are combined and compared with sampled outputs of a few planes; what gives these is computed on parts, then on all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from time import process_time
from typing import TYPE_CHECKING, Any

from poolcli.arguments import one_of, per_axis, tolerance
from poolcli.array_interop import as_array, named_layout
from poolcli.dialects import DIALECTS
from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import Difference
from poolcli.explain.equivalence import same_pooling
from poolcli.explain.export import one_operator
from poolcli.explain.identify import samples as sampling
from poolcli.explain.identify.pair import Pair, possible_layouts
from poolcli.explain.solve import complexity
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.attributes import OPERATORS, Attributes, BinAttributes, SlidingAttributes, expand_pads
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Candidate", "identify"]

MAX_VERIFIED = 60  # poolings of each rule that are taken from the samples, and of all rules that are computed whole
MAX_NEAREST = 12  # poolings of each rule that are computed if none fits
MAX_POOLINGS = 4  # different ones that are reported
FORMS_PER_DIALECT = 2  # equal ones that are reported, in different attributes
CPU_SECONDS, VERIFYING_SECONDS = 10, 3  # in all, and of these at least for what is computed
NOISE_SHARE = 0.2  # differences below this share of the output's standard deviation are reported as noise


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pooling that may have produced the output."""

    op: Attributes
    plan: Plan
    deviation: Difference  # of its output and the given one, with a tolerance for rounding errors
    noise: float | None = None  # the `atol` with which it would fit, if its differences are as small as noise
    rounding: str | None = None  # how its results are rounded to the output, if that alone differs: "halves up"

    @property
    def fits(self) -> bool:
        """Whether no element differs by more than rounding errors and the tolerance."""
        return self.deviation.equal


def identify(
    x: ArrayLike, y: ArrayLike, *, op: str | None = None, layout: str | None = None, atol: float = 0, rtol: float = 0,
    **given: Any,
) -> list[Candidate]:  # fmt: skip
    """Find the operator, attributes and framework that turn one array into another.

    The search covers kernels up to 11, about as long as a window's share, and the whole input; dilations up to 3; pads
    shorter than the kernel; powers 1 to 4.

    Parameters
    ----------
    x, y : array_like
        The whole input and the whole output, with the same axes.
    op : str, optional
        Operator, such as "max"; default: all are tried but mode, median and std.
    layout : str, optional
        One letter per axis; default: as every function reads `x`, then the layouts that it proposes.
    atol, rtol : float, default 0
        Elements of the output may differ by `atol + rtol * abs(y)` in addition to rounding errors.
    **given
        Attributes that keep these values, such as `kernel=3` or `like="onnx"`.

    Returns
    -------
    list of Candidate
        Best first: exact ones, then those that differ by rounding; if there are none, only the nearest. A candidate
        `fits` if every element is equal within rounding errors and the tolerance; `deviation` has the error, and
        `noise` the `atol` with which the nearest fits, if its differences are small, `rounding` how the output
        rounds, if that alone differs, such as "halves up".

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
    atol, rtol = tolerance("atol", atol), tolerance("rtol", rtol)
    arrays = [as_array(x), as_array(y, "y")]
    for array in arrays:
        lookup(array.dtype.name)  # refuses types that are not pooled
    before, after = (each.astype(each.dtype.newbyteorder("="), copy=False) for each in arrays)
    records = _records(op, given := expand_pads(given))
    read = {own.name: own.metadata["read"] for own in fields(records[0])}
    given = {name: read[name](name, value) for name, value in given.items()}
    until, searches = process_time() + CPU_SECONDS, list[_Search]()
    with np.errstate(all="ignore"):
        for own in possible_layouts(before.shape, after.shape, layout, named_layout(x), given):
            searches.append(_Search(Pair(before, after, own, atol, rtol, until), records, given))
        for search in searches:
            if found := search.fitting():
                return found
        near = [each for search in searches if (each := search.nearest())]
    best = min(near, key=lambda each: each[0])[1] if near else None
    is_larger = after.size > before.size
    if best is None or (best.noise is None and is_larger):
        source, output = (",".join(map(str, each.shape)) for each in arrays)
        swap = "; give the larger one first" if is_larger else ""
        raise RequestError(f"no pooling that is searched makes an array of {output} of one of {source}{swap}")
    return [best]


def _records(op: str | None, given: Mapping[str, Any]) -> list[type[Attributes]]:
    """The operators to try, which have all given attributes; refuses attributes that none has, or none together."""
    searched = sampling.searched_operators()
    records = list(searched.values()) if op is None else [searched[one_of("op", op, tuple(searched))]]
    able = [record for record in records if sampling.has_attributes(record, given)]
    if not able:
        names = [name for name in given if op is None or not sampling.has_attributes(records[0], (name,))]
        known = [own.name for record in records for own in fields(record)]
        meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
        has = "has no" if op else "has" if len(names) == 1 else "has all of"
        raise RequestError(f"{op or 'no operator that is searched'} {has} {' and '.join(map(field, names))}{meant}")
    return able


class _Search:
    """The search for poolings that fit a pair."""

    def __init__(self, pair: Pair, records: Sequence[type[Attributes]], given: Mapping[str, Any]) -> None:
        self.pair, self.records, self.given = pair, records, given
        self.samples = sampling.samples_of(pair)
        self.near: list[tuple[float, Attributes]] = []  # of each rule, with their scores
        positions = spatial_axes(pair.layout)
        letters = "".join(pair.layout[i] for i in positions)
        self.output = tuple(pair.y.shape[i] for i in positions)
        names = given.keys() & {"kernel", "strides", "pads_begin", "dilations"}
        numbers = {name: per_axis(name, given[name], letters) for name in names}
        fixed = [{name: every[i] for name, every in numbers.items()} for i in range(len(positions))]
        sizes = [pair.x.shape[i] for i in positions]
        axes = [sampling.Axis(*each) for each in zip(sizes, self.output, fixed, strict=True)]
        self.grid = sampling.grid_of(axes) if all(axis.windows for axis in axes) else None

    def fitting(self) -> list[Candidate]:
        """The poolings that fit, each in the attributes of every dialect that has it."""
        until, lists = self.pair.until - VERIFYING_SECONDS, list[list[Attributes]]()  # of each rule, the simplest first
        for rule in sampling.rules(self.given):
            if rule.record in self.records and self.grid is not None and process_time() < until:
                most = MAX_VERIFIED, MAX_NEAREST
                exact, near = sampling.nearest(self.pair, self.samples, rule, self.grid, *most, until)
                lists.append(exact)
                self.near += near
        sliding = [op for row in zip_longest(*lists) for op in row if op is not None]  # the first of each rule first
        records: list[Any] = [record for record in self.records if issubclass(record, BinAttributes)]
        bins = [op for record in records for op in self._allowed(record(self.output))]
        found = self._verified([*sliding, *bins])
        self.near += [(np.inf, op) for op in bins]
        return [form for candidate in found for form in self._forms(candidate)]

    def nearest(self) -> tuple[float, Candidate] | None:
        """The pooling with the smallest mean distance from the output, and that distance, after `fitting`."""
        best: tuple[float, Attributes, Plan] | None = None
        ordered = dict.fromkeys(op for _, op in sorted(self.near, key=lambda each: each[0]))
        for op in (allowed for each in ordered for allowed in self._allowed(each)):
            plan = self.pair.plan(op) if best is None or self._in_time(1) else None
            distance = self.pair.distance(plan) if plan else np.inf
            if plan and self.pair.rounding(op):  # of few numbers another pooling may be nearer
                best = 0, op, plan
                break
            if plan and (best is None or distance < best[0]):
                best = distance, op, plan
        if best is None:
            return None
        distance, op, plan = best
        candidate = self._planned_forms(Candidate(op, plan, self.pair.difference(plan)), op)[0]
        off = candidate.deviation.max_abs
        is_noise = off <= NOISE_SHARE * self.pair.spread and not candidate.fits
        noise, rounding = float(f"{1.1 * off:.2g}") if is_noise else None, self.pair.rounding(op) if off <= 1 else None
        return distance, replace(candidate, noise=noise, rounding=rounding)

    def _in_time(self, left: int = 0) -> bool:
        return process_time() + left < self.pair.until

    def _allowed(self, op: Attributes) -> list[Attributes]:
        """`op` with the attributes that the caller has fixed; empty if it is not valid."""
        try:
            return [replace(op, **self.given)] if type(op) in self.records else []
        except RequestError:
            return []

    def _verified(self, ops: Iterable[Attributes]) -> list[Candidate]:
        """The operators that fit parts and then the whole, equal ones once; exact ones first."""
        tried: list[Plan] = []
        fitting: list[Candidate] = []
        for op in ops:
            if len(fitting) == MAX_POOLINGS or len(tried) == MAX_VERIFIED or not self._in_time():
                break
            plan = self.pair.plan(op)
            if plan and self.pair.may_fit(plan) and not any(same_pooling(plan, other) for other in tried):
                tried.append(plan)
                if (found := Candidate(op, plan, self.pair.difference(plan))).fits:
                    fitting.append(found)
        return sorted(fitting, key=lambda candidate: not candidate.deviation.exact)

    def _forms(self, candidate: Candidate) -> list[Candidate]:
        """The same pooling in each dialect that has it: in the order of their simplest form, retired ones last."""
        found = []
        for like in [self.given["like"]] if "like" in self.given else DIALECTS:
            one = one_operator(candidate.plan, DIALECTS[like], [])
            op = one.op if one else candidate.op if candidate.op.like == like else None
            if op and (forms := self._planned_forms(candidate, op)[:FORMS_PER_DIALECT]):
                found.append((DIALECTS[like].retired, _complexity(forms[0]), forms))
        return [form for *_, forms in sorted(found, key=lambda each: each[:2]) for form in forms]

    def _planned_forms(self, candidate: Candidate, op: Attributes) -> list[Candidate]:
        """The candidate as `op` and its variants that are equal at this size, simplest first."""
        variants = [allowed for each in _variants(op, self.output) for allowed in self._allowed(each)]
        forms = [(each, plan) for each in variants if (plan := self.pair.plan(each))]
        same = (replace(candidate, op=each, plan=plan) for each, plan in forms if same_pooling(plan, candidate.plan))
        return sorted(same, key=_complexity)


def _complexity(candidate: Candidate) -> tuple[object, ...]:
    """A sort key, simplest first; adaptive windows are less simple than those of a kernel."""
    op, sizes = candidate.op, [axis.windows.size for axis in candidate.plan.axes]
    return (1, *complexity(op, sizes)[:2]) if isinstance(op, SlidingAttributes) else (2,)


def _variants(op: Attributes, output: tuple[int, ...]) -> list[Attributes]:
    """The operator, and others that may be equal at these sizes: rounded up, with equal pads, adaptive."""
    found, dialect = [op], DIALECTS[op.like]
    if isinstance(op, SlidingAttributes):
        symmetric = replace(op, pads_end=op.pads_begin)
        if "ceil" in dialect.rounding_types and op.rounding_type == "floor":
            found += [replace(each, rounding_type="ceil") for each in (op, symmetric)]
        found.append(symmetric)
        bins: list[Any] = [r for r in OPERATORS.values() if issubclass(r, BinAttributes) and r.reducer == op.reducer]
        found += [record(output, like=op.like) for record in bins if record.name in dialect.operators]
    return list(dict.fromkeys(found))
