"""Runs all jobs of a command by an executor, with or without a manifest."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING

from poolcli.errors import FileError, RequestError
from poolcli.formats import is_fragile
from poolcli.formats.files import is_url
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings, existing_outputs
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task, load_executor
from poolcli.system.limits import allowed_threads

if TYPE_CHECKING:
    from poolcli.runs.manifest import Manifest

CLOCK_LAG = 20_000_000  # nanoseconds by which the timestamps of a file system may lag behind the clock
MAX_WAITING = 1000  # outcomes that are held back until those of earlier jobs are there


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
    """Runs jobs, `count` at once, and yields their outcomes in the order of the jobs, as far as memory allows.

    `folder` is where the manifest is kept, None for none.
    """
    run = load_executor(executor, cluster)
    if folder is None or settings.dry_run:
        outcomes = run([Task(job) for job in jobs], Runner(op, settings), count, progress)
        yield from (
            (outcome for _, outcome in _in_order(outcomes))
            if settings.dry_run
            else _with_missing_reports(jobs, outcomes)
        )
        return
    from poolcli.runs.manifest import Manifest, options_of

    manifest, options = Manifest(folder), options_of(op, settings)
    _refuse_unowned(manifest, jobs, settings)
    with manifest.locked():
        manifest.begin(job for job in jobs if not (job.refusal or job.unreadable))
        runner = Runner(op, replace(settings, overwrite=settings.overwrite or settings.resume), options, folder)
        tasks = manifest.tasks(jobs) if settings.resume else [Task(job) for job in jobs]
        failed = False
        for outcome in _with_missing_reports(jobs, _record(run(tasks, runner, count, progress), manifest)):
            failed = failed or outcome.error is not None
            yield outcome
        if not failed:
            manifest.complete()


def _with_missing_reports(jobs: Sequence[Job], outcomes: Outcomes) -> Iterator[Outcome]:
    """The outcomes in the order of the jobs, and after them what no process has reported: outputs that were removed
    during the run and, if the run is stopped, outputs whose processes could not report them.
    """
    start = time.time_ns() - CLOCK_LAG
    skipped: dict[int, bool | None] = {}  # by the number of the job; None if it failed
    try:
        for number, outcome in _in_order(outcomes):
            skipped[number] = None if outcome.error else outcome.skipped
            yield outcome
    except GeneratorExit:
        raise
    except BaseException:
        unreported = (job for number, job in enumerate(jobs) if number not in skipped)
        yield from (Outcome(job) for job in unreported if _was_written_since(job, start))
        raise
    for job, was_skipped in ((jobs[number], found) for number, found in skipped.items() if found is not None):
        gone = next((path for path in _local_outputs(job) if not os.path.lexists(path)), None)
        if gone is not None:
            error = FileError(f"{gone}: was removed during this run")
            yield Outcome(job, skipped=was_skipped, error=error, lost=True)


def _was_written_since(job: Job, start: int) -> bool:
    """Whether all local outputs of a job were written after `start`, in nanoseconds."""
    try:
        return bool(_local_outputs(job)) and all(os.lstat(path).st_ctime_ns >= start for path in _local_outputs(job))
    except OSError:
        return False


def _local_outputs(job: Job) -> list[str]:
    """The outputs that are not at URLs."""
    return [path for path in job.outputs if not is_url(path)]


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
    return "workers" if len(jobs) > 1 or any(is_fragile(job.source.path, job.output) for job in jobs) else "here"


def divide_cores(settings: Settings, jobs: int) -> tuple[int, Settings]:
    """How many jobs run at once, and settings that divide the cores and the memory among them."""
    cores = allowed_threads(settings.threads)
    count = max(1, min(jobs, cores))
    memory = settings.max_memory // count if settings.max_memory else None
    return count, replace(settings, threads=cores // count, max_memory=memory)


def _record(outcomes: Outcomes, manifest: Manifest) -> Outcomes:
    """The outcomes, after their records are written to the manifest."""
    for number, outcome in outcomes:
        if outcome.record is None:
            yield number, outcome
            continue
        try:
            manifest.append(outcome.record)
        except FileError as error:
            outcome = replace(outcome, error=error)
        yield number, outcome


def _in_order(outcomes: Outcomes) -> Iterator[tuple[int, Outcome]]:
    """The outcomes in the order of the jobs, as long as at most MAX_WAITING have to wait for an earlier one.

    If the run is stopped, all outcomes that are there are yielded before the exception is raised.
    """
    ready: list[tuple[int, Outcome]] = []  # a heap
    following = 0
    try:
        for each in outcomes:
            heappush(ready, each)
            while ready and (ready[0][0] <= following or len(ready) > MAX_WAITING):
                following = max(following, ready[0][0] + 1)
                yield heappop(ready)
    except GeneratorExit:
        outcomes.close()
        raise
    except BaseException:
        yield from sorted(ready, key=itemgetter(0))
        raise


def _refuse_unowned(manifest: Manifest, jobs: Sequence[Job], settings: Settings) -> None:
    if settings.overwrite:
        return
    for path in manifest.unowned(existing_outputs(jobs)):
        raise RequestError(
            f"{path} exists and was made by no run that {field('resume')} could continue; "
            f"use {field('overwrite')}, or another {field('output')}"
        )
