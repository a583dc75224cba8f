"""One array of an open input: read, pooled and written, in parts where the file can be read in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import lookup
from poolcli.errors import FileError, RequestError
from poolcli.formats import ArrayReader, Metadata, RegionWriter, format_of
from poolcli.formats.checks import human_bytes
from poolcli.formats.files import Fingerprint, check_unchanged, fingerprint_of
from poolcli.formats.records import whole_region
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.plan.region import Region, whole
from poolcli.pooling.colour import pool_colours
from poolcli.pooling.outcome import Outcome, Settings, Stored
from poolcli.pooling.tiles import (
    POSITION,
    Shared,
    Spread,
    Work,
    bytes_of,
    parts_for,
    pool_in_tiles,
    pool_part,
    pool_spread,
    tile_for,
)
from poolcli.pooling.timing import Clock
from poolcli.pooling.write import Writer, scaled_metadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def pool_file(
    outcome: Outcome,
    settings: Settings,
    file: ArrayReader,
    clock: Clock,
    progress: Progress,
    spread: Spread | None = None,
) -> Outcome:
    """Reads, pools and writes what the outcome has been prepared for."""
    work = _work(outcome, settings, file.streams, clock, progress)
    notes = _read_pool_write(work, outcome, settings, file, spread)
    ran = _ran(outcome, work)
    return replace(ran, notes=(*ran.notes, *notes))


def pool_to_memory(
    outcome: Outcome, settings: Settings, file: ArrayReader, clock: Clock
) -> tuple[Outcome, NDArray[Any], NDArray[Any] | None, Metadata]:
    """The outcome, and in the layout in which they are to be stored: values, positions, and what goes with them."""
    work = _work(outcome, settings, False, clock, lambda done, total: None)
    plan, output = work.plan, outcome.output
    assert output is not None  # noqa: S101  # set by prepare_job
    values, positions = _pool_whole(work, outcome, file, fingerprint_of(outcome.job.source.path))
    turned = convert_layout(values, plan.layout, output.layout)
    where = None if positions is None else convert_layout(positions, plan.layout, output.layout)
    return _ran(outcome, work), turned, where, scaled_metadata(file.metadata, plan, output.layout)


def _ran(outcome: Outcome, work: Work) -> Outcome:
    from poolcli.engine.choose import ENGINES, NUMPY
    from poolcli.engine.threads import allowed_threads

    engine = NUMPY if work.reasons else ENGINES[work.engine]
    notes = (f"computed by numpy: {reason}" for reason in dict.fromkeys(work.reasons))
    threads = allowed_threads(work.threads) if engine.is_threaded else 1
    return replace(outcome, engine=engine.name, threads=threads, notes=(*outcome.notes, *notes))


def _work(outcome: Outcome, settings: Settings, streams: bool, clock: Clock, progress: Progress) -> Work:
    """The work with its engine loaded; refused where it must be held in memory and is too large."""
    from poolcli.engine import prepare

    plan, header = outcome.plan, outcome.header
    assert plan is not None and header is not None  # noqa: PT018, S101  # set by prepare_job
    needed, limit = _memory_at_once(outcome), settings.max_memory
    if limit is not None and not streams and needed > limit:
        raise FileError(
            f"needs {human_bytes(needed)} of memory, the limit is {human_bytes(limit)}; raise {field('max_memory')} "
            "(one array of a .h5 or .zarr, or of a .npy file in C order, can be pooled in parts, this cannot)"
        )
    with clock.phase("compute"):
        engine = prepare(plan, settings.engine)
    return Work(plan, outcome.indices is not None, engine, settings.threads, clock, progress, settings.engine == "auto")


def _memory_at_once(outcome: Outcome) -> int:
    """The bytes that a whole array takes: read, pooled, with positions, and brought into the order it is stored in."""
    plan, header, output = outcome.plan, outcome.header, outcome.output
    assert plan is not None and header is not None  # noqa: PT018, S101  # set by prepare_job
    count = prod(plan.output_shape)
    turned = output is not None and output.layout != plan.layout
    encoded = output is not None and output.path not in (None, "-") and format_of(str(output.path)).picture
    copies = (turned + encoded) * lookup(plan.output_dtype).itemsize
    positions = POSITION * (1 + turned) if outcome.indices else 0
    return bytes_of(plan) + header.beside + count * (copies + positions)


def _read_pool_write(
    work: Work, outcome: Outcome, settings: Settings, file: ArrayReader, spread: Spread | None
) -> list[str]:
    """Reads, pools and writes; returns notes on what could not be kept."""
    targets = [stored for stored in (outcome.output, outcome.indices) if stored and stored.path]
    path = outcome.job.source.path
    before = fingerprint_of(path)
    writer = Writer(outcome, work.plan, settings, before)
    beside = file.header.beside
    if settings.part and not file.streams:
        raise RequestError(
            f"{field('shard')} needs an input that can be read in parts: .zarr, .h5, or a .npy in C order"
        )
    if settings.part is None and (not file.streams or bytes_of(work.plan) <= tile_for(settings.max_memory, beside)):
        results = _pool_whole(work, outcome, file, before)
        with work.clock.phase("write"):
            for i, (target, array) in enumerate(zip(targets, (a for a in results if a is not None), strict=False)):
                writer.write(target, array, None if i else file.metadata)
        return writer.notes
    with ExitStack() as stack:
        sinks = [writer.open_writer(stack, target, None if i else file.metadata) for i, target in enumerate(targets)]
        parts = _parts(work, settings.max_memory, beside, sinks, file.chunks, targets)
        if settings.part is not None:
            parts = _own(parts, sinks, settings.part, writer.notes)
        if spread is not None and isinstance(parts, Sequence) and all(isinstance(sink, Shared) for sink in sinks):
            pool_spread(spread, work, outcome.job.source, settings.read_options, sinks, parts)
        else:
            pool_in_tiles(work, file.read, sinks, parts)
        check_unchanged(path, before)
    return writer.notes


def _parts(
    work: Work,
    limit: int | None,
    beside: int,
    sinks: Sequence[RegionWriter],
    chunks: tuple[int, ...] | None,
    targets: Sequence[Stored],
) -> Iterable[Region]:
    """The parts that all sinks can take."""
    units = [sink.unit for sink in sinks if sink.unit]
    unit = tuple(map(lcm, *units)) if len(units) > 1 else units[0] if units else None
    plan, front_to_back = work.plan, any(target.path == "-" for target in targets)
    return parts_for(plan, limit, unit, chunks, beside, front_to_back=front_to_back, indices=work.indices)


def _own(
    parts: Iterable[Region], sinks: Sequence[RegionWriter], part: tuple[int, int], notes: list[str]
) -> Iterable[Region]:
    """Those that are this process's own: one behind the other."""
    if not isinstance(parts, Sequence) or not all(isinstance(sink, Shared) for sink in sinks):
        raise RequestError(f"{field('shard')} needs an output with its axes in the order of the input's")
    (number, count), regions = part, len(parts)
    first, stop = regions * (number - 1) // count, regions * number // count
    notes.append(f"shard {number}/{count}: {stop - first} of {regions} regions; merge makes the output of all shards")
    return (parts[place] for place in range(first, stop))


def _pool_whole(
    work: Work, outcome: Outcome, file: ArrayReader, before: Fingerprint
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Reads and pools all at once; refused where the input is not as it was `before`."""
    from poolcli.engine.ahead import meanwhile_loaded

    with work.clock.phase("read"), meanwhile_loaded(work.plan, work.indices, work.engine):
        x = file.read(whole_region(work.plan.input_shape))
    check_unchanged(outcome.job.source.path, before)
    if outcome.colour.is_plain:
        return pool_part(work, whole(work.plan), x)

    def pool(region: Region, slab: NDArray[Any]) -> NDArray[Any]:
        return pool_part(work, region, slab)[0]

    return pool_colours(pool, work.plan, x, outcome.colour), None
