"""Sums over few windows of few elements: gathered at once, because a step of numpy takes longer than the additions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.numpy.reduce import Array, taps_of
from poolcli.plan.region import Region
from poolcli.windows import AxisWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW = 1 << 12  # elements of all windows, and of what they read; of more, a table of their places takes longer to read


def gathered_sums(region: Region, dtype: Any) -> Callable[[Array], Array] | None:
    """What makes of an array the sum of every window in that type; None where there are more than few elements.

    Elements are added in the order of `reduce`: along the last axis first, one tap after the other.
    """
    longest = prod(axis.windows.longest for axis in region.plan.axes)
    size = prod(region.input_shape)
    if size > FEW or prod(region.output_shape) * longest > FEW:
        return None
    places = _places(region, nowhere=size)
    counts = places.shape[: len(region.plan.axes)]  # of taps

    padded, zero = bool((places == size).any()), np.zeros((), dtype)  # an array is added in half the time of a number

    def sums(x: Array) -> Array:
        if padded:
            numbers = np.zeros(size + 1, dtype)  # the last one is for taps outside of the input
            np.add(x.reshape(-1), zero, out=numbers[:-1])
        else:
            numbers = x.ravel() + zero  # where -0 becomes 0, as in sums from 0 on
        total = numbers[places]
        for taps in counts:
            terms, total = total, total[0]
            for i in range(1, taps):  # by number: an array gives its parts in turn in twice the time
                total = total + terms[i]
        return total

    return sums


def _places(region: Region, nowhere: int) -> NDArray[np.int64]:
    """Where in the flat input the elements of windows lie: [taps of the last axis, ..., of the first one, *outputs]."""
    tables = [np.arange(len(outputs))[None] for outputs in region.outputs]  # of each axis: [taps, outputs]
    for planned in region.plan.axes:
        tables[planned.position] = _table(planned.windows, region.outputs[planned.position])
    rank, steps = len(tables), np.cumprod((1, *region.input_shape[:0:-1]))[::-1]
    places, inside = np.zeros((1,) * 2 * rank, np.int64), np.ones((1,) * 2 * rank, np.bool_)
    for axis, (table, step) in enumerate(zip(tables, steps, strict=True)):
        shape = [1] * 2 * rank
        shape[rank - 1 - axis], shape[rank + axis] = table.shape
        places, inside = places + table.reshape(shape) * step, inside & (table.reshape(shape) >= 0)
    taps = [len(tables[planned.position]) for planned in reversed(region.plan.axes)]
    return np.where(inside, places, nowhere).reshape((*taps, *region.output_shape))


def _table(windows: AxisWindows, outputs: range) -> NDArray[np.int64]:
    """Where along an axis each tap of each window lies in what they read; -1 outside of the input."""
    table = np.full((windows.longest, len(outputs)), -1)
    elements = np.arange(len(windows.reads(outputs)))
    for row, (reached, read) in zip(table, taps_of(windows, outputs), strict=False):
        row[reached] = elements[read]
    return table
