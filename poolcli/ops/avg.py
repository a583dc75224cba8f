"""Average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType
from poolcli.ops.api import Single, made, run, suggests_names
from poolcli.plan.attributes import MEAN, BinAttributes, DividingAttributes, Reducer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


@dataclass(frozen=True)
class AvgPool(DividingAttributes, Single):
    """Average pooling: OpenVINO AvgPool-1, -14, -16 and nGraph AvgPool, with PyTorch's divisor_override."""

    name: ClassVar[str] = "avg"
    title: ClassVar[str] = "average pooling"
    reducer: ClassVar[Reducer] = MEAN


@suggests_names
def avg_pool(
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
    exclude_pad: bool | None = None,
    divisor_override: int | None = None,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """The average of every window of `x`, in the input's dtype unless `dtype` names another.

    `x` is [N, C, spatial...] or as `layout` says, of any integer, float or (with `dtype`) bool type.
    Numbers are per spatial axis in the order D, H, W; one integer serves all. None is the dialect's
    default. Integers are averaged exactly and rounded half to even; a window without any input element
    gives nan (0 when padding is counted). `out` receives the result and must have its shape and dtype.
    Elements equal to `missing` (a number, several, nan) leave their windows and the divisor; of a window that
    has no others comes nan, or of integers `missing` again.
    Raises RequestError for attributes that do not fit. Rule: OpenVINO AvgPool-1, -14, -16.

    >>> import numpy as np
    >>> x = np.arange(1, 5, dtype="float32").reshape(1, 1, 4)
    >>> avg_pool(x, 3, strides=2, pads_begin=1, pads_end=1, rounding_type="ceil", exclude_pad=False)
    array([[[1.       , 3.       , 1.3333334]]], dtype=float32)
    >>> avg_pool(np.array([[[1, -9, 5, -9, -9]]]), 2, missing=-9)
    array([[[ 1,  5,  5, -9]]])
    """
    op = made(
        AvgPool,
        kernel,
        strides,
        pads_begin,
        pads_end,
        dilations,
        auto_pad,
        rounding_type,
        like,
        exclude_pad,
        divisor_override,
        pads=pads,
    )
    return run(op, x, False, layout, dtype, missing, out, engine, threads)[0]


@dataclass(frozen=True)
class AdaptiveAvgPool(BinAttributes, Single):
    """Adaptive average pooling: OpenVINO AdaptiveAvgPool-8."""

    name: ClassVar[str] = "adaptive-avg"
    title: ClassVar[str] = "adaptive pooling"
    reducer: ClassVar[Reducer] = MEAN


@suggests_names
def adaptive_avg_pool(
    x: Given,
    output_size: PerAxis,
    *,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """The average of `output_size` bins for each spatial axis of `x`; sizes may exceed the input's.

    Bin i of an axis of length n is [i*n // out, ceil((i+1)*n / out)), in integers. Types, rounding and
    `missing` as in `avg_pool`. Raises RequestError for sizes that do not fit. Rule: OpenVINO AdaptiveAvgPool-8.

    >>> import numpy as np
    >>> adaptive_avg_pool(np.arange(1, 6, dtype="float32").reshape(1, 1, 5), 2)
    array([[[2., 4.]]], dtype=float32)
    """
    op = made(AdaptiveAvgPool, output_size, like)
    return run(op, x, False, layout, dtype, missing, out, engine, threads)[0]
