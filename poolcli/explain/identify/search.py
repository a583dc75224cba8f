"""From two arrays to the pooling that turns one into the other: operator, attributes, dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.dialects import DIALECTS
from poolcli.engine import run, run_region
from poolcli.errors import RequestError
from poolcli.explain.convert import convert
from poolcli.explain.equivalence import same
from poolcli.explain.identify.candidates import Constraints, likely, nearest, overridden
from poolcli.explain.identify.distinguish import Deviation, deviation, distinguishing_input
from poolcli.explain.identify.samples import Plane
from poolcli.explain.solve import plainness
from poolcli.formats.records import slices
from poolcli.layouts import check_layout, default_layout, named_shape, spatial_axes
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.ops.array_interop import as_array
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, BinAttributes, SlidingAttributes, with_both_ends
from poolcli.plan.region import Region
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")

EXACT = 2**53  # sums below it are exact in float64, and their quotients right to the last place


def otherwise_rounded(op: Attributes, plan: Plan, x: Array, y: Array) -> str | None:
    """How the averages that `plan` makes of `x` are rounded in `y`; None where they are none, or in no known way."""
    if not plan.reducer.divides or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return None
    if float(np.abs(x.astype(np.float64)).sum()) >= EXACT:
        return None
    with np.errstate(all="ignore"):
        averages = run(make_plan(op, x.shape, x.dtype, layout=plan.layout, output_dtype="float64"), x, engine="numpy")[
            0
        ]
        ways = {
            "cut off toward zero": np.trunc(averages),
            "rounded down": np.floor(averages),
            "rounded up": np.ceil(averages),
            "rounded half up": np.floor(averages + 0.5),
            "rounded half away from zero": np.trunc(averages + np.copysign(0.5, averages)),
        }
    return next((word for word, rounded in ways.items() if np.array_equal(rounded, y)), None)


PART = 48  # outputs along each axis that are computed first
MOST_VOTES = 2**24  # elements of all windows
VERIFIED = 60  # poolings that fit the plane, that are held against the whole
NEAR = 4  # that are nearest on one plane, of which the whole decides
BEHAVIOURS = 4  # different ones that are reported
PLANES = 256  # of which the one is chosen that says most
OTHERS = 3  # that decide where it leaves much open
ADDED = 32  # elements whose roundings a probed sum may have
FORMS = 2  # of each dialect
FLOAT32 = 2.0**-23


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pooling that may have made the output: how far it is off, and what would tell it from the first candidate."""

    op: Attributes
    plan: Plan
    deviation: Deviation
    fits: bool
    apart: str | None = None


def identify(x: Array, y: Array, *, op: str | None = None, layout: str | None = None, **given: Any) -> list[Candidate]:
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
    **given
        Attributes that keep these values, such as `kernel=3` or `like="onnx"`.

    Returns
    -------
    list of Candidate
        Best first: exact ones, then those that differ by rounding; if there are none, the nearest alone. A candidate
        `fits` if every element is equal, or as near as rounding allows; `deviation` has the error.

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
    x, y = as_array(x), as_array(y)
    held = Constraints(op, with_both_ends(given))
    found: list[Candidate] = []
    for each in _layouts(x.shape, y.shape, layout):
        found += _in_layout(x, y, each, held)
        if any(candidate.fits for candidate in found):
            break
    if not found:
        raise RequestError(
            f"no pooling that is searched makes an array of {','.join(map(str, y.shape))} of one of "
            f"{','.join(map(str, x.shape))}" + ("; give the larger one first" if y.size > x.size else "")
        )
    fitting = [candidate for candidate in found if candidate.fits]
    return _with_apart(fitting) if fitting else sorted(found, key=_badness)[:1]


def _layouts(shape: Sequence[int], output: Sequence[int], layout: str | None) -> list[str]:
    """The layouts in which the arrays can be input and output; refused where there is none."""
    if len(shape) != len(output):
        raise RequestError(f"the input has {len(shape)} axes and the output {len(output)}; pooling keeps their number")
    if 0 in shape or 0 in output:
        raise RequestError("an array without elements says nothing about what made it")
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
            f"input {named_shape(named, shape)} and output {named_shape(named, output)} differ beyond spatial axes"
            + ("" if layout else f"; name the axes with {field('layout')} if they are others")
        )
    return able


