"""What would tell two poolings apart that give the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import diff_arrays
from poolcli.explain.equivalence import corners, reads_same_elements, same
from poolcli.plan import AxisPlan, Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")


@dataclass(frozen=True, slots=True)
class Deviation:
    """Of a made array from a given one: whether they are equal, the largest difference, also in units of the last
    place (None where the types have none), how many of how many elements differ, and where these lie.
    """

    exact: bool
    max_abs: float
    max_ulp: int | None
    different: int
    elements: int
    where: str | None


def deviation(made: Array, given: Array, plan: Plan, room: Array | float = 0.0) -> Deviation:
    """How far `made` is from `given`; `where` is about elements that are further off than `room`."""
    a, b = made.astype(np.float64), given.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    off = np.where(np.isnan(off), np.inf, off)
    wrong = off > room
    where = _where(wrong, plan) if wrong.any() else None
    largest = float(off.max(initial=0.0))
    ulps = diff_arrays(made, given).max_ulp
    return Deviation(largest == 0, largest, ulps, int(wrong.sum()), off.size, where)


def _where(wrong: Array, plan: Plan) -> str:
    """The plainest words for where elements differ."""
    if wrong.all():
        return "everywhere"
    for position, letter in enumerate(plan.layout):
        held = _lines(wrong, position)
        if len(held) == 1 and wrong.shape[position] > 1:
            return f"only at {letter}={held[0]}" + _side(held[0], wrong.shape[position])
    for axis in plan.axes:
        lines = _lines(wrong, axis.position)
        inner = getattr(axis.windows, "interior", range(axis.windows.output))
        if lines and not set(lines) & set(inner) and len(inner):
            return f"only in windows that reach past the input along {axis.name}"
    if _borders(wrong, plan):
        return "only at the borders: in windows that reach past the input"
    share = 100 * float(wrong.mean())
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"in {share:.3g} % of the outputs, first at {','.join(map(str, first))}"


def _side(at: int, length: int) -> str:
    return ", the last" if at == length - 1 else ", the first" if at == 0 else ""


def _lines(wrong: Array, position: int) -> list[int]:
    others = tuple(i for i in range(wrong.ndim) if i != position)
    return [int(i) for i in np.flatnonzero(wrong.any(axis=others))]


def _borders(wrong: Array, plan: Plan) -> bool:
    inner: list[Any] = [slice(None)] * wrong.ndim
    for axis in plan.axes:
        span: Sequence[int] = getattr(axis.windows, "interior", range(axis.windows.output))
        inner[axis.position] = slice(span[0], span[-1] + 1) if span else slice(0, 0)
    return not wrong[tuple(inner)].any()


FURTHER = 12  # lengths beyond those of the input that are tried


def distinguishing_input(a: Attributes, plan: Plan, b: Attributes, other: Plan) -> str:
    """A window that reads or divides differently, or the length of an axis at which the two part."""
    if not same(plan, other):
        return _here(plan, other)
    for i, axis in enumerate(plan.axes):
        size = plan.input_shape[axis.position]
        for length in (size + by for more in range(1, FURTHER + 1) for by in (more, -more)):
            said = _at(a, b, plan, i, length) if length > 0 else None
            if said:
                return said
    return f"indistinguishable for sizes within +-{FURTHER}"


def _here(plan: Plan, other: Plan) -> str:
    for axis, theirs in zip(plan.axes, other.axes, strict=True):
        if not reads_same_elements(axis.windows, theirs.windows):
            return _window(axis, theirs)
    return "other data: windows that reach past the input are divided by other numbers"


def _window(axis: AxisPlan, theirs: AxisPlan) -> str:
    at = sorted((corners(axis.windows) or set()) | (corners(theirs.windows) or set()))
    o = next((o for o in at if axis.windows.span(o) != theirs.windows.span(o)), 0)
    return (
        f"other data: window {axis.name} {o} reads {_listed(axis.windows.span(o))} "
        f"or {_listed(theirs.windows.span(o))}"
    )  # fmt: skip


def _listed(span: range) -> str:
    if not span:
        return "nothing"
    if len(span) == 1:
        return str(span[0])
    return f"{span[0]} to {span[-1]}" + (f" in steps of {span.step}" if span.step > 1 else "")


def _at(a: Attributes, b: Attributes, plan: Plan, i: int, length: int) -> str | None:
    """How the two part where axis `i` is `length` long; None where they do not."""
    axis, shape = plan.axes[i], list(plan.input_shape)
    shape[axis.position] = length
    made: list[Plan | None] = []
    for op in (a, b):
        try:
            made.append(make_plan(op, shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype))
        except RequestError:
            made.append(None)
    one, two = made
    if one is None or two is None:
        return f"an input of {axis.name}={length}, which one of them refuses" if one is not two else None
    lengths = one.windows[i].output, two.windows[i].output
    if lengths[0] != lengths[1]:
        return f"an input of {axis.name}={length}: {lengths[0]} or {lengths[1]} outputs"
    return None if same(one, two) else f"an input of {axis.name}={length}: other windows or divisors"
