"""A plan computed part by part, so that memory does not grow with the input: reading, pooling and writing overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.formats.records import RegionWriter
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region, parts_of, whole
from poolcli.pooling.blocks import LARGEST, blocks_of, unit_for
from poolcli.pooling.timing import Clock
from poolcli.system.signals import check_stopped

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from numpy.typing import NDArray

    Array = NDArray[Any]

Unit = tuple[int, ...] | None
TILE = 16 * 2**20  # bytes of input and output together; larger ones were not faster
POSITION = 16  # bytes of an index, and of the position in a plane that it is made from
HELD = 6  # tiles in memory at once: one read ahead, one in work with its buffers, one being written


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be computed: values, and positions where `indices` is true, by `engine` on `threads` threads; by numpy
    where `may_fall_back` and no kernel can be built, for which `reasons` then has the reason.
    """

    plan: Plan
    indices: bool
    engine: str
    threads: int | None
    clock: Clock
    progress: Callable[[int, int], None]  # bytes done, bytes in all
    may_fall_back: bool = True
    reasons: list[str] = dataclasses.field(default_factory=list)


def pool_in_tiles(
    work: Work, read: Callable[[Ranges], Array], sinks: Sequence[RegionWriter], parts: Iterable[Region]
) -> None:
    """Hands the values to the first sink and the positions to the second, part by part, without those that the sinks
    hold already.
    """
    from concurrent.futures import ThreadPoolExecutor

    total, done = bytes_of(work.plan), 0
    waiting = (part for part in parts if not all(sink.holds(part.outputs) for sink in sinks))
    first = next(waiting, None)
    with ThreadPoolExecutor(1, "read") as reader, ThreadPoolExecutor(1, "write") as writer:
        ahead = _read_ahead(work, reader, read, first)
        written: Future[None] | None = None
        while ahead is not None:
            part, slab = ahead
            with work.clock.phase("read"):
                x = slab.result()
            ahead = _read_ahead(work, reader, read, next(waiting, None))
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


def regions(plan: Plan, most: int) -> Iterator[Region]:
    """The whole output in parts, each with its input at most about `most` bytes."""
    return parts_of(whole(plan), most)


def bytes_of(plan: Plan) -> int:
    """The bytes of the input and the output."""
    return whole(plan).nbytes


def _read_ahead(
    work: Work, reader: ThreadPoolExecutor, read: Callable[[Ranges], Array], part: Region | None
) -> tuple[Region, Future[Array]] | None:
    return None if part is None else (part, reader.submit(read, part.aligned.reads))


def pool_part(work: Work, region: Region, slab: Array) -> tuple[Array, Array | None]:
    """The values and positions of a part, or of the whole, from what it reads."""
    from poolcli.engine import run_region
    from poolcli.engine.compiled.load import seconds_spent

    before = seconds_spent()
    with work.clock.phase("compute"):
        tell = work.reasons.append if work.may_fall_back else None
        results = run_region(region, slab, indices=work.indices, engine=work.engine, threads=work.threads, tell=tell)
    work.clock.move("compute", "compile", seconds_spent() - before)
    return results


def pool_aligned(work: Work, region: Region, slab: Array) -> tuple[Array, Array | None]:
    """As `pool_part`, of any region, from what its aligned one reads: with the bits of the whole."""
    whole_grains = region.aligned
    values, places = pool_part(work, whole_grains, slab)
    starts = zip(region.outputs, whole_grains.outputs, strict=True)
    inside = tuple(slice(own.start - other.start, None) for own, other in starts)
    return values[inside], None if places is None else places[inside]


def _append(sinks: Sequence[RegionWriter], outputs: Ranges, results: tuple[Array, Array | None]) -> None:
    for sink, array in zip(sinks, results, strict=False):
        if array is not None:
            sink(outputs, array)


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
) -> Iterable[Region]:
    """The output in parts under a limit of memory: of whole units of what is written, along the chunks of what is read,
    or one behind the other in C order. `beside` is memory that is taken beside the parts. Refuses a plan whose smallest
    part is too large.
    """
    data, positions = bytes_of(plan), POSITION * prod(plan.output_shape) if indices else 0
    share = data / (data + positions) if data else 1.0
    if unit is None and (chunks is None or front_to_back):
        tile = max(1, int(tile_for(limit, beside) * share))
        _check_largest(max((part.nbytes for part in _some(regions(plan, tile))), default=0), limit, beside)
        return regions(plan, tile)
    most = LARGEST if limit is None else max(1, min(LARGEST, int((limit - beside) // HELD * share)))
    blocks = blocks_of(plan, unit or unit_for(plan, chunks or plan.input_shape), chunks, most)
    _check_largest(blocks.largest.aligned.nbytes if len(blocks) else 0, limit, beside)
    return blocks


def _check_largest(largest: int, limit: int | None, beside: int) -> None:
    if limit is not None and largest * 2 + beside > limit:
        raise RequestError(
            f"the smallest part that can be pooled by itself needs {human_bytes(largest * 2 + beside)}, the limit is "
            f"{human_bytes(limit)}; raise {field('max_memory')}"
        )


def _some(parts: Iterator[Region]) -> Iterator[Region]:
    """The first parts: the largest is among them."""
    for _, part in zip(range(3), parts, strict=False):
        yield part
