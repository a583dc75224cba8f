"""The attributes of a pooling operator as a person gives them, before any shape is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from poolcli.core.values import PerAxis
from poolcli.plan.reducers import MAXIMUM, MEAN, Reducer


@dataclass(frozen=True)
class SlidingAttributes:
    """Attributes of average and max pooling. One number serves every axis; None is the dialect's default."""

    name: ClassVar[str]
    reducer: ClassVar[Reducer]

    kernel: PerAxis
    strides: PerAxis | None = None
    pads_begin: PerAxis = 0
    pads_end: PerAxis = 0
    dilations: PerAxis = 1
    auto_pad: str = "explicit"
    rounding_type: str = "floor"
    like: str = "openvino"


@dataclass(frozen=True)
class AvgAttributes(SlidingAttributes):
    """Average pooling: what the divisor counts."""

    name: ClassVar[str] = "avg"
    reducer: ClassVar[Reducer] = MEAN

    exclude_pad: bool | None = None
    divisor_override: int | None = None


@dataclass(frozen=True)
class MaxAttributes(SlidingAttributes):
    """Max pooling: what the indices count from, and their type."""

    name: ClassVar[str] = "max"
    reducer: ClassVar[Reducer] = MAXIMUM

    axis: int | None = None
    index_element_type: str = "i64"


@dataclass(frozen=True)
class BinAttributes:
    """Attributes of adaptive pooling: the output's spatial size."""

    name: ClassVar[str]
    reducer: ClassVar[Reducer]

    output_size: PerAxis
    like: str = "openvino"


@dataclass(frozen=True)
class AdaptiveAvgAttributes(BinAttributes):
    """Adaptive average pooling."""

    name: ClassVar[str] = "adaptive-avg"
    reducer: ClassVar[Reducer] = MEAN


@dataclass(frozen=True)
class AdaptiveMaxAttributes(BinAttributes):
    """Adaptive max pooling: the type of the indices."""

    name: ClassVar[str] = "adaptive-max"
    reducer: ClassVar[Reducer] = MAXIMUM

    index_element_type: str = "i64"


Attributes = AvgAttributes | MaxAttributes | AdaptiveAvgAttributes | AdaptiveMaxAttributes
OPERATORS: dict[str, type[Attributes]] = {
    record.name: record for record in (AvgAttributes, MaxAttributes, AdaptiveAvgAttributes, AdaptiveMaxAttributes)
}
