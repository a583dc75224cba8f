"""The records of the operators; functions, whose signatures take 12 ms to complete, are apart for the command line."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace

from poolcli.arguments import number_from, word_of
from poolcli.dialects import DIALECTS, Dialect
from poolcli.ops.records import Picking, Single
from poolcli.plan import attributes
from poolcli.windows import Bins, cells


@dataclass(frozen=True)
class AvgPool(attributes.DividingAttributes, Single):
    """Average pooling: OpenVINO AvgPool-1, -14, -16 and nGraph AvgPool, with PyTorch's divisor_override."""

    name = "avg"
    title = "average pooling"
    reducer = attributes.MEAN


@dataclass(frozen=True)
class MaxPool(attributes.PickingAttributes, Picking):
    """Max pooling: OpenVINO MaxPool-8, -14."""

    name = "max"
    title = "max pooling"
    reducer = attributes.MAXIMUM


@dataclass(frozen=True)
class MinPool(attributes.PickingAttributes, Picking):
    """Min pooling, the dual of MaxPool; no framework has it, so a dialect sets the windows only."""

    name = "min"
    title = "min pooling"
    reducer = attributes.Reducer("min", "minimum", "element", better=operator.lt, nothing=1)
    rules_of = "max"


@dataclass(frozen=True)
class ModePool(attributes.SlidingAttributes, Single):
    """Mode pooling: of each window the value that occurs most often."""

    name = "mode"
    title = "mode pooling"
    reducer = attributes.Reducer("mode", "mode", "element", statistic="mode")
    rules_of = "max"


@dataclass(frozen=True)
class MedianPool(attributes.SlidingAttributes, Single):
    """Median pooling: of each window the middle of its elements in rising order."""

    name = "median"
    title = "median pooling"
    reducer = attributes.Reducer("median", "median", "number", statistic="median")
    rules_of = "max"


@dataclass(frozen=True)
class SumPool(attributes.SlidingAttributes, Single):
    """Sum pooling: of each window the sum of its elements."""

    name = "sum"
    title = "sum pooling"
    reducer = attributes.Reducer("sum", "sum", "total", adds=True)
    rules_of = "max"


@dataclass(frozen=True, kw_only=True)
class StdPool(attributes.SlidingAttributes, Single):
    """Standard deviation pooling: of each window the root of the mean squared distance from its mean."""

    name = "std"
    title = "standard deviation pooling"
    reducer = attributes.Reducer("std", "standard deviation", "deviation", statistic="deviation")
    rules_of = "max"

    ddof: float = field(default=0, metadata={"read": number_from(0)})

    def reduction(self, dialect: Dialect) -> attributes.Reducer:
        """With its divisor."""
        return replace(self.reducer, ddof=self.ddof)


@dataclass(frozen=True, kw_only=True)
class LpPool(attributes.SlidingAttributes, Single):
    """Lp pooling: ONNX LpPool-18, -22, and PyTorch's lp_pool1d to lp_pool3d."""

    name = "lp"
    title = "Lp pooling"
    reducer = attributes.Reducer("lp", "Lp norm", "float", power=2, adds=True)

    like: str = field(default="onnx", metadata={"read": word_of(tuple(DIALECTS))})
    p: float = field(default=2, metadata={"read": number_from(1)})

    def reduction(self, dialect: Dialect) -> attributes.Reducer:
        """The p-norm; in PyTorch of signed powers, computed from their mean."""
        signed = dialect.operators[self.name].variant == "signed"
        return replace(self.reducer, power=self.p, signed=signed, divides=signed)


@dataclass(frozen=True)
class AdaptiveAvgPool(attributes.BinAttributes, Single):
    """Adaptive average pooling: OpenVINO AdaptiveAvgPool-8."""

    name = "adaptive-avg"
    title = "adaptive pooling"
    reducer = attributes.MEAN


@dataclass(frozen=True)
class AdaptiveMaxPool(attributes.PickingBinAttributes, Picking):
    """Adaptive max pooling: OpenVINO AdaptiveMaxPool-8."""

    name = "adaptive-max"
    title = "adaptive pooling"
    reducer = attributes.MAXIMUM


@dataclass(frozen=True)
class AreaPool(attributes.BinAttributes, Single):
    """Area pooling: the mean over each of equal parts of the input, whatever the ratio of the sizes.

    No framework has it, so a dialect sets nothing.
    """

    name = "area"
    title = "area pooling"
    reducer = attributes.MEAN
    rules_of = "adaptive-avg"

    def windows_of(self, size: int, output: int) -> Bins:
        """The equal parts of an axis."""
        return cells(size, output)


# In the order of the commands.
RECORDS: tuple[type[attributes.Attributes], ...] = (
    AvgPool, MaxPool, MinPool, ModePool, MedianPool, SumPool, StdPool, LpPool,
    AdaptiveAvgPool, AdaptiveMaxPool, AreaPool,
)  # fmt: skip
