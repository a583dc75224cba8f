"""Pools in tiles, so that memory does not grow with the input: how an output is divided, and the loop over its parts,
in this process or in others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field as default
from functools import partial
from math import prod
from typing import Any

from poolcli.dtypes import numpy_dtype
from poolcli.engine import call_of
from poolcli.engine.choose import MIN_WORK_TO_LOAD, choose_engine
from poolcli.errors import RequestError
from poolcli.formats import open_array
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.formats.records import ReadOptions, RegionWriter, Source
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.plan import Region, blocks_of, largest_block, part_shape, parts_of, whole
from poolcli.system.lazy_imports import COMPILED, LOADED, Array, numpy as np
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges, Sliding, slices

Read = Callable[[Ranges], Array]
Write = Callable[[Ranges, Array], None]
Lengths = tuple[int, ...] | None
Progress = Callable[[int, int], None]  # bytes done, bytes in all
Results = tuple[Array, Array | None]  # values, and indices if they are wanted
Opener = Callable[[], AbstractContextManager[Read]]
BlockNote = tuple[str | None, int]  # why numpy computed a block, and how many results were moved from nodata

PHASES = ("load", "read", "compile", "compute", "write")

# Sizes are bytes of input and output together.
TILE_BYTES = 16 * 2**20  # larger tiles were not faster
SHOWN_BYTES = 64 * 2**20  # of work whose progress is shown from the start
BLOCK_BYTES = 16 * 2**20  # blocks grow to this size in any case, and beyond it to decode less
MAX_BLOCK_BYTES = 128 * 2**20
TILES_IN_MEMORY = 6  # one read ahead, one in work with its buffers, one being written; input and output of each
POSITION_BYTES = 16  # of an index, and of the position in a plane that it is computed from


def block_shape(plan: Plan, unit: Sequence[int], chunks: Sequence[int] | None, most: int) -> tuple[int, ...]:
    """The shape of blocks of whole units and of at most `most` bytes, unless one unit is larger.

    `chunks` are those of the input. A chunk is decoded whole whenever a block reads a part of it, so blocks of windows
    that overlap grow along their axes, which decodes less for each output.
    """
    region, shape = whole(plan), tuple(unit)
    sliding = [(axis.position, axis.windows) for axis in plan.axes if chunks and isinstance(axis.windows, Sliding)]
    overlapping = [axis for axis, windows in reversed(sliding) if windows.extent > windows.stride]
    while axes := [axis for axis in overlapping if shape[axis] < plan.output_shape[axis]]:
        axis = min(axes, key=lambda axis: shape[axis] // unit[axis])
        grown = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        if largest_block(region, grown).aligned.nbytes > most:
            break
        shape = grown
    return part_shape(region, shape, min(most, BLOCK_BYTES))


def divide(
    plan: Plan, limit: int | None, unit: Lengths, chunks: Lengths, beside: int = 0, *, indices: bool = False
) -> Iterator[Region]:
    """Divides the output into blocks that fit a memory limit, `beside` bytes of which are needed for reading.

    They are of whole units of the output file, or along the chunks of the input file; if neither file is chunked, they
    follow each other in C order. Refuses a plan whose smallest block is too large.
    """
    # Indices take memory beside the values, so blocks are smaller by their share.
    region, positions = whole(plan), POSITION_BYTES * prod(plan.output_shape) if indices else 0
    left = None if limit is None else limit - beside
    most = bytes_of_block(left, MAX_BLOCK_BYTES if unit or chunks else TILE_BYTES) * region.nbytes
    most //= max(1, region.nbytes + positions)
    if unit is None and chunks is not None:  # the output of about one chunk of the input
        sizes = zip(chunks, plan.input_shape, plan.output_shape, strict=True)
        unit = tuple(max(1, min(chunk, n) * out // max(n, 1)) for chunk, n, out in sizes)
    shape = block_shape(plan, unit, chunks, most) if unit else part_shape(region, region.grains, most)
    largest = largest_block(region, shape).aligned.nbytes
    if limit is not None and largest * 2 + beside > limit:
        raise RequestError(
            f"the smallest part that can be pooled by itself needs {human_bytes(largest * 2 + beside)}, but the "
            f"limit is {human_bytes(limit)}; raise {field('max_memory')}"
        )
    return blocks_of(region, shape)


def bytes_of_block(limit: int | None, most: int = MAX_BLOCK_BYTES) -> int:
    """The most bytes of a block, or of a tile, under a memory limit."""
    return most if limit is None else max(1, min(most, limit // TILES_IN_MEMORY))


def check_fits(needed: int, limit: int | None) -> None:
    """Refuses an array that must be in memory whole and needs more bytes than the limit."""
    in_parts = " (one array of a .h5 or .zarr, or of a .npy file in C order, can be pooled in parts, this cannot)"
    check_memory("needs", needed, limit, remedy=in_parts)


@dataclass(slots=True)
class Clock:
    """The seconds of each phase of a job; of phases that overlap, the time that the main thread waited."""

    seconds: dict[str, float] = default(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

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


@dataclass(frozen=True, slots=True)
class Work:
    """A plan with how it is computed: with or without indices, by which engine, on how many threads."""

    plan: Plan
    indices: bool
    engine: str
    threads: int | None
    clock: Clock = default(default_factory=Clock)
    progress: Progress = no_progress
    may_fall_back: bool = True  # to numpy, if no kernel can be built
    reasons: list[str] = default(default_factory=list)  # why it did
    moved: list[int] = default(default_factory=list)  # numbers of results that were moved from nodata

    def note(self, reason: str | None) -> None:
        """Keeps the reason why numpy computed a part; each reason once."""
        if reason is not None and reason not in self.reasons:
            self.reasons.append(reason)

    @property
    def notes(self) -> list[str]:
        """The notes for the user."""
        found, count = [f"computed by numpy: {reason}" for reason in self.reasons], sum(self.moved)
        if count:
            from poolcli.engine.numpy.missing import kept_neighbour, nodata_of

            nodata = nodata_of(self.plan)
            told = "1 valid result is" if count == 1 else f"{count:,} valid results are"
            neighbour = kept_neighbour(nodata, numpy_dtype(self.plan.output_dtype))
            found.append(
                f"{told} {nodata:.9g}, the missing value: written as {neighbour:.9g}, so that readers keep them"
            )
        return found


def make_work(
    plan: Plan, engine: str, threads: int | None, clock: Clock, progress: Progress, indices: bool = False
) -> Work:
    """The work of a process that runs the plan once, with the engine chosen."""
    chosen = choose_engine(plan, engine, MIN_WORK_TO_LOAD).name
    return Work(plan, indices, chosen, threads, clock, progress, engine == "auto")


def pool_part(
    work: Work, region: Region, slab: Array, hidden: Array | None = None, out: Array | None = None
) -> Results:
    """The values and indices of a region, from what its aligned region reads; `hidden` marks masked elements of that.
    The values are written to `out`, if it is given.

    The order of additions, and so the bits, depend on where a region begins: the aligned one begins at a multiple of
    the grain, as in the whole array, and outputs before the region itself are dropped.
    """
    aligned, tell = region.aligned, work.note if work.may_fall_back else None
    inside = slices(region.outputs, aligned.outputs)
    with work.clock.phase("compute"):
        call = call_of(
            aligned, indices=work.indices, engine=work.engine, tell=tell, mask=hidden,
            moved=lambda found: work.moved.append(int(found[inside].sum())),
        )  # fmt: skip
        direct = out is not None and aligned.outputs == region.outputs
        values, indices = call(slab, out if direct else None, threads=work.threads)
    if out is not None and not direct:
        out[...] = values[inside]
    return values[inside], None if indices is None else indices[inside]


def pool_in_memory(work: Work, x: Array, hidden: Callable[[Region], Array | None]) -> Results:
    """Pools the whole array: a large one, of which no indices are wanted, in tiles, to show the progress."""
    region, plan, done = whole(work.plan), work.plan, 0
    if region.nbytes <= SHOWN_BYTES or work.indices:
        return pool_part(work, region, x, hidden(region))
    from poolcli.engine.call import empty_like

    values = empty_like(plan, x, plan.output_shape, numpy_dtype(plan.output_dtype))
    for part in parts_of(region, TILE_BYTES):
        pool_part(work, part, x[slices(part.aligned.reads)], hidden(part.aligned), values[slices(part.outputs)])
        check_stopped()
        done += part.nbytes
        work.progress(min(done, region.nbytes), region.nbytes)
    return values, None


def pool_block(work: Work, read: Read, block: Region, most: int | None) -> Results:
    """Reads and pools a block; one of more than `most` bytes in parts, without indices."""
    if most is None or block.aligned.nbytes <= most:
        return pool_part(work, block, read(block.aligned.reads))
    values = np.empty(block.output_shape, work.plan.output_dtype)
    for part in parts_of(block, most):
        values[slices(part.outputs, block.outputs)] = pool_part(work, part, read(part.aligned.reads))[0]
    return values, None


def pool_in_tiles(work: Work, read: Read, sinks: Sequence[RegionWriter], parts: Iterable[Region]) -> None:
    """Pools part by part: values go to the first sink, indices to the second. Parts that all sinks hold are skipped.

    One thread reads the next part and another one writes the last, while this one computes.
    """
    from concurrent.futures import ThreadPoolExecutor

    total, done = whole(work.plan).nbytes, 0
    missing = (part for part in parts if not all(sink.holds(part.outputs) for sink in sinks))
    with ThreadPoolExecutor(1, "read") as reader, ThreadPoolExecutor(1, "write") as writer:
        ahead = ((part, reader.submit(read, part.aligned.reads)) for part in missing)
        written = writer.submit(_write_results, (), (), ())
        following = next(ahead, None)
        while following is not None:
            part, slab = following
            with work.clock.phase("read"):
                x = slab.result()
            following = next(ahead, None)  # is read while this one is computed
            results = pool_part(work, part, x)
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


@contextmanager
def reading(source: Source, options: ReadOptions, layouts: tuple[str, str] | None = None) -> Iterator[Read]:
    """Opens a file and gives the function that reads its regions; with `layouts` as `read_in_order` does."""
    with open_array(source, options) as file:
        yield partial(read_in_order, file.read, layouts) if layouts else file.read


def read_in_order(read: Read, layouts: tuple[str, str], region: Ranges) -> Array:
    """A region of the second of the two layouts, read from an array of the first."""
    own = tuple(region[layouts[1].index(letter)] for letter in layouts[0])
    return convert_layout(read(own), *layouts)


@dataclass(frozen=True, slots=True)
class RemoteBlocks:
    """Computes blocks of some work in another process; it can be pickled."""

    opener: Opener  # of the input
    work: Work
    writers: tuple[Write, ...]
    most: int | None = None  # bytes of a block that is not computed in pieces

    def __call__(self, outputs: Ranges) -> BlockNote:
        """Reads, pools and writes a block."""
        self.work.moved.clear()
        with self.opener() as read:
            results = pool_block(self.work, read, Region(self.work.plan, outputs), self.most)
            _write_results(self.writers, outputs, results)
        return next(iter(self.work.reasons), None), sum(self.work.moved)


# Runs blocks of these outputs in other processes; calls the last argument with the outputs of each block that is
# written, and with what RemoteBlocks returned for it.
Distribute = Callable[[RemoteBlocks, Iterator[Ranges], Callable[[Ranges, BlockNote], None]], None]


def pool_distributed(
    distribute: Distribute, work: Work, opener: Opener, sinks: Sequence[Any], blocks: Iterable[Region], most: int | None
) -> None:
    """Pools blocks as `pool_in_tiles` does parts, in other processes, which write to the `writer` of each sink."""
    total, written = whole(work.plan).nbytes, 0
    theirs = Work(work.plan, work.indices, work.engine, threads=1, may_fall_back=work.may_fall_back)
    remote = RemoteBlocks(opener, theirs, tuple(sink.writer for sink in sinks), most)
    missing = (block.outputs for block in blocks if not all(sink.holds(block.outputs) for sink in sinks))

    def done(outputs: Ranges, found: BlockNote) -> None:
        nonlocal written
        work.note(found[0])
        work.moved.append(found[1])
        written += Region(work.plan, outputs).nbytes
        work.progress(min(written, total), total)

    with work.clock.phase("compute"):
        distribute(remote, missing, done)
