"""One job from header to written file, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from poolcli.attributes import Attributes
from poolcli.batch.clock import Clock
from poolcli.batch.colour import PREMULTIPLIED, colour_notes, pool_colours
from poolcli.batch.jobs import Job, existing_outputs
from poolcli.batch.outcome import Outcome, Settings, Stored
from poolcli.batch.tiles import Work, bytes_of, pool_in_memory, pool_in_tiles, pool_part, tile_for
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import Header, Metadata, Opened, Source, appended, check_output, opened, write
from poolcli.formats.arrays import human_bytes
from poolcli.formats.records import Fresh, Sink, slices, whole_region
from poolcli.layouts import check_layout, convert_layout, converted_shape
from poolcli.plan import Plan, make_plan
from poolcli.windows import Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def run_job(job: Job, op: Attributes, settings: Settings, progress: Progress = lambda done, total: None) -> Outcome:
    """Runs `job`; a refusal or a failing file is in the outcome's `error`, with the place in its message."""
    if settings.skip_existing and existing_outputs((job,)):
        return Outcome(job, skipped=True)
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        with ExitStack() as stack:
            with clock.phase("read"):
                file = stack.enter_context(opened(job.source, settings.read_options))
            outcome = replace(outcome, **_prepare(job, op, settings, file.header))
            if settings.dry_run:
                return outcome
            return _run(outcome, settings, file, clock, progress)
    except PoolError as error:
        return replace(outcome, error=_located(error, job.source))
    except MemoryError:
        return replace(outcome, error=_located(FileError("there is not enough memory for this input"), job.source))


def _prepare(job: Job, op: Attributes, settings: Settings, header: Header) -> dict[str, Any]:
    """Everything that the header is enough for: plan and stored arrays, every refusal included."""
    layout = settings.layout or header.layout
    plan = make_plan(op, header.shape, header.dtype, layout=layout, output_dtype=settings.dtype)
    output = _stored(job.output, plan, plan.output_dtype, settings.output_layout, header.mode)
    indices = None
    if job.indices:
        if plan.index is None:
            raise RequestError(f"{plan.op} has no indices; only max and adaptive-max do")
        indices = _stored(job.indices, plan, plan.index.dtype, settings.output_layout, header.mode)
    notes = (*header.notes, *plan.notes, *colour_notes(plan, header, settings.linear_light))
    return {"header": header, "plan": plan, "output": output, "indices": indices, "notes": notes}


def _stored(path: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None) -> Stored:
    layout, shape = plan.layout, plan.output_shape
    if output_layout:
        layout = check_layout(output_layout, len(output_layout))
        shape = converted_shape(plan.output_shape, plan.layout, layout)
    if path:
        kept = check_output(path, shape, dtype, layout, mode)
        layout = layout if output_layout else kept
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout)


def _run(outcome: Outcome, settings: Settings, file: Opened, clock: Clock, progress: Progress) -> Outcome:
    from poolcli.engine import prepare
    from poolcli.engine.threads import allowed_threads

    plan = outcome.plan
    assert plan is not None  # noqa: S101  # set by _prepare
    _check_memory(plan, file, settings.max_memory)
    with clock.phase("compute"):
        engine = prepare(plan, settings.engine, many=settings.many)
    work = Work(plan, outcome.indices is not None, engine, settings.threads, clock, progress)
    notes = _pool_file(work, outcome, settings, file)
    threads = allowed_threads(settings.threads) if engine == "numba" else 1
    return replace(outcome, engine=engine, threads=threads, notes=(*outcome.notes, *notes))


def _check_memory(plan: Plan, file: Opened, limit: int | None) -> None:
    needed = bytes_of(plan)
    if limit is not None and not file.streams and needed > limit:
        raise FileError(
            f"needs {human_bytes(needed)} of memory, the limit is {human_bytes(limit)}; raise --max-memory "
            f"({file.header.format} files cannot be read in parts, .npy and .h5 can)"
        )


