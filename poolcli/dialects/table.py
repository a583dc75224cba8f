"""What each framework does where the frameworks differ by rule, as data; no accidents (docs/differences.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from poolcli.core.values import AUTO_PADS, ROUNDING_TYPES, one_of

IndexBase = Literal["axis", "channels_last"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One framework's rules. Fields that are lists of words hold the words that are legal in it."""

    name: str
    title: str
    default_strides: Literal["one", "kernel", "required"]
    default_exclude_pad: bool
    ceil: Literal["ceil", "ceil_torch"]
    rounding_types: tuple[str, ...]
    auto_pads: tuple[str, ...]
    included: Literal["clipped", "kernel"]
    index_axis: int
    index_base: IndexBase = "axis"
    axis_option: bool = False
    include_pad: bool = True
    avg_dilation: bool = True
    max_dilation: bool = True
    avg_pads: bool = True
    pad_limit: Literal["half_kernel", "below_kernel"] | None = None
    symmetric_pads: bool = False
    adaptive: bool = False


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "openvino", "OpenVINO", "one", True, "ceil", ROUNDING_TYPES, AUTO_PADS, "kernel", 0,
            axis_option=True, adaptive=True,
        ),
        Dialect(
            "ngraph", "nGraph", "one", True, "ceil", ("floor", "ceil"), AUTO_PADS, "kernel", 0,
            avg_dilation=False, max_dilation=False,
        ),
        Dialect(
            "onnx", "ONNX", "one", True, "ceil_torch", ("floor", "ceil"), AUTO_PADS, "clipped", 0,
            pad_limit="below_kernel",
        ),
        Dialect(
            "pytorch", "PyTorch", "kernel", False, "ceil_torch", ("floor", "ceil"), ("explicit",), "clipped", 2,
            avg_dilation=False, pad_limit="half_kernel", symmetric_pads=True, adaptive=True,
        ),
        Dialect(
            "tensorflow", "TensorFlow", "required", True, "ceil", ("floor",), ("explicit", "same_upper", "valid"),
            "clipped", 0, index_base="channels_last", include_pad=False, avg_dilation=False, max_dilation=False,
            avg_pads=False,
        ),
    )
}  # fmt: skip


def dialect_of(name: str) -> Dialect:
    """The dialect called `name`; refuses unknown names."""
    return DIALECTS[one_of("like", name, tuple(DIALECTS))]
