"""Standard deviations; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType, number_from, read
from poolcli.dialects import Dialect
from poolcli.ops.api import Single, documented_as, made, run, suggests_names
from poolcli.ops.avg import avg_pool
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given

DEVIATION = Reducer("std", "standard deviation", "deviation", statistic="deviation")


@dataclass(frozen=True)
class StdPool(SlidingAttributes, Single):
    """Standard deviation pooling: of each window the root of the mean squared distance from its mean."""

    name: ClassVar[str] = "std"
    title: ClassVar[str] = "standard deviation pooling"
    reducer: ClassVar[Reducer] = DEVIATION
    rules_of: ClassVar[str | None] = "max"

    ddof: float = field(default=0, metadata=read(number_from(0)))

    def reduction(self, dialect: Dialect) -> Reducer:
        """With its divisor."""
        return replace(DEVIATION, ddof=self.ddof)


@suggests_names
@documented_as(avg_pool)
def std_pool(
    x: Given,
    kernel: PerAxis,
    *,
    ddof: float = 0,
    strides: PerAxis | None = None,
    pads: PerAxis | None = None,
    pads_begin: PerAxis = 0,
    pads_end: PerAxis = 0,
    dilations: PerAxis = 1,
    auto_pad: AutoPad = "explicit",
    rounding_type: RoundingType = "floor",
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """Take the standard deviation of each window.

    Parameters
    ----------
    x : array_like
        Numbers of any type, `[N, C, spatial...]`.
    ddof : float, default 0
        Delta degrees of freedom: squares are divided by the number of elements less this one.
    dtype : str or dtype, optional
        Float type of the result; default float32 for numbers of 8 or 16 bits, bool and float32, else float64.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Notes
    -----
    Deviations are computed in two passes, and of integers of 8 and 16 bits from exact sums. Padding never counts. A
    window with a NaN or an infinity gives NaN, and so does one of no more than `ddof` elements. If all elements of a
    window are missing, the result is NaN.

    References
    ----------
    Windows are those of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> std_pool(np.array([[[1, 3, 3, 9]]], dtype="uint8"), 2, strides=2)
    array([[[1., 3.]]], dtype=float32)
    >>> std_pool(np.array([[[1., 2, 3]]]), 3, ddof=1)
    array([[[1.]]])
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(StdPool, *windows, ddof, pads=pads)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
