"""PyTorch: torch.nn.functional's pooling for one to three axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolcli.dialects.dialect import Call, Dialect, Support, argument, counts_pads, is_ceil, is_dilated, too_many_axes
from poolcli.message_fields import field, hint_other_dialect

if TYPE_CHECKING:
    from poolcli.plan import Plan


def write(plan: Plan) -> str:
    """The call of the function."""
    name = f"{PYTORCH.operators[plan.op].name}{len(plan.axes)}d"
    if "output_size" in plan.attributes:
        return f"torch.nn.functional.{name}(x, {argument(plan, 'output_size')})"
    power = [str(plan.attributes["p"])] if plan.op == "lp" else []
    parts = [*power, argument(plan, "kernel"), f"stride={argument(plan, 'strides')}"]
    if PYTORCH.operators[plan.op].pads:
        parts.append(f"padding={argument(plan, 'pads_begin')}")
    if is_dilated(plan):
        parts.append(f"dilation={argument(plan, 'dilations')}")
    parts.append(f"ceil_mode={is_ceil(plan)}")
    if "exclude_pad" in plan.attributes:
        parts.append(f"count_include_pad={counts_pads(plan)}")
        if plan.divisor_override is not None:
            parts.append(f"divisor_override={plan.divisor_override}")
    return f"torch.nn.functional.{name}(x, {', '.join(parts)})"


def refuses(call: Call) -> str | None:
    """Limits of the functions for one axis and for three axes that the ones for two axes do not have."""
    if call.operator == "avg" and len(call.axes) == 3:
        for axis, kernel, size in zip(call.axes, call.kernel, call.sizes, strict=True):
            if kernel > size:
                return (
                    f"avg_pool3d takes no kernel that is longer than the input without its pads: axis {axis} is "
                    f"{size} long, the kernel {kernel}; use {field('kernel', size)}{hint_other_dialect()}"
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
    write=write,
    default_strides="kernel",
    default_exclude_pad=False,
    ceil="ceil_torch",
    rounding_types=("floor", "ceil"),
    auto_pads=("explicit",),
    included="clipped",
    index_axis=2,
    pad_limit="half_kernel",
    symmetric_pads=True,
    refuses=refuses,
    cannot_write=lambda plan: too_many_axes(plan, "PyTorch"),
)
