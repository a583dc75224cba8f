"""One array of an open input: read, pooled and written, in parts where the file can be read in parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError
from poolcli.core.layouts import convert_layout
from poolcli.formats import Metadata, Opened, Spec, WriteOptions, format_of, sink, write
from poolcli.formats.arrays import human_bytes
from poolcli.formats.records import Fresh, Sink, slices, whole_region
from poolcli.formats.state import State, state_of
from poolcli.job.clock import Clock
from poolcli.job.colour import PREMULTIPLIED, pool_colours
from poolcli.job.job import Job
from poolcli.job.metadata import scaled_metadata
from poolcli.job.outcome import Outcome, Settings, Stored
from poolcli.job.tiles import TILE, Work, bytes_of, pool_in_tiles, pool_part, tile_for
from poolcli.plan import Plan
from poolcli.plan.region import Region, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def pool_file(outcome: Outcome, settings: Settings, file: Opened, clock: Clock, progress: Progress) -> Outcome:
    """Reads, pools and writes what the outcome has been prepared for."""
    work = _work(outcome, settings, file.streams, clock, progress)
    notes = _read_pool_write(work, outcome, settings, file)
    return replace(_ran(outcome, work), notes=(*outcome.notes, *notes))


def pool_to_memory(
    outcome: Outcome, settings: Settings, file: Opened, clock: Clock
) -> tuple[Outcome, NDArray[Any], NDArray[Any] | None, Metadata]:
    """The outcome, and in the layout in which they are to be stored: values, positions, and what goes with them."""
    work = _work(outcome, settings, False, clock, lambda done, total: None)
    plan, output = work.plan, outcome.output
    assert output is not None  # noqa: S101  # set by prepare_job
    values, positions = _pool_whole(work, outcome, settings, file)
    turned = convert_layout(values, plan.layout, output.layout)
    where = None if positions is None else convert_layout(positions, plan.layout, output.layout)
    return _ran(outcome, work), turned, where, scaled_metadata(file.metadata, plan)


def _ran(outcome: Outcome, work: Work) -> Outcome:
    from poolcli.engine.threads import allowed_threads

    threads = allowed_threads(work.threads) if work.engine == "numba" else 1
    return replace(outcome, engine=work.engine, threads=threads)


def _work(outcome: Outcome, settings: Settings, streams: bool, clock: Clock, progress: Progress) -> Work:
    """The work with its engine loaded; refused where it must be held in memory and is too large."""
    from poolcli.engine import prepare

    plan, header = outcome.plan, outcome.header
    assert plan is not None and header is not None  # noqa: PT018, S101  # set by prepare_job
    needed, limit = bytes_of(plan), settings.max_memory
    if limit is not None and not streams and needed > limit:
        raise FileError(
            f"needs {human_bytes(needed)} of memory, the limit is {human_bytes(limit)}; raise --max-memory "
            "(one array of a .h5 file, or of a .npy file in C order, can be pooled in parts, this cannot)"
        )
    with clock.phase("compute"):
        engine = prepare(plan, settings.engine, many=settings.many)
    return Work(plan, outcome.indices is not None, engine, settings.threads, clock, progress)


def _read_pool_write(work: Work, outcome: Outcome, settings: Settings, file: Opened) -> list[str]:
    """Reads, pools and writes; returns notes on what could not be kept."""
    targets = [stored for stored in (outcome.output, outcome.indices) if stored and stored.path]
    if not file.streams:
        results = _pool_whole(work, outcome, settings, file)
        found = [array for array in results if array is not None]
        with work.clock.phase("write"):
            return [
                note
                for i, (target, array) in enumerate(zip(targets, found, strict=False))
                for note in _write(target, array, outcome, work.plan, settings, None if i else file.metadata)
            ]
    path = outcome.job.source.path
    before = _state_of(path)
    tile = tile_for(work.plan, settings.max_memory)
    notes: list[str] = []
    with ExitStack() as stack:
        sinks = [
            _sink(stack, target, outcome, work.plan, settings, None if i else file.metadata, notes)
            for i, target in enumerate(targets)
        ]
        pool_in_tiles(work, file.read, sinks, tile)
        _check_unchanged(path, before)
    return notes


def _state_of(path: str) -> State | None:
    return None if path == "-" else state_of(path)


def _check_unchanged(path: str, before: State | None) -> None:
    try:
        changed = _state_of(path) != before
    except OSError:
        changed = True
    if changed:
        raise FileError(f"{path}: changed while it was being read; run again when it is at rest")


def _pool_whole(
    work: Work, outcome: Outcome, settings: Settings, file: Opened
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    path = outcome.job.source.path
    before = _state_of(path)
    with work.clock.phase("read"):
        x = file.read(whole_region(work.plan.input_shape))
    _check_unchanged(path, before)
    weighted = PREMULTIPLIED in outcome.notes
    if not weighted and not settings.linear_light:
        return pool_part(work, whole(work.plan), x)

    def pool(region: Region, slab: NDArray[Any]) -> NDArray[Any]:
        return pool_part(work, region, slab)[0]

    return pool_colours(pool, work.plan, x, weighted, settings.linear_light), None


def _sink(
    stack: ExitStack,
    target: Stored,
    outcome: Outcome,
    plan: Plan,
    settings: Settings,
    metadata: Metadata | None,
    notes: list[str],
) -> Sink:
    """Takes the regions of one result: into the file itself where its format can, else into memory until the end."""
    import numpy as np

    path = str(target.path)
    key = outcome.header.key if outcome.header else None
    if target.layout == plan.layout:
        kept = scaled_metadata(metadata, plan) if metadata else Metadata()
        long = format_of(path).resumable and bytes_of(plan) > TILE
        identity = _identity(outcome.job, plan) if settings.resume and long else None
        direct = sink(
            path,
            Spec(target.shape, target.dtype, target.layout, key, kept),
            WriteOptions(settings.overwrite, settings.quality, identity),
        )
        if direct is not None:
            return stack.enter_context(direct)
    whole = np.empty(plan.output_shape, target.dtype)

    def finish(kind: object, *_: object) -> None:
        if kind is None:
            notes.extend(_write(target, whole, outcome, plan, settings, metadata))

    stack.push(finish)
    return Fresh(lambda region, array: whole.__setitem__(slices(region), array))


def _identity(job: Job, plan: Plan) -> str:
    """Names the work of a job, so that it is only continued where it is the same: the plan and the input's state."""
    from importlib.metadata import version

    text = repr((version("poolcli"), plan, job.source, state_of(job.source.path)[:2]))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _write(
    target: Stored,
    array: NDArray[Any],
    outcome: Outcome,
    plan: Plan,
    settings: Settings,
    metadata: Metadata | None,
) -> tuple[str, ...]:
    return write(
        str(target.path),
        convert_layout(array, plan.layout, target.layout),
        target.layout,
        key=outcome.header.key if outcome.header else None,
        metadata=scaled_metadata(metadata, plan) if metadata else None,
        overwrite=settings.overwrite,
        mode=outcome.header.mode if outcome.header else None,
        quality=settings.quality,
    )
