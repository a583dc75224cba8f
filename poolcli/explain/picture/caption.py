"""What a drawing says in words: the pooling, its numbers by axis and side, and its rules."""

from __future__ import annotations

from collections.abc import Iterable

from poolcli.dialects import DIALECTS
from poolcli.plan import AxisPlan, Plan
from poolcli.windows import Sliding

SIDES = {"D": ("front", "back"), "H": ("top", "bottom"), "W": ("left", "right")}


def title(plan: Plan) -> str:
    """Operator, dialect and sizes: `avg pooling, as OpenVINO: H=6 W=7 to H=3 W=4`."""
    sizes = " to ".join((input_sizes(plan.axes), output_sizes(plan.axes)))
    return f"{plan.op} pooling, as {DIALECTS[plan.like].title}: {sizes}"


def input_sizes(axes: Iterable[AxisPlan]) -> str:
    """The lengths that go in: `H=6 W=7`."""
    return " ".join(f"{axis.name}={axis.windows.size}" for axis in axes)


def output_sizes(axes: Iterable[AxisPlan]) -> str:
    """The lengths that come out."""
    return " ".join(f"{axis.name}={axis.windows.output}" for axis in axes)


def caption(plan: Plan) -> tuple[str, ...]:
    """Sentences: kernel and pads, how lengths are rounded, and what becomes of a window.

    Formulas are there where the drawing itself has no room for them: that of two axes.
    """
    sliding = [(axis.name, axis.windows) for axis in plan.axes if isinstance(axis.windows, Sliding)]
    formulas = "; ".join(f"{axis.name}: {axis.formula}" for axis in plan.axes) if len(plan.axes) == 2 else ""
    if not sliding:
        return ("Adaptive windows" + (f": {formulas}" if formulas else "") + ".", _rule(plan))
    numbers = [f"Kernel {_times(w.kernel for _, w in sliding)}", f"stride {_times(w.stride for _, w in sliding)}"]
    if any(w.dilation > 1 for _, w in sliding):
        numbers.append(f"dilation {_times(w.dilation for _, w in sliding)}")
    numbers.append(_pads(sliding))
    auto_pad = plan.attributes["auto_pad"]
    by_rule = "" if auto_pad == "explicit" else f" (auto_pad {auto_pad})"
    return (
        f"{', '.join(numbers)}{by_rule}.",
        f"Rounding {plan.attributes['rounding_type']}" + (f": {formulas}" if formulas else "") + ".",
        _rule(plan),
    )


def _times(numbers: Iterable[int]) -> str:
    return " x ".join(map(str, numbers))


def _pads(sliding: list[tuple[str, Sliding]]) -> str:
    if not any(w.pad_begin or w.pad_end for _, w in sliding):
        return "no padding"
    sides = []
    for name, w in sliding:
        before, after = SIDES.get(name, (f"{name} begin", f"{name} end"))
        sides.append(f"{before} {w.pad_begin}, {after} {w.pad_end}")
    return f"pads {', '.join(sides)}"


def _rule(plan: Plan) -> str:
    if plan.divisor_rule:
        return f"Divisor: {plan.divisor_rule}."
    return f"Each output is the {plan.reducer.noun} of its window."
