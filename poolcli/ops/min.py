"""Min pooling, the dual of max pooling; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

from poolcli.arguments import AutoPad, DType, Engine, IndexType, Like, PerAxis, RoundingType
from poolcli.ops.api import Picking, PickingOptions, asked_for, made, run, suggests_names
from poolcli.plan.attributes import PickingAttributes, Reducer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


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
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """The minimum of every window of `x`, and with `return_indices` where it is (int64, or int32 for `i32`).

    The first minimum in row-major order wins, NaN wins over every number, inf is kept; a window without
    any input element gives inf (the highest value of an integer type) and index -1. Keywords, windows,
    `missing` and indices are those of `max_pool`; no framework has the operator, so `like` sets the windows only.
    Raises RequestError for attributes that do not fit. Rule: the dual of OpenVINO MaxPool-8, -14.

    >>> import numpy as np
    >>> x = np.array([[[[1, 5, 2, 7]]]], dtype="uint8")
    >>> min_pool(x, (1, 2), strides=2, return_indices=True)
    (array([[[[1, 2]]]], dtype=uint8), array([[[[0, 2]]]]))
    """
    op = made(
        MinPool,
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
