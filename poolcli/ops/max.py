"""Maxima of sliding windows and of adaptive ones, minima, and the indices of both."""

from __future__ import annotations

from typing import Unpack

from poolcli.arguments import IndexType, PerAxis
from poolcli.array_interop import Given
from poolcli.ops.avg import avg_pool
from poolcli.ops.operators import AdaptiveMaxPool, MaxPool, MinPool
from poolcli.ops.records import Picked, PickingBinOptions, PickingOptions, SlidingOptions, pool_with
from poolcli.ops.signatures import operator_function


@operator_function(MaxPool, avg_pool)
def max_pool(
    x: Given, kernel: PerAxis, *, axis: int | None = None, index_element_type: IndexType = "i64",
    return_indices: bool = False, **options: Unpack[SlidingOptions],
) -> Picked:  # fmt: skip
    """Take the maximum of each window, 1 apart without `strides`, and optionally its index (argmax).

    Parameters
    ----------
    x : array_like
        Numbers of any type, or bool, `[N, C, spatial...]`.
    axis : int, default 0
        First axis of N, C, D, H, W that indices count over: 0 counts over the whole tensor, 2 inside each plane.
    index_element_type : {"i64", "i32"}, default "i64"
        Type of the indices.
    return_indices : bool, default False
        Whether the indices (argmax) are returned too.

    Returns
    -------
    values : Pooled
        An array of the kind of `x`: torch.Tensor, DataArray, dask array, else ndarray, whose memory a tensor shares.
    indices : Pooled
        Only if `return_indices`: flat positions (Notes: over which axes), in the order N, C, D, H, W also where `x`
        has another (but for TensorFlow), as in `convert_layout(x, "NHWC", "NCHW").flat`; -1 for a window without
        input. PyTorch's `max_unpool2d` takes those of `like="pytorch"`.

    Notes
    -----
    The first maximum in row-major order wins. NaN wins over every number, and +0 over -0. A window without any input
    element gives -inf, or the lowest value of an integer type. Indices count over the axes from `axis` on.

    References
    ----------
    OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> max_pool(np.array([[[[1, 5, 2, 7]]]], dtype="uint8"), (1, 2), strides=2, return_indices=True)
    (array([[[[5, 7]]]], dtype=uint8), array([[[[1, 3]]]]))
    """
    own = {"axis": axis, "index_element_type": index_element_type}
    return pool_with(MaxPool, x, kernel, return_indices, **own, **options)


@operator_function(AdaptiveMaxPool, max_pool)
def adaptive_max_pool(
    x: Given, output_size: PerAxis, *, return_indices: bool = False, **options: Unpack[PickingBinOptions]
) -> Picked:
    """Take the maximum of adaptive windows, to a given output size, and optionally its index (argmax).

    Parameters
    ----------
    output_size : int or sequence of int
        Length of the output: one for all spatial axes, or one for each in the order D, H, W, None for that of the
        input. 1 pools globally.

    Notes
    -----
    Windows are those of `adaptive_avg_pool`; ties and NaN are treated as in `max_pool`. Indices count inside a plane.

    References
    ----------
    OpenVINO AdaptiveMaxPool-8.

    Examples
    --------
    >>> import numpy as np
    >>> adaptive_max_pool(np.array([[[1, 5, 2, 7, 3]]], dtype="int16"), 2, return_indices=True)
    (array([[[5, 7]]], dtype=int16), array([[[1, 3]]]))
    """
    return pool_with(AdaptiveMaxPool, x, output_size, return_indices, **options)


@operator_function(MinPool, max_pool)
def min_pool(x: Given, kernel: PerAxis, *, return_indices: bool = False, **options: Unpack[PickingOptions]) -> Picked:
    """Take the minimum of each window, 1 apart without `strides`, and optionally its index (argmin).

    Parameters
    ----------
    return_indices : bool, default False
        Whether the indices (argmin) are returned too.
    like : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, default "openvino"
        Framework whose rules for windows apply; no framework has this operator.

    Notes
    -----
    The first minimum in row-major order wins. NaN wins over every number, and -0 over +0. A window without any input
    element gives inf, or the highest value of an integer type. Indices count over the axes from `axis` on.

    References
    ----------
    The dual of OpenVINO MaxPool-8, -14.

    Examples
    --------
    >>> import numpy as np
    >>> min_pool(np.array([[[[1, 5, 2, 7]]]], dtype="uint8"), (1, 2), strides=2, return_indices=True)
    (array([[[[1, 2]]]], dtype=uint8), array([[[[0, 2]]]]))
    """
    return pool_with(MinPool, x, kernel, return_indices, **options)
