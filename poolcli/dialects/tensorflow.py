"""TensorFlow: tf.nn's pooling and Keras' adaptive layers for one to three axes, channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolcli.dialects import dialect as ex
from poolcli.dialects.dialect import Dialect, SlidingCall, Support, literal, numbers, too_many_axes
from poolcli.message_fields import field, hint_other_dialect

if TYPE_CHECKING:
    from poolcli.plan import Plan

DATA_FORMATS = {1: '"NWC"', 2: '"NHWC"', 3: '"NDHWC"'}


def _pool(expr: ex.Pool, x: str) -> str:
    """The call of the function, with `data_format`; a Keras layer for adaptive windows."""
    plan = expr.plan
    rank, name = len(plan.axes), TENSORFLOW.operators[plan.op].name
    if "output_size" in plan.attributes:
        return f'tf.keras.layers.{name}{rank}D({numbers(plan, "output_size")}, data_format="channels_last")({x})'
    pads = list(zip(numbers(plan, "pads_begin"), numbers(plan, "pads_end"), strict=True))
    explicit = '"VALID"' if not any(map(any, pads)) else str([[0, 0], *map(list, pads), [0, 0]])
    padding = {"same_upper": '"SAME"', "valid": '"VALID"'}.get(str(plan.attributes["auto_pad"]), explicit)
    sizes = f"{numbers(plan, 'kernel')}, {numbers(plan, 'strides')}"
    return f"tf.nn.{name}{rank}d({x}, {sizes}, {padding}, data_format={DATA_FORMATS[rank]})"


def _dilated_pool(expr: ex.DilatedPool, x: str) -> str:
    """`tf.nn.pool` takes no strides with dilation, so its output is sliced."""
    plan, kind = expr.plan, "MAX" if expr.plan.reducer.picks else "AVG"
    strides = numbers(plan, "strides")
    kept = f"[:, {', '.join(f'::{stride}' for stride in strides)}]" if max(strides) > 1 else ""
    words = f'"{kind}", padding="VALID", dilations={numbers(plan, "dilations")}'
    return f"tf.nn.pool({x}, {numbers(plan, 'kernel')}, {words}){kept}"


def _pad(expr: ex.Pad, x: str) -> str:
    pads = [[0, 0], *map(list, expr.pads), [0, 0]]
    return f"tf.pad({x}, {pads}" + (f", constant_values={literal(expr.value)})" if expr.value else ")")


def _gather_pool(expr: ex.GatherPool, x: str) -> str:
    gathers = ex.gather_indices(expr.plan)
    for number, (_, chosen) in enumerate(gathers):
        x = f"tf.gather({x}, {chosen}, axis={number + 1})"
    longest = [length for length, _ in gathers]
    return (
        f'tf.nn.max_pool{len(gathers)}d({x}, {longest}, {longest}, "VALID", data_format={DATA_FORMATS[len(gathers)]})'
    )


def _matrix_product(expr: ex.MatrixProduct, x: str) -> str:
    inputs, between, outputs = expr.subscripts()
    texts = (expr.text(number) for number in range(len(expr.plan.axes)))
    matrices = ", ".join(f"tf.constant({text}, tf.float64)" for text in texts)
    return f'tf.cast(tf.einsum("y{inputs}z,{between}->y{outputs}z", tf.cast({x}, tf.float64), {matrices}), x.dtype)'


def _global_pool(expr: ex.GlobalPool, x: str) -> str:
    name = "reduce_max" if expr.plan.reducer.picks else "reduce_mean"
    return f"tf.{name}({x}, {[*range(1, 1 + len(expr.plan.axes))]}, keepdims=True)"


def refuses(call: SlidingCall) -> str | None:
    """Explicit pads are for maxima of one or two axes, and smaller than the kernel."""
    if call.auto_pad != "explicit" or not any(call.pads_begin + call.pads_end):
        return None
    if len(call.axes) > 2:
        return f"max_pool3d takes no list of pads; use {field('auto_pad', 'same_upper')} or valid"
    for axis, kernel, *pads in zip(call.axes, call.kernel, call.pads_begin, call.pads_end, strict=True):
        if max(pads) >= kernel:
            return (
                f"pads must be smaller than the kernel: axis {axis} has pads {pads[0]},{pads[1]} and kernel {kernel}; "
                f"use pads of at most {kernel - 1}{hint_other_dialect()}"
            )
    return None


def cannot_write(plan: Plan) -> str | None:
    """With three axes, SAME places windows differently if the kernel is shorter than the stride; Keras 3.15 crashes."""
    if "output_size" in plan.attributes:
        lengths = [w.output for w in plan.windows]
        if plan.reducer.picks and lengths[-1] == 1 and max(lengths) > 1:
            return "Keras' adaptive max pooling crashes where the output of the last axis is 1 long"
        return too_many_axes(plan, "TensorFlow")
    gaps = any(k < s for k, s in zip(numbers(plan, "kernel"), numbers(plan, "strides"), strict=True))
    if plan.attributes["auto_pad"] == "same_upper" and len(plan.axes) == 3 and gaps:
        return "TensorFlow moves the windows of SAME over three axes where the kernel is shorter than the stride"
    return too_many_axes(plan, "TensorFlow")


TENSORFLOW = Dialect(
    name="tensorflow",
    title="TensorFlow",
    operators={
        "avg": Support(name="avg_pool", dilations=False, pads=False, include_pad=False),
        "max": Support(name="max_pool", dilations=False),
        "adaptive-avg": Support(name="AdaptiveAveragePooling"),
        "adaptive-max": Support(name="AdaptiveMaxPooling"),
    },
    writers={
        ex.Pool: _pool,
        ex.GlobalPool: _global_pool,
        ex.DilatedPool: _dilated_pool,
        ex.Pad: _pad,
        ex.Scale: lambda expr, x: f"{x} * {expr.factor!r}",
        ex.Negate: lambda _, x: f"-{x}",
        ex.Power: lambda expr, x: f"tf.pow(tf.abs({x}), {expr.exponent!r})",
        ex.GatherPool: _gather_pool,
        ex.MatrixProduct: _matrix_product,
        ex.Ones: lambda _, x: f"tf.ones_like({x})",
        ex.Divide: lambda _, x, by: f"{x} / {by}",
    },
    default_strides="required",
    default_exclude_pad=True,
    ceil="ceil",
    rounding_types=("floor",),
    auto_pads=("explicit", "same_upper", "valid"),
    included="clipped",
    index_axis=0,
    index_base="channels_last",
    refuses=refuses,
    cannot_write=cannot_write,
)
