"""Which blocks of a result there are, and which blocks of the input each of them reads: all from a plan and chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod

from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region, whole

Chunks = tuple[tuple[int, ...], ...]
Block = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one block of the input: what of the block it is, and where it lies in what is read."""

    block: Block
    taken: tuple[slice, ...]
    put: tuple[slice, ...]
    share: float  # of the block's elements


@dataclass(frozen=True, slots=True)
class Blocks:
    """The edges of blocks along each axis, of the input and of the result."""

    plan: Plan
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]

    @property
    def chunks(self) -> Chunks:
        """The lengths of the result's blocks."""
        return tuple(tuple(b - a for a, b in pairwise(edges)) for edges in self.outputs)

    @property
    def places(self) -> Iterator[Block]:
        """The number of each block of the result along each axis."""
        return product(*(range(len(edges) - 1) for edges in self.outputs))

    @property
    def is_one_to_one(self) -> bool:
        """Whether each block of the result reads the block of the input that has its number, and no other."""
        if any(len(a) != len(b) for a, b in zip(self.inputs, self.outputs, strict=True)):
            return False
        ends = whole(self.plan)
        for axis, (edges, made) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            for (low, high), outputs in zip(pairwise(edges), pairwise(made), strict=True):
                read = ends.cut(axis, range(*outputs)).reads[axis]
                if read.start < low or read.stop > high:
                    return False
        return True

    def region(self, block: Block) -> Region:
        """The region that a block of the result is."""
        return Region(self.plan, tuple(range(*e[i : i + 2]) for e, i in zip(self.outputs, block, strict=True)))

    def origin(self, block: Block) -> tuple[int, ...]:
        """Where a block of the input begins."""
        return tuple(edges[i] for edges, i in zip(self.inputs, block, strict=True))

    def pieces(self, reads: Ranges) -> Iterator[Piece]:
        """Of which parts of the input's blocks a range of it is made."""
        for block in product(*(_touched(edges, read) for edges, read in zip(self.inputs, reads, strict=True))):
            spans = [
                (max(edges[i], read.start), min(edges[i + 1], read.stop), edges[i], edges[i + 1], read.start)
                for edges, i, read in zip(self.inputs, block, reads, strict=True)
            ]
            taken = tuple(slice(low - begin, high - begin) for low, high, begin, _, _ in spans)
            put = tuple(slice(low - start, high - start) for low, high, _, _, start in spans)
            share = prod((high - low) / max(end - begin, 1) for low, high, begin, end, _ in spans)
            yield Piece(block, taken, put, share)


def blocks_of(plan: Plan, chunks: Sequence[Sequence[int]]) -> Blocks:
    """The blocks of a plan's result for an input in these chunks: a window belongs to the block that it begins in.

    Blocks begin at multiples of the grains of regions, so that their bits are those of the whole.
    """
    inputs = tuple((0, *accumulate(lengths)) for lengths in chunks)
    outputs, region = list(inputs), whole(plan)
    for axis in plan.axes:
        edges, grain = inputs[axis.position], region.grains[axis.position]
        places = range(axis.windows.output)
        first = (bisect_left(places, edge, key=axis.windows.start) for edge in edges[1:-1])
        cut = {(place + grain // 2) // grain * grain for place in first}
        inner = sorted(place for place in cut if 0 < place < len(places))
        outputs[axis.position] = (0, *inner, len(places))
    return Blocks(plan, inputs, tuple(outputs))


def _touched(edges: Sequence[int], read: range) -> range:
    """The numbers of the blocks that a range lies in."""
    if not read:
        return range(1)
    return range(bisect_right(edges, read.start) - 1, bisect_left(edges, read.stop))
