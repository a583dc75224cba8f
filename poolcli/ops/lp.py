"""Lp pooling: the p-norm of every window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType, number_from, read, word_of
from poolcli.dialects import DIALECTS, Dialect
from poolcli.ops.api import Single, made, run, suggests_names
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]

NORM = Reducer("lp", "Lp norm", "float", power=2, adds=True)


@dataclass(frozen=True)
class LpPool(SlidingAttributes, Single):
    """Lp pooling: ONNX LpPool-18, -22, and PyTorch's lp_pool1d to lp_pool3d."""

    name: ClassVar[str] = "lp"
    title: ClassVar[str] = "Lp pooling"
    reducer: ClassVar[Reducer] = NORM

    like: str = field(default="onnx", metadata=read(word_of(tuple(DIALECTS))))
    p: float = field(default=2, metadata=read(number_from(1)))

    def reduction(self, dialect: Dialect) -> Reducer:
        """The norm to p; with its sign and by way of the mean where the dialect takes it so."""
        signed = dialect.operators[self.name].variant == "signed"
        return replace(NORM, power=self.p, signed=signed, divides=signed)


@suggests_names
def lp_pool(
    x: Given,
    kernel: PerAxis,
    *,
    p: float = 2,
    strides: PerAxis | None = None,
    pads: PerAxis | None = None,
    pads_begin: PerAxis = 0,
    pads_end: PerAxis = 0,
    dilations: PerAxis = 1,
    auto_pad: AutoPad = "explicit",
    rounding_type: RoundingType = "floor",
    like: Like = "onnx",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """The p-norm of every window of `x`: the p-th root of the sum of abs(x)**p, for any p from 1 on.

    `x` is [N, C, spatial...] or as `layout` says, of a float type; integers need a float `dtype`. Padding adds
    0, and so does a window without any input element. With `like="pytorch"` elements keep their sign, so that
    odd powers cancel each other and the root of a negative sum is nan, and the sum is the mean of the elements
    inside the input times the kernel's size. ONNX has whole numbers for p only, OpenVINO no such operator.
    `missing` as in `avg_pool`.
    Raises RequestError for attributes that do not fit. Rule: ONNX LpPool-18, -22.

    >>> import numpy as np
    >>> lp_pool(np.array([[[3, -4, 0, 5, 12]]], "float32"), 2, strides=2, pads_end=1)
    array([[[ 5.,  5., 12.]]], dtype=float32)
    """
    op = made(LpPool, kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like, p, pads=pads)
    return run(op, x, False, layout, dtype, missing, out, engine, threads)[0]
