"""Computes a plan in tiles, so that memory does not grow with the input; tiles may be computed by other processes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from poolcli.errors import RequestError
from poolcli.formats import open_array
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.formats.records import ReadOptions, RegionWriter, Source
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region, parts_of, whole
from poolcli.system.lazy_imports import seconds_loading
from poolcli.system.signals import check_stopped
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from numpy.typing import NDArray

    Array = NDArray[Any]

Read = Callable[[Ranges], "Array"]
Write = Callable[[Ranges, "Array"], None]
Progress = Callable[[int, int], None]  # bytes done, bytes in all
Unit = tuple[int, ...] | None

TILE = 16 * 2**20  # bytes of input and output together; larger ones were not faster
POSITION = 16  # bytes of an index, and of the position in a plane that it is made from
HELD = 6  # tiles in memory at once: one read ahead, one in work with its buffers, one being written
LARGEST = 128 * 2**20  # bytes of input and output of a block that grows to spare decoding
STEPS = 32  # blocks, at least, of a run that continues at a URL, where one of the largest may take minutes
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


PHASES = ("load", "read", "compile", "compute", "write")


@dataclass(slots=True)
class Clock:
    """What each phase of a job took; where phases overlap, what was waited for. To load is to import packages, which
    takes its time at the first file of a process.
    """

    seconds: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Books the time inside on `name`, and what of it went into loading on that."""
        start, loaded = time.perf_counter(), seconds_loading()
        try:
            yield
        finally:
            loading = seconds_loading() - loaded
            self.seconds["load"] += loading
            self.seconds[name] += time.perf_counter() - start - loading

    def move(self, source: str, target: str, seconds: float) -> None:
        """Books seconds of one phase on another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds


def unseen(done: int, total: int) -> None:
    """The progress of work that nobody watches."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be computed: values, and positions where `indices` is true, by `engine` on `threads` threads; by numpy
    where `may_fall_back` and no kernel can be built, for which `reasons` then has the reason.
    """

    plan: Plan
    indices: bool
    engine: str
    threads: int | None
    clock: Clock = dataclasses.field(default_factory=Clock)
    progress: Progress = unseen
    may_fall_back: bool = True
    reasons: list[str] = dataclasses.field(default_factory=list)

    def note(self, reason: str | None) -> None:
        """Notes why numpy computes a part, here or in another process; each reason once."""
        if reason is not None and reason not in self.reasons:
            self.reasons.append(reason)

    @property
    def notes(self) -> list[str]:
        """What the user is told where no kernel can be built."""
        return [f"computed by numpy: {reason}" for reason in self.reasons]


def check_fits(needed: int, limit: int | None) -> None:
    """Refuses what is held in memory whole and needs more bytes than the limit."""
    in_parts = " (one array of a .h5 or .zarr, or of a .npy file in C order, can be pooled in parts, this cannot)"
    check_memory("needs", needed, limit, remedy=in_parts)


def work_of(
    plan: Plan, engine: str, threads: int | None, clock: Clock, progress: Progress, indices: bool = False
) -> Work:
    """The work with its engine chosen and loaded."""
    from poolcli.engine import prepare

    with clock.phase("compute"):
        chosen = prepare(plan, engine)
    return Work(plan, indices, chosen, threads, clock, progress, engine == "auto")


def pool_in_tiles(work: Work, read: Read, sinks: Sequence[RegionWriter], parts: Iterable[Region]) -> None:
    """Hands the values to the first sink and the positions to the second, part by part, without those that the sinks
    hold already.
    """
    from concurrent.futures import ThreadPoolExecutor

    total, done = bytes_of(work.plan), 0
    waiting = (part for part in parts if not all(sink.holds(part.outputs) for sink in sinks))
    first = next(waiting, None)
    with ThreadPoolExecutor(1, "read") as reader, ThreadPoolExecutor(1, "write") as writer:
        ahead = _read_ahead(reader, read, first)
        written: Future[None] | None = None
        while ahead is not None:
            part, slab = ahead
            with work.clock.phase("read"):
                x = slab.result()
            ahead = _read_ahead(reader, read, next(waiting, None))
            results = pool_aligned(work, part, x)
            check_stopped()
            with work.clock.phase("write"):
                if written:
                    written.result()
                written = writer.submit(_append, sinks, part.outputs, results)
            done += part.nbytes
            work.progress(min(done, total), total)
        with work.clock.phase("write"):
            if written:
                written.result()


def largest_block(plan: Plan, at_url: bool) -> int:
    """The bytes of a block of a plan if memory does not limit it: less if it is `at_url`, to be continued there."""
    return min(LARGEST, bytes_of(plan) // STEPS) if at_url else LARGEST


def bytes_of(plan: Plan) -> int:
    """The bytes of the input and the output."""
    return whole(plan).nbytes


def _read_ahead(reader: ThreadPoolExecutor, read: Read, part: Region | None) -> tuple[Region, Future[Array]] | None:
    return None if part is None else (part, reader.submit(read, part.aligned.reads))


def pool_part(work: Work, region: Region, slab: Array, hidden: Array | None = None) -> tuple[Array, Array | None]:
    """The values and positions of a part, or of the whole, from what it reads, of which a mask hides some."""
    from poolcli.engine import run_region
    from poolcli.engine.compiled import seconds_spent

    before = seconds_spent()
    with work.clock.phase("compute"):
        tell = work.note if work.may_fall_back else None
        results = run_region(
            region, slab, indices=work.indices, engine=work.engine, threads=work.threads, tell=tell, hidden=hidden
        )
    work.clock.move("compute", "compile", seconds_spent() - before)
    return results


def pool_aligned(work: Work, region: Region, slab: Array) -> tuple[Array, Array | None]:
    """As `pool_part`, of any region, from what its aligned one reads: with the bits of the whole."""
    whole_grains = region.aligned
    values, places = pool_part(work, whole_grains, slab)
    starts = zip(region.outputs, whole_grains.outputs, strict=True)
    inside = tuple(slice(own.start - other.start, None) for own, other in starts)
    return values[inside], None if places is None else places[inside]


def pool_block(work: Work, read: Read, block: Region, most: int | None) -> tuple[Array, Array | None]:
    """As `pool_aligned`, with reading; values alone, in pieces, where a block and its input exceed `most` bytes."""
    import numpy as np

    if most is None or block.aligned.nbytes <= most:
        return pool_aligned(work, block, read(block.aligned.reads))
    values = np.empty(block.output_shape, work.plan.output_dtype)
    for piece in _pieces(block, most):
        starts = zip(piece.outputs, block.outputs, strict=True)
        inside = tuple(slice(own.start - outer.start, own.stop - outer.start) for own, outer in starts)
        values[inside] = pool_aligned(work, piece, read(piece.aligned.reads))[0]
    return values, None


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


def _append(writers: Sequence[Write], outputs: Ranges, results: tuple[Array, Array | None]) -> None:
    for write, array in zip(writers, results, strict=False):
        if array is not None:
            write(outputs, array)


def tile_for(limit: int | None, beside: int = 0) -> int:
    """The bytes of a tile under a limit of memory, of which reading takes so many `beside` the tiles."""
    return TILE if limit is None else max(1, min(TILE, (limit - beside) // HELD))


def parts_for(
    plan: Plan,
    limit: int | None,
    unit: Unit,
    chunks: Unit,
    beside: int = 0,
    *,
    front_to_back: bool = False,
    indices: bool = False,
    largest: int = LARGEST,
) -> Iterable[Region]:
    """The output in parts under a limit of memory: of whole units of what is written, along the chunks of what is read,
    or one behind the other in C order. `beside` is memory that is taken beside the parts. Refuses a plan whose smallest
    part is too large.
    """
    data, positions = bytes_of(plan), POSITION * prod(plan.output_shape) if indices else 0
    share = data / (data + positions) if data else 1.0
    if unit is None and (chunks is None or front_to_back):
        tile = max(1, int(tile_for(limit, beside) * share))
        first = islice(parts_of(whole(plan), tile), 3)  # the largest is among them
        _check_largest(max((part.nbytes for part in first), default=0), limit, beside)
        return parts_of(whole(plan), tile)
    most = largest if limit is None else max(1, min(largest, int((limit - beside) // HELD * share)))
    blocks = blocks_of(plan, unit or unit_for(plan, chunks or plan.input_shape), chunks, most)
    _check_largest(blocks.largest.aligned.nbytes if len(blocks) else 0, limit, beside)
    return blocks


def _check_largest(largest: int, limit: int | None, beside: int) -> None:
    if limit is not None and largest * 2 + beside > limit:
        raise RequestError(
            f"the smallest part that can be pooled by itself needs {human_bytes(largest * 2 + beside)}, but the "
            f"limit is {human_bytes(limit)}; raise {field('max_memory')}"
        )


@runtime_checkable
class Shared(RegionWriter, Protocol):
    """A sink to which other processes write: by `writer`, which can be pickled; it is told what they have written."""

    @property
    def writer(self) -> Write: ...

    def note(self, region: Ranges) -> None:
        """Takes note of a region that is written."""


@dataclass(frozen=True, slots=True)
class FileReading:
    """Opens a file for reading regions of its array; other processes receive this in place of the open file."""

    source: Source
    options: ReadOptions

    @contextmanager
    def __call__(self) -> Iterator[Read]:
        with open_array(self.source, self.options) as file:
            yield file.read


@dataclass(frozen=True, slots=True)
class Parts:
    """Computes any of the blocks of some work in another process, by their numbers; it can be pickled.

    `reading` opens what they are read from, in pieces where a block has more than `most` bytes.
    """

    reading: Callable[[], AbstractContextManager[Read]]
    work: Work
    blocks: Sequence[Region]
    writers: tuple[Write, ...]
    most: int | None = None

    def __call__(self, numbers: Sequence[int]) -> list[str | None]:
        """Reads, pools and writes some blocks, one after the other; returns for each why no kernel can be built."""
        with self.reading() as read:
            for number in numbers:
                block = self.blocks[number]
                _append(self.writers, block.outputs, pool_block(self.work, read, block, self.most))
        return [next(iter(self.work.reasons), None)] * len(numbers)


class Spread(Protocol):
    """Has parts computed in other processes: those of the `numbers`, of which there are at most `count`; `done` is
    called with each that is written, and with what `parts` returned for it.
    """

    def __call__(
        self, parts: Parts, numbers: Iterator[int], count: int, done: Callable[[int, str | None], None]
    ) -> None: ...


def pool_spread(
    spread: Spread,
    work: Work,
    reading: Callable[[], AbstractContextManager[Read]],
    sinks: Sequence[Shared],
    blocks: Sequence[Region],
    most: int | None = None,
) -> None:
    """As `pool_in_tiles`, in other processes."""
    total, written = bytes_of(work.plan), 0
    theirs = Work(work.plan, work.indices, work.engine, threads=1, may_fall_back=work.may_fall_back)
    parts = Parts(reading, theirs, blocks, tuple(sink.writer for sink in sinks), most)
    missing = (n for n, block in enumerate(blocks) if not all(sink.holds(block.outputs) for sink in sinks))

    def done(number: int, reason: str | None) -> None:
        nonlocal written
        work.note(reason)
        for sink in sinks:
            sink.note(blocks[number].outputs)
        written += blocks[number].nbytes
        work.progress(min(written, total), total)

    with work.clock.phase("compute"):
        spread(parts, missing, len(blocks), done)