def _in_layout(x: Array, y: Array, layout: str, held: Constraints) -> list[Candidate]:
    """What fits in one layout, in every dialect; the nearest where nothing does."""
    plane = _plane(x, y, layout)
    fitting = _fitting(x, y, layout, plane, likely(plane, held))
    if not fitting:
        fitting = _fitting(x, y, layout, plane, overridden(plane, held))
    forms = [form for candidate in fitting for form in _forms(candidate, held)]
    if forms:
        return forms
    smalls = (_tried(op, *plane.stored, _layout_of(plane)) for op in nearest(plane, held))
    near = sorted((small for small in smalls if small is not None), key=_badness)[:NEAR]
    wholes = (_tried(small.op, x, y, layout) for small in near)
    return sorted((whole for whole in wholes if whole is not None), key=_badness)[:1]


def _fitting(x: Array, y: Array, layout: str, plane: Plane, ops: Iterable[Attributes]) -> list[Candidate]:
    """Those that fit the plane and then the whole, each behaviour once; exact ones first."""
    tried: list[Plan] = []
    fitting: list[Candidate] = []
    for op in ops:
        if not _fits_a_part(op, *plane.stored, _layout_of(plane)):
            continue
        small = _tried(op, *plane.stored, _layout_of(plane))
        if small is None or not small.fits or any(same(small.plan, plan) for plan in tried):
            continue
        tried.append(small.plan)
        whole = small if x.size == plane.x.size and layout == _layout_of(plane) else _tried(op, x, y, layout)
        if whole is not None and whole.fits:
            fitting.append(whole)
        if len(fitting) == BEHAVIOURS or len(tried) == VERIFIED:
            break
    return sorted(fitting, key=lambda candidate: not candidate.deviation.exact)


def _layout_of(plane: Plane) -> str:
    return default_layout(2 + plane.x.ndim)


def _badness(candidate: Candidate) -> tuple[float, float]:
    return candidate.deviation.different / candidate.deviation.elements, candidate.deviation.max_abs


def _plane(x: Array, y: Array, layout: str) -> Plane:
    """The plane whose output says most, as it is varied and finite."""
    axes = [layout.index(letter) for letter in "NC" if letter in layout] + list(spatial_axes(layout))
    rank = len(spatial_axes(layout))
    inputs, outputs = (np.transpose(a, axes).reshape(-1, *np.transpose(a, axes).shape[-rank:]) for a in (x, y))
    order = sorted(range(min(len(outputs), PLANES)), key=lambda i: _variety(outputs[i]), reverse=True)
    first, *others = (_as_plane(inputs[i], outputs[i], y) for i in order[: 1 + OTHERS])
    return replace(first, others=tuple(others))


def _as_plane(one: Array, two: Array, y: Array) -> Plane:
    a, b = one.astype(np.float64), two.astype(np.float64)
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return Plane(a, b, (one[None, None], two[None, None]), _slack(y) * ADDED * largest or _rounding(y), _step(y))


def _variety(plane: Array) -> tuple[bool, int]:
    values = plane.astype(np.float64)
    return bool(np.isfinite(values).all()), len(np.unique(values))


def _rounding(y: Array) -> float:
    """How far a rounded average may be off: integers may have been rounded or cut off."""
    return 0.0 if _is_float(y) else 1.0


def _slack(y: Array) -> float:
    """The step of the type that sums are taken in: at least that of float32."""
    return min(_step(y), FLOAT32) if _is_float(y) else 0.0


def _step(y: Array) -> float:
    if not _is_float(y):
        return 0.0
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": FLOAT32}.get(y.dtype.name, 2.0**-52)


def _is_float(y: Array) -> bool:
    return y.dtype.kind in "fV"


def _tried(op: Attributes, x: Array, y: Array, layout: str) -> Candidate | None:
    """The operator on the whole input, held against the whole output; None where it is refused."""
    try:
        plan = make_plan(op, x.shape, x.dtype, layout=layout, output_dtype=None if x.dtype == y.dtype else y.dtype)
    except RequestError:
        return None
    if plan.output_shape != y.shape:
        return None
    with np.errstate(all="ignore"):
        made = run(plan, x, engine=_engine_for(plan))[0]
    room = _room(plan, x, y)
    found = deviation(made, y, plan, room)
    word = otherwise_rounded(op, plan, x, y) if found.different and found.max_abs <= 1 else None
    if word:
        return Candidate(op, plan, replace(found, where=f"only in roundings: averages are {word}"), True)
    return Candidate(op, plan, found, found.different == 0)


