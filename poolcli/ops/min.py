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
    """Take the minimum of each window, and optionally its index (argmin).

    Parameters
    ----------
    x : array_like
        Numbers of any type, or bool, `[N, C, spatial...]`.
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
    axis : int, default 0
        First axis that indices count over: 0 counts over the whole tensor, 2 inside each plane.
    index_element_type : {"i64", "i32"}, default "i64"
        Type of the indices.
    return_indices : bool, default False
        Whether the indices (argmin) are returned too.
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
    values : ndarray
    indices : ndarray
        Flat positions over the axes from `axis` on, only if `return_indices`; -1 for a window without input.

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type; the message says what to change.

    Warns
    -----
    LayoutWarning
        If `layout` is assumed and the channels seem to be last.

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
