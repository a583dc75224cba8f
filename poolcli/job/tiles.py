"""A plan computed part by part, so that memory does not grow with the input: reading, pooling and writing overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.core.dtypes import lookup
from poolcli.core.errors import RequestError
from poolcli.formats.arrays import human_bytes
from poolcli.formats.records import Region, Sink, whole_region
from poolcli.job.clock import Clock
from poolcli.plan import Plan

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from numpy.typing import NDArray

    Array = NDArray[Any]

TILE = 16 * 2**20  # bytes of input and output together; larger ones were not faster
HELD = 6  # tiles in memory at once: one read ahead, one in work with its buffers, one being written


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be computed: values, and positions where `indices` is true, by `engine` on `threads` threads."""

    plan: Plan
    indices: bool
    engine: str
    threads: int | None
    clock: Clock
    progress: Callable[[int, int], None]  # bytes done, bytes in all


def pool_in_memory(work: Work, read: Callable[[Region], Array]) -> tuple[Array, Array | None]:
    """The whole result from one read."""
    plan = work.plan
    with work.clock.phase("read"):
        x = read(whole_region(plan.input_shape))
    return pool_part(work, plan, x)


def pool_in_tiles(work: Work, read: Callable[[Region], Array], sinks: Sequence[Sink], tile: int) -> None:
    """Hands the values to the first sink and the positions to the second, region by region, in C order."""
    if bytes_of(work.plan) <= tile:
        results = pool_in_memory(work, read)
        with work.clock.phase("write"):
            _start(sinks, 0)
            _append(sinks, whole_region(work.plan.output_shape), results)
        return
    from concurrent.futures import ThreadPoolExecutor

    total, done = bytes_of(work.plan), 0
    waiting = _missing(work.plan, regions(work.plan, tile), sinks)
    first = next(waiting, None)
    with ThreadPoolExecutor(1, "read") as reader, ThreadPoolExecutor(1, "write") as writer:
        ahead = _read_ahead(work, reader, read, first)
        written: Future[None] | None = None
        while ahead is not None:
            outputs, part, slab = ahead
            with work.clock.phase("read"):
                x = slab.result()
            ahead = _read_ahead(work, reader, read, next(waiting, None))
            results = pool_part(work, part, x)
            with work.clock.phase("write"):
                if written:
                    written.result()
                written = writer.submit(_append, sinks, outputs, results)
            done += bytes_of(part)
            work.progress(min(done, total), total)
        with work.clock.phase("write"):
            if written:
                written.result()


def _missing(plan: Plan, parts: Iterator[Region], sinks: Sequence[Sink]) -> Iterator[Region]:
    """The regions that the sinks do not hold all of."""
    held, end, started = min((sink.held for sink in sinks), default=0), 0, False
    for outputs in parts:
        begin, end = end, end + prod(map(len, outputs))
        if end > held:
            if not started:
                _start(sinks, begin)
            started = True
            yield outputs
    if not started:
        _start(sinks, end)


def _start(sinks: Sequence[Sink], elements: int) -> None:
    for sink in sinks:
        sink.start_at(elements)


def regions(plan: Plan, most: int) -> Iterator[Region]:
    """The output in parts that lie one behind the other in C order, each with its input at most about `most` bytes."""
    if prod(plan.output_shape):
        yield from _regions(plan, whole_region(plan.output_shape), 0, most)


def bytes_of(plan: Plan, outputs: Region | None = None) -> int:
    """The bytes of a region of the output (all of it without one) and of the input that it reads."""
    read = plan.input_shape if outputs is None else _lengths_read(plan, outputs)
    written = plan.output_shape if outputs is None else tuple(map(len, outputs))
    return prod(read) * lookup(plan.dtype).itemsize + prod(written) * lookup(plan.output_dtype).itemsize


def _regions(plan: Plan, outputs: Region, axis: int, most: int) -> Iterator[Region]:
    if bytes_of(plan, outputs) <= most or axis == len(outputs):
        yield outputs
        return
    grain = next((a.windows.grain for a in plan.axes if a.position == axis), 1)
    whole = outputs[axis]

    def cut(start: int, stop: int) -> Region:
        return (*outputs[:axis], range(start, min(stop, whole.stop)), *outputs[axis + 1 :])

    one = bytes_of(plan, cut(0, grain))
    more = bytes_of(plan, cut(0, 2 * grain)) - one
    grains = 1 + max(0, most - one) // max(more, 1)
    for start in range(0, len(whole), grain * grains):
        part = cut(start, start + grain * grains)
        if one > most and grain == 1:
            yield from _regions(plan, part, axis + 1, most)
        else:
            yield part


def _lengths_read(plan: Plan, outputs: Region) -> list[int]:
    lengths = [len(indices) for indices in outputs]
    for axis in plan.axes:
        lengths[axis.position] = len(axis.windows.part(outputs[axis.position])[1])
    return lengths


def _read_ahead(
    work: Work, reader: ThreadPoolExecutor, read: Callable[[Region], Array], outputs: Region | None
) -> tuple[Region, Plan, Future[Array]] | None:
    if outputs is None:
        return None
    part, region = work.plan.part(outputs)
    return outputs, part, reader.submit(read, region)


def pool_part(work: Work, plan: Plan, x: Array) -> tuple[Array, Array | None]:
    """The values and positions of a part, or of the whole."""
    from poolcli.engine import run
    from poolcli.engine.compiled.cache import seconds_spent

    before = seconds_spent()
    with work.clock.phase("compute"):
        results = run(plan, x, indices=work.indices, engine=work.engine, threads=work.threads)
    work.clock.move("compute", "compile", seconds_spent() - before)
    return results


def _append(sinks: Sequence[Sink], outputs: Region, results: tuple[Array, Array | None]) -> None:
    for sink, array in zip(sinks, results, strict=False):
        if array is not None:
            sink(outputs, array)


def tile_for(plan: Plan, limit: int | None) -> int:
    """The bytes of a tile under a limit of memory; refuses a plan whose smallest part is too large for it."""
    tile = TILE if limit is None else max(1, min(TILE, limit // HELD))
    largest = max((bytes_of(plan, part) for part in _some(regions(plan, tile))), default=0)
    if limit is not None and largest * 2 > limit:
        raise RequestError(
            f"the smallest part that can be pooled by itself needs {human_bytes(largest * 2)}, the limit is "
            f"{human_bytes(limit)}; raise --max-memory"
        )
    return tile


def _some(parts: Iterator[Region]) -> Iterator[Region]:
    """The first parts: the largest is among them."""
    for _, part in zip(range(3), parts, strict=False):
        yield part
