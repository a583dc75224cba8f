"""PyTorch: torch.nn.functional's pooling for one to three axes."""

from __future__ import annotations

from poolcli.dialects.dialect import Dialect, SlidingCall, Support
from poolcli.message_fields import field, hint_other_dialect


def refuses(call: SlidingCall) -> str | None:
    """Limits of the functions for one axis and for three axes that the ones for two axes do not have."""
    if call.operator in ("avg", "lp") and len(call.axes) == 3:  # lp_pool3d calls avg_pool3d
        for axis, kernel, size in zip(call.axes, call.kernel, call.sizes, strict=True):
            if kernel > size:
                return (
                    f"{call.operator}_pool3d takes no kernel that is longer than the input without its pads: "
                    f"axis {axis} is {size} long, the kernel {kernel}; "
                    f"use {field('kernel', size)}{hint_other_dialect()}"
                )
    if call.options.get("divisor_override") is not None and len(call.axes) == 1:
        return f"avg_pool1d has no divisor_override; leave out {field('divisor_override')}"
    return None


PYTORCH = Dialect(
    name="pytorch",
    title="PyTorch",
    operators={
        "avg": Support(name="avg_pool", dilations=False, divisor_override=True),
        "max": Support(name="max_pool"),
        "lp": Support(name="lp_pool", dilations=False, pads=False, variant="signed"),
        "adaptive-avg": Support(name="adaptive_avg_pool"),
        "adaptive-max": Support(name="adaptive_max_pool"),
    },
    default_strides="kernel",
    default_exclude_pad=False,
    ceil="ceil_torch",
    keeps_short=True,
    rounding_types=("floor", "ceil"),
    auto_pads=("explicit",),
    included="clipped",
    index_axis=2,
    pad_limit="half_kernel",
    symmetric_pads=True,
    refuses=refuses,
)