def _engine_for(plan: Plan) -> str:
    """The numpy engine, for which nothing is compiled, unless it would sort very many votes."""
    votes = prod(plan.output_shape) * prod(w.longest for w in plan.windows) if plan.reducer.votes else 0
    return "auto" if votes > MOST_VOTES else "numpy"


def _fits_a_part(op: Attributes, x: Array, y: Array, layout: str) -> bool:
    """Whether the operator may give the first outputs of a plane, which costs little however large that is."""
    try:
        plan = make_plan(op, x.shape, x.dtype, layout=layout, output_dtype=None if x.dtype == y.dtype else y.dtype)
    except RequestError:
        return False
    if plan.output_shape != y.shape:
        return False
    part = Region(plan, tuple(range(min(n, PART)) for n in y.shape))
    wanted = y[slices(part.outputs)]
    with np.errstate(all="ignore"):
        made = run_region(part, x[slices(part.reads)], engine="numpy")[0]
    found = deviation(made, wanted, plan, _room(plan, x, wanted))
    return found.different == 0 or found.max_abs <= 1  # which may be roundings of another kind


def _room(plan: Plan, x: Array, y: Array) -> Any:
    """How far each element may be off by roundings alone: not at all, but where floats are added up."""
    if plan.reducer.picks or plan.reducer.votes or not _is_float(y):
        return 0.0
    taps = prod(w.longest for w in plan.windows)
    finite = np.abs(x.astype(np.float64))
    largest = float(finite[np.isfinite(finite)].max(initial=0.0))
    return _step(y) * np.nan_to_num(np.abs(y.astype(np.float64)), posinf=0.0) + _slack(y) * (taps + 2) * largest / 2


def _forms(candidate: Candidate, held: Constraints) -> list[Candidate]:
    """The same pooling in each dialect that has it, with what is given: the plainest forms of each, by how plain the
    plainest one is.
    """
    sizes = [axis.windows.size for axis in candidate.plan.axes]
    found = []
    for like in [held.given["like"]] if "like" in held.given else DIALECTS:
        converted = convert(candidate.plan, like).op or (candidate.op if candidate.op.like == like else None)
        variants = [] if converted is None else _variants(converted, candidate)
        planned = [_planned(kept, candidate) for op in variants if (kept := held.kept(op))]
        forms = sorted((form for form in planned if form), key=lambda form: _plainness(form.op, sizes))
        found += [(DIALECTS[like].retired, _plainness(forms[0].op, sizes), forms[:FORMS])] if forms else []
    return [form for *_, forms in sorted(found, key=lambda each: each[:2]) for form in forms]


def _plainness(op: Attributes, sizes: Sequence[int]) -> tuple[object, ...]:
    return (0, *plainness(op, sizes)[:2]) if isinstance(op, SlidingAttributes) else (1,)


def _variants(op: Attributes, candidate: Candidate) -> list[Attributes]:
    """The operator, others that may come to the same for these lengths: rounding up, alike pads, the adaptive one."""
    found = [op]
    dialect = DIALECTS[op.like]
    if isinstance(op, SlidingAttributes):
        alike = replace(op, pads_end=op.pads_begin)
        if "ceil" in dialect.rounding_types and op.rounding_type == "floor":
            found += [replace(each, rounding_type="ceil") for each in (op, alike)]
        found += [each for each in (alike,) if each != op]
        output = tuple(axis.windows.output for axis in candidate.plan.axes)
        bins = (r for r in OPERATORS.values() if issubclass(r, BinAttributes) and r.reducer == op.reducer)
        found += [record(output, like=op.like) for record in bins if record.name in dialect.operators]
    return list(dict.fromkeys(found))


def _planned(op: Attributes, candidate: Candidate) -> Candidate | None:
    """The candidate as `op`, where that is the same for these lengths."""
    known = candidate.plan
    try:
        plan = make_plan(op, known.input_shape, known.dtype, layout=known.layout, output_dtype=known.output_dtype)
    except RequestError:
        return None
    return replace(candidate, op=op, plan=plan) if same(plan, known) else None


def _with_apart(found: Sequence[Candidate]) -> list[Candidate]:
    """What would tell each from the first, where two can be told at all."""
    first, *others = found
    return [first, *(replace(c, apart=distinguishing_input(first.op, first.plan, c.op, c.plan)) for c in others)]
