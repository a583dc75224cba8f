"""Runs all jobs of a command by an executor, with or without a manifest."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from poolcli.errors import FileError, RequestError
from poolcli.formats import is_fragile
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings, existing_outputs
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task, load_executor
from poolcli.system.processes import allowed_threads

if TYPE_CHECKING:
    from poolcli.runs.manifest import Manifest


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
    run = load_executor(executor, cluster)
    if folder is None or settings.dry_run:
        yield from _in_order(run([Task(job) for job in jobs], Runner(op, settings), count, progress))
        return
    from poolcli.runs.manifest import Manifest, options_of

    manifest, options = Manifest(folder), options_of(op, settings)
    for path in () if settings.overwrite else manifest.unowned(existing_outputs(jobs)):
        raise RequestError(
            f"{path} exists and was made by no run that {field('resume')} could continue; "
            f"use {field('overwrite')}, or another {field('output')}"
        )
    with manifest.locked():
        manifest.begin(job for job in jobs if not (job.refusal or job.unreadable))
        runner = Runner(op, settings, options, folder)
        tasks = manifest.tasks(jobs) if settings.resume else [Task(job) for job in jobs]
        failed = False
        for outcome in _in_order(_recorded(run(tasks, runner, count, progress), manifest)):
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


def _recorded(outcomes: Outcomes, manifest: Manifest) -> Outcomes:
    """The outcomes, after their records are written to the manifest."""
    for number, outcome in outcomes:
        try:
            if outcome.record is not None:
                manifest.append(outcome.record)
        except FileError as error:
            outcome = replace(outcome, error=error)
        yield number, outcome


def _in_order(outcomes: Outcomes) -> Iterator[Outcome]:
    """The outcomes in the order of the jobs."""
    waiting, following = dict[int, Outcome](), 0
    with closing(outcomes):
        for number, outcome in outcomes:
            waiting[number] = outcome
            while following in waiting:
                yield waiting.pop(following)
                following += 1
