"""Max and min pooling."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack, overload

from poolcli.arguments import AutoPad, DType, Engine, IndexType, Like, PerAxis, RoundingType
from poolcli.ops.api import (
    Picking,
    PickingBinOptions,
    PickingOptions,
    asked_for,
    documented_as,
    made,
    run,
    suggests_names,
)
from poolcli.ops.avg import avg_pool
from poolcli.plan.attributes import MAXIMUM, PickingAttributes, PickingBinAttributes, Reducer

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given

MINIMUM = Reducer("min", "minimum", "element", better=operator.lt, nothing=1)


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
@documented_as(avg_pool)
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
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Take the maximum of each window, and optionally its index (argmax).

    Parameters
    ----------
    x : array_like
        Numbers of any type, or bool, `[N, C, spatial...]`.
    axis : int, default 0
        First axis that indices count over: 0 counts over the whole tensor, 2 inside each plane.
    index_element_type : {"i64", "i32"}, default "i64"
        Type of the indices.
    return_indices : bool, default False
        Whether the indices (argmax) are returned too.

    Returns
    -------
    values : ndarray
    indices : ndarray
        Flat positions over the axes from `axis` on, only if `return_indices`; -1 for a window without input.

    Notes
    -----
    The first maximum in row-major order wins. NaN wins over every number, and +0 over -0. A window without any input
    element gives -inf, or the lowest value of an integer type.

    References
    ----------
    OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> max_pool(np.array([[[[1, 5, 2, 7]]]], dtype="uint8"), (1, 2), strides=2, return_indices=True)
    (array([[[[5, 7]]]], dtype=uint8), array([[[[1, 3]]]]))
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(MaxPool, *windows, axis, index_element_type, pads=pads)
    return asked_for(run(op, x, return_indices, layout, dtype, missing, min_count, out, engine, threads))


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
@documented_as(max_pool)
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
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Take the maximum of adaptive windows, to a given output size, and optionally its index (argmax).

    Parameters
    ----------
    output_size : int or sequence of int
        Length of the output: one for all spatial axes, or one for each in the order D, H, W. 1 pools globally.

    Returns
    -------
    values : ndarray
    indices : ndarray
        Flat positions inside a plane, only if `return_indices`; -1 for a window without input.

    Raises
    ------
    RequestError
        For sizes that do not fit the shape; the message says what to change.

    Notes
    -----
    Windows are those of `adaptive_avg_pool`; ties and NaN are treated as in `max_pool`.

    References
    ----------
    OpenVINO AdaptiveMaxPool-8.

    Examples
    --------
    >>> import numpy as np
    >>> adaptive_max_pool(np.array([[[1, 5, 2, 7, 3]]], dtype="int16"), 2, return_indices=True)
    (array([[[5, 7]]], dtype=int16), array([[[1, 3]]]))
    """
    op = made(AdaptiveMaxPool, output_size, like, index_element_type)
    return asked_for(run(op, x, return_indices, layout, dtype, missing, min_count, out, engine, threads))


@dataclass(frozen=True)
class MinPool(PickingAttributes, Picking):
    """Min pooling, the dual of MaxPool; no framework has it, so a dialect sets the windows only."""

    name: ClassVar[str] = "min"
    title: ClassVar[str] = "min pooling"
    reducer: ClassVar[Reducer] = MINIMUM
    rules_of: ClassVar[str | None] = "max"


@overload
def min_pool(
    x: Given, kernel: PerAxis, *, return_indices: Literal[False] = False, **options: Unpack[PickingOptions]
) -> Array: ...
@overload
def min_pool(
    x: Given, kernel: PerAxis, *, return_indices: Literal[True], **options: Unpack[PickingOptions]
) -> tuple[Array, Array]: ...
@overload
def min_pool(
    x: Given, kernel: PerAxis, *, return_indices: bool, **options: Unpack[PickingOptions]
) -> Array | tuple[Array, Array]: ...


@suggests_names
@documented_as(max_pool)
def min_pool(
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
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """Take the minimum of each window, and optionally its index (argmin).

    Parameters
    ----------
    return_indices : bool, default False
        Whether the indices (argmin) are returned too.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Notes
    -----
    The first minimum in row-major order wins. NaN wins over every number, and -0 over +0. A window without any input
    element gives inf, or the highest value of an integer type.

    References
    ----------
    The dual of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> min_pool(np.array([[[[1, 5, 2, 7]]]], dtype="uint8"), (1, 2), strides=2, return_indices=True)
    (array([[[[1, 2]]]], dtype=uint8), array([[[[0, 2]]]]))
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(MinPool, *windows, axis, index_element_type, pads=pads)
    return asked_for(run(op, x, return_indices, layout, dtype, missing, min_count, out, engine, threads))
