"""Writes expressions as calls of TensorFlow, channels last."""

from __future__ import annotations

from poolcli.dialects.tensorflow import TENSORFLOW
from poolcli.explain.export import steps as st
from poolcli.explain.export.steps import has_gaps, literal, numbers, too_many_axes
from poolcli.plan import Plan

DATA_FORMATS = {1: '"NWC"', 2: '"NHWC"', 3: '"NDHWC"'}


def _pool(step: st.Pool, x: str) -> str:
    """The call of the function, with `data_format`; a Keras layer for adaptive windows."""
    plan = step.plan
    rank, name = len(plan.axes), TENSORFLOW.operators[plan.op].name
    if "output_size" in plan.attributes:
        return f'tf.keras.layers.{name}{rank}D({numbers(plan, "output_size")}, data_format="channels_last")({x})'
    pads = list(zip(numbers(plan, "pads_begin"), numbers(plan, "pads_end"), strict=True))
    explicit = '"VALID"' if not any(map(any, pads)) else str([[0, 0], *map(list, pads), [0, 0]])
    padding = {"same_upper": '"SAME"', "valid": '"VALID"'}.get(str(plan.attributes["auto_pad"]), explicit)
    sizes = f"{numbers(plan, 'kernel')}, {numbers(plan, 'strides')}"
    return f"tf.nn.{name}{rank}d({x}, {sizes}, {padding}, data_format={DATA_FORMATS[rank]})"


def _pad(step: st.Pad, x: str) -> str:
    pads = [[0, 0], *map(list, step.pads), [0, 0]]
    return f"tf.pad({x}, {pads}" + (f", constant_values={literal(step.value)})" if step.value else ")")


def _gather_pool(step: st.GatherPool, x: str) -> str:
    gathers = step.indices()
    for number, (_, chosen) in enumerate(gathers):
        x = f"tf.gather({x}, {chosen}, axis={number + 1})"
    longest = [length for length, _ in gathers]
    return (
        f'tf.nn.max_pool{len(gathers)}d({x}, {longest}, {longest}, "VALID", data_format={DATA_FORMATS[len(gathers)]})'
    )


def _matrix_product(step: st.MatrixProduct, x: str) -> str:
    inputs, between, outputs = step.subscripts()
    texts = (step.text(number) for number in range(len(step.plan.axes)))
    matrices = ", ".join(f"tf.constant({text}, tf.float64)" for text in texts)
    return f'tf.cast(tf.einsum("y{inputs}z,{between}->y{outputs}z", tf.cast({x}, tf.float64), {matrices}), x.dtype)'


def _global_pool(step: st.GlobalPool, x: str) -> str:
    name = "reduce_max" if step.plan.reducer.picks else "reduce_mean"
    return f"tf.{name}({x}, {[*range(1, 1 + len(step.plan.axes))]}, keepdims=True)"


def cannot_write(plan: Plan) -> str | None:
    """With three axes, SAME places windows differently if the kernel is shorter than the stride."""
    if plan.attributes.get("auto_pad") == "same_upper" and len(plan.axes) == 3 and has_gaps(plan):
        return "TensorFlow moves the windows of SAME over three axes where the kernel is shorter than the stride"
    return too_many_axes(plan, "TensorFlow")


TENSORFLOW_WRITER: st.Writer = st.Writer(
    writers={
        st.Pool: _pool,
        st.GlobalPool: _global_pool,
        st.Pad: _pad,
        st.Scale: lambda step, x: f"{x} * {step.factor!r}",
        st.Negate: lambda _, x: f"-{x}",
        st.Power: lambda step, x: f"tf.pow(tf.abs({x}), {step.exponent!r})",
        st.GatherPool: _gather_pool,
        st.MatrixProduct: _matrix_product,
        st.OverOnes: lambda step, x: (
            f"{TENSORFLOW_WRITER.after(x, step.steps)} / {TENSORFLOW_WRITER.after(f'tf.ones_like({x})', step.steps)}"
        ),
    },
    cannot_write=cannot_write,
)
