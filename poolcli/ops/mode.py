"""Mode pooling, for labels; no framework has it, so a dialect sets the windows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType
from poolcli.ops.api import Single, made, run, suggests_names
from poolcli.plan.attributes import Reducer, SlidingAttributes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]

MODE = Reducer("mode", "mode", "element", votes=True)


@dataclass(frozen=True)
class ModePool(SlidingAttributes, Single):
    """Mode pooling: of each window the value that occurs most often."""

    name: ClassVar[str] = "mode"
    title: ClassVar[str] = "mode pooling"
    reducer: ClassVar[Reducer] = MODE
    rules_of: ClassVar[str | None] = "max"


@suggests_names
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
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Array:
    """The value that occurs most often in every window of `x`, of equally frequent ones the smallest.

    `x` is [N, C, spatial...] or as `layout` says, of integers or bool: labels, whose means would be labels of
    something else. Padding has no vote, and a window without any input element is refused. Windows are those of
    `max_pool`; no framework has the operator, so `like` sets the windows only; elements equal to `missing` have no
    vote. Raises RequestError for attributes that do not fit, and for floats.

    >>> import numpy as np
    >>> mode_pool(np.array([[[7, 3, 7, 9, 4, 9, 4]]], dtype="uint16"), 3, strides=2)
    array([[[7, 4, 4]]], dtype=uint16)
    >>> mode_pool(np.array([[[7, 3, 9, 9]]], dtype="uint16"), 2, strides=2)
    array([[[3, 9]]], dtype=uint16)
    """
    op = made(ModePool, kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like, pads=pads)
    return run(op, x, False, layout, dtype, missing, out, engine, threads)[0]
