"""Min pooling, the dual of max pooling; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack, overload

from poolcli.arguments import AutoPad, DType, Engine, IndexType, Like, PerAxis, RoundingType
from poolcli.ops.api import Picking, PickingOptions, asked_for, documented_as, made, run, suggests_names
from poolcli.ops.max import max_pool
from poolcli.plan.attributes import PickingAttributes, Reducer

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given


MINIMUM = Reducer("min", "minimum", "element", better=operator.lt, nothing=1)


@dataclass(frozen=True)
class MinPool(PickingAttributes, Picking):
    """Min pooling, the dual of MaxPool."""

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
