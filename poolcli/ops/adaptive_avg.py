"""Adaptive average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from poolcli.arguments import PerAxis
from poolcli.ops.api import Single, made, run
from poolcli.plan.attributes import BinAttributes
from poolcli.plan.reducers import MEAN, Reducer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


@dataclass(frozen=True)
class AdaptiveAvgPool(BinAttributes, Single):
    """Adaptive average pooling: OpenVINO AdaptiveAvgPool-8."""

    name: ClassVar[str] = "adaptive-avg"
    title: ClassVar[str] = "adaptive pooling"
    reducer: ClassVar[Reducer] = MEAN


def adaptive_avg_pool(
    x: Given,
    output_size: PerAxis,
    *,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: str = "auto",
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
