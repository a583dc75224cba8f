"""Arrays that do not lie in memory as kernels count their elements.

Rows of what is read may lie anywhere as long as the elements of each lie side by side: the kernel is told how far
apart rows are. Anything else goes through a buffer that stays in the cache, a tile of tasks at a time; the kernel is
given the address at which the whole array would begin if it lay around the buffer, so it need not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.bands import Bands
from poolcli.engine.compiled.buffers import Buffers, address
from poolcli.engine.compiled.copying import contiguous, put, take
from poolcli.engine.compiled.geometry import APART, Apart
from poolcli.engine.compiled.tasks import WORTH_SHARING, share_out

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice

Array = np.ndarray[Any, np.dtype[Any]]
_read, _made = Buffers(), Buffers()


def run_strided(
    choice: Choice, pool: Callable[[int, int, int, int, int], None], source: Array, values: Array, threads: int | None
) -> None:
    """Calls pool(x, out, numbers, first, last) for all tasks, each time with what it is to read and write."""
    apart, is_large = apart_of(choice, source), choice.work >= WORTH_SHARING
    reads_bands = apart is None and is_large and _is_near(choice, source)
    writes_bands = is_large and not values.flags.c_contiguous
    if apart is None and not reads_bands:
        source = contiguous(source, threads)
    target = values if writes_bands or values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    numbers, bands = _numbers(choice, apart), Bands(choice)
    taken, made, where = _with_few_axes(source), _with_few_axes(target), (address(source), address(target))

    def call(first: int, last: int) -> None:
        x, out = where
        if reads_bands:
            begin, end = bands.read(first, last)
            buffer, at = _read.of((end - begin) * source.itemsize)
            take(taken, begin, end, _typed(buffer, source.dtype))
            x = at - begin * source.itemsize
        if writes_bands:
            begin, end = bands.made(first, last)
            results, at = _made.of((end - begin) * target.itemsize)
            out = at - begin * target.itemsize
        pool(x, out, address(numbers), first, last)
        if writes_bands:
            put(made, begin, end, _typed(results, target.dtype))

    share_out(call, choice.tasks, choice.work, threads, bands.tile if reads_bands or writes_bands else None)
    if target is not values:
        values[...] = target


def _with_few_axes(x: Array) -> Array:
    """The same elements with axes as one that continue one another, so that a band of them is few boxes."""
    lengths, steps = zip(*(_joined([*zip(x.shape, x.strides, strict=True)]) or [(1, x.itemsize)]), strict=True)
    return np.lib.stride_tricks.as_strided(x, lengths, steps)


def _typed(buffer: Array, dtype: np.dtype[Any]) -> Array:
    return buffer[: buffer.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _numbers(choice: Choice, apart: Apart | None) -> Array:
    numbers = choice.numbers[0]
    if apart is not None:
        numbers = numbers.copy()
        numbers[APART : APART + len(apart)] = apart
    return numbers


def apart_of(choice: Choice, source: Array) -> Apart | None:
    """How far apart the elements of an array are; None where those of a row do not lie side by side, or the outer axes
    are more than two that lie apart.
    """
    if any(step % source.itemsize for step in source.strides):
        return None
    axes = _joined([(n, step // source.itemsize) for n, step in zip(source.shape, source.strides, strict=True)])
    _, depth, height, line = choice.view.input_shape
    along, high, deep = (_split(axes, count) for count in (line, height, depth))
    if (along != choice.step and line > 1) or high is None or deep is None or len(axes) > 2:
        return None
    if choice.kernel in ("slide_planes", "slide_maps") and high != line:  # which takes all rows of a plane as one
        return None
    (_, far), (many, near) = [(1, 0)] * (2 - len(axes)) + axes
    return Apart(many, far, near, deep, high)


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


def _is_near(choice: Choice, source: Array) -> bool:
    """Whether elements that lie side by side are read by tasks one after the other."""
    steps = [abs(step) if length > 1 else np.inf for step, length in zip(source.strides, source.shape, strict=True)]
    return int(np.argmin(steps)) >= len(choice.view.outside)
