"""All jobs of a run: by an executor, with or without a manifest."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING

from poolcli.errors import FileError, RequestError
from poolcli.formats import can_crash
from poolcli.formats.files import is_url
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings, existing_outputs
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task, load_executor
from poolcli.runs.inputs import Shard
from poolcli.system.limits import allowed_threads

if TYPE_CHECKING:
    from poolcli.runs.manifest import Manifest

CLOCK_STEP = 20_000_000  # nanoseconds by which the clock of a file system may lag behind
MOST_READY = 1000  # outcomes that wait for those of jobs before them


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
    shard: Shard | None = None,
) -> Generator[Outcome, None, None]:
    """The outcomes in the order of the jobs, unless very many would have to wait for one, of which `count` run at once;
    `folder` is where a manifest is kept, None for none; `cluster` is that of an executor that needs one; `shard` the
    one whose jobs these are.
    """
    run = load_executor(executor, cluster)
    if folder is None or settings.dry_run:
        outcomes = run([Task(job) for job in jobs], Runner(op, settings), count, progress)
        is_written = not (settings.dry_run or settings.part)
        yield from _completed(jobs, outcomes) if is_written else (outcome for _, outcome in _in_order(outcomes))
        return
    from poolcli.runs.manifest import Manifest, options_of

    manifest, options = Manifest(folder, shard), options_of(op, settings)
    _refuse_unowned(manifest, jobs, settings)
    with manifest.held():
        manifest.begin(job for job in jobs if not (job.refusal or _is_kept(job, settings)))
        runner = Runner(op, replace(settings, overwrite=settings.overwrite or settings.resume), options, folder)
        tasks = manifest.tasks(jobs) if settings.resume else [Task(job) for job in jobs]
        failed = False
        for outcome in _completed(jobs, _recorded(run(tasks, runner, count, progress), manifest)):
            failed = failed or outcome.error is not None
            yield outcome
        if not failed:
            manifest.tidy(options)


def _is_kept(job: Job, settings: Settings) -> bool:
    return settings.skip_existing and any(existing_outputs((job,)))


def _completed(jobs: Sequence[Job], outcomes: Outcomes) -> Iterator[Outcome]:
    """The outcomes in the order of the jobs, and then what no process has reported: outputs that were removed
    meanwhile, and when the run is stopped, those that were finished by processes that could no longer report it.
    """
    start = time.time_ns() - CLOCK_STEP
    skipped: dict[int, bool | None] = {}  # by the number of the job; None where it failed
    try:
        for number, outcome in _in_order(outcomes):
            skipped[number] = None if outcome.error else outcome.skipped
            yield outcome
    except GeneratorExit:
        raise
    except BaseException:
        unreported = (job for number, job in enumerate(jobs) if number not in skipped)
        yield from (Outcome(job) for job in unreported if _is_newer(job, start))
        raise
    for job, was_skipped in ((jobs[number], found) for number, found in skipped.items() if found is not None):
        gone = next((path for path in _local(job) if not os.path.lexists(path)), None)
        if gone is not None:
            error = FileError(f"{gone}: was removed during this run")
            yield Outcome(job, skipped=was_skipped, error=error, lost=True)


def _is_newer(job: Job, start: int) -> bool:
    """Whether all outputs of a job were written after `start`, in nanoseconds."""
    try:
        return bool(_local(job)) and all(os.lstat(path).st_ctime_ns >= start for path in _local(job))
    except OSError:
        return False


def _local(job: Job) -> list[str]:
    """The outputs in file systems of this machine."""
    return [path for path in job.outputs if not is_url(path)]


def choose_executor(jobs: Sequence[Job], debug: bool, cluster: str | None = None) -> str:
    """Where the jobs run: on a cluster that is named; in workers if a crash of a native library must not end this
    process, or several are to run at once; here if standard input or output is theirs, or where a traceback is wanted.
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
    return "workers" if len(jobs) > 1 or any(can_crash(job.source.path, job.output) for job in jobs) else "here"


def divide_cores(settings: Settings, jobs: int, asked: int | None) -> tuple[int, Settings]:
    """How many jobs run at once, and the settings of each: together they use no more cores than are allowed."""
    if asked is not None and asked < 1:
        raise RequestError(f"{field('jobs')} is {asked}; it must be at least 1")
    cores = allowed_threads()
    threads = min(settings.threads or cores, cores)
    count = max(1, min(asked or (cores // threads if settings.threads else cores), jobs, cores))
    memory = settings.max_memory // count if settings.max_memory else None
    return count, replace(settings, threads=max(1, min(threads, cores // count)), max_memory=memory)


def _recorded(outcomes: Outcomes, manifest: Manifest) -> Outcomes:
    """The outcomes, each written down as soon as it is known."""
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
    """The outcomes in the order of the jobs, as far as no more than some wait for one; when the run is stopped, all
    that there are, and then the exception.
    """
    ready: list[tuple[int, Outcome]] = []  # a heap
    following = 0
    try:
        for each in outcomes:
            heappush(ready, each)
            while ready and (ready[0][0] <= following or len(ready) > MOST_READY):
                following = max(following, ready[0][0] + 1)
                yield heappop(ready)
    except GeneratorExit:
        outcomes.close()
        raise
    except BaseException:
        yield from sorted(ready, key=itemgetter(0))
        raise


def _refuse_unowned(manifest: Manifest, jobs: Sequence[Job], settings: Settings) -> None:
    if settings.overwrite or settings.skip_existing:
        return
    for path in manifest.not_its_own(existing_outputs(jobs)):
        raise RequestError(
            f"{path} exists and was made by no run that {field('resume')} could continue; "
            f"use {field('overwrite')} or {field('skip_existing')}, or another {field('output')}"
        )
