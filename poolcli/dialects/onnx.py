"""ONNX: AveragePool, MaxPool and LpPool up to opset 22, by their specification and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poolcli.arguments import AUTO_PADS
from poolcli.dialects.dialect import Call, Dialect, Support, counts_pads, is_ceil, is_dilated, numbers, too_many_axes
from poolcli.message_fields import field

if TYPE_CHECKING:
    from poolcli.plan import Plan

WORDS = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def write(plan: Plan) -> str:
    """The call of `onnx.helper` that makes the node."""
    parts = [f"kernel_shape={numbers(plan, 'kernel')}", f"strides={numbers(plan, 'strides')}"]
    if plan.attributes["auto_pad"] == "explicit":
        parts.append(f"pads={numbers(plan, 'pads_begin') + numbers(plan, 'pads_end')}")
    else:
        parts.append(f'auto_pad="{WORDS[str(plan.attributes["auto_pad"])]}"')
    if is_dilated(plan):
        parts.append(f"dilations={numbers(plan, 'dilations')}")
    parts.append(f"ceil_mode={int(is_ceil(plan))}")
    if plan.reducer.divides:
        parts.append(f"count_include_pad={int(counts_pads(plan))}")
    if "p" in plan.attributes:
        parts.append(f"p={plan.attributes['p']}")
    return f'onnx.helper.make_node("{ONNX.operators[plan.op].name}", ["x"], ["y"], {", ".join(parts)})'


def _node(name: str) -> Callable[[Plan], str]:
    return lambda plan: f'onnx.helper.make_node("{name}", ["x"], ["y"])'


def refuses(call: Call) -> str | None:
    """Refuses fractions for the p of LpPool."""
    p = call.options.get("p", 1)
    return None if isinstance(p, int) else f"the p of LpPool is a whole number, not {p}; use {field('like', 'pytorch')}"


def cannot_write(plan: Plan) -> str | None:
    """ONNX Runtime deviates from the specification of SAME_* with dilation, and if the kernel is below the stride."""
    same = str(plan.attributes.get("auto_pad")).startswith("same")
    gaps = same and any(k < s for k, s in zip(numbers(plan, "kernel"), numbers(plan, "strides"), strict=True))
    if same and (gaps or is_dilated(plan)):
        return "ONNX Runtime reads SAME_* differently from the ONNX specification here"
    return too_many_axes(plan, "ONNX Runtime")


ONNX = Dialect(
    name="onnx",
    title="ONNX",
    operators={
        "avg": Support(name="AveragePool"),
        "max": Support(name="MaxPool"),
        "lp": Support(name="LpPool"),
    },
    write=write,
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil_torch",
    rounding_types=("floor", "ceil"),
    auto_pads=AUTO_PADS,
    included="clipped",
    index_axis=0,
    pad_limit="below_kernel",
    refuses=refuses,
    cannot_write=cannot_write,
    wholes={"adaptive-avg": _node("GlobalAveragePool"), "adaptive-max": _node("GlobalMaxPool")},
)
