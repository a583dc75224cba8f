"""Median pooling; no framework has it, so a dialect sets the windows only."""

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

MEDIAN = Reducer("median", "median", "number", statistic="median")


@dataclass(frozen=True)
class MedianPool(SlidingAttributes, Single):
    """Median pooling: of each window the middle of its elements in rising order."""

    name: ClassVar[str] = "median"
    title: ClassVar[str] = "median pooling"
    reducer: ClassVar[Reducer] = MEDIAN
    rules_of: ClassVar[str | None] = "max"


@suggests_names
@documented_as(avg_pool)
def median_pool(
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
    """Take the median of each window.

    Parameters
    ----------
    x : array_like
        Numbers of any integer or float type, `[N, C, spatial...]`; bool if `dtype` is given.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Notes
    -----
    Padding never counts. The median of an even number of elements is the mean of the middle two, for integers rounded
    half to even. A window with a NaN gives NaN, and so does a window without any input element, which is refused for
    integers. If all elements of a window are missing, the result is NaN, or for integers the first of `missing`.

    References
    ----------
    Windows are those of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> median_pool(np.array([[[7, 200, 9, 4, 0]]], dtype="uint8"), 3, strides=2)
    array([[[9, 4]]], dtype=uint8)
    >>> median_pool(np.array([[[1, 2, 8, 9]]], dtype="float32"), 4)
    array([[[5.]]], dtype=float32)
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(MedianPool, *windows, pads=pads)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
