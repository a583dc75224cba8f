"""The record of a framework's rules, and those of each framework side by side. Bugs of frameworks are not copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from poolcli.arguments import AUTO_PADS, ROUNDING_TYPES, one_of
from poolcli.message_fields import OTHER_DIALECT, field

IndexBase = Literal["axis", "channels_last"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """An operator in a framework, and which attributes it takes."""

    name: str  # there
    dilations: bool = True
    pads: bool = True
    include_pad: bool = True
    divisor_override: bool = False
    variant: str | None = None  # the name of its own arithmetic, if it has one


@dataclass(frozen=True, slots=True)
class SlidingCall:
    """A call of a sliding-window operator with one number per spatial axis; the pads are those that `auto_pad` sets."""

    operator: str
    axes: str
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str
    options: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The rules of one framework."""

    name: str
    title: str
    operators: Mapping[str, Support]  # by poolcli's names; others are refused
    default_strides: Literal["one", "kernel", "required"] = "one"
    default_exclude_pad: bool = True
    ceil: Literal["ceil", "ceil_torch"]  # the rounding rule that its word `ceil` means
    keeps_short: bool = False  # `ceil` keeps the one window of its formula where it is longer than the padded input
    rounding_types: tuple[str, ...]  # words that it knows
    auto_pads: tuple[str, ...] = AUTO_PADS
    included: Literal["clipped", "kernel"]  # counted with padding: the window's part of the padded input, or all of it
    index_axis: int = 0  # from which max indices count
    index_base: IndexBase = "axis"
    axis_option: bool = False  # whether `axis` changes it
    pad_limit: Literal["half_kernel", "below_kernel"] | None = None  # of explicit pads
    symmetric_pads: bool = False
    compared: tuple[str | None, ...] = (None,)  # the rounding types with which comparisons show it
    channels_last: bool = False  # by default
    retired: bool = False  # shown last and never proposed
    refuses: Callable[[SlidingCall], str | None] = lambda _: None  # why it takes no such windows; None: it does

    def rounding_rule(self, word: object) -> str:
        """Return the rule that a rounding word means: only `ceil` depends on the framework."""
        return self.ceil if word == "ceil" else str(word)


ONNX_AUTO_PADS = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def _onnx_refuses(call: SlidingCall) -> str | None:
    """Refuses fractions for the p of LpPool."""
    p = call.options.get("p", 1)
    return None if isinstance(p, int) else f"the p of LpPool is a whole number, not {p}; use {field('like', 'pytorch')}"


def _pytorch_refuses(call: SlidingCall) -> str | None:
    """Limits of the functions for one axis and for three axes that the ones for two axes do not have."""
    if call.operator in ("avg", "lp") and len(call.axes) == 3:  # lp_pool3d calls avg_pool3d
        for axis, kernel, size in zip(call.axes, call.kernel, call.sizes, strict=True):
            if kernel > size:
                return (
                    f"{call.operator}_pool3d takes no kernel that is longer than the input without its pads: "
                    f"axis {axis} is {size} long, the kernel {kernel}; "
                    f"use {field('kernel', size)}{OTHER_DIALECT}"
                )
    if call.options.get("divisor_override") is not None and len(call.axes) == 1:
        return f"avg_pool1d has no divisor_override; leave out {field('divisor_override')}"
    return None


def _tensorflow_refuses(call: SlidingCall) -> str | None:
    """Explicit pads are for maxima of one or two axes, and smaller than the kernel."""
    if call.auto_pad != "explicit" or not any(call.pads_begin + call.pads_end):
        return None
    if len(call.axes) > 2:
        return f"max_pool3d takes no list of pads; use {field('auto_pad', 'same_upper')} or valid"
    for axis, kernel, *pads in zip(call.axes, call.kernel, call.pads_begin, call.pads_end, strict=True):
        if max(pads) >= kernel:
            return (
                f"pads must be smaller than the kernel: axis {axis} has pads {pads[0]},{pads[1]} and kernel {kernel}; "
                f"use {field('pads', kernel - 1)}{OTHER_DIALECT}"
            )
    return None


# AvgPool-1, -14 and -16, MaxPool-8 and -14, AdaptiveAvgPool-8 and AdaptiveMaxPool-8.
OPENVINO = Dialect(
    name="openvino",
    title="OpenVINO",
    operators={
        "avg": Support(name="AvgPool"),
        "max": Support(name="MaxPool"),
        "adaptive-avg": Support(name="AdaptiveAvgPool"),
        "adaptive-max": Support(name="AdaptiveMaxPool"),
    },
    ceil="ceil",
    rounding_types=ROUNDING_TYPES,
    included="kernel",
    axis_option=True,
    compared=ROUNDING_TYPES,
)
NGRAPH = Dialect(
    name="ngraph",
    title="nGraph",
    operators={"avg": Support(name="AvgPool", dilations=False), "max": Support(name="MaxPool", dilations=False)},
    ceil="ceil",
    rounding_types=("floor", "ceil"),
    included="kernel",
    retired=True,
)
# AveragePool, MaxPool and LpPool up to opset 22, by their specification and ONNX Runtime.
ONNX = Dialect(
    name="onnx",
    title="ONNX",
    operators={"avg": Support(name="AveragePool"), "max": Support(name="MaxPool"), "lp": Support(name="LpPool")},
    ceil="ceil_torch",
    keeps_short=True,
    rounding_types=("floor", "ceil"),
    included="clipped",
    pad_limit="below_kernel",
    refuses=_onnx_refuses,
)
# The functions of torch.nn.functional for one to three axes.
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
    refuses=_pytorch_refuses,
)
# The functions of tf.nn and Keras' adaptive layers for one to three axes, channels last.
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
    ceil="ceil",
    rounding_types=("floor",),
    auto_pads=("explicit", "same_upper", "valid"),
    included="clipped",
    index_base="channels_last",
    channels_last=True,
    refuses=_tensorflow_refuses,
)
DIALECTS = {dialect.name: dialect for dialect in (OPENVINO, NGRAPH, ONNX, PYTORCH, TENSORFLOW)}


def dialect_of(name: str) -> Dialect:
    """The dialect called `name`; refuses unknown names."""
    return DIALECTS[one_of("like", name, tuple(DIALECTS))]
