"""The JSON documents of plans, outcomes, errors and explanations, and the attributes of an operator as options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from poolcli.dialects import DIALECTS
from poolcli.errors import PoolError
from poolcli.explain.chain import Chain
from poolcli.explain.compare_dialects import compare_dialects, sentences
from poolcli.explain.export import convert
from poolcli.explain.solve import SEARCHED, Answer
from poolcli.message_fields import field, for_cli, option_value
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Outcome
from poolcli.windows import Bins, Sliding


def to_json(document: dict[str, Any]) -> str:
    """The document with the version of the schema on one line; ASCII only, so that any encoding can print it."""
    return json.dumps({"schema_version": 1, **document}, ensure_ascii=True, allow_nan=False)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The document of a plan, with the keys of `outcome_document`."""
    source = {"shape": list(plan.input_shape), "dtype": plan.dtype, "layout": plan.layout}
    target = {"shape": list(plan.output_shape), "dtype": plan.output_dtype, "layout": plan.layout}
    return {
        "op": plan.op,
        "like": plan.like,
        "attributes": plan.attributes,
        "input": {"path": None, "dataset": None, **source},
        "output": {"path": None, **target},
        "axes": [axis_document(axis) for axis in plan.axes],
        "notes": [for_cli(fact.message) for fact in plan.facts],
        **dict.fromkeys(("indices", "engine", "threads", "seconds", "error")),
    }


def outcome_document(outcome: Outcome, op: str, like: str) -> dict[str, Any]:
    """The document of one job."""
    job, stored, indices = outcome.job, outcome.output, outcome.indices
    nothing: dict[str, Any] = {"attributes": None, "axes": [], "input": dict.fromkeys(("shape", "dtype", "layout"))}
    planned = plan_document(outcome.plan) if outcome.plan else nothing
    output: dict[str, Any] = {"path": job.output}
    if stored:
        output = {"path": stored.path, "shape": list(stored.shape), "dtype": stored.dtype, "layout": stored.layout}
    key = outcome.header.key if outcome.header else job.source.key
    return planned | {
        "op": op,
        "like": like,
        "input": planned["input"] | {"path": job.source.path, "dataset": key},
        "output": output,
        "indices": indices and {"path": indices.path, "dtype": indices.dtype},
        "notes": ["skipped: the output exists"] if outcome.skipped else [*map(for_cli, outcome.notes)],
        "engine": outcome.engine,
        "threads": outcome.threads,
        "seconds": {phase: round(seconds, 6) for phase, seconds in outcome.seconds.items()},
        "error": error_document(outcome.error),
    }


def error_document(error: PoolError | None) -> dict[str, str | None] | None:
    """The kind, message and field of an error, or None."""
    return {"kind": error.kind, "message": error.cli_message, "field": error.field} if error else None


def axis_document(axis: AxisPlan) -> dict[str, Any]:
    """One spatial axis. An adaptive axis has a kernel and a stride if sliding windows are the same."""
    w = axis.windows
    kernel, stride = (w.equal_to or (None, None)) if isinstance(w, Bins) else (w.kernel, w.stride)
    return {
        "name": axis.name,
        "input": w.size,
        "output": w.output,
        "kernel": kernel,
        "stride": stride,
        "dilation": w.dilation,
        "pad_begin": w.pad_begin,
        "pad_end": w.pad_end,
        "unused": w.unused,
        "empty_windows": w.empty_windows,
        "formula": axis.formula,
    }


def comparison_document(plan: Plan) -> dict[str, Any]:
    """The output in every framework, and the causes of differences."""
    rows = compare_dialects(plan.given, plan)
    return {
        "rows": [
            {
                "as": row.title,
                "like": row.like,
                "output": row.plan and list(row.plan.output_shape),
                "pads": row.plan
                and [[w.pad_begin, w.pad_end] if isinstance(w, Sliding) else None for w in row.plan.windows],
                "divisors": row.divisors,
                "refusal": row.refusal and for_cli(row.refusal),
                "chosen": row.chosen,
                "differs": row.differs,
            }
            for row in rows
        ],
        "causes": sentences(rows),
    }


def conversion_document(plan: Plan, like: str) -> dict[str, Any]:
    """The equivalent call in another framework, or why there is none."""
    found = convert(plan, like)
    reason = found.reason and for_cli(found.reason)
    conditions = {"only_this_size": found.only_this_size, "layout": found.layout}
    return {"like": like, "text": found.text, "reason": reason, **conditions}


def answers_document(
    op: str, like: str, shape: Sequence[int], wanted: Sequence[int], answers: Sequence[Answer]
) -> dict[str, Any]:
    """The attributes that `--solve` has found, simplest first; else what was searched."""
    found = [
        {"options": options_of(op), "attributes": plan.attributes, "output": list(plan.output_shape)}
        for op, plan in ((answer.op, answer.plan) for answer in answers)
    ]
    asked = {"op": op, "like": like, "input": {"shape": list(shape)}, "solve": list(wanted)}
    return asked | {"answers": found, "searched": None if answers else SEARCHED}


def chain_document(chain: Chain) -> dict[str, Any]:
    """Shape, stride and receptive field after each layer; lists have one entry per spatial axis."""
    return {"shape": list(chain.input_shape), "layout": chain.layout, "layers": [asdict(each) for each in chain.layers]}


SHORT_FLAGS = {"kernel": "-k", "strides": "-s", "pads": "-p"}
OMITTED = ("like", "axis", "index_element_type")  # reported elsewhere, or about indices


def options_of(op: Attributes) -> str:
    """The options that give the attributes of an operator, without defaults and those that change nothing."""
    defaults = {own.name: own.default for own in fields(op) if own.name not in OMITTED} | {"pads": 0}
    values = {name: _plain(getattr(op, name)) for name in defaults if name != "pads"}
    if values.get("pads_begin") == values.get("pads_end"):
        values = {"pads" if name == "pads_begin" else name: values[name] for name in values if name != "pads_end"}
    is_padded = any(values.get(name) for name in ("pads", "pads_begin", "pads_end"))
    counts = is_padded or str(values.get("auto_pad")).startswith("same")
    if not counts or values.get("exclude_pad") == DIALECTS[op.like].default_exclude_pad:
        values.pop("exclude_pad", None)
    words = []
    for name, value in values.items():
        if value is not None and (value != defaults[name] or name.startswith("pads_")):  # one of unequal pads may be 0
            short = SHORT_FLAGS.get(name)
            words.append(f"{short} {option_value(value)}" if short else for_cli(field(name, value)))
    return " ".join(words)


def _plain(value: Any) -> Any:
    """One number if all axes have the same."""
    return value[0] if isinstance(value, tuple | list) and len({*value}) == 1 else value
