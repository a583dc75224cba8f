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
from poolcli.explain.identify.grid import (
    Axis,
    Rule,
    grid_of,
    has_attributes,
    nearest,
    rules,
    samples_of,
)
from poolcli.explain.identify.pairs import Deviation, Pair, combined, common_layouts
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

__all__ = ["Candidate", "Deviation", "identify"]

MAX_VERIFIED = 60  # poolings of each rule that are taken from the samples, and of all rules that are computed whole
MAX_NEAREST = 6  # poolings of each rule that are computed if none fits
MAX_POOLINGS = 4  # different ones that are reported
FORMS_PER_DIALECT = 2  # equal ones that are reported, in different attributes
CPU_SECONDS = 10
NOISE_SHARE = 0.2  # differences below this share of the output's standard deviation are reported as noise


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pooling that may have produced the output.

    Attributes
    ----------
    op : record
    plan : Plan
        Of several pairs of arrays, that of the first.
    deviation : Deviation
        Over all pairs; `fits` is whether no element differs by more than rounding errors and the tolerance.
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
    apart: str | None = None
    noise: float | None = None
    output_layout: str | None = None

    @property
    def fits(self) -> bool:
        """Whether no element differs by more than rounding errors and the tolerance."""
        return self.deviation.fits


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
    arrays = [_two_arrays(pair) for pair in ((x, y), *also)]
    given = expand_pads(given)
    _check_given(op, given)
    until, searches = process_time() + CPU_SECONDS, list[_Search]()
    with np.errstate(all="ignore"):
        for own, other in common_layouts([(a.shape, b.shape) for a, b in arrays], layout, output_layout):
            pairs = [Pair(a, convert_layout(b, other, own), own, atol, rtol) for a, b in arrays]
            searches.append(_Search(pairs, None if other == own else other, op, given, until))
        for search in searches:
            if found := search.fitting():
                first = found[0]
                apart = (distinguishing_input(first.op, first.plan, each.op, each.plan) for each in found[1:])
                return [first, *(replace(each, apart=text) for each, text in zip(found[1:], apart, strict=True))]
        near = [each for search in searches if (each := search.nearest())]
    best = min(near, key=lambda each: each[0])[1] if near else None
    larger = any(b.size > a.size for a, b in arrays)
    if best is None or (best.noise is None and larger):
        texts = [[",".join(map(str, each.shape)) for each in pair] for pair in arrays]
        what = " and ".join(f"{output} of one of {source}" for source, output in texts)
        swap = "; give the larger one first" if larger and len(arrays) == 1 else ""
        raise RequestError(f"no pooling that is searched makes an array of {what}{swap}")
    return [best]


def _two_arrays(given: Any) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestError(f"{field('also')} takes pairs of an input and an output, such as [(x2, y2)]")
    x, y = map(as_array, given)
    for array in (x, y):
        lookup(array.dtype.name)  # refuses types that are not pooled
    return x.astype(x.dtype.newbyteorder("="), copy=False), y.astype(y.dtype.newbyteorder("="), copy=False)


def _check_given(op: str | None, given: Mapping[str, Any]) -> None:
    """Refuse an unknown operator, and attributes that it does not have; without one, those that none has together."""
    if op is not None:
        one_of("op", op, tuple(OPERATORS))
    records = [record for record in OPERATORS.values() if op in (None, record.name)]
    if not any(has_attributes(record, given) for record in records):
        names = [name for name in given if op is None or not has_attributes(records[0], (name,))]
        known = [own.name for record in records for own in fields(record)]
        meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
        has = "has no" if op else "has" if len(names) == 1 else "has all of"
        raise RequestError(f"{op or 'no operator'} {has} {' and '.join(map(field, names))}{meant}")


