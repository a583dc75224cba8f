"""nGraph, the predecessor of OpenVINO."""

from __future__ import annotations

from poolcli.arguments import AUTO_PADS
from poolcli.dialects.dialect import Dialect, Support, counts_pads, is_ceil, joined, too_many_axes
from poolcli.dialects.steps import Pool


def _pool(step: Pool, _: str) -> str:
    """The call, with the letters of nGraph's specification."""
    plan = step.plan
    parts = [f"{letter}={joined(plan, name)}" for letter, name in
             (("w", "kernel"), ("s", "strides"), ("p", "pads_begin"), ("q", "pads_end"))]  # fmt: skip
    if plan.reducer.divides:
        parts.append(f"i={str(counts_pads(plan)).lower()}")
    parts.append(f"ceil_mode={str(is_ceil(plan)).lower()}")
    return f"{NGRAPH.operators[plan.op].name} {' '.join(parts)}"


NGRAPH = Dialect(
    name="ngraph",
    title="nGraph",
    operators={
        "avg": Support(name="AvgPool", dilations=False),
        "max": Support(name="MaxPool", dilations=False),
    },
    writers={Pool: _pool},
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil",
    rounding_types=("floor", "ceil"),
    auto_pads=AUTO_PADS,
    included="kernel",
    index_axis=0,
    retired=True,
    cannot_write=lambda plan: too_many_axes(plan, "nGraph"),
)
