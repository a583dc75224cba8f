"""Arrays that are not in C order: which kernel pools them, and when they are copied.

Rows may have any strides as long as the elements of a row are contiguous. Axes may be in another order if values do not
depend on it, or if channels are last. All other arrays are copied to C order: kernels that read exchanged axes and
reversed rows in place, and tiled copies, took at best half the time but needed 500 lines.
"""

from __future__ import annotations

import numpy as np

from poolcli.engine.call import is_exact, order_of
from poolcli.engine.compiled.geometry import Strides
from poolcli.engine.compiled.kernel_choice import THRESHOLDS, KernelSpec, choose_kernel
from poolcli.engine.compiled.launch import run_tasks
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Region

SLIDING = {"slide", "slide_row", "slide_planes", "tiles", "rgb_tiles"}  # kernels with one order of additions
COPIED_BYTES = 1 << 20  # at a time, by each thread


def choose_for_memory_order(region: Region, indices: bool, default: KernelSpec, x: Array) -> KernelSpec:
    """The kernel for the axes of `x` in memory order, so that `x` is not copied; `default`, the kernel for C order, if
    there is none or it would add floats in another order.
    """
    order = order_of(region.plan, x, indices)
    if order.axes == default.view.order:
        return default
    other = choose_kernel(region, indices, order)
    if not (is_exact(region.plan) or _add_alike(default, other)):
        return default
    if not _needs_copy(other, x):
        return other
    return other if other.view.inner >= THRESHOLDS.channels and _needs_copy(default, x) else default


def _needs_copy(spec: KernelSpec, x: Array) -> bool:
    return strides_of(spec, spec.view.transposed(x)) is None


def _add_alike(one: KernelSpec, other: KernelSpec) -> bool:
    """Whether two kernels add in the same order."""
    kernels = {one.launch.kernel, other.launch.kernel}
    return kernels <= SLIDING or kernels == {"slide_blocks"} or all(map(_adds_like_irregular, (one, other)))


def _adds_like_irregular(spec: KernelSpec) -> bool:
    """Whether a kernel combines windows one by one and long ones in lanes, as `irregular` does for one channel."""
    kernel = spec.launch.kernel
    is_one_channel = kernel in ("irregular", "irregular_row") and spec.view.inner == 1
    return kernel in ("irregular_inner", "irregular_short") or is_one_channel


def strides_of(spec: KernelSpec, source: Array) -> Strides | None:
    """The strides of an array in elements; None if its rows are not contiguous, or its outer axes need more than two
    strides.
    """
    if any(stride % source.itemsize for stride in source.strides):
        return None
    axes = _merged([(n, stride // source.itemsize) for n, stride in zip(source.shape, source.strides, strict=True)])
    _, depth, height, width = spec.view.input_shape
    along_w, along_h, along_d = (_split_last(axes, count) for count in (width, height, depth))
    if (along_w != 1 and width > 1) or along_h is None or along_d is None or len(axes) > 2:
        return None
    if spec.launch.kernel == "slide_planes" and along_h != width:  # which reads a plane as one row
        return None
    (_, far), (split, near) = [(1, 0)] * (2 - len(axes)) + axes
    return Strides(split, far, near, along_d, along_h)


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The (length, stride) of axes with more than one element; axes that continue each other are merged."""
    merged: list[tuple[int, int]] = []
    for length, stride in axes:
        if merged and merged[-1][1] == stride * length:
            merged[-1] = merged[-1][0] * length, stride
        elif length > 1:
            merged.append((length, stride))
    return merged


def _split_last(axes: list[tuple[int, int]], count: int) -> int | None:
    """Remove an axis of `count` elements from the end of `axes` and return its stride; None if there is none."""
    if count == 1:
        return 0
    length, stride = axes.pop()
    if length % count:
        return None
    if length > count:
        axes.append((length // count, stride * count))
    return stride


def contiguous(x: Array, threads: int | None) -> Array:
    """A copy of `x` in C order, made by several threads."""
    copy = np.empty(x.shape, x.dtype)
    copy_into(copy, x, threads)
    return copy


def copy_into(target: Array, source: Array, threads: int | None) -> None:
    """Copy an array to one of its shape, in boxes that stay in the cache until all of their cache lines are copied."""
    first = next((axis for axis, n in enumerate(source.shape) if n > 1), 0)
    rows = source.shape[first] if source.ndim else 1
    step = max(1, COPIED_BYTES * rows // max(source.nbytes, 1))

    def copy(begin: int, end: int) -> None:
        box = (*(slice(None),) * first, slice(begin * step, end * step))
        np.copyto(target[box], source[box])

    run_tasks(copy, -(-rows // step), source.nbytes, threads)
