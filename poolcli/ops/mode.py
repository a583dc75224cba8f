"""Mode pooling, for labels; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType
from poolcli.ops.api import Single, documented_as, made, run, suggests_names
from poolcli.ops.avg import avg_pool
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from poolcli.ops.array_interop import Array, Given

MODE = Reducer("mode", "mode", "element", votes=True)


@dataclass(frozen=True)
class ModePool(SlidingAttributes, Single):
    """Mode pooling: of each window the value that occurs most often."""

    name: ClassVar[str] = "mode"
    title: ClassVar[str] = "mode pooling"
    reducer: ClassVar[Reducer] = MODE
    rules_of: ClassVar[str | None] = "max"


@suggests_names
@documented_as(avg_pool)
def mode_pool(
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
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | Sequence[float] | None = None,
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """Take the most frequent value (mode) of each window, for label maps.

    Parameters
    ----------
    x : array_like
        Labels of any integer type, or bool, `[N, C, spatial...]`.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type, for floats, and for windows without any input element.

    Notes
    -----
    Of equally frequent values the smallest is taken. Padding does not vote.

    References
    ----------
    Windows are those of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> mode_pool(np.array([[[7, 3, 7, 9, 4, 9, 4]]], dtype="uint16"), 3, strides=2)
    array([[[7, 4, 4]]], dtype=uint16)
    >>> mode_pool(np.array([[[7, 3, 9, 9]]], dtype="uint16"), 2, strides=2)
    array([[[3, 9]]], dtype=uint16)
    """
    windows = (kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like)
    op = made(ModePool, *windows, pads=pads)
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)[0]
