"""Explanations as JSON: the same facts as the tables, complete."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import sentences
from poolcli.explain.lengths import searched_for
from poolcli.explain.solve import Answer, Near
from poolcli.message_fields import field, on_command_line
from poolcli.plan import Plan
from poolcli.plan.steps import explain, window
from poolcli.report.document import SCHEMA_VERSION
from poolcli.report.options import options_of
from poolcli.windows import Sliding

MOST_WINDOWS = 1_000_000


def explanation_document(plan: Plan) -> dict[str, Any]:
    """Steps and facts of every axis."""
    return asdict(explain(plan))


def windows_document(plan: Plan) -> dict[str, Any]:
    """Every window of every axis, by the axis' name; refused where that would be too long a document."""
    for axis in plan.axes:
        if axis.windows.output > MOST_WINDOWS:
            raise RequestError(
                f"axis {axis.name} has {axis.windows.output:,} windows; "
                f"{field('windows')} {field('json')} lists up to {MOST_WINDOWS:,}"
            )
    return {axis.name: [asdict(window(axis, o)) for o in range(axis.windows.output)] for axis in plan.axes}


def comparison_document(plan: Plan) -> dict[str, Any]:
    """Every framework's answer, and what makes the difference."""
    rows = plan.compare()
    return {
        "rows": [
            {
                "as": row.title,
                "like": row.like,
                "output": list(row.plan.output_shape) if row.plan else None,
                "pads": [[w.pad_begin, w.pad_end] if isinstance(w, Sliding) else None for w in row.plan.windows]
                if row.plan
                else None,
                "divisors": row.divisors,
                "refusal": row.refusal and on_command_line(row.refusal),
                "chosen": row.chosen,
                "differs": row.differs,
            }
            for row in rows
        ],
        "causes": sentences(rows),
    }


def conversion_document(plan: Plan, like: str) -> dict[str, Any]:
    """The same pooling in another framework, or the reason why there is none."""
    conversion = plan.to(like)
    return {
        "like": like,
        "text": conversion.text,
        "reason": conversion.reason and on_command_line(conversion.reason),
        "searched": conversion.searched and asdict(conversion.searched),
    }


def answers_document(
    op: str,
    like: str,
    shape: Sequence[int],
    wanted: Sequence[int],
    given: Collection[str],
    answers: Sequence[Answer],
    near: Sequence[Near],
) -> dict[str, Any]:
    """The answers to the inverse question, plainest first; else what was searched, and the nearest lengths."""
    return {
        "schema_version": SCHEMA_VERSION,
        "op": op,
        "like": like,
        "input": {"shape": list(shape)},
        "solve": list(wanted),
        "answers": [
            {
                "options": options_of(answer.op),
                "attributes": answer.plan.attributes,
                "output": list(answer.plan.output_shape),
            }
            for answer in answers
        ],
        "searched": None if answers else searched_for(given),
        "nearest": [asdict(axis) for axis in near],
    }
