"""Writes expressions as calls of PyTorch."""

from __future__ import annotations

from poolcli.dialects.pytorch import PYTORCH
from poolcli.explain.export import steps as st
from poolcli.explain.export.steps import argument, counts_pads, is_ceil, is_dilated, literal, too_many_axes


def _pool(step: st.Pool, x: str) -> str:
    plan = step.plan
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


def _pad(step: st.Pad, x: str) -> str:
    """`torch.nn.functional.pad` takes the ends of the last axis first."""
    ends = ", ".join(f"{begin}, {end}" for begin, end in reversed(step.pads))
    return f"torch.nn.functional.pad({x}, ({ends}), value={literal(step.value)})"


def _matrix_product(step: st.MatrixProduct, x: str) -> str:
    inputs, between, outputs = step.subscripts()
    texts = (step.text(number) for number in range(len(step.plan.axes)))
    matrices = ", ".join(f"torch.tensor({text}, dtype=torch.float64, device=x.device)" for text in texts)
    return f'torch.einsum("yz{inputs},{between}->yz{outputs}", {x}.double(), {matrices}).to(x.dtype)'


PYTORCH_WRITER: st.Writer = st.Writer(
    writers={
        st.Pool: _pool,
        st.Pad: _pad,
        st.Scale: lambda step, x: f"{x} * {step.factor!r}",
        st.MatrixProduct: _matrix_product,
        st.Negate: lambda _, x: f"-{x}",
        st.Power: lambda step, x: f"torch.pow(torch.abs({x}), {step.exponent!r})",
        st.OverOnes: lambda step, x: (
            f"{PYTORCH_WRITER.after(x, step.steps)} / {PYTORCH_WRITER.after(f'torch.ones_like({x})', step.steps)}"
        ),
    },
    cannot_write=lambda plan: too_many_axes(plan, "PyTorch"),
)
