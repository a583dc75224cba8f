"""One job from header to written file, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poolcli.attributes import Attributes
from poolcli.batch.jobs import Job, existing_outputs
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import Header, Metadata, Source, check_output, read, read_header, write
from poolcli.layouts import check_layout, convert_layout, converted_shape
from poolcli.plan import Plan, make_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

PHASES = ("read", "compile", "compute", "write")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every job of a run."""

    layout: str | None = None
    output_layout: str | None = None
    dtype: str | None = None
    engine: str = "auto"
    threads: int | None = None
    dry_run: bool = False
    overwrite: bool = False
    skip_existing: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as it is written: axes in the order of `layout`."""

    path: str | None
    shape: tuple[int, ...]
    dtype: str
    layout: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known about a job after it ran, failed or was skipped. Seconds are by phase."""

    job: Job
    header: Header | None = None
    plan: Plan | None = None
    output: Stored | None = None
    indices: Stored | None = None
    notes: tuple[str, ...] = ()
    engine: str | None = None
    threads: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: bool = False
    error: PoolError | None = None


def run_job(job: Job, op: Attributes, settings: Settings) -> Outcome:
    """Runs `job`; a refusal or a failing file is in the outcome's `error`, with the place in its message."""
    if settings.skip_existing and existing_outputs((job,)):
        return Outcome(job, skipped=True)
    clock = _Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        tensor = None
        with clock.phase("read"):
            if job.source.path == "-":
                tensor = read(job.source)
            header = tensor.header if tensor else read_header(job.source)
        outcome = replace(outcome, **_prepare(job, op, settings, header))
        if settings.dry_run:
            return outcome
        with clock.phase("read"):
            tensor = tensor or read(job.source)
        pooled = _pool(outcome, settings, tensor.array, clock)
        return _write(pooled, settings, tensor.metadata, clock)
    except PoolError as error:
        return replace(outcome, error=_located(error, job.source))
    except MemoryError:
        return replace(outcome, error=_located(FileError("there is not enough memory for this input"), job.source))


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def move(self, source: str, target: str, seconds: float) -> None:
        """Books seconds of one phase on another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds


def _prepare(job: Job, op: Attributes, settings: Settings, header: Header) -> dict[str, Any]:
    """Everything that the header is enough for: plan and stored arrays, every refusal included."""
    layout = settings.layout or header.layout
    plan = make_plan(op, header.shape, header.dtype, layout=layout, output_dtype=settings.dtype)
    output = _stored(job.output, plan, plan.output_dtype, settings.output_layout)
    indices = None
    if job.indices:
        if plan.index is None:
            raise RequestError(f"{plan.op} has no indices; only max and adaptive-max do")
        indices = _stored(job.indices, plan, plan.index.dtype, settings.output_layout)
    return {"header": header, "plan": plan, "output": output, "indices": indices, "notes": (*header.notes, *plan.notes)}


def _stored(path: str | None, plan: Plan, dtype: str, output_layout: str | None) -> Stored:
    layout, shape = plan.layout, plan.output_shape
    if output_layout:
        layout = check_layout(output_layout, len(output_layout))
        shape = converted_shape(plan.output_shape, plan.layout, layout)
    if path:
        kept = check_output(path, shape, dtype, layout)
        layout = layout if output_layout else kept
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout)


@dataclass(frozen=True, slots=True)
class _Pooled:
    outcome: Outcome
    values: NDArray[Any]
    indices: NDArray[Any] | None


def _pool(outcome: Outcome, settings: Settings, array: NDArray[Any], clock: _Clock) -> _Pooled:
    from poolcli.engine import prepare, run
    from poolcli.engine.cache import seconds_spent
    from poolcli.engine.threads import allowed_threads

    assert outcome.plan is not None  # noqa: S101  # set by _prepare
    before = seconds_spent()
    with clock.phase("compute"):
        engine = prepare(outcome.plan, settings.engine)
        values, indices = run(
            outcome.plan, array, indices=outcome.job.indices is not None, engine=engine, threads=settings.threads
        )
    clock.move("compute", "compile", seconds_spent() - before)
    threads = allowed_threads(settings.threads) if engine == "numba" else 1
    return _Pooled(replace(outcome, engine=engine, threads=threads), values, indices)


def _write(pooled: _Pooled, settings: Settings, metadata: Metadata | None, clock: _Clock) -> Outcome:
    outcome = pooled.outcome
    notes = list(outcome.notes)
    with clock.phase("write"):
        for stored, array in ((outcome.output, pooled.values), (outcome.indices, pooled.indices)):
            if stored is None or stored.path is None or array is None or outcome.plan is None:
                continue
            kept = metadata if stored is outcome.output else None
            turned = convert_layout(array, outcome.plan.layout, stored.layout)
            notes += write(
                stored.path,
                turned,
                stored.layout,
                key=outcome.header.key if outcome.header else None,
                metadata=kept,
                overwrite=settings.overwrite,
            )
    return replace(outcome, notes=tuple(notes))


def _located(error: PoolError, source: Source) -> PoolError:
    """The error with the input's name before its message, unless it is there already."""
    message = str(error)
    return error if message.startswith(source.path) else type(error)(f"{source.path}: {message}")
