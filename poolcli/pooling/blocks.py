"""An output cut into blocks, each a region and so the task of one step, one process or one host.

A block is made of whole units (shards, else chunks) of what is written, so that no two of them touch the same file; and
it is as large as memory allows where that spares decoding the same chunks of the input again for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from poolcli.plan import Plan
from poolcli.plan.region import Region
from poolcli.windows import ceil_div

LARGEST = 128 * 2**20  # bytes of input and output of a block that grows to spare decoding
ENOUGH = 16 * 2**20  # bytes up to which any block grows
WORTH = 0.97  # of what was decoded before; less must be decoded for a block to grow beyond


@dataclass(frozen=True, slots=True)
class Blocks(Sequence[Region]):
    """The regions of one shape that a plan's output is made of, numbered in C order; the last along an axis may be
    shorter.
    """

    plan: Plan
    shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many there are along each axis."""
        return tuple(ceil_div(n, length) for n, length in zip(self.plan.output_shape, self.shape, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def __getitem__(self, number: int) -> Region:  # type: ignore[override]  # no slices of them are needed
        if not 0 <= number < len(self):
            raise IndexError(number)
        places = []
        for count in reversed(self.counts):
            number, place = divmod(number, count)
            places.append(place)
        return self._at(tuple(reversed(places)))

    def __iter__(self) -> Iterator[Region]:
        return (self[number] for number in range(len(self)))

    @property
    def largest(self) -> Region:
        """The one that takes the most memory, as far as that is known: one that has others on every side."""
        found = (self._at(tuple(min(i, count - 1) for count in self.counts)) for i in (0, 1) if all(self.counts))
        return max(found, key=lambda region: region.aligned.nbytes, default=Region(self.plan, (range(0),) * 0))

    def _at(self, places: tuple[int, ...]) -> Region:
        outputs = zip(places, self.shape, self.plan.output_shape, strict=True)
        return Region(self.plan, tuple(range(i * length, min((i + 1) * length, n)) for i, length, n in outputs))


def blocks_of(plan: Plan, unit: Sequence[int], chunks: Sequence[int] | None, most: int) -> Blocks:
    """Blocks of whole units whose input and output have at most `most` bytes together, if a unit has; `chunks` are what
    of the input is decoded as one.
    """
    found = Blocks(plan, tuple(max(1, min(length, n)) for length, n in zip(unit, plan.output_shape, strict=True)))
    if not len(found):
        return found
    while True:
        grown = [each for each in _grown(found, unit) if each.largest.aligned.nbytes <= most]
        if not grown:
            return found
        best = min(grown, key=lambda each: _decoded(each, chunks))
        if found.largest.nbytes > ENOUGH // 2 and _decoded(best, chunks) > WORTH * _decoded(found, chunks):
            return found
        found = best


def unit_for(plan: Plan, chunks: Sequence[int]) -> tuple[int, ...]:
    """The outputs of about one chunk of the input: what is cut along, where the output does not care."""
    sizes = zip(chunks, plan.input_shape, plan.output_shape, strict=True)
    return tuple(max(1, min(chunk, n) * out // max(n, 1)) for chunk, n, out in sizes)


def _grown(blocks: Blocks, unit: Sequence[int]) -> Iterator[Blocks]:
    """Blocks of twice the length along one axis, the last axes first: those lie side by side in files."""
    for axis in reversed(range(len(blocks.shape))):
        length = min(2 * blocks.shape[axis], unit[axis] * ceil_div(blocks.plan.output_shape[axis], unit[axis]))
        if blocks.shape[axis] < blocks.plan.output_shape[axis]:
            yield Blocks(blocks.plan, (*blocks.shape[:axis], length, *blocks.shape[axis + 1 :]))


def _decoded(blocks: Blocks, chunks: Sequence[int] | None) -> float:
    """The elements that are decoded for each output."""
    region = blocks.largest
    total = 1.0
    for span, n, chunk in zip(region.aligned.reads, region.plan.input_shape, chunks or region.input_shape, strict=True):
        stop = min(n, ceil_div(span.stop, chunk) * chunk) if chunks else span.stop
        total *= stop - (span.start // chunk * chunk if chunks else span.start)
    return total / max(1, prod(region.output_shape))
