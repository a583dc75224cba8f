"""ONNX: AveragePool, MaxPool and LpPool up to opset 22, by their specification and ONNX Runtime."""

from __future__ import annotations

from poolcli.arguments import AUTO_PADS
from poolcli.dialects.dialect import Dialect, SlidingCall, Support
from poolcli.message_fields import field

AUTO_PAD_NAMES = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def refuses(call: SlidingCall) -> str | None:
    """Refuses fractions for the p of LpPool."""
    p = call.options.get("p", 1)
    return None if isinstance(p, int) else f"the p of LpPool is a whole number, not {p}; use {field('like', 'pytorch')}"


ONNX = Dialect(
    name="onnx",
    title="ONNX",
    operators={
        "avg": Support(name="AveragePool"),
        "max": Support(name="MaxPool"),
        "lp": Support(name="LpPool"),
    },
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil_torch",
    keeps_short=True,
    rounding_types=("floor", "ceil"),
    auto_pads=AUTO_PADS,
    included="clipped",
    index_axis=0,
    pad_limit="below_kernel",
    refuses=refuses,
)
