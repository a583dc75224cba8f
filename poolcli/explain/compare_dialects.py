"""Compares frameworks: the same attributes under the rules of each, the rules that make the difference, and
the versions of ONNX Runtime that deviate from its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain import divisor_of
from poolcli.explain.equivalence import reads_same_elements, same_divisors, same_pooling, same_reduction
from poolcli.message_fields import marked_message, without_hints
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, SlidingAttributes
from poolcli.windows import Sliding, ceil_div

ROUNDS_DOWN = "rounds down: a last window that does not fit is dropped (floor)"
ROUNDS_UP = "rounds up: a last window that overhangs is kept (ceil)"
KEEPS_LAST = "keeps a last window that starts past the input (ceil: OpenVINO AvgPool-1 on, nGraph)"
SIGNED = "it adds x**p with its sign, and multiplies the mean of a window by the kernel's size"
UNSIGNED = "it adds abs(x)**p of the elements inside"
COUNTS_PART = "it counts only the part of an overhanging window that lies in the input and its pads"
COUNTS_WHOLE = "it counts the whole window, overhang included, as soon as any pad is not 0"
DROPS_LAST = "drops a last window that would start past the input (ceil_torch: PyTorch, ONNX, OpenVINO AvgPool-14 on)"


@dataclass(frozen=True, slots=True)
class Row:
    """One framework's plan, or why it refuses."""

    title: str
    like: str
    plan: Plan | None
    refusal: str | None
    chosen: bool
    causes: tuple[str, ...]

    @property
    def divisors(self) -> tuple[int, int] | None:
        """The divisors of the first and the last window; None without a plan that divides."""
        if self.plan is None or not self.plan.reducer.divides:
            return None
        first, last = (divisor_of(self.plan, [o % w.output for w in self.plan.windows]) for o in (0, -1))
        return None if first is None or last is None else (first, last)

    @property
    def differs(self) -> bool:
        """Whether it differs from the chosen framework."""
        return bool(self.causes) or (self.plan is None and not self.chosen)


