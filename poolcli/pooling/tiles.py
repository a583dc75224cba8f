"""Pools in tiles, so that memory does not grow with the input: how an output is divided, and the loop over its parts,
in this process or in others.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from poolcli.dtypes import numpy_dtype
from poolcli.engine import call_of
from poolcli.engine.choose import MIN_WORK_TO_LOAD, choose_engine
from poolcli.errors import RequestError
from poolcli.formats import open_array
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.formats.records import ReadOptions, RegionWriter, Source, slices
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.plan import Region, parts_of, whole
from poolcli.system.lazy_imports import COMPILED, LOADED, Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges, ceil_div

if TYPE_CHECKING:
    from concurrent.futures import Future

Read = Callable[[Ranges], Array]
Write = Callable[[Ranges, Array], None]
Progress = Callable[[int, int], None]  # bytes done, bytes in all
Results = tuple[Array, Array | None]  # values, and indices if they are wanted

# Sizes are bytes of input and output together.
TILE_BYTES = 16 * 2**20  # larger tiles were not faster
SHOWN_BYTES = 64 * 2**20  # of work whose progress is shown from the start
BLOCK_BYTES = 16 * 2**20  # blocks grow to this size in any case, and beyond it only to decode less
MAX_BLOCK_BYTES = 128 * 2**20
MAX_DECODED = 0.97  # the share of the decoded elements that a block beyond BLOCK_BYTES may still decode to grow
TILES_IN_MEMORY = 6  # one read ahead, one in work with its buffers, one being written; input and output of each
POSITION_BYTES = 16  # of an index, and of the position in a plane that it is computed from


@dataclass(frozen=True, slots=True)
class Blocks(Sequence[Region]):
    """A plan's output divided into regions of one shape, in C order; the last one along an axis may be shorter."""

    plan: Plan
    shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return tuple(ceil_div(n, length) for n, length in zip(self.plan.output_shape, self.shape, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def __getitem__(self, number: int) -> Region:  # type: ignore[override]  # no slices of them are needed
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._at([int(place) for place in np.unravel_index(number, self.counts)])

    @property
    def largest(self) -> Region:
        """The block that takes the most memory: the first one, or the second one along every axis, which may read more
        because it has neighbours on both sides.
        """
        found = (self._at([min(i, count - 1) for count in self.counts]) for i in (0, 1) if all(self.counts))
        return max(found, key=lambda region: region.aligned.nbytes, default=Region(self.plan, ()))

    def _at(self, places: Sequence[int]) -> Region:
        outputs = zip(places, self.shape, self.plan.output_shape, strict=True)
        return Region(self.plan, tuple(range(i * length, min((i + 1) * length, n)) for i, length, n in outputs))


def blocks_of(plan: Plan, unit: Sequence[int], chunks: Sequence[int] | None, most: int) -> Blocks:
    """Divides a plan into blocks of whole units and of at most `most` bytes, unless one unit is larger.

    `chunks` are those of the input. A chunk is decoded whole whenever a block reads a part of it, so blocks grow as
    long as that decodes less for each output.
    """
    found = Blocks(plan, tuple(max(1, min(length, n)) for length, n in zip(unit, plan.output_shape, strict=True)))
    while len(found):
        grown = [each for each in _grown(found, unit) if each.largest.aligned.nbytes <= most]
        if not grown:
            break
        best = min(grown, key=lambda each: _decoded_per_output(each, chunks))
        decodes_less = _decoded_per_output(best, chunks) <= MAX_DECODED * _decoded_per_output(found, chunks)
        if found.largest.nbytes > BLOCK_BYTES // 2 and not decodes_less:
            break
        found = best
    return found


def _grown(blocks: Blocks, unit: Sequence[int]) -> Iterator[Blocks]:
    """Blocks of twice the length along one axis; the last axes come first, because they are contiguous in files."""
    for axis in reversed(range(len(blocks.shape))):
        length = min(2 * blocks.shape[axis], unit[axis] * ceil_div(blocks.plan.output_shape[axis], unit[axis]))
        if blocks.shape[axis] < blocks.plan.output_shape[axis]:
            yield Blocks(blocks.plan, (*blocks.shape[:axis], length, *blocks.shape[axis + 1 :]))


def _decoded_per_output(blocks: Blocks, chunks: Sequence[int] | None) -> float:
    """The number of input elements that are decoded for each output of the largest block."""
    region, decoded = blocks.largest, 1.0
    for axis, span in enumerate(region.aligned.reads):
        chunk = chunks[axis] if chunks else 1
        stop = min(blocks.plan.input_shape[axis], ceil_div(span.stop, chunk) * chunk)
        decoded *= stop - span.start // chunk * chunk
    return decoded / max(1, prod(region.output_shape))


def divide(
    plan: Plan,
    limit: int | None,
    unit: tuple[int, ...] | None,
    chunks: tuple[int, ...] | None,
    beside: int = 0,
    *,
    front_to_back: bool = False,
    indices: bool = False,
) -> Iterable[Region]:
    """Divides the output into parts that fit a memory limit, `beside` bytes of which are needed for reading.

    Parts are blocks of whole units of the output file, or along the chunks of the input file; if neither file is
    chunked, or `front_to_back` for a stream, they follow each other in C order. Refuses a plan whose smallest part
    is too large.
    """
    # Indices take memory beside the values, so parts are smaller by their share.
    data, positions = bytes_of_plan(plan), POSITION_BYTES * prod(plan.output_shape) if indices else 0
    share = data / (data + positions) if data else 1.0
    left = None if limit is None else limit - beside
    found: Iterable[Region]
    if unit is None and (chunks is None or front_to_back):
        tile = int(bytes_of_tile(left) * share)
        found = parts_of(whole(plan), tile)
        # The largest part is among the first three.
        largest = max((part.nbytes for part in islice(parts_of(whole(plan), tile), 3)), default=0)
    else:
        if unit is None:  # the output of about one chunk of the input
            sizes = zip(chunks or plan.input_shape, plan.input_shape, plan.output_shape, strict=True)
            unit = tuple(max(1, min(chunk, n) * out // max(n, 1)) for chunk, n, out in sizes)
        found = blocks = blocks_of(plan, unit, chunks, int(bytes_of_block(left) * share))
        largest = blocks.largest.aligned.nbytes if len(blocks) else 0
    if limit is not None and largest * 2 + beside > limit:
        raise RequestError(
            f"the smallest part that can be pooled by itself needs {human_bytes(largest * 2 + beside)}, but the "
            f"limit is {human_bytes(limit)}; raise {field('max_memory')}"
        )
    return found


def bytes_of_plan(plan: Plan) -> int:
    """The bytes of the input and the output of a plan."""
    return whole(plan).nbytes


def bytes_of_tile(limit: int | None) -> int:
    """The bytes of a tile under a memory limit."""
    return TILE_BYTES if limit is None else max(1, min(TILE_BYTES, limit // TILES_IN_MEMORY))


def bytes_of_block(limit: int | None) -> int:
    """The most bytes of a block under a memory limit."""
    return MAX_BLOCK_BYTES if limit is None else max(1, min(MAX_BLOCK_BYTES, limit // TILES_IN_MEMORY))


def check_fits(needed: int, limit: int | None) -> None:
    """Refuses an array that must be in memory whole and needs more bytes than the limit."""
    in_parts = " (one array of a .h5 or .zarr, or of a .npy file in C order, can be pooled in parts, this cannot)"
    check_memory("needs", needed, limit, remedy=in_parts)


PHASES = ("load", "read", "compile", "compute", "write")


@dataclass(slots=True)
class Clock:
    """The seconds of each phase of a job; of phases that overlap, the time that the main thread waited.

    "load" is the import of packages, which takes long for the first file of a process only.
    """

    seconds: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside the block to phase `name`, less that of imports and of kernels ("load", "compile")."""
        start, loaded, compiled = time.perf_counter(), LOADED.seconds, COMPILED.seconds
        try:
            yield
        finally:
            loading, compiling = LOADED.seconds - loaded, COMPILED.seconds - compiled
            self.seconds["load"] += loading
            self.seconds["compile"] += compiling
            self.seconds[name] += time.perf_counter() - start - loading - compiling


def no_progress(done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def begin(progress: Progress, total: int) -> None:
    """Shows the progress of large work before the first part of it is done, which may take seconds."""
    if total > SHOWN_BYTES:
        progress(0, total)


@dataclass(frozen=True, slots=True)
class Work:
    """A plan with how it is computed: with or without indices, by which engine, on how many threads.

    If `may_fall_back`, numpy computes what no kernel can be built for, and `reasons` says why.
    """

    plan: Plan
    indices: bool
    engine: str
    threads: int | None
    clock: Clock = dataclasses.field(default_factory=Clock)
    progress: Progress = no_progress
    may_fall_back: bool = True
    reasons: list[str] = dataclasses.field(default_factory=list)
    moved: list[int] = dataclasses.field(default_factory=list)  # numbers of results that were moved from nodata

    def note(self, reason: str | None) -> None:
        """Keeps the reason why numpy computed a part, here or in another process; each reason once."""
        if reason is not None and reason not in self.reasons:
            self.reasons.append(reason)

    @property
    def notes(self) -> list[str]:
        """The notes for the user."""
        return [*(f"computed by numpy: {reason}" for reason in self.reasons), *moved_notes(self.plan, sum(self.moved))]


def make_work(
    plan: Plan, engine: str, threads: int | None, clock: Clock, progress: Progress, indices: bool = False
) -> Work:
    """The work of a process that runs the plan once, with the engine chosen."""
    chosen = choose_engine(plan, engine, MIN_WORK_TO_LOAD).name
    return Work(plan, indices, chosen, threads, clock, progress, engine == "auto")


def moved_notes(plan: Plan, count: int) -> list[str]:
    """The note on valid results that were moved away from the missing value."""
    if not count:
        return []
    from poolcli.engine.numpy.missing import kept_neighbour, nodata_of

    nodata = nodata_of(plan)
    told = "1 valid result is" if count == 1 else f"{count:,} valid results are"
    neighbour = kept_neighbour(nodata, numpy_dtype(plan.output_dtype))
    return [f"{told} {nodata:.9g}, the missing value: written as {neighbour:.9g}, so that readers keep them"]


def pool_part(
    work: Work, region: Region, slab: Array, hidden: Array | None = None, wanted: tuple[slice, ...] = ()
) -> Results:
    """The values and indices of a region, from the slab that it reads; `hidden` marks masked elements of the slab.
    Results outside of the `wanted` ones are not counted in notes.
    """
    with work.clock.phase("compute"):
        tell = work.note if work.may_fall_back else None
        call = call_of(
            region, indices=work.indices, engine=work.engine, tell=tell, mask=hidden,
            moved=lambda found: work.moved.append(int(found[wanted].sum())),
        )  # fmt: skip
        return call(slab, threads=work.threads)


def pool_aligned(work: Work, region: Region, slab: Array) -> Results:
    """As `pool_part`, for any region and from what its aligned region reads.

    The order of additions, and so the bits, depend on where a region begins: the aligned one begins at a multiple of
    the grain, as in the whole array, and outputs before the region itself are dropped.
    """
    aligned = region.aligned
    inside = slices(region.outputs, aligned.outputs)
    values, indices = pool_part(work, aligned, slab, wanted=inside)
    return values[inside], None if indices is None else indices[inside]


def pool_block(work: Work, read: Read, block: Region, most: int | None) -> Results:
    """Reads and pools a block; one of more than `most` bytes in parts, without indices."""
    if most is None or block.aligned.nbytes <= most:
        return pool_aligned(work, block, read(block.aligned.reads))
    values = np.empty(block.output_shape, work.plan.output_dtype)
    for part in parts_of(block, most):
        values[slices(part.outputs, block.outputs)] = pool_aligned(work, part, read(part.aligned.reads))[0]
    return values, None


def pool_in_tiles(work: Work, read: Read, sinks: Sequence[RegionWriter], parts: Iterable[Region]) -> None:
    """Pools part by part: values go to the first sink, indices to the second. Parts that all sinks hold are skipped.

    One thread reads the next part and another one writes the last, while this one computes.
    """
    from concurrent.futures import ThreadPoolExecutor

    total, done = bytes_of_plan(work.plan), 0
    missing = (part for part in parts if not all(sink.holds(part.outputs) for sink in sinks))
    with ThreadPoolExecutor(1, "read") as reader, ThreadPoolExecutor(1, "write") as writer:
        ahead = ((part, reader.submit(read, part.aligned.reads)) for part in missing)
        written: Future[None] = writer.submit(_write_results, (), (), ())
        following = next(ahead, None)
        while following is not None:
            part, slab = following
            with work.clock.phase("read"):
                x = slab.result()
            following = next(ahead, None)  # is read while this one is computed
            results = pool_aligned(work, part, x)
            check_stopped()
            with work.clock.phase("write"):
                written.result()
                written = writer.submit(_write_results, sinks, part.outputs, results)
            done += part.nbytes
            work.progress(min(done, total), total)
        with work.clock.phase("write"):
            written.result()


def _write_results(writers: Sequence[Write], outputs: Ranges, results: Sequence[Array | None]) -> None:
    for write, array in zip(writers, results, strict=False):
        if array is not None:
            write(outputs, array)


@runtime_checkable
class SharedWriter(RegionWriter, Protocol):
    """A sink that other processes can write to, by its `writer`, which can be pickled."""

    @property
    def writer(self) -> Write: ...


@dataclass(frozen=True, slots=True)
class FileOpener:
    """Opens a file and gives the function that reads its regions; other processes get this instead of an open file."""

    source: Source
    options: ReadOptions

    @contextmanager
    def __call__(self) -> Iterator[Read]:
        with open_array(self.source, self.options) as file:
            yield file.read


Opener = Callable[[], AbstractContextManager[Read]]
BlockNote = tuple[str | None, int]  # why numpy computed a block, and how many results were moved from nodata


@dataclass(frozen=True, slots=True)
class RemoteBlocks:
    """Computes blocks of some work in another process; it can be pickled.

    `reading` opens the input; a block of more than `most` bytes is computed in pieces.
    """

    reading: Opener
    work: Work
    blocks: Sequence[Region]
    writers: tuple[Write, ...]
    most: int | None = None

    def __call__(self, numbers: Sequence[int]) -> list[BlockNote]:
        """Reads, pools and writes the blocks with these numbers; returns for each why numpy computed it, or None, and
        how many results were moved from the missing value.
        """
        notes = list[BlockNote]()
        with self.reading() as read:
            for number in numbers:
                block = self.blocks[number]
                self.work.moved.clear()
                _write_results(self.writers, block.outputs, pool_block(self.work, read, block, self.most))
                notes.append((next(iter(self.work.reasons), None), sum(self.work.moved)))
        return notes


# Runs blocks with these numbers, at most so many of them, in other processes; calls the last argument with each number
# whose block is written, and with what RemoteBlocks returned for it.
Distribute = Callable[[RemoteBlocks, Iterator[int], int, Callable[[int, BlockNote], None]], None]


def pool_distributed(
    distribute: Distribute,
    work: Work,
    reading: Opener,
    sinks: Sequence[SharedWriter],
    blocks: Sequence[Region],
    most: int | None = None,
) -> None:
    """Pools blocks as `pool_in_tiles` does parts, in other processes."""
    total, written = bytes_of_plan(work.plan), 0
    theirs = Work(work.plan, work.indices, work.engine, threads=1, may_fall_back=work.may_fall_back)
    parts = RemoteBlocks(reading, theirs, blocks, tuple(sink.writer for sink in sinks), most)
    missing = (n for n, block in enumerate(blocks) if not all(sink.holds(block.outputs) for sink in sinks))

    def done(number: int, found: BlockNote) -> None:
        nonlocal written
        reason, moved = found
        work.note(reason)
        work.moved.append(moved)
        written += blocks[number].nbytes
        work.progress(min(written, total), total)

    with work.clock.phase("compute"):
        distribute(parts, missing, len(blocks), done)
