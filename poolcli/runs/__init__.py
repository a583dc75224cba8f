"""Runs all jobs of a command: in this process, in workers or on a Dask cluster, with or without a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from poolcli.errors import FileError, RequestError
from poolcli.formats import FORMATS, is_fragile, open_array, output_format, recognised
from poolcli.formats.checks import memory_limit_of
from poolcli.formats.files import fingerprint_of, state_of
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes, values_of
from poolcli.pooling.outcome import Job, Outcome, Record, Settings, existing_outputs, failure
from poolcli.pooling.run import ArrayJob, prepare_job
from poolcli.pooling.tiles import Clock, Distribute, Progress, no_progress
from poolcli.system.processes import allowed_threads
from poolcli.system.signals import check_stopped

if TYPE_CHECKING:
    from poolcli.runs.manifest import Manifest

EXECUTORS = ("here", "workers", "dask")  # the last two are modules with a function `run`


def run_job(
    job: Job,
    op: Attributes,
    settings: Settings,
    progress: Progress = no_progress,
    distribute: Distribute | None = None,
) -> Outcome:
    """Runs a job; an error becomes the outcome's `error`, with the input's name in its message.

    `distribute` computes the parts of an output elsewhere, if several processes can write it.
    """
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        if job.refusal:
            raise job.refusal
        limit = memory_limit_of(job.source.path, settings.max_memory, settings.allowed)
        settings = replace(settings, max_memory=limit)
        job = replace(job, source=recognised(job.source))
        if settings.arrays is not None and FORMATS[str(job.source.format)].is_container:
            from poolcli.pooling.bundle import run_bundle

            return run_bundle(job, op, settings, clock)
        with ExitStack() as stack:
            with clock.phase("read"):
                file = stack.enter_context(open_array(job.source, _read_options(job, op, settings)))
            outcome = prepare_job(outcome, op, settings, file.header, in_parts=file.streams)
            return outcome if settings.dry_run else ArrayJob(outcome, settings, file, clock, progress).run(distribute)
    except Exception as error:  # of any kind: what goes wrong with one input must not end the others
        if "-" in (job.output, job.indices) and isinstance(error, OSError) and not isinstance(error, FileError):
            raise  # an error of standard output, not of the input
        return replace(outcome, error=failure(error, job.source.path))


def _read_options(job: Job, op: Attributes, settings: Settings) -> ReadOptions:
    """How the input is read: tensors get the numbers that it stores, and modes the indices that the output can keep."""
    row = output_format(job.output or "-")
    options = settings.read_options
    indexed = op.reducer.votes and options.ndim in (None, 2)  # a layout such as HWC asks for colours
    if indexed and row.is_image:
        from poolcli.formats.image.modes import INDICES, MODES_BY_FORMAT

        indexed = INDICES in MODES_BY_FORMAT[row.name]
    volume = settings.layout is None and values_of(op) == 3
    return replace(options, as_stored=not row.is_image, indexed=indexed, volume=volume)


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs in any process; it can be pickled, and it writes nothing but the outputs.

    `folder` is that of the manifest, None without one; `options` is the hash for its records; `distribute` computes the
    parts of a job in other processes.
    """

    op: Attributes
    settings: Settings
    options: str = ""
    folder: str | None = None
    distribute: Distribute | None = None

    def __call__(self, job: Job, progress: Progress) -> Outcome:
        """The outcome of a job, with a record for the manifest; skipped if its known record is current."""
        settings = self.settings
        if job.retried or (settings.resume and self.folder is not None):  # the first try may have written the output
            settings = replace(settings, overwrite=True)
        if job.known and job.known.options == self.options:
            with suppress(OSError):  # a file is gone
                if job.known == self.record_of(job):
                    return Outcome(job, skipped=True)
        outcome = run_job(job, self.op, settings, progress, self.distribute)
        if self.folder is None or outcome.error or outcome.skipped:
            return outcome
        try:
            return replace(outcome, record=self.record_of(job))
        except OSError as error:
            return replace(outcome, error=failure(error, job.source.path))

    def record_of(self, job: Job) -> Record:
        """The record of a finished job."""
        state = fingerprint_of(job.source.path)
        return Record(
            output=os.path.relpath(str(job.output), self.folder),
            indices=os.path.relpath(job.indices, self.folder) if job.indices else None,
            input=str(job.source),
            input_size=state.size,
            input_mtime_ns=state.mtime_ns,
            options=self.options,
            output_hash=state_of(str(job.output)),
            indices_hash=state_of(job.indices) if job.indices else None,
        )


