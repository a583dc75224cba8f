"""Arrays whose elements do not lie in memory in the order of the layout: which kernel pools them, and what is copied.

Rows may lie anywhere as long as the elements of each lie side by side: a kernel is told how far apart they are. Axes
may lie in another order where values do not depend on it, or where channels lie last. Everything else is copied to C
order first: kernels for exchanged axes and reversed rows of floats, and copies in tiles that stay in the cache, spared
up to a half of the time of transposed arrays, for 500 lines.
"""

from __future__ import annotations

import numpy as np

from poolcli.engine.call import is_exact, order_of
from poolcli.engine.compiled.choose import LIMITS, Choice, choose_kernel
from poolcli.engine.compiled.geometry import SHORT, Strides
from poolcli.engine.compiled.launch import share_out
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Region

# Kernels that add in one order.
SLIDING = {"slide", "slide_line", "slide_maps", "tiles", "tiles_of_pixels"}
TILE = 1 << 20  # bytes that are copied at a time, by each thread


def choose_for_order(region: Region, indices: bool, in_order: Choice, x: Array) -> Choice:
    """The choice for the axes as they lie, so that no element needs to be moved; `in_order` where there is none, or its
    kernel would add floats in another order.
    """
    order = order_of(region.plan, x, indices)
    if order.axes == in_order.view.order:
        return in_order
    other = choose_kernel(region, indices, order)
    if not (is_exact(region.plan) or _add_alike(in_order, other)):
        return in_order
    if not _moves(other, x):
        return other
    return other if other.view.inner >= LIMITS.channels and _moves(in_order, x) else in_order


def _moves(choice: Choice, x: Array) -> bool:
    """Whether elements are copied for it."""
    return apart_of(choice, choice.view.of_input(x)) is None


def _add_alike(one: Choice, other: Choice) -> bool:
    kernels = {one.loops.kernel, other.loops.kernel}
    return kernels <= SLIDING or kernels == {"slide_blocks"} or all(map(_adds_in_lanes, (one, other)))


def _adds_in_lanes(choice: Choice) -> bool:
    """Whether windows are taken one by one, their elements along W in lanes or else in turn, as `each` has them."""
    is_short = choice.view.axes[2].entire.longest <= SHORT
    kernel = choice.loops.kernel
    return kernel == "each_inner" or (kernel == "each" and (choice.view.inner == 1 or is_short))


def apart_of(choice: Choice, source: Array) -> Strides | None:
    """How far apart the elements of an array are; None where those of a row do not lie side by side, or the outer axes
    are more than two that lie apart.
    """
    if any(step % source.itemsize for step in source.strides):
        return None
    axes = _joined([(n, step // source.itemsize) for n, step in zip(source.shape, source.strides, strict=True)])
    _, depth, height, line = choice.view.input_shape
    along, high, deep = (_split(axes, count) for count in (line, height, depth))
    if (along != 1 and line > 1) or high is None or deep is None or len(axes) > 2:
        return None
    if choice.loops.kernel == "slide_maps" and high != line:  # which takes all rows of a plane as one
        return None
    (_, far), (many, near) = [(1, 0)] * (2 - len(axes)) + axes
    return Strides(many, far, near, deep, high)


def _joined(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The axes that have more than one element, with neighbours as one where the one continues the other."""
    joined: list[tuple[int, int]] = []
    for length, step in axes:
        if joined and joined[-1][1] == step * length:
            joined[-1] = joined[-1][0] * length, step
        elif length > 1:
            joined.append((length, step))
    return joined


def _split(axes: list[tuple[int, int]], count: int) -> int | None:
    """Takes an axis of `count` elements from the end of `axes`; how far apart they are, None where there is none."""
    if count == 1:
        return 0
    length, step = axes.pop()
    if length % count:
        return None
    if length > count:
        axes.append((length // count, step * count))
    return step


def contiguous(x: Array, threads: int | None) -> Array:
    """`x` in C order, copied by several threads; itself where it is so already."""
    if x.flags.c_contiguous:
        return x
    made = np.empty(x.shape, x.dtype)
    copy_into(made, x, threads)
    return made


def copy_into(target: Array, source: Array, threads: int | None) -> None:
    """Copies an array to one of its shape, in boxes that stay in the cache until all of each line is copied."""
    first = next((axis for axis, n in enumerate(source.shape) if n > 1), 0)
    rows = source.shape[first] if source.ndim else 1
    tile = max(1, TILE * rows // max(source.nbytes, 1))

    def copy(begin: int, end: int) -> None:
        box = (*(slice(None),) * first, slice(begin * tile, end * tile))
        np.copyto(target[box], source[box])

    share_out(copy, -(-rows // tile), source.size, threads)
