"""Where the regions of an array lie in it in C order, and which of them are done, however they were cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from poolcli.plan.region import Ranges

MOST_AT_ONCE = 1024  # chunks of one call: zarr keeps about 10 KB for each, HDF5 6


def contiguous_runs(shape: Sequence[int], region: Ranges) -> Iterator[tuple[int, int]]:
    """The runs of elements that make up a region: the first element and the length of each.

    Trailing axes that are taken whole make one run with the axis before them.

    >>> list(contiguous_runs((2, 3, 4), (range(1, 2), range(1, 3), range(4))))
    [(16, 8)]
    >>> list(contiguous_runs((2, 3, 4), (range(2), range(1), range(1, 3))))
    [(1, 2), (13, 2)]
    """
    last = len(shape) - 1
    while last > 0 and len(region[last]) == shape[last]:
        last -= 1
    unit = prod(shape[last + 1 :])
    length = unit * len(region[last])
    for outer in product(*region[:last]) if length else ():
        place = 0
        for index, size in zip((*outer, region[last].start), shape, strict=False):
            place = place * size + index
        yield place * unit, length


class CoveredRegions:
    """The regions that are done, joined wherever two make a longer one, so that they stay few in any usual order."""

    def __init__(self) -> None:
        self._regions: dict[Ranges, None] = {}
        self._faces: dict[object, Ranges] = {}

    def add(self, region: Ranges) -> None:
        """Notes that a region is done."""
        if not all(region):
            return  # of nothing
        joined = self._joined(region)
        while joined is not None:
            region, joined = joined, self._joined(joined)
        self._regions[region] = None
        self._faces |= dict.fromkeys(_faces(region), region)

    def holds(self, region: Ranges) -> bool:
        """Whether a region lies in one that is done."""
        return (
            region in self._regions
            or not all(region)
            or any(
                all(a.start <= b.start and b.stop <= a.stop for a, b in zip(done, region, strict=True))
                for done in self._regions
            )
        )

    def __iter__(self) -> Iterator[Ranges]:
        return iter(self._regions)

    def _joined(self, region: Ranges) -> Ranges | None:
        """The region with a neighbour, which is taken out; None where none has the same other axes."""
        for axis, span in enumerate(region):
            rest = region[:axis] + region[axis + 1 :]
            before = self._faces.get((axis, "stops", span.start, rest))
            after = self._faces.get((axis, "starts", span.stop, rest))
            for other in (before, after):
                if other is not None:
                    self._take_out(other)
                    ends = (span.start, span.stop, other[axis].start, other[axis].stop)
                    return (*region[:axis], range(min(ends), max(ends)), *region[axis + 1 :])
        return None

    def _take_out(self, region: Ranges) -> None:
        del self._regions[region]
        for face in _faces(region):
            if self._faces.get(face) == region:
                del self._faces[face]


def _faces(region: Ranges) -> Iterator[object]:
    """The sides of a region: where it starts and stops along each axis, and what it is along the others."""
    for axis, span in enumerate(region):
        rest = region[:axis] + region[axis + 1 :]
        yield axis, "starts", span.start, rest
        yield axis, "stops", span.stop, rest


def batches(region: Ranges, chunk: Sequence[int], most: int = MOST_AT_ONCE) -> Iterator[Ranges]:
    """The region in parts, cut between chunks, of which each touches at most so many.

    >>> list(batches((range(3, 9),), (4,)))
    [(range(3, 9),)]
    """
    if not all(region):
        return
    touched = [range(span.start // c, ceil_div(span.stop, c)) for span, c in zip(region, chunk, strict=True)]
    steps = [1] * len(region)
    for axis in reversed(range(len(region))):
        steps[axis] = max(1, min(len(touched[axis]), most // prod(steps)))
    starts = [range(span.start, span.stop, step) for span, step in zip(touched, steps, strict=True)]
    for first in product(*starts):
        yield tuple(
            range(max(span.start, at * c), min(span.stop, (at + step) * c))
            for span, at, step, c in zip(region, first, steps, chunk, strict=True)
        )
