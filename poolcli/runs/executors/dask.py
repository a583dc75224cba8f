"""Runs jobs on a Dask cluster. A single array is divided into regions if several processes can write its output; this
process alone creates and finishes that output.

`BatchedTasks` sends items to the workers in batches. Few batches are in flight at once, because each batch of a worker
that dies is suspect: Dask gives up those whose workers have died several times. Their items are tried once more, each
alone on the cluster, so that only those that are to blame fail. Exceptions of items are final, because file systems
have retried by then.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from poolcli.errors import FileError
from poolcli.formats.table import format_by_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Outcome, failure
from poolcli.pooling.tiles import BlockNote, Distribute, Progress, RemoteBlocks, no_progress
from poolcli.runs.executors import Outcomes, Runner, Task, check_cluster
from poolcli.system.lazy_imports import Lazy
from poolcli.system.limits import memory_budget
from poolcli.system.signals import check_stopped

distributed = Lazy("distributed")

BATCHES_PER_WORKER = 4  # in flight
MAX_BATCH = 64  # items; a message takes the scheduler as long as a small file takes a worker
WAIT_SECONDS = 5.0  # for workers to finish what they have begun
POLL_SECONDS = 0.02  # between looks at what has finished
ASK_SECONDS, SECONDS_WITHOUT_WORKERS = 5, 60  # how often it is asked for workers, and how long a run does without
# What comes of asking a scheduler that has gone.
SCHEDULER_LOST = (asyncio.CancelledError, futures.CancelledError, OSError)

Item = TypeVar("Item")
Result = TypeVar("Result")


def connected(word: str) -> AbstractContextManager[Any]:
    """A client of the cluster, whose workers have the same versions as this process; a local cluster ends with it."""
    check_cluster(word)
    from poolcli.runs.executors import cluster

    return cluster.connected(word)


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """Runs the tasks on a cluster, by default `count` processes of this machine; yields outcomes as they come."""
    with connected(cluster or f"local:{count}") as client:
        written = format_by_suffix(tasks[0].job.output or "") if len(tasks) == 1 else None
        if written is not None and written.parallel_writes:
            distribute = partial(_run_blocks, client, runner.settings.resume)
            yield 0, replace(runner, distribute=distribute)(tasks[0], progress)
            return
        work, resumable = partial(_run_tasks, runner), runner.folder is not None
        with BatchedTasks(client, work, iter(enumerate(tasks)), len(tasks), MAX_BATCH, resumable) as batches:
            yield from _outcomes(batches.results())


@contextmanager
def distributor(cluster: str | None, resumable: bool) -> Iterator[Distribute | None]:
    """The function that computes parts of an array on a cluster; None if `cluster` is None."""
    if cluster is None:
        yield None
        return
    with connected(cluster) as client:
        yield partial(_run_blocks, client, resumable)


def _outcomes(results: Iterator[tuple[tuple[int, Task], Any]]) -> Outcomes:
    for (number, task), found in results:
        if isinstance(found, BaseException):
            found = Outcome(task.job, error=failure(_in_terms_of_files(found), task.job.source.path))
        yield number, found


def _run_tasks(runner: Runner, items: Sequence[tuple[int, Task]]) -> list[Outcome]:
    """On a worker: runs tasks and returns their outcomes."""
    memory = runner.settings.allowed or _memory_of_job()
    runner = replace(runner, settings=replace(runner.settings, max_memory=memory))
    outcomes = [runner(task, no_progress) for _, task in items]
    for error in (each.error for outcome in outcomes for each in (outcome, *outcome.parts) if each.error):
        # tblib, which distributed loads, pickles the causes of errors, and some of zarr's cannot be unpickled.
        error.__cause__ = error.__context__ = error.__traceback__ = None
    return outcomes


def _memory_of_job() -> int | None:
    """On a worker: the memory limit of a job, half of this worker's limit (or of the free memory) for each thread."""
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None


def _run_blocks(
    client: Any,
    resumable: bool,
    parts: RemoteBlocks,
    numbers: Iterator[int],
    count: int,
    done: Callable[[int, BlockNote], None],
) -> None:
    """Computes the parts of one array on the workers of a cluster."""
    with BatchedTasks(client, parts, numbers, count, 1, resumable) as batches:
        for number, found in batches.results():
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


