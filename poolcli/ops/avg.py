"""Averages: of sliding windows, of adaptive ones, and over equal areas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from poolcli.arguments import AutoPad, DType, Engine, Like, PerAxis, RoundingType
from poolcli.array_interop import Given, Pooled
from poolcli.ops.operators import AdaptiveAvgPool, AreaPool, AvgPool
from poolcli.ops.records import BinOptions, pool_with, prepared, run
from poolcli.ops.signatures import operator_function, with_signature
from poolcli.system.lazy_imports import Array


@prepared
@with_signature
def avg_pool(
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
    exclude_pad: bool | None = None,
    divisor_override: int | None = None,
    like: Like = "openvino",
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | str | Sequence[float | str] | None = None,
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Pooled:
    """Average each window; without `strides` windows are 1 apart, not a kernel.

    Parameters
    ----------
    x : array_like
        Numbers of any integer or float type, `[N, C, spatial...]`; bool if `dtype` is given.
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
    exclude_pad : bool, optional
        Whether the divisor leaves out padding; default True, in the dialect "pytorch" False.
    divisor_override : int, optional
        Divisor of every sum.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules apply where frameworks differ by rule.
    layout : str, optional
        One letter per axis of `x`, such as "NHWC"; default N, C and spatial axes, or the names of a DataArray's
        dimensions.
    dtype : str or dtype, optional
        Type of the result; default that of `x`.
    missing : float, str or sequence of them, optional
        Nodata values, excluded from every window; default: those that a DataArray, a Zarr array or an HDF5 dataset
        declares as `_FillValue` or `missing_value`, which () ignores.
    min_count : int or str, optional
        With `missing`: a window of fewer valid elements is missing itself. A share such as "50%" is of its elements
        inside the input.
    out : ndarray, optional
        Array for the result, of its shape and type.
    engine : {"auto", "numba", "numpy"}, default "auto"
        "auto" uses compiled kernels if the work pays for loading them; results are the same.
    threads : int, optional
        Number of threads; default the cores that the process may use. Results are the same.

    Returns
    -------
    Pooled
        An array of the kind of `x`: torch.Tensor, DataArray, dask array, else ndarray, whose memory a tensor shares.

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
    Integers are averaged exactly and rounded half to even. Floats are summed in float64 or better. A window without any
    input element gives NaN, or 0 if padding is counted; for integers it is refused. If all elements of a window are
    missing, the result is NaN, or for integers the first of `missing`.

    References
    ----------
    OpenVINO AvgPool-1, -14, -16; nGraph AvgPool; `divisor_override` is PyTorch's.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(1, 5, dtype="float32").reshape(1, 1, 4)
    >>> avg_pool(x, 3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False)
    array([[[1.       , 3.       , 1.3333334]]], dtype=float32)
    >>> avg_pool(np.array([[[1, -9, 5, -9, -9]]]), 2, missing=-9)
    array([[[ 1,  5,  5, -9]]])
    """
    op = AvgPool(
        kernel, strides=strides, pads_begin=pads_begin, pads_end=pads_end, dilations=dilations, auto_pad=auto_pad,
        rounding_type=rounding_type, like=like, exclude_pad=exclude_pad, divisor_override=divisor_override, pads=pads,
    )  # fmt: skip
    return run(op, x, False, layout, dtype, missing, min_count, out, engine, threads)


@operator_function(AdaptiveAvgPool, avg_pool)
def adaptive_avg_pool(x: Given, output_size: PerAxis, **options: Unpack[BinOptions]) -> Pooled:
    """Average adaptive windows, to a given output size.

    Parameters
    ----------
    output_size : int or sequence of int
        Length of the output: one for all spatial axes, or one for each in the order D, H, W, None for that of the
        input. 1 pools globally.

    Notes
    -----
    Window i of an axis of length n reads `[i*n // out, ceil((i+1)*n / out))`, in integers. Windows may overlap, and the
    output may be longer than the input. Rounding is that of `avg_pool`.

    References
    ----------
    OpenVINO AdaptiveAvgPool-8.

    Examples
    --------
    >>> import numpy as np
    >>> adaptive_avg_pool(np.arange(1, 6, dtype="float32").reshape(1, 1, 5), 2)
    array([[[2., 4.]]], dtype=float32)
    """
    return pool_with(AdaptiveAvgPool, x, output_size, **options)


@operator_function(AreaPool, adaptive_avg_pool)
def area_pool(x: Given, output_size: PerAxis, **options: Unpack[BinOptions]) -> Pooled:
    """Average the area of each output cell, to a given output size.

    Notes
    -----
    Cell i of an axis of length n covers `[i*n / out, (i+1)*n / out)`; the output may be longer than the input. An
    element counts by its overlap with the cell times out / gcd(n, out), a whole number. Integers are averaged exactly
    and rounded half to even, floats as by `avg_pool`. Missing elements leave their weights out of the divisor.

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
    return pool_with(AreaPool, x, output_size, **options)
