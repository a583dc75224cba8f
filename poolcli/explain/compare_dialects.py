"""Compares frameworks: the same attributes under the rules of each, and the rules that make the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain import divisor_of
from poolcli.explain.equivalence import reads_same_elements, same_divisors, same_pooling, same_reduction
from poolcli.message_fields import marked_message, without_hints
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, SlidingAttributes

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
    """The causes of differences, each once with its frameworks."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for cause in row.causes:
            found.setdefault(cause, []).append(row.title)
    return [attributed(titles, cause) for cause, titles in found.items()]


def attributed(titles: Sequence[str], sentence: str) -> str:
    """A sentence with the frameworks that it is about, unless it begins with their name."""
    names = ", ".join(titles)
    return sentence if sentence.startswith(f"{names} ") else f"{names}: {sentence}"


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
        padded = any(w.pad_begin + w.pad_end for w in (*chosen.windows, *other.windows))
        counts = [[getattr(w, "counted", None) for w in plan.windows] for plan in (chosen, other)]
        if padded and a.get("exclude_pad") != b.get("exclude_pad"):
            word = "leaves padding out of the divisor" if b.get("exclude_pad") else "counts padding in the divisor"
            causes.append(f"{title} {word} by default")
        elif padded and a.get("exclude_pad") is False and counts[0] != counts[1]:
            causes.append(COUNTS_PART if counts[1][0] == "clipped" else COUNTS_WHOLE)
        elif not causes:
            causes.append("its divisors differ")
    return causes
