"""Runs jobs on a Dask cluster. A single array is divided into regions if several processes can write its output; this
process alone creates and finishes that output.

A task whose workers have died several times is tried once more, alone on the cluster, so that only those that are to
blame fail. Exceptions of tasks are final, because file systems have retried by then.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.table import format_by_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job, Outcome, failure
from poolcli.pooling.tiles import BlockNote, Distribute, Progress, RemoteBlocks, no_progress
from poolcli.runs import Outcomes, Runner
from poolcli.system.lazy_imports import Lazy, need
from poolcli.system.processes import allowed_threads, memory_budget
from poolcli.system.signals import check_stopped

distributed = Lazy("distributed")

SCHEDULER_FILE = ".json"  # extension of scheduler files
LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s@]+:\d+/?")
TASKS_PER_WORKER = 8  # in flight
POLL_SECONDS = 0.02  # between looks at what has finished
ASK_SECONDS, SECONDS_WITHOUT_WORKERS = 5, 60  # how often it is asked for workers, and how long a run does without
WAIT_SECONDS = 5.0  # for workers to finish what they have begun
# What comes of asking a scheduler that has gone.
SCHEDULER_LOST = (asyncio.CancelledError, futures.CancelledError, OSError)


def check_cluster(word: str) -> None:
    """Refuses a value of --cluster that names no cluster, or whose packages are missing."""
    local = LOCAL.fullmatch(word)
    if not local and not _ADDRESS.fullmatch(word) and not word.endswith(SCHEDULER_FILE):
        raise RequestError(
            f"{field('cluster')} is {word[:60]!r}; write local, local:4, tcp://HOST:PORT, tls://HOST:PORT, or a "
            f"scheduler file ({SCHEDULER_FILE})"
        )
    modules = ("distributed", *(["cryptography"] if local else []))
    need(*modules, why=f"{field('cluster', word)} runs on Dask")


def connected(word: str) -> AbstractContextManager[Any]:
    """A client of the cluster, whose workers have the same versions as this process; a local cluster ends with it."""
    check_cluster(word)
    from poolcli.runs import cluster

    local = LOCAL.fullmatch(word)
    return cluster.connected(word, int(local[1] or 0) or allowed_threads() if local else 0)


def run(jobs: Sequence[Job], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """Runs the jobs on a cluster, by default `count` processes of this machine; yields outcomes as they come."""
    written = format_by_suffix(jobs[0].output or "") if len(jobs) == 1 else None
    with connected(cluster or f"local:{count}") as client:
        if written is not None and written.parallel_writes:
            distribute = partial(_run_blocks, client, runner.settings.resume)
            yield 0, replace(runner, distribute=distribute)(jobs[0], progress)
            return
        numbered, resumable = iter(enumerate(jobs)), runner.folder is not None
        for (number, job), found in compute(client, partial(_run_job, runner), numbered, resumable=resumable):
            if isinstance(found, BaseException):
                found = Outcome(job, error=failure(_in_terms_of_files(found), job.source.path))
            yield number, found


@contextmanager
def distributor(cluster: str | None, resumable: bool) -> Iterator[Distribute | None]:
    """The function that computes parts of an array on a cluster; None if `cluster` is None."""
    if cluster is None:
        yield None
        return
    with connected(cluster) as client:
        yield partial(_run_blocks, client, resumable)


def _run_job(runner: Runner, item: tuple[int, Job]) -> Outcome:
    """On a worker: runs a job and returns its outcome."""
    memory = runner.settings.allowed
    if not memory:  # half of this worker's limit, or of the free memory, for each thread
        worker = distributed.get_worker()
        limit = worker.memory_manager.memory_limit
        half = limit // 2 if limit else memory_budget(None)
        memory = half // worker.state.nthreads if half else None
    # Dask may run it again, with its output written, when a worker dies.
    settings = replace(runner.settings, max_memory=memory, overwrite=True)
    outcome = replace(runner, settings=settings)(item[1], no_progress)
    for error in (each.error for each in (outcome, *outcome.parts) if each.error):
        # tblib, which distributed loads, pickles the causes of errors, and some of zarr's cannot be unpickled.
        error.__cause__ = error.__context__ = error.__traceback__ = None
    return outcome


def _run_blocks(
    client: Any, resumable: bool, parts: RemoteBlocks, numbers: Iterator[int], done: Callable[[int, BlockNote], None]
) -> None:
    """Computes the parts of one array on the workers of a cluster."""
    with closing(compute(client, parts, numbers, True, resumable)) as results:
        for number, found in results:
            if isinstance(found, BaseException):
                raise _in_terms_of_files(found)
            done(number, found)


def _in_terms_of_files(error: BaseException) -> Exception:
    """The error of an item, without terms of Dask."""
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            "every worker that processed it died; the file is damaged, or there is too little memory for it"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def compute(
    client: Any, work: Callable[[Any], Any], items: Iterator[Any], wait: bool = False, resumable: bool = False
) -> Generator[tuple[Any, Any], None, None]:
    """Each item with the result of `work`, which can be pickled, or with its exception, as they come.

    What has not finished when the caller stops is cancelled; with `wait`, what has begun is waited for, so that its
    output can be removed. `resumable` says whether another run can resume this one.
    """
    running: dict[Any, Any] = {}
    message = os.getcwdb(), pickle.dumps(work, pickle.HIGHEST_PROTOCOL)  # which the scheduler does not decode
    try:
        limit, suspects = TASKS_PER_WORKER * max(1, sum(client.nthreads().values())), list[Any]()
        for item, found in _results(client, message, items, limit, running):
            if isinstance(found, distributed.KilledWorker):
                suspects.append(item)
            else:
                yield item, found
        yield from _results(client, message, iter(suspects), 1, running)
    except FileError:
        raise
    except SCHEDULER_LOST as error:
        more = f"; {field('resume')} continues the run" if resumable else ""
        raise FileError(f"the scheduler of the cluster is gone{more}") from error
    finally:
        if running:
            with suppress(*SCHEDULER_LOST):
                client.cancel(list(running), force=True)
                if wait and client.status == "running":
                    client.run(_wait_until_idle, on_error="ignore")


def _results(
    client: Any, message: tuple[bytes, bytes], items: Iterator[Any], limit: int, running: dict[Any, Any]
) -> Iterator[tuple[Any, Any]]:
    """Items with their results, as they come; at most `limit` are `running`."""
    completed = distributed.as_completed(loop=client.loop)
    asked = seen = time.monotonic()
    while True:
        # Sent in one call, because each call costs the scheduler more than a task.
        several = list(islice(items, limit - len(running)))
        sent = [(*message, pickle.dumps(item, pickle.HIGHEST_PROTOCOL)) for item in several]
        submitted = client.map(_run_item, sent, pure=False) if sent else []
        running.update(zip(submitted, several, strict=True))
        completed.update(submitted)
        if not running:
            return
        while not (finished := list(completed.next_batch(block=False))):
            time.sleep(POLL_SECONDS)
            check_stopped()
            if (now := time.monotonic()) - asked > ASK_SECONDS:
                asked, seen = now, now if client.nthreads() else seen
                if now - seen > SECONDS_WITHOUT_WORKERS:
                    raise FileError(f"the cluster has had no workers for {SECONDS_WITHOUT_WORKERS} s")
        for future in finished:
            check_stopped()
            error = future.exception()
            yield running.pop(future), future.result() if error is None else error


def _run_item(message: tuple[bytes, bytes, bytes]) -> Any:
    """On a worker: the result of an item. Modules may need a folder that exists, as that of the last run need not."""
    folder, work, item = message
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(
            f"{os.fsdecode(folder)}: a worker cannot use this folder ({error.strerror}); all must see the same"
        ) from None
    return pickle.loads(work)(pickle.loads(item))  # noqa: S301  # a worker trusts its scheduler


async def _wait_until_idle(dask_worker: Any) -> None:
    """On a worker: waits until it runs nothing, at most for WAIT_SECONDS."""
    end = time.monotonic() + WAIT_SECONDS
    while dask_worker.state.executing and time.monotonic() < end:
        await asyncio.sleep(0.05)
