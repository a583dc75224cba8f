"""TensorFlow: tf.nn's pooling and Keras' adaptive layers for one to three axes, channels last."""

from __future__ import annotations

from poolcli.dialects.dialect import Dialect, SlidingCall, Support
from poolcli.message_fields import field, hint_other_dialect


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


TENSORFLOW = Dialect(
    name="tensorflow",
    title="TensorFlow",
    operators={
        "avg": Support(name="avg_pool", dilations=False, pads=False, include_pad=False),
        "max": Support(name="max_pool", dilations=False),
        "adaptive-avg": Support(name="AdaptiveAveragePooling"),
        "adaptive-max": Support(name="AdaptiveMaxPooling"),
    },
    default_strides="required",
    default_exclude_pad=True,
    ceil="ceil",
    rounding_types=("floor",),
    auto_pads=("explicit", "same_upper", "valid"),
    included="clipped",
    index_axis=0,
    index_base="channels_last",
    channels_last=True,
    refuses=refuses,
)
