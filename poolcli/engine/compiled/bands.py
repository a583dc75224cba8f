"""What a range of tasks reads and makes, so that what lies in another order can be brought into that of the kernels, or
back, piece by piece in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from poolcli.engine.compiled.geometry import Down

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice
    from poolcli.engine.compiled.view import Axis

BAND = 1 << 20  # bytes that a tile reads: many enough for what it takes to begin one, few enough for a second cache
WINDOWS = 4  # windows of rows that a tile reads at least, so that few rows are read twice


class Bands:
    """Which lines of the input tasks read, and which rows of the output they make."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.deep, self.high = (_reach_of(axis) for axis in choice.view.axes[:2])
        self.down = next((given for given in choice.more if isinstance(given, Down)), None)

    @property
    def tile(self) -> int:
        """The number of tasks that read a band."""
        d, h, _ = self.choice.view.axes
        window = (d.entire.longest - 1) * d.step * h.size + (h.entire.longest - 1) * h.step + 1
        line = self.choice.view.input_shape[3] * self.choice.source.itemsize
        lines, pieces = max(BAND // line, min(WINDOWS * window, d.size * h.size)), self.choice.pieces
        return max(self.choice.tasks * lines // (self.choice.view.outer * d.size * h.size) // pieces, 1) * pieces

    def read(self, first: int, last: int) -> tuple[int, int]:
        """The elements of the input that these tasks read: the first, and one past the last."""
        begin, end = self._lines(first, last)
        line = self.choice.view.input_shape[3]
        return begin * line, max(begin, end) * line

    def made(self, first: int, last: int) -> tuple[int, int]:
        """The elements of the output that they make."""
        begin, end = self._rows(first, last)
        row = self.choice.view.output_shape[3]
        return begin * row, end * row

    def _rows(self, first: int, last: int) -> tuple[int, int]:
        begin, end = first // self.choice.pieces, -(-last // self.choice.pieces)
        if self.down is None:
            return begin * self.choice.group, min(end * self.choice.group, self.choice.view.rows)
        return self._row_of_block(self.down, begin), self._row_of_block(self.down, end)

    def _row_of_block(self, down: Down, number: int) -> int:
        """The first row that is made of a block of lines."""
        plane, block = divmod(number, down.blocks)
        height = self.choice.view.axes[1].output
        return plane * height + min(-(-block * down.kernel // down.stride), height)

    def _lines(self, first: int, last: int) -> tuple[int, int]:
        """The lines that the tasks read, those of all planes numbered through: the first, and one past the last."""
        if self.down is not None:
            return self._lines_of_blocks(self.down, first // self.choice.pieces, (last - 1) // self.choice.pieces)
        (d, h, _), (begin, end) = self.choice.view.axes, self._rows(first, last)
        (one, top), (other, bottom) = divmod(begin, h.output), divmod(end - 1, h.output)
        is_flat = d.output == 1 or one == other  # lines rise with rows
        low, high = (self.high.begins[top], self.high.ends[bottom]) if is_flat else (0, h.size)
        return self._plane(one, self.deep.begins) + low, self._plane(other, self.deep.ends) - h.size + high

    def _lines_of_blocks(self, down: Down, begin: int, end: int) -> tuple[int, int]:
        """The lines of blocks, and of those that the last windows reach into."""
        (one, top), (other, bottom) = divmod(begin, down.blocks), divmod(end, down.blocks)
        height = self.choice.view.axes[1].size
        low, high = (min(max(block * down.kernel - down.pad, 0), height) for block in (top, bottom + 2))
        return self._plane(one, self.deep.begins) + low, self._plane(other, self.deep.ends) - height + high

    def _plane(self, number: int, places: list[int]) -> int:
        """The line at which a plane of the input begins, the one in its place among those of output plane `number`."""
        d, h, _ = self.choice.view.axes
        outer, deep = divmod(number, d.output)
        return (outer * d.size + places[deep]) * h.size


class _Reach(NamedTuple):
    """Where windows and those after them begin at the earliest, and where they and those before end at the latest."""

    begins: list[int]
    ends: list[int]


def _reach_of(axis: Axis) -> _Reach:
    """Of windows that read nothing, one element."""
    begins = np.clip(axis.begin, 0, max(axis.size - 1, 0))
    ends = begins + np.maximum(axis.count - 1, 0) * axis.step + 1
    return _Reach(np.minimum.accumulate(begins[::-1])[::-1].tolist(), np.maximum.accumulate(ends).tolist())
