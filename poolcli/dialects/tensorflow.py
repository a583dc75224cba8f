"""TensorFlow: tf.nn's pooling for one to three axes, channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poolcli.dialects.dialect import Call, Dialect, Support, numbers, too_many_axes
from poolcli.message_fields import field, hint_other_dialect

if TYPE_CHECKING:
    from poolcli.plan import Plan

ORDERS = {1: '"NWC"', 2: '"NHWC"', 3: '"NDHWC"'}


def write(plan: Plan) -> str:
    """The call of the function, with `data_format`."""
    rank, name = len(plan.axes), TENSORFLOW.operators[plan.op].name
    pads = list(zip(numbers(plan, "pads_begin"), numbers(plan, "pads_end"), strict=True))
    explicit = '"VALID"' if not any(map(any, pads)) else str([[0, 0], *map(list, pads), [0, 0]])
    padding = {"same_upper": '"SAME"', "valid": '"VALID"'}.get(str(plan.attributes["auto_pad"]), explicit)
    sizes = f"{numbers(plan, 'kernel')}, {numbers(plan, 'strides')}"
    return f"tf.nn.{name}{rank}d(x, {sizes}, {padding}, data_format={ORDERS[rank]})"


def _reduction(name: str) -> Callable[[Plan], str]:
    return lambda plan: f"tf.{name}(x, {[*range(1, 1 + len(plan.axes))]}, keepdims=True)"


def refuses(call: Call) -> str | None:
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
    """With three axes, SAME places windows differently if the kernel is shorter than the stride."""
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
    },
    write=write,
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
    wholes={"adaptive-avg": _reduction("reduce_mean"), "adaptive-max": _reduction("reduce_max")},
)
