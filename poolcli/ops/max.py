"""Max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

from poolcli.arguments import AutoPad, DType, Engine, IndexType, Like, PerAxis, RoundingType
from poolcli.ops.api import Picking, PickingBinOptions, PickingOptions, asked_for, made, run, suggests_names
from poolcli.plan.attributes import MAXIMUM, PickingAttributes, PickingBinAttributes, Reducer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


@dataclass(frozen=True)
class MaxPool(PickingAttributes, Picking):
    """Max pooling: OpenVINO MaxPool-8, -14."""

    name: ClassVar[str] = "max"
    title: ClassVar[str] = "max pooling"
    reducer: ClassVar[Reducer] = MAXIMUM


@overload
def max_pool(
    x: Given, kernel: PerAxis, *, return_indices: Literal[False] = False, **options: Unpack[PickingOptions]
) -> Array: ...
@overload
def max_pool(
    x: Given, kernel: PerAxis, *, return_indices: Literal[True], **options: Unpack[PickingOptions]
) -> tuple[Array, Array]: ...
@overload
def max_pool(
    x: Given, kernel: PerAxis, *, return_indices: bool, **options: Unpack[PickingOptions]
) -> Array | tuple[Array, Array]: ...


@suggests_names
def max_pool(
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
    axis: int | None = None,
    index_element_type: IndexType = "i64",
    return_indices: bool = False,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """The maximum of every window of `x`, and with `return_indices` where it is (int64, or int32 for `i32`).

    The first maximum in row-major order wins, NaN wins over every number, -inf is kept; a window without
    any input element gives -inf (the lowest value of an integer type) and index -1. Indices count from
    `axis` on: 0 (the default of OpenVINO and ONNX) over the whole tensor, 2 (PyTorch) inside one plane.
    Elements equal to `missing` (a number, several, nan) never win; of a window that has no others comes nan, or
    of integers `missing` again, and index -1.
    Raises RequestError for attributes that do not fit. Rule: OpenVINO MaxPool-8, -14.

    >>> import numpy as np
    >>> x = np.array([[[[1, 5, 2, 7]]]], dtype="uint8")
    >>> max_pool(x, (1, 2), strides=2, return_indices=True)
    (array([[[[5, 7]]]], dtype=uint8), array([[[[1, 3]]]]))
    """
    op = made(
        MaxPool,
        kernel,
        strides,
        pads_begin,
        pads_end,
        dilations,
        auto_pad,
        rounding_type,
        like,
        axis,
        index_element_type,
        pads=pads,
    )
    return asked_for(run(op, x, return_indices, layout, dtype, missing, out, engine, threads))


@dataclass(frozen=True)
class AdaptiveMaxPool(PickingBinAttributes, Picking):
    """Adaptive max pooling: OpenVINO AdaptiveMaxPool-8."""

    name: ClassVar[str] = "adaptive-max"
    title: ClassVar[str] = "adaptive pooling"
    reducer: ClassVar[Reducer] = MAXIMUM


@overload
def adaptive_max_pool(
    x: Given, output_size: PerAxis, *, return_indices: Literal[False] = False, **options: Unpack[PickingBinOptions]
) -> Array: ...
@overload
def adaptive_max_pool(
    x: Given, output_size: PerAxis, *, return_indices: Literal[True], **options: Unpack[PickingBinOptions]
) -> tuple[Array, Array]: ...
@overload
def adaptive_max_pool(
    x: Given, output_size: PerAxis, *, return_indices: bool, **options: Unpack[PickingBinOptions]
) -> Array | tuple[Array, Array]: ...


@suggests_names
def adaptive_max_pool(
    x: Given,
    output_size: PerAxis,
    *,
    index_element_type: IndexType = "i64",
    return_indices: bool = False,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """The maximum of every bin of `x` (bins as in `adaptive_avg_pool`), and with `return_indices` where it is.

    Indices are flat inside one (n, c) plane. Ties, NaN, -inf and `missing` as in `max_pool`.
    Raises RequestError for sizes that do not fit. Rule: OpenVINO AdaptiveMaxPool-8.

    >>> import numpy as np
    >>> adaptive_max_pool(np.array([[[1, 5, 2, 7, 3]]], dtype="int16"), 2, return_indices=True)
    (array([[[5, 7]]], dtype=int16), array([[[1, 3]]]))
    """
    op = made(AdaptiveMaxPool, output_size, like, index_element_type)
    return asked_for(run(op, x, return_indices, layout, dtype, missing, out, engine, threads))
