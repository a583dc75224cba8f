"""The windows that each axis may have, and their combinations, the most common first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from poolcli.errors import RequestError
from poolcli.explain.solve import COMMON_KERNELS, axis_complexity
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import ceil_div, extent

MAX_DILATION = 3  # largest dilation that is tried
MAX_WHOLE_OUTPUTS = 4  # outputs of windows as long as the input
MAX_GIVEN = 10_000  # largest number that may be given for a short axis; planning takes memory in proportion
MAX_COMBINATIONS = 2**20  # of the most common windows of each axis
SINGLE_ELEMENTS = 6
UNEQUAL_AXES_COST = 3  # of different numbers on neighbouring axes


class Window(NamedTuple):
    """The numbers of one axis and how unusual they are; `end` is the padding at the end that the last window needs."""

    cost: float
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    def overhanging_ends(self) -> list[int]:
        """Up to three paddings at the end that give as many windows by rounding up: the last window overhangs."""
        low = max(0, self.end - self.stride + 1)
        ends = dict.fromkeys((self.begin, 0, *range(low, self.end + 1)))
        return [end for end in ends if low <= end <= self.end][:3]


def windows_of(size: int, output: int, given: Mapping[str, int]) -> list[Window]:
    """List the windows that give the right output length, the most common first.

    Kernels up to 11, those about as long as the input's share of an output, and the whole input; dilations up to 3;
    pads shorter than the kernel or half of its extent; every stride. `given` are the numbers that are known.
    """
    found = []
    for kernel, dilation, begin in _geometries(size, output, given):
        window = extent(kernel, dilation)
        for stride in [given["strides"]] if "strides" in given else _strides(size + begin, output, window):
            reach = (output - 1) * stride + window - begin - size  # of the last window past the input
            end = max(0, reach)
            if -stride < reach < window <= size + begin + end:
                cost = axis_complexity(size, kernel, stride, begin, max(begin, reach), dilation) + 2 * (dilation - 1)
                cost -= SINGLE_ELEMENTS * (kernel == 1 < stride)  # less unusual than gaps between longer windows
                found.append(Window(cost, kernel, stride, dilation, begin, end))
    return sorted(found)


def _geometries(size: int, output: int, given: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Kernels, dilations and pads at the beginning to try."""
    most = max(MAX_GIVEN, 2 * size)
    for name, number in given.items():
        if number > most:
            raise RequestError(f"{field(name)} is {number:,}; here numbers up to {most:,} are searched")
    share = max(1, size // output)
    kernels = {*range(1, min(COMMON_KERNELS, 2 * size) + 1), 2 * share, 2 * share - 1}
    kernels |= {*range(max(1, share - 1), share + 3)} | ({size} if output <= MAX_WHOLE_OUTPUTS else set())
    for kernel in [given["kernel"]] if "kernel" in given else kernels:
        dilations = range(1, MAX_DILATION + 1) if 1 < kernel <= COMMON_KERNELS else (1,)
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            longest = max(kernel, extent(kernel, dilation) // 2 + 1)
            pads: Iterable[int] = range(longest) if kernel <= 2 * COMMON_KERNELS else (0, kernel // 2)
            for pad in (given["pads_begin"],) if "pads_begin" in given else pads:
                yield kernel, dilation, pad


def _strides(padded: int, output: int, window: int) -> Iterator[int]:
    """The strides that give `output` windows on an input of length `padded`, padding at the beginning included."""
    if output == 1:
        yield max(window, padded - window + 1)
    else:
        yield from range(max(1, ceil_div(padded - window + 1, output)), (padded - 1) // (output - 1) + 1)


class Axis:
    """The windows that one axis may have, and what each reads at an output; `numbers` has a row for each."""

    def __init__(self, size: int, output: int, given: Mapping[str, int]) -> None:
        self.size, self.windows = size, windows_of(size, output, given)
        self.costs = np.array([each.cost for each in self.windows])
        self.numbers = np.array([each[1:5] for each in self.windows])
        self._read: dict[int, tuple[list[range], Array, Array]] = {}

    def read(self, o: int) -> tuple[list[range], Array, Array]:
        """The different spans of output `o`, the number of each window's span, and whether it overhangs the end."""
        if o not in self._read:
            kernel, stride, dilation, begin = self.numbers.T
            start = o * stride - begin
            first = np.clip(-(start // dilation), 0, kernel)  # the taps before the input
            count = np.clip(-((start - self.size) // dilation), first, kernel) - first
            rows = np.stack((start + first * dilation, count, np.where(count > 1, dilation, 1)), axis=1)
            rows[count == 0] = 0, 0, 1
            different, numbers = np.unique(rows, axis=0, return_inverse=True)
            spans = [range(low, low + length * step, step) for low, length, step in different.tolist()]
            self._read[o] = spans, numbers.reshape(-1), start + (kernel - 1) * dilation >= self.size
        return self._read[o]


@dataclass(frozen=True, slots=True)
class Grid:
    """Combinations of windows, one of each axis, the most common first: `columns` are their numbers on each axis."""

    axes: Sequence[Axis]
    columns: tuple[Array, ...]

    def taken(self, rows: Array) -> Grid:
        """Some of the combinations."""
        return Grid(self.axes, tuple(column[rows] for column in self.columns))

    def combination(self, row: int) -> tuple[Window, ...]:
        """The windows of each axis."""
        return tuple(axis.windows[column[row]] for axis, column in zip(self.axes, self.columns, strict=True))

    def numbers(self) -> list[Array]:
        """Kernel, stride, dilation and padding at the beginning on each axis, a row for each combination."""
        return [axis.numbers[column] for axis, column in zip(self.axes, self.columns, strict=True)]

    def kernels(self) -> Array:
        """The number of elements of the kernels."""
        sizes: Array = np.prod([numbers[:, 0].astype(np.float64) for numbers in self.numbers()], axis=0)
        return sizes


def grid_of(axes: Sequence[Axis]) -> Grid:
    """The combinations of the most common windows of each axis, and those with the same numbers on every axis."""
    counts = [len(axis.windows) for axis in axes]
    limit = max(counts)
    while prod(min(limit, count) for count in counts) > MAX_COMBINATIONS:
        limit -= 1 + limit // 50
    common = np.indices([min(limit, count) for count in counts]).reshape(len(axes), -1)
    places = [{tuple(row): i for i, row in enumerate(axis.numbers.tolist())} for axis in axes]
    rows = [[own.get(numbers, -1) for own in places] for numbers in places[0]]
    equal = np.array([row for row in rows if min(row) >= 0 and max(row) >= limit], np.intp).reshape(-1, len(axes))
    grid = Grid(axes, tuple(np.concatenate((common, equal.T), axis=1)))
    costs: Array = np.mean([axis.costs[column] for axis, column in zip(axes, grid.columns, strict=True)], axis=0)
    for one, other in pairwise(grid.numbers()):
        costs = costs + UNEQUAL_AXES_COST * (one != other).any(axis=1)
    return grid.taken(np.argsort(costs, kind="stable"))