def _pool_file(work: Work, outcome: Outcome, settings: Settings, file: Opened) -> list[str]:
    """Reads, pools and writes; returns notes on what could not be kept."""
    targets = [stored for stored in (outcome.output, outcome.indices) if stored and stored.path]
    if not file.streams:
        results = _pool_whole(work, outcome, settings, file)
        found = [array for array in results if array is not None]
        return [
            note for i, (target, array) in enumerate(zip(targets, found, strict=False))
            for note in _write(target, array, outcome, settings, None if i else file.metadata)
        ]  # fmt: skip
    tile = tile_for(work.plan, settings.max_memory)
    notes: list[str] = []
    with ExitStack() as stack:
        sinks = [
            _sink(stack, target, outcome, settings, None if i else file.metadata, notes)
            for i, target in enumerate(targets)
        ]
        pool_in_tiles(work, file.read, sinks, tile)
    return notes


def _pool_whole(
    work: Work, outcome: Outcome, settings: Settings, file: Opened
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    weighted = PREMULTIPLIED in outcome.notes
    if not weighted and not settings.linear_light:
        return pool_in_memory(work, file.read)
    with work.clock.phase("read"):
        x = file.read(whole_region(work.plan.input_shape))

    def pool(plan: Plan, part: NDArray[Any]) -> NDArray[Any]:
        return pool_part(work, plan, part)[0]

    return pool_colours(pool, work.plan, x, weighted, settings.linear_light), None


def _sink(
    stack: ExitStack,
    target: Stored,
    outcome: Outcome,
    settings: Settings,
    metadata: Metadata | None,
    notes: list[str],
) -> Sink:
    """Takes the regions of one result: into the file itself where its format can, else into memory until the end."""
    import numpy as np

    plan, path = outcome.plan, str(target.path)
    assert plan is not None  # noqa: S101
    key = outcome.header.key if outcome.header else None
    if target.layout == plan.layout:
        direct = appended(
            path,
            target.shape,
            target.dtype,
            key=key,
            metadata=metadata,
            overwrite=settings.overwrite,
            identity=_identity(outcome.job, plan) if settings.resume else None,
        )
        if direct is not None:
            return stack.enter_context(direct)
    whole = np.empty(plan.output_shape, target.dtype)

    def finish(kind: object, *_: object) -> None:
        if kind is None:
            notes.extend(_write(target, whole, outcome, settings, metadata))

    stack.push(finish)
    return Fresh(lambda region, array: whole.__setitem__(slices(region), array))


def _identity(job: Job, plan: Plan) -> str:
    """Names the work of a job, so that it is only continued where it is the same: the plan and the input's state."""
    status = os.stat(job.source.path)
    text = repr((version("poolcli"), plan, job.source, status.st_size, status.st_mtime_ns))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _write(
    target: Stored, array: NDArray[Any], outcome: Outcome, settings: Settings, metadata: Metadata | None
) -> tuple[str, ...]:
    assert outcome.plan is not None  # noqa: S101
    return write(
        str(target.path),
        convert_layout(array, outcome.plan.layout, target.layout),
        target.layout,
        key=outcome.header.key if outcome.header else None,
        metadata=_scaled(metadata, outcome.plan) if metadata else None,
        overwrite=settings.overwrite,
        mode=outcome.header.mode if outcome.header else None,
        quality=settings.quality,
    )


def _scaled(metadata: Metadata, plan: Plan) -> Metadata:
    """The metadata of a picture as the result's: fewer pixels to the inch, and another size."""
    lengths = {axis.name: axis.windows for axis in plan.axes}
    if not metadata.image or not {"H", "W"} <= lengths.keys():
        return metadata
    from poolcli.formats.image_metadata import scaled

    factors = tuple(1 / w.stride if isinstance(w, Sliding) else w.output / w.size for w in (lengths["W"], lengths["H"]))
    size = lengths["W"].output, lengths["H"].output
    return replace(metadata, image=scaled(metadata.image, (factors[0], factors[1]), size))


def _located(error: PoolError, source: Source) -> PoolError:
    """The error with the input's name before its message, unless it is there already."""
    message = str(error)
    return error if message.startswith(source.path) else type(error)(f"{source.path}: {message}")
