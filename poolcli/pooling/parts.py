"""The parts of one array, computed by whichever processes: each reads what it needs, and writes whole units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from poolcli.formats import open_array
from poolcli.formats.records import ReadOptions, RegionWriter, Source
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region
from poolcli.pooling.tiles import Work, bytes_of, pool_aligned
from poolcli.pooling.timing import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Write = Callable[[Ranges, NDArray[Any]], None]


@runtime_checkable
class Shared(Protocol):
    """A sink to which other processes write: by `writer`, which can be pickled; it is told what they have written."""

    @property
    def writer(self) -> Write: ...

    def note(self, region: Ranges) -> None:
        """Takes note of a region that is written."""


@dataclass(frozen=True, slots=True)
class Parts:
    """All that a process needs for any of the parts, of which it is given numbers. It can be pickled."""

    source: Source
    options: ReadOptions
    plan: Plan
    indices: bool
    engine: str
    regions: Sequence[Region]
    writers: tuple[Write, ...]
    may_fall_back: bool = True

    def __call__(self, numbers: Sequence[int]) -> list[None]:
        """Reads, pools and writes some parts, one after the other."""
        work = Work(self.plan, self.indices, self.engine, 1, Clock(), lambda done, total: None, self.may_fall_back)
        with open_array(self.source, self.options) as file:
            for number in numbers:
                region = self.regions[number]
                results = pool_aligned(work, region, file.read(region.aligned.reads))
                for write, array in zip(self.writers, results, strict=False):
                    if array is not None:
                        write(region.outputs, array)
        return [None] * len(numbers)


@dataclass(frozen=True, slots=True)
class Share:
    """What is to be computed elsewhere: by `parts`, which can be pickled and takes several of the `numbers`, of which
    there are at most `count`; `done` is called with each that is there.
    """

    parts: Callable[[Sequence[int]], list[None]]
    numbers: Iterator[int]
    count: int
    done: Callable[[int], None]


Spread = Callable[[Share], None]  # has it computed wherever it likes


def pool_spread(
    spread: Spread,
    work: Work,
    source: Source,
    options: ReadOptions,
    sinks: Sequence[RegionWriter],
    regions: Sequence[Region],
) -> None:
    """As `pool_in_tiles`, by other processes; the sinks must all be shared ones."""
    shared = [sink for sink in sinks if isinstance(sink, Shared)]
    total, written = bytes_of(work.plan), 0
    writers = tuple(sink.writer for sink in shared)
    parts = Parts(source, options, work.plan, work.indices, work.engine, regions, writers, work.may_fall_back)
    missing = (n for n, part in enumerate(regions) if not all(sink.holds(part.outputs) for sink in sinks))

    def done(number: int) -> None:
        nonlocal written
        for sink in shared:
            sink.note(regions[number].outputs)
        written += regions[number].nbytes
        work.progress(min(written, total), total)

    with work.clock.phase("compute"):
        spread(Share(parts, missing, len(regions), done))
