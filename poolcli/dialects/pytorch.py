"""PyTorch: torch.nn.functional's pooling for one to three axes."""

from __future__ import annotations

from math import prod

from poolcli.dialects.dialect import (
    Dialect,
    DilatedPool,
    Divide,
    MatrixProduct,
    Negate,
    Ones,
    Pad,
    Pool,
    Power,
    Scale,
    SlidingCall,
    Support,
    argument,
    counts_pads,
    is_ceil,
    is_dilated,
    literal,
    numbers,
    too_many_axes,
)
from poolcli.message_fields import field, hint_other_dialect


def _pool(expr: Pool, x: str) -> str:
    plan = expr.plan
    name = f"{PYTORCH.operators[plan.op].name}{len(plan.axes)}d"
    if "output_size" in plan.attributes:
        return f"torch.nn.functional.{name}({x}, {argument(plan, 'output_size')})"
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
    return f"torch.nn.functional.{name}({x}, {', '.join(parts)})"


def _dilated_pool(expr: DilatedPool, x: str) -> str:
    """Averages as a depthwise convolution: avg_pool has no dilation."""
    plan, kernel = expr.plan, numbers(expr.plan, "kernel")
    weights = f"x.new_full((x.shape[1], 1, {', '.join(map(str, kernel))}), {1 / prod(kernel)!r})"
    moves = f"stride={argument(plan, 'strides')}, dilation={argument(plan, 'dilations')}"
    return f"torch.nn.functional.conv{len(kernel)}d({x}, {weights}, {moves}, groups=x.shape[1])"


def _pad(expr: Pad, x: str) -> str:
    """`torch.nn.functional.pad` takes the ends of the last axis first."""
    ends = ", ".join(f"{begin}, {end}" for begin, end in reversed(expr.pads))
    return f"torch.nn.functional.pad({x}, ({ends}), value={literal(expr.value)})"


def _matrix_product(expr: MatrixProduct, x: str) -> str:
    inputs, between, outputs = expr.subscripts()
    texts = (expr.text(number) for number in range(len(expr.plan.axes)))
    matrices = ", ".join(f"torch.tensor({text}, dtype=torch.float64, device=x.device)" for text in texts)
    return f'torch.einsum("yz{inputs},{between}->yz{outputs}", {x}.double(), {matrices}).to(x.dtype)'


def refuses(call: SlidingCall) -> str | None:
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
    writers={
        Pool: _pool,
        DilatedPool: _dilated_pool,
        Pad: _pad,
        Scale: lambda expr, x: f"{x} * {expr.factor!r}",
        MatrixProduct: _matrix_product,
        Negate: lambda _, x: f"-{x}",
        Power: lambda expr, x: f"torch.pow(torch.abs({x}), {expr.exponent!r})",
        Ones: lambda _, x: f"torch.ones_like({x})",
        Divide: lambda _, x, by: f"{x} / {by}",
    },
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
    exports=lambda plan: plan.divisor_override is None,  # torch.onnx.export leaves it out
)