class _Search:
    """The search for poolings that fit all pairs, in one layout. The pair with most outputs is sampled.

    `grids` are the windows that are tried: with explicit pads and, if inputs differ in size, with those of auto_pad.
    """

    def __init__(
        self, pairs: Sequence[Pair], output_layout: str | None, op: str | None, given: Mapping[str, Any], until: float
    ) -> None:
        self.pairs, self.output_layout, self.given, self.until = pairs, output_layout, given, until
        self.records = [r for r in OPERATORS.values() if op in (None, r.name) and has_attributes(r, given)]
        self.base = max(pairs, key=lambda pair: pair.y.size)
        self.samples = samples_of(self.base)
        self.near: list[tuple[float, Attributes]] = []  # of each rule, with their scores
        ordered = [self.base, *(pair for pair in pairs if pair is not self.base)]
        positions = spatial_axes(self.base.layout)
        letters = "".join(self.base.layout[i] for i in positions)
        names = given.keys() & {"kernel", "strides", "pads_begin", "dilations"}
        numbers = {name: per_axis(name, given[name], letters) for name in names}
        lengths = [[(pair.x.shape[i], pair.y.shape[i]) for pair in ordered] for i in positions]
        self.output = tuple(each[0][1] for each in lengths)
        fixed = [{name: every[i] for name, every in numbers.items()} for i in range(len(lengths))]
        self.is_varied = any(len({size for size, _ in each}) > 1 for each in lengths)
        self.grids = []
        # At a single size, the pads of auto_pad equal explicit ones.
        for word in ("", "same_upper", "same_lower") if self.is_varied else ("",):
            axes = [Axis(each, own, word) for each, own in zip(lengths, fixed, strict=True)]
            if all(axis.windows for axis in axes):
                self.grids.append(grid_of(axes, word))

    def fitting(self) -> list[Candidate]:
        """The poolings that fit, each in the attributes of every dialect that has it."""
        *usual, override = rules(self.given, votes=self.base.x.dtype.kind in "biu")
        sliding = [*_in_turn([ops for rule in usual for ops in self._of_rule(rule)])]
        records: list[Any] = [record for record in self.records if issubclass(record, BinAttributes)]
        bins = [op for record in records for op in self._allowed(record(self.output))]
        found = self._verified([*bins, *sliding] if self.is_varied else [*sliding, *bins])
        found = found or self._verified(_in_turn(self._of_rule(override)))
        self.near += [(np.inf, op) for op in bins]
        return [form for candidate in found for form in self._forms(candidate)]

    def _of_rule(self, rule: Rule) -> list[list[Attributes]]:
        """The operators that give every sample, the simplest first, for each kind of padding; notes the nearest."""
        # Where rounding errors would explain any output, statistics are not tried.
        unclear = rule.needs_all and self.base.is_float and 32 * self.base.sum_error > self.base.spread > 0
        if rule.record not in self.records or unclear or not self._in_time():
            return []
        every = []
        for grid in self.grids:
            exact, near = nearest(self.base, self.samples, rule, grid, MAX_VERIFIED, MAX_NEAREST)
            every.append(exact)
            self.near += near
        return every

    def nearest(self) -> tuple[float, Candidate] | None:
        """The pooling with the smallest mean distance from the output, and that distance, after `fitting`.

        Errors are clipped at the standard deviation, so that a few do not outweigh all others.
        """
        best: tuple[float, Attributes, list[Plan]] | None = None
        most = self.base.spread or 1
        ordered = dict.fromkeys(op for _, op in sorted(self.near, key=lambda each: each[0]))
        for op in (allowed for each in ordered for allowed in self._allowed(each)):
            plans = self._plans(op) if best is None or self._in_time() else []
            errors = [pair.at_ends(plan) for pair, plan in zip(self.pairs, plans, strict=False)]
            distance = sum(float(np.mean([np.minimum(error, most).mean() for error, _ in each])) for each in errors)
            if plans and (best is None or distance < best[0]):
                best = distance, op, plans
        if best is None:
            return None
        distance, op, plans = best
        candidate = self._planned_forms(self._evaluated(op, plans), op)[0]
        off, fits = candidate.deviation.max_abs, candidate.fits
        noise = off <= NOISE_SHARE * min(pair.spread for pair in self.pairs) and not fits
        return distance, replace(candidate, noise=float(f"{1.1 * off:.2g}") if noise else None)

    def _in_time(self) -> bool:
        return process_time() < self.until

    def _allowed(self, op: Attributes) -> list[Attributes]:
        """`op` with the attributes that the caller has fixed; empty if it is not valid."""
        try:
            return [replace(op, **self.given)] if type(op) in self.records else []
        except RequestError:
            return []

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
            if (found := self._evaluated(op, plans)).fits:
                fitting.append(found)
        return sorted(fitting, key=lambda candidate: not candidate.deviation.exact)

    def _plans(self, op: Attributes) -> list[Plan]:
        """The plans of an operator on every input; empty if one of them does not give the output's shape."""
        plans = [plan for pair in self.pairs if (plan := pair.plan(op))]
        return plans if len(plans) == len(self.pairs) else []

    def _evaluated(self, op: Attributes, plans: Sequence[Plan]) -> Candidate:
        deviation = combined([pair.deviation(op, plan) for pair, plan in zip(self.pairs, plans, strict=True)])
        return Candidate(op, plans[0], deviation, output_layout=self.output_layout)

    def _forms(self, candidate: Candidate) -> list[Candidate]:
        """The same pooling in each dialect that has it, with the given attributes: dialects in the order of their
        simplest form, retired ones last.
        """
        found = []
        for like in [self.given["like"]] if "like" in self.given else DIALECTS:
            op = in_one_operator(candidate.plan, like) or (candidate.op if candidate.op.like == like else None)
            if op and (forms := self._planned_forms(candidate, op)[:FORMS_PER_DIALECT]):
                found.append((DIALECTS[like].retired, self._complexity(forms[0]), forms))
        return [form for *_, forms in sorted(found, key=lambda each: each[:2]) for form in forms]

    def _planned_forms(self, candidate: Candidate, op: Attributes) -> list[Candidate]:
        """The candidate as `op` and its variants that are equal at the sizes of all pairs, simplest first."""
        known = self._plans(candidate.op)
        variants = [allowed for each in _variants(op, self.output) for allowed in self._allowed(each)]
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


def _all_same(plans: Sequence[Plan], others: Sequence[Plan]) -> bool:
    return all(same_pooling(a, b) for a, b in zip(plans, others, strict=True))


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
