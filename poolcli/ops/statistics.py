"""Norms, sums, medians, modes and standard deviations."""

from __future__ import annotations

from typing import Unpack

from poolcli.arguments import PerAxis
from poolcli.array_interop import Given, Pooled
from poolcli.ops.avg import avg_pool
from poolcli.ops.operators import LpPool, MedianPool, ModePool, StdPool, SumPool
from poolcli.ops.records import SlidingOptions, pool_with
from poolcli.ops.signatures import operator_function


@operator_function(LpPool, avg_pool)
def lp_pool(x: Given, kernel: PerAxis, *, p: float = 2, **options: Unpack[SlidingOptions]) -> Pooled:
    """Take the p-norm of each window, 1 apart without `strides`: the p-th root of the sum of abs(x)**p.

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
    return pool_with(LpPool, x, kernel, p=p, **options)


@operator_function(MedianPool, avg_pool)
def median_pool(x: Given, kernel: PerAxis, **options: Unpack[SlidingOptions]) -> Pooled:
    """Take the median of each window; without `strides` windows are 1 apart, not a kernel.

    Parameters
    ----------
    x : array_like
        Numbers of any integer or float type, `[N, C, spatial...]`; bool if `dtype` is given.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Notes
    -----
    Padding never counts. The median of an even number of elements is the mean of the middle two, for integers rounded
    half to even. A window with a NaN gives NaN, and so does a window without any input element, which is refused for
    integers. If all elements of a window are missing, the result is NaN, or for integers the first of `missing`.

    References
    ----------
    Windows are those of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> median_pool(np.array([[[7, 200, 9, 4, 0]]], dtype="uint8"), 3, strides=2)
    array([[[9, 4]]], dtype=uint8)
    >>> median_pool(np.array([[[1, 2, 8, 9]]], dtype="float32"), 4)
    array([[[5.]]], dtype=float32)
    """
    return pool_with(MedianPool, x, kernel, **options)


@operator_function(ModePool, median_pool)
def mode_pool(x: Given, kernel: PerAxis, **options: Unpack[SlidingOptions]) -> Pooled:
    """Take the most frequent value (mode) of each window, 1 apart without `strides`, for label maps.

    Parameters
    ----------
    x : array_like
        Labels of any integer type, or bool, `[N, C, spatial...]`.

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type, for floats, and for windows without any input element.

    Notes
    -----
    Of equally frequent values the smallest is taken. Padding does not vote.

    Examples
    --------
    >>> import numpy as np
    >>> mode_pool(np.array([[[7, 3, 7, 9, 4, 9, 4]]], dtype="uint16"), 3, strides=2)
    array([[[7, 4, 4]]], dtype=uint16)
    >>> mode_pool(np.array([[[7, 3, 9, 9]]], dtype="uint16"), 2, strides=2)
    array([[[3, 9]]], dtype=uint16)
    """
    return pool_with(ModePool, x, kernel, **options)


@operator_function(StdPool, median_pool)
def std_pool(x: Given, kernel: PerAxis, *, ddof: float = 0, **options: Unpack[SlidingOptions]) -> Pooled:
    """Take the standard deviation of each window; without `strides` windows are 1 apart, not a kernel.

    Parameters
    ----------
    x : array_like
        Numbers of any type, `[N, C, spatial...]`.
    ddof : float, default 0
        Delta degrees of freedom: squares are divided by the number of elements less this one.
    dtype : str or dtype, optional
        Float type of the result; default float32 for numbers of 8 or 16 bits, bool and float32, else float64.

    Notes
    -----
    Deviations are computed in two passes, and of integers of 8 and 16 bits from exact sums. Padding never counts. A
    window with a NaN or an infinity gives NaN, and so does one of no more than `ddof` elements. If all elements of a
    window are missing, the result is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> std_pool(np.array([[[1, 3, 3, 9]]], dtype="uint8"), 2, strides=2)
    array([[[1., 3.]]], dtype=float32)
    >>> std_pool(np.array([[[1., 2, 3]]]), 3, ddof=1)
    array([[[1.]]])
    """
    return pool_with(StdPool, x, kernel, ddof=ddof, **options)


@operator_function(SumPool, median_pool)
def sum_pool(x: Given, kernel: PerAxis, **options: Unpack[SlidingOptions]) -> Pooled:
    """Add up each window; without `strides` windows are 1 apart, not a kernel.

    Parameters
    ----------
    x : array_like
        Numbers of any type, `[N, C, spatial...]`.
    dtype : str or dtype, optional
        Type of the result; default int64 for signed integers and bool, uint64 for unsigned ones, else that of `x`.

    Raises
    ------
    RequestError
        For attributes that do not fit the shape or the type, and for sums that an integer type cannot hold.

    Notes
    -----
    Integers are added exactly. Floats are added in float64 or better and rounded once. Padding and missing elements add
    0, and so does a window without any input element. If all elements of a window are missing, the result is NaN, or
    for integers the first of `missing`.

    Examples
    --------
    >>> import numpy as np
    >>> sum_pool(np.array([[[200, 100, 7, 5]]], dtype="uint8"), 2, strides=2)
    array([[[300,  12]]], dtype=uint64)
    >>> sum_pool(np.array([[[200, 100, 7, 5]]], dtype="uint8"), 3, dtype="uint16")
    array([[[307, 112]]], dtype=uint16)
    """
    return pool_with(SumPool, x, kernel, **options)