class BatchedTasks(Generic[Item, Result]):
    """Runs `work`, a picklable function of several items, on `count` items, of which a batch has at most `most`.

    What has not finished at the end of the context is cancelled. `resumable` says whether another run can resume this
    one.
    """

    def __init__(
        self,
        client: Any,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        items: Iterator[Item],
        count: int,
        most: int,
        resumable: bool = False,
    ) -> None:
        self._client, self._resumable = client, resumable
        # Pickled, so that the scheduler does not decode it.
        self._work = pickle.dumps((work, os.getcwd()), pickle.HIGHEST_PROTOCOL)
        self._items, self._left, self._most = items, count, most
        self._in_flight: dict[Any, list[Item]] = {}

    def __enter__(self) -> BatchedTasks[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancels, and waits for what was begun in regions of an output, so that the output can be removed."""
        if self._in_flight:
            with suppress(*SCHEDULER_LOST):
                self._client.cancel(list(self._in_flight), force=True)
                if self._most == 1 and self._client.status == "running":
                    self._client.run(_wait_until_idle, on_error="ignore")

    def results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """Each item with its result or its exception."""
        try:
            limit, suspects = BATCHES_PER_WORKER * max(1, sum(self._client.nthreads().values())), list[Item]()
            for items, found in self._run(self._batches(limit), limit):
                if isinstance(found[0], distributed.KilledWorker):
                    suspects += items
                else:
                    yield from zip(items, found, strict=True)
            for (item,), found in self._run(([item] for item in suspects), 1):
                yield item, found[0]
        except FileError:
            raise
        except SCHEDULER_LOST as error:
            more = f"; {field('resume')} continues the run" if self._resumable else ""
            raise FileError(f"the scheduler of the cluster is gone{more}") from error

    def _batches(self, limit: int) -> Iterator[list[Item]]:
        """The items in batches, which become smaller towards the end."""
        while batch := list(islice(self._items, max(1, min(self._most, self._left // (2 * limit))))):
            self._left -= len(batch)
            yield batch

    def _run(
        self, batches: Iterator[list[Item]], limit: int
    ) -> Iterator[tuple[list[Item], Sequence[Result | BaseException]]]:
        """Batches with their results, as they come; at most `limit` are in flight."""
        completed = distributed.as_completed(loop=self._client.loop)
        while True:
            # Sent in one call, because each call costs the scheduler more than a batch.
            several = list(islice(batches, limit - len(self._in_flight)))
            sent = [(self._work, pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)) for batch in several]
            submitted = self._client.map(_run_batch, sent, pure=False) if sent else []
            self._in_flight.update(zip(submitted, several, strict=True))
            completed.update(submitted)
            if not self._in_flight:
                return
            for future in self._finished(completed):
                check_stopped()
                yield self._result(future)

    def _finished(self, completed: Any) -> list[Any]:
        """Waits for batches to finish; raises a FileError if there have been no workers for some time."""
        seen = asked = time.monotonic()
        while not (found := list(completed.next_batch(block=False))):
            time.sleep(POLL_SECONDS)
            check_stopped()
            if time.monotonic() - asked > ASK_SECONDS:
                asked = time.monotonic()
                seen = asked if self._client.nthreads() else seen
                if asked - seen > SECONDS_WITHOUT_WORKERS:
                    raise FileError(f"the cluster has had no workers for {SECONDS_WITHOUT_WORKERS} s")
        return found

    def _result(self, future: Any) -> tuple[list[Item], Sequence[Result | BaseException]]:
        """The items of a finished batch, and their results, or its error for each."""
        error = future.exception()
        found = None if error else future.result()
        items = self._in_flight.pop(future)
        return items, [error] * len(items) if found is None else found


def _run_batch(message: tuple[bytes, bytes]) -> Any:
    """On a worker: runs the items of a batch; returns their results."""
    work, folder = pickle.loads(message[0])  # noqa: S301  # a worker trusts its scheduler
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(
            f"{folder}: a worker cannot use this folder ({error.strerror}); all must see the same"
        ) from None
    return work(pickle.loads(message[1]))  # noqa: S301


async def _wait_until_idle(dask_worker: Any) -> None:
    """On a worker: waits until it runs nothing, at most for WAIT_SECONDS."""
    end = time.monotonic() + WAIT_SECONDS
    while dask_worker.state.executing and time.monotonic() < end:
        await asyncio.sleep(0.05)
