"""The blocks of one level of a pyramid, made by whichever processes: each reads what it needs, and writes whole
units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolcli.formats import ArrayReader, open_array
from poolcli.formats.records import ReadOptions, Source
from poolcli.formats.zarr.arrays import read_region
from poolcli.formats.zarr.write import Writer
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region
from poolcli.pooling.blocks import Blocks
from poolcli.pooling.tiles import Work, pool_aligned
from poolcli.pooling.timing import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Read = Callable[[Ranges], "Array"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a pyramid: an array in a file, and the order of its axes there and in the levels."""

    source: Source
    options: ReadOptions
    read_layout: str
    layout: str

    def reading(self, file: ArrayReader) -> Read:
        """Reads regions of the open source in the order of axes that the levels have."""
        own, wanted = self.read_layout, self.layout

        def read(region: Ranges) -> Array:
            return convert_layout(file.read(tuple(region[wanted.index(letter)] for letter in own)), own, wanted)

        return read


@dataclass(frozen=True, slots=True)
class Step:
    """All that a process needs for any block of a level, of which it is given numbers. It can be pickled.

    A level is pooled from `base`, a level that is there, or from the source; `copy` is the first level, which blocks of
    the source are written to on the way.
    """

    plan: Plan
    engine: str
    blocks: Blocks
    most: int
    write: Writer
    origin: Origin
    base: Writer | None = None
    copy: Writer | None = None
    may_fall_back: bool = True

    def __call__(self, numbers: Sequence[int]) -> list[None]:
        """Reads, pools and writes some blocks, one after the other."""
        work = Work(self.plan, False, self.engine, 1, Clock(), lambda done, total: None, self.may_fall_back)
        with self._reading() as read:
            for number in numbers:
                block = self.blocks[number]
                self.write(block.outputs, pooled(work, read, block, self.most))
        return [None] * len(numbers)

    @contextmanager
    def _reading(self) -> Iterator[Read]:
        base, copy = self.base, self.copy
        if base is not None:
            yield lambda region: read_region(base.path, base.sparse, region)
            return
        with open_array(self.origin.source, self.origin.options) as file:
            read = self.origin.reading(file)
            yield read if copy is None else copying(read, copy, self.plan)


def copying(read: Read, copy: Callable[[Ranges, Array], None], plan: Plan) -> Read:
    """Reads what a block needs; the first level has it by then, with what no window reads at the end of an axis."""

    def read_and_copy(reads: Ranges) -> Array:
        ends = zip(reads, plan.input_shape, kernels_of(plan), strict=True)
        block = tuple(range(span.start, n if n - span.stop < k else span.stop) for span, n, k in ends)
        x = read(block)
        copy(block, x)
        return x[tuple(slice(len(span)) for span in reads)]

    return read_and_copy


def kernels_of(plan: Plan) -> tuple[int, ...]:
    """How many elements a window has along each axis of the array."""
    found = [1] * len(plan.input_shape)
    for axis in plan.axes:
        found[axis.position] = axis.windows.longest
    return tuple(found)


def pooled(work: Work, read: Read, block: Region, most: int) -> Array:
    """A block, in pieces where it and what it is pooled from are more than `most` bytes."""
    import numpy as np

    if block.aligned.nbytes <= most:
        return pool_aligned(work, block, read(block.aligned.reads))[0]
    out = np.empty(block.output_shape, work.plan.output_dtype)
    for piece in _pieces(block, most):
        place = zip(piece.outputs, block.outputs, strict=True)
        inside = tuple(slice(own.start - whole.start, own.stop - whole.start) for own, whole in place)
        out[inside] = pool_aligned(work, piece, read(piece.aligned.reads))[0]
    return out


def _pieces(region: Region, most: int) -> Iterator[Region]:
    """The region halved along the axis that it reads most of, until each part is small enough, or one output."""
    if region.aligned.nbytes <= most or max(region.output_shape) <= 1:
        yield region
        return
    able = [axis for axis, length in enumerate(region.output_shape) if length > 1]
    axis = max(able, key=lambda axis: region.input_shape[axis])
    outputs = region.outputs[axis]
    middle = outputs.start + (len(outputs) + 1) // 2
    yield from _pieces(region.cut(axis, range(outputs.start, middle)), most)
    yield from _pieces(region.cut(axis, range(middle, outputs.stop)), most)