Outcomes = Generator[tuple[int, Outcome], None, None]

# Runs jobs, at most so many at once, and yields the number of each with its outcome, in any order. A failed job is an
# outcome with an error. If the run is stopped, its processes are ended.
Run = Callable[..., Outcomes]


def load_executor(name: str) -> Run:
    """The function that runs jobs in the way of that name; Dask's also takes the value of --cluster."""
    run: Run = run_here if name == "here" else import_module(f"poolcli.runs.{name}").run
    return run


def run_here(jobs: Sequence[Job], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the jobs in this process, one after the other."""
    for number, job in enumerate(jobs):
        yield number, runner(job, progress)
        check_stopped()


def run_all(
    jobs: Sequence[Job],
    op: Attributes,
    settings: Settings,
    *,
    executor: str,
    count: int,
    folder: str | None,
    progress: Progress,
    cluster: str | None = None,
) -> Generator[Outcome, None, None]:
    """Runs jobs, `count` at once, and yields their outcomes in the order of the jobs.

    `folder` is where the manifest is kept, None for none.
    """
    run, more = load_executor(executor), {} if cluster is None else {"cluster": cluster}
    if folder is None or settings.dry_run:
        yield from _in_order(run(jobs, Runner(op, settings), count, progress, **more))
        return
    from poolcli.runs.manifest import Manifest, options_of

    manifest, options = Manifest(folder), options_of(op, settings)
    for path in () if settings.overwrite else manifest.unowned(existing_outputs(jobs)):
        raise RequestError(
            f"{path} exists and was made by no run that {field('resume')} could continue; "
            f"use {field('overwrite')}, or another {field('output')}"
        )
    with manifest.locked():
        manifest.begin(job for job in jobs if not job.refusal)
        jobs, failed = manifest.with_records(jobs) if settings.resume else jobs, False
        runner = Runner(op, settings, options, folder)
        for outcome in _in_order(run(jobs, runner, count, progress, **more), manifest):
            failed = failed or outcome.error is not None
            yield outcome
        if not failed:
            manifest.complete()


def choose_executor(jobs: Sequence[Job], debug: bool, cluster: str | None = None) -> str:
    """The name of the executor: `dask` on a cluster; `here` for standard streams and with --debug, else `workers` if
    there are several jobs, or a native library could crash.
    """
    streamed = any("-" in (job.source.path, job.output) for job in jobs)
    if cluster is not None:
        if streamed:
            raise RequestError(
                f"standard input and output are this process's own, which {field('cluster')} has no use for"
            )
        return "dask"
    if debug or streamed:
        return "here"
    return "workers" if len(jobs) > 1 or any(is_fragile(job.source, job.output) for job in jobs) else "here"


def divide_cores(settings: Settings, jobs: int) -> tuple[int, Settings]:
    """How many jobs run at once, and settings that divide the cores and the memory among them."""
    cores = allowed_threads(settings.threads)
    count = max(1, min(jobs, cores))
    memory = settings.max_memory // count if settings.max_memory else None
    return count, replace(settings, threads=cores // count, max_memory=memory)


def _in_order(outcomes: Outcomes, manifest: Manifest | None = None) -> Iterator[Outcome]:
    """The outcomes in the order of the jobs; their records are written to the manifest as they come."""
    waiting, following = dict[int, Outcome](), 0
    with closing(outcomes):
        for number, outcome in outcomes:
            waiting[number] = outcome
            if manifest and outcome.record:
                try:
                    manifest.append(outcome.record)
                except FileError as error:
                    waiting[number] = replace(outcome, error=error)
            while following in waiting:
                yield waiting.pop(following)
                following += 1
