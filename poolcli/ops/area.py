"""Means over areas; no framework has them, so a dialect sets nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from poolcli.arguments import DType, Engine, Like, PerAxis
from poolcli.ops.api import Single, documented_as, made, run, suggests_names
from poolcli.ops.avg import adaptive_avg_pool
from poolcli.plan.attributes import MEAN, BinAttributes, Reducer
from poolcli.windows import Bins, cells

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given


@dataclass(frozen=True)
class AreaPool(BinAttributes, Single):
    """Area pooling: the mean over each of equal parts of the input, whatever the ratio of the sizes."""

    name: ClassVar[str] = "area"
    title: ClassVar[str] = "area pooling"
    reducer: ClassVar[Reducer] = MEAN
    rules_of: ClassVar[str | None] = "adaptive-avg"

    def windows_of(self, size: int, output: int) -> Bins:
        """The equal parts of an axis."""
        return cells(size, output)


@suggests_names
@documented_as(adaptive_avg_pool)
def area_pool(
    x: Given,
    output_size: PerAxis,
    *,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """Average the area of each output cell, to a given output size.

    Parameters
    ----------
    output_size : int or sequence of int
        Length of the output: one for all spatial axes, or one for each in the order D, H, W. It may be longer than the
        input.

    Notes
    -----
    Cell i of an axis of length n covers [i*n / out, (i+1)*n / out). An element counts by the length of its overlap with
    the cell, in whole numbers: weights are multiplied by out / gcd(n, out). Integers are averaged exactly and rounded
    half to even; rounding of floats is that of `avg_pool`. Missing elements leave their weights out of the divisor.

    References
    ----------
    OpenCV `INTER_AREA` computes the same up to its rounding where the output is smaller; Pillow `BOX` and PyTorch
    `interpolate(mode="area")` where n is a multiple of out.

    Examples
    --------
    >>> import numpy as np
    >>> area_pool(np.arange(1, 6, dtype="float32").reshape(1, 1, 5), 2)
    array([[[1.8, 4.2]]], dtype=float32)
    """
    op = made(AreaPool, output_size, like)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
