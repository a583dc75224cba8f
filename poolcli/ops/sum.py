"""Sum pooling; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType
from poolcli.ops.api import Single, documented_as, made, run, suggests_names
from poolcli.ops.avg import avg_pool
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given

SUM = Reducer("sum", "sum", "total", adds=True)


@dataclass(frozen=True)
class SumPool(SlidingAttributes, Single):
    """Sum pooling: of each window the sum of its elements."""

    name: ClassVar[str] = "sum"
    title: ClassVar[str] = "sum pooling"
    reducer: ClassVar[Reducer] = SUM
    rules_of: ClassVar[str | None] = "max"


@suggests_names
@documented_as(avg_pool)
def sum_pool(
    x: Given,
    kernel: PerAxis,
    *,
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
    """Add up each window.

    Parameters
    ----------
    x : array_like
        Numbers of any type, `[N, C, spatial...]`.
    dtype : str or dtype, optional
        Type of the result; default int64 for signed integers and bool, uint64 for unsigned ones, else that of `x`.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type, and for sums that an integer type cannot hold.

    Notes
    -----
    Integers are added exactly. Floats are added in float64 or better and rounded once. Padding and missing elements add
    0, and so does a window without any input element. If all elements of a window are missing, the result is NaN, or
    for integers the first of `missing`.

    References
    ----------
    Windows are those of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> sum_pool(np.array([[[200, 100, 7, 5]]], dtype="uint8"), 2, strides=2)
    array([[[300,  12]]], dtype=uint64)
    >>> sum_pool(np.array([[[200, 100, 7, 5]]], dtype="uint8"), 3, dtype="uint16")
    array([[[307, 112]]], dtype=uint16)
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(SumPool, *windows, pads=pads)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
