"""What would tell two poolings apart that give the same numbers."""

from __future__ import annotations

from poolcli.errors import RequestError
from poolcli.explain.equivalence import corners, reads_same_elements, same
from poolcli.plan import AxisPlan, Plan, make_plan
from poolcli.plan.attributes import Attributes

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
