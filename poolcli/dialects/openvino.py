"""OpenVINO: AvgPool-1, -14 and -16, MaxPool-8 and -14, AdaptiveAvgPool-8 and AdaptiveMaxPool-8; nGraph before it."""

from __future__ import annotations

from poolcli.arguments import AUTO_PADS, ROUNDING_TYPES
from poolcli.dialects.dialect import Dialect, Support

OPENVINO = Dialect(
    name="openvino",
    title="OpenVINO",
    operators={
        "avg": Support(name="AvgPool"),
        "max": Support(name="MaxPool"),
        "adaptive-avg": Support(name="AdaptiveAvgPool"),
        "adaptive-max": Support(name="AdaptiveMaxPool"),
    },
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil",
    rounding_types=ROUNDING_TYPES,
    auto_pads=AUTO_PADS,
    included="kernel",
    index_axis=0,
    axis_option=True,
    compared=ROUNDING_TYPES,
)


NGRAPH = Dialect(
    name="ngraph",
    title="nGraph",
    operators={
        "avg": Support(name="AvgPool", dilations=False),
        "max": Support(name="MaxPool", dilations=False),
    },
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil",
    rounding_types=("floor", "ceil"),
    auto_pads=AUTO_PADS,
    included="kernel",
    index_axis=0,
    retired=True,
)
