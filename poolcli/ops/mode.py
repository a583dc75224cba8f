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
    """Take the most frequent value (mode) of each window, for label maps.

    Parameters
    ----------
    x : array_like
        Labels of any integer type, or bool, `[N, C, spatial...]`.
    kernel : int or sequence of int
        Kernel size: one for all spatial axes, or one for each in the order D, H, W.
    strides : int or sequence of int, optional
        Step between windows; default 1, in the dialect "pytorch" the kernel.
    pads : int or sequence of int, optional
        Padding at both ends of each spatial axis, in place of `pads_begin` and `pads_end`.
    pads_begin, pads_end : int or sequence of int, default 0
        Padding before the first and after the last element.
    dilations : int or sequence of int, default 1
        Distance between the elements of a window.
    auto_pad : {"explicit", "same_upper", "same_lower", "valid"}, default "explicit"
        All but "explicit" set the pads and ignore those that are given.
    rounding_type : {"floor", "ceil", "ceil_torch"}, default "floor"
        Whether a last window that does not fit is dropped or kept; "ceil_torch" keeps it if it starts in the input.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.
    layout : str, optional
        One letter per axis of `x`, such as "NHWC"; default N, C and spatial axes, or the names of a DataArray's
        dimensions.
    dtype : str or dtype, optional
        Type of the result; default that of `x`.
    missing : float or sequence of float, optional
        Nodata values, excluded from every window.
    out : ndarray, optional
        Array for the result, of its shape and type.
    engine : {"auto", "numba", "numpy"}, default "auto"
        "auto" uses compiled kernels if the work pays for loading them; results are the same.
    threads : int, optional
        Number of threads; default the cores that the process may use. Results are the same.

    Returns
    -------
    ndarray

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type, for floats, and for windows without any input element.

    Warns
    -----
    LayoutWarning
        If `layout` is assumed and the channels seem to be last.

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
    op = made(ModePool, kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like, pads=pads)
    return run(op, x, False, layout, dtype, missing, out, engine, threads)[0]