def compare_dialects(op: Attributes, plan: Plan) -> tuple[Row, ...]:
    """Plan `op` under the rules of every framework; `plan` is the one that was made of it."""
    name, slides, rows = op.rules_of or op.name, isinstance(op, SlidingAttributes), []
    dialects = sorted(DIALECTS.values(), key=lambda dialect: (name not in dialect.operators, dialect.retired))
    for dialect, rounding in [(d, word) for d in dialects for word in (d.compared if slides else (None,))]:
        word = getattr(op, "rounding_type", "") if rounding is None else rounding
        if word == "ceil_torch" and word not in dialect.rounding_types:
            word = "ceil"
        title = f"{dialect.title} {word}" if rounding else dialect.title
        chosen = dialect.name == plan.like and rounding in (None, getattr(op, "rounding_type", None))
        words: dict[str, Any] = {"rounding_type": word} if slides else {}
        words |= {"axis": None} if hasattr(op, "axis") else {}
        other, refusal, causes = None, None, list[str]()
        try:
            under = replace(op, like=dialect.name, **words)
            other = make_plan(under, plan.input_shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
            causes = [] if chosen else _causes(plan, other)
        except RequestError as error:
            refusal = marked_message(without_hints(error.message))
        rows.append(Row(title, dialect.name, other, refusal, chosen, tuple(causes)))
    return tuple(rows)


def sentences(rows: Sequence[Row]) -> list[str]:
    """The causes of differences, each once with its frameworks, and the versions that deviate."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for cause in row.causes:
            found.setdefault(cause, []).append(row.title)
    versions = [each for row in rows if row.plan for each in deviations(row.plan)]
    return [*(f"{', '.join(titles)}: {cause}" for cause, titles in found.items()), *versions]


def _causes(chosen: Plan, other: Plan) -> list[str]:
    """The rules by which `other` differs from `chosen` in windows or divisors."""
    if same_pooling(chosen, other):
        return []
    a, b, causes = chosen.attributes, other.attributes, list[str]()
    title, same_shape = DIALECTS[other.like].title, chosen.output_shape == other.output_shape
    if a.get("strides") != b.get("strides"):
        strides = b["strides"]
        words = ",".join(map(str, strides)) if isinstance(strides, list) else strides
        causes.append(f"{title} has strides {words} by default")
    elif not same_shape:
        before, after = (DIALECTS[p.like].rounding_rule(p.attributes["rounding_type"]) for p in (chosen, other))
        up = ROUNDS_UP if before == "floor" else KEEPS_LAST if after == "ceil" else DROPS_LAST
        causes.append(ROUNDS_DOWN if after == "floor" else up)
    elif any(not reads_same_elements(v, w) for v, w in zip(chosen.windows, other.windows, strict=True)):
        causes.append("its windows are at other positions")
    if not same_reduction(chosen, other):
        causes.append(SIGNED if other.reducer.signed else UNSIGNED)
    elif chosen.reducer.divides and not (same_shape and same_divisors(chosen, other)):
        sliding = [*_sliding(chosen), *_sliding(other)]
        padded = any(w.pad_begin + w.pad_end > 0 for w in sliding)
        counted = [getattr(w, "counted", None) for w in other.windows]
        if padded and a.get("exclude_pad") != b.get("exclude_pad"):
            word = "leaves padding out of the divisor" if b.get("exclude_pad") else "counts padding in the divisor"
            causes.append(f"{title} {word} by default")
        elif padded and _counts_padding(chosen) and counted != [getattr(w, "counted", None) for w in chosen.windows]:
            causes.append(COUNTS_PART if counted[0] == "clipped" else COUNTS_WHOLE)
        elif not causes:
            causes.append("its divisors differ")
    return causes


class Deviation(NamedTuple):
    """Versions of ONNX Runtime that deviate from ONNX in models of these opsets: what they do, and with which plans.

    All were found by running them: `tests/conformance/test_versions.py` installs versions on both sides of each range.
    """

    versions: str
    opset_words: str
    opsets: range
    case: str
    does: str
    holds: Callable[[Plan], bool]

    def __str__(self) -> str:
        return f"ONNX Runtime {self.versions}, {self.opset_words}: {self.does}"


def deviations(plan: Plan, opset: int | None = None) -> list[str]:
    """A sentence for each deviation that affects a plan of ONNX, in a model of `opset` if that is known."""
    found = (row for row in DEVIATIONS if opset is None or opset in row.opsets)
    return [str(row) for row in found if plan.like == "onnx" and row.holds(plan)]


def _sliding(plan: Plan) -> list[Sliding]:
    return [w for w in plan.windows if isinstance(w, Sliding)]


def _counts_padding(plan: Plan) -> bool:
    return plan.reducer.divides and plan.attributes.get("exclude_pad") is False


def _overhangs(plan: Plan) -> bool:
    ends = [(w.start(w.output - 1) + w.extent, w.size + w.pad_end) for w in _sliding(plan)]
    return _counts_padding(plan) and any(last > end for last, end in ends)


def _drops_window(plan: Plan) -> bool:
    """Whether the last window is dropped because it would start past the input."""
    ceil = plan.attributes.get("rounding_type") == "ceil"
    return ceil and any(ceil_div(w.slack, w.stride) + 1 > w.output for w in _sliding(plan))


def _pads_end_more(plan: Plan) -> bool:
    """Whether padding is counted and same_upper pads the end more than the beginning."""
    same = plan.attributes.get("auto_pad") == "same_upper"
    return same and _counts_padding(plan) and any(w.pad_end > w.pad_begin for w in _sliding(plan))


OVERHANG = "averages that count padding, ceil"
WHOLE = "a ceil window that goes past the padded input is divided by the whole kernel"
LATER = "opset 19 or higher"
DEVIATIONS = (
    Deviation("before 1.29", "opset 18 or lower", range(1, 19), OVERHANG, WHOLE, _overhangs),
    Deviation("before 1.21", LATER, range(19, 100), OVERHANG, WHOLE, _overhangs),
    Deviation(
        "before 1.21", "any opset", range(1, 100), "all poolings, ceil",
        "a last window that starts past the input is kept", _drops_window,
    ),
    Deviation(
        "1.21 to before 1.25", LATER, range(19, 100), "averages that count padding, SAME_UPPER",
        "windows at the end have too small a divisor where SAME_UPPER pads more there", _pads_end_more,
    ),
)  # fmt: skip
