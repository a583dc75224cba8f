"""Lp pooling: the p-norm of every window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType, number_from, read, word_of
from poolcli.dialects import DIALECTS, Dialect
from poolcli.ops.api import Single, documented_as, made, run, suggests_names
from poolcli.ops.avg import avg_pool
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given

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
        """The p-norm; in PyTorch of signed powers, computed from their mean."""
        signed = dialect.operators[self.name].variant == "signed"
        return replace(NORM, power=self.p, signed=signed, divides=signed)


@suggests_names
@documented_as(avg_pool)
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
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """Take the p-norm of each window: the p-th root of the sum of abs(x)**p.

    Parameters
    ----------
    x : array_like
        Numbers of a float type, `[N, C, spatial...]`; integers and bool need a float `dtype`.
    p : float, default 2
        Power of the norm, at least 1.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "onnx"
        Framework whose rules apply where frameworks differ by rule. Only ONNX and PyTorch have this operator.

    Notes
    -----
    Padding and missing elements add 0, and so does a window without any input element. With `like="pytorch"`, elements
    keep their sign, so that odd powers cancel and the root of a negative sum is NaN, and the sum is the mean of the
    elements inside the input times the kernel size. In ONNX, `p` is a whole number.

    References
    ----------
    ONNX LpPool-18, -22; PyTorch lp_pool1d to lp_pool3d.

    Examples
    --------
    >>> import numpy as np
    >>> lp_pool(np.array([[[3, -4, 0, 5, 12]]], "float32"), 2, strides=2, pads_end=1)
    array([[[ 5.,  5., 12.]]], dtype=float32)
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(LpPool, *windows, p, pads=pads)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
