"""Adaptive max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

from poolcli.arguments import PerAxis
from poolcli.ops.api import Picking, PickingBinOptions, asked_for, made, run
from poolcli.plan.attributes import PickingBinAttributes
from poolcli.plan.reducers import MAXIMUM, Reducer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


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


def adaptive_max_pool(
    x: Given,
    output_size: PerAxis,
    *,
    index_element_type: str = "i64",
    return_indices: bool = False,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: str = "auto",
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
