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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from poolcli.errors import FileError
from poolcli.formats.table import FORMATS, format_by_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Outcome, failure, picklable
from poolcli.pooling.tiles import Distribute, Progress, RemoteBlocks, no_progress
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


def connected(word: str) -> AbstractContextManager[Any]:
    """A client of the cluster, whose workers have the same versions as this process; a local cluster ends with it."""
    check_cluster(word)
    from poolcli.runs.executors import cluster

    return cluster.connected(word)


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """Runs the tasks on a cluster, by default `count` processes of this machine; yields outcomes as they come."""
    with connected(cluster or f"local:{count}") as client:
        if len(tasks) == 1 and all(map(_is_written_in_regions, tasks)):
            yield 0, replace(runner, distribute=_Regions(client, runner.settings.resume))(next(iter(tasks)), progress)
            return
        resumable = runner.folder is not None
        batches = BatchedTasks(client, _Jobs(runner), iter(enumerate(tasks)), len(tasks), MAX_BATCH, resumable)
        with closing(batches.results()) as results:
            try:
                yield from _outcomes(results)
            except GeneratorExit:
                raise
            except BaseException:  # stopped while an outcome was reported: finished ones still count
                yield from _outcomes(batches.finished_results())
                raise


def _outcomes(results: Iterator[tuple[tuple[int, Task], Any]]) -> Outcomes:
    for (number, task), found in results:
        if isinstance(found, BaseException):
            found = Outcome(task.job, error=failure(_in_terms_of_files(found), task.job.source.path))
        yield number, found


@contextmanager
def distributor(cluster: str | None, resumable: bool) -> Iterator[Distribute | None]:
    """The function that computes parts of an array on a cluster; None if `cluster` is None."""
    if cluster is None:
        yield None
        return
    with connected(cluster) as client:
        yield _Regions(client, resumable)


def _is_written_in_regions(task: Task) -> bool:
    written = format_by_suffix(task.job.output or "", FORMATS.values())
    return written is not None and written.parallel_writes


@dataclass(frozen=True, slots=True)
class _Jobs:
    """On a worker: runs tasks and returns their outcomes."""

    runner: Runner

    def __call__(self, items: Sequence[tuple[int, Task]]) -> list[Outcome]:
        asked = self.runner.settings
        runner = replace(self.runner, settings=replace(asked, max_memory=asked.allowed or _memory_of_job()))
        return [picklable(runner(task, no_progress)) for _, task in items]


@dataclass(frozen=True, slots=True)
class _Regions:
    """Computes the parts of one array on the workers of a cluster."""

    client: Any
    resumable: bool

    def __call__(
        self, parts: RemoteBlocks, numbers: Iterator[int], count: int, done: Callable[[int, str | None], None]
    ) -> None:
        batches = BatchedTasks(self.client, parts, numbers, count, 1, self.resumable)
        with closing(batches.results()) as results:
            for number, found in results:
                if isinstance(found, BaseException):
                    raise _in_terms_of_files(found)
                done(number, found)


def _memory_of_job() -> int | None:
    """On a worker: the memory limit of a job, half of this worker's limit (or of the free memory) for each thread."""
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None


Item = TypeVar("Item")
Result = TypeVar("Result")


class BatchedTasks(Generic[Item, Result]):
    """Runs `work`, a picklable function of several items, on `count` items, of which a batch has at most `most`.

    `resumable` says whether another run can resume this one.
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

    def results(self) -> Generator[tuple[Item, Result | BaseException], None, None]:
        """Each item with its result or its exception; finished ones also if the run is stopped."""
        try:
            yield from self._results()
        except GeneratorExit:
            raise
        except BaseException:
            yield from self.finished_results()
            raise
        finally:
            if self._in_flight:
                self._cancel()

    def finished_results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results of batches that have finished and were not reported."""
        for future in [future for future in self._in_flight if future.status == "finished"]:
            yield from zip(self._in_flight[future], self._result(future), strict=True)

    def _results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        suspects: list[Item] = []
        with self._scheduler_errors():
            limit = BATCHES_PER_WORKER * max(1, sum(self._client.nthreads().values()))
            completed = distributed.as_completed(loop=self._client.loop)
        while True:
            with self._scheduler_errors():
                completed.update(self._submit(self._batches(limit)))
            if not self._in_flight:
                break
            for future in self._finished(completed):
                check_stopped()
                items = self._in_flight[future]
                found = self._result(future)
                if isinstance(found[0], distributed.KilledWorker):
                    suspects += items
                else:
                    yield from zip(items, found, strict=True)
        for item in suspects:
            with self._scheduler_errors():
                completed.update(self._submit([[item]]))
            for future in self._finished(completed):
                yield item, self._result(future)[0]

    def _finished(self, completed: Any) -> list[Any]:
        """Waits for batches to finish; raises a FileError if there have been no workers for some time."""
        seen = asked = time.monotonic()
        with self._scheduler_errors():
            while not (found := list(completed.next_batch(block=False))):
                time.sleep(POLL_SECONDS)
                check_stopped()
                if time.monotonic() - asked > ASK_SECONDS:
                    asked = time.monotonic()
                    seen = asked if self._client.nthreads() else seen
                    if asked - seen > SECONDS_WITHOUT_WORKERS:
                        raise FileError(f"the cluster has had no workers for {SECONDS_WITHOUT_WORKERS} s")
        return found

    def _batches(self, limit: int) -> Iterator[list[Item]]:
        """The next batches, until `limit` are in flight; they become smaller towards the end."""
        for _ in range(limit - len(self._in_flight)):
            batch = list(islice(self._items, max(1, min(self._most, self._left // (2 * limit)))))
            if not batch:
                return
            self._left -= len(batch)
            yield batch

    def _submit(self, batches: Iterable[list[Item]]) -> list[Any]:
        """Sends batches in one call, because each call costs the scheduler more than a batch; returns futures."""
        several = list(batches)
        sent = [(self._work, pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)) for batch in several]
        found: list[Any] = self._client.map(_run_batch, sent, pure=False) if sent else []
        self._in_flight.update(zip(found, several, strict=True))
        return found

    def _result(self, future: Any) -> Sequence[Result | BaseException]:
        """The results of a finished batch, or its error for each item."""
        with self._scheduler_errors():
            error = future.exception()
            found = future.result() if error is None else None
        items = self._in_flight.pop(future)
        return [error] * len(items) if found is None else found

    def _cancel(self) -> None:
        """Cancels, and waits for what was begun in regions of an output, so that the output can be removed."""
        with suppress(*SCHEDULER_LOST):
            self._client.cancel(list(self._in_flight), force=True)
            if self._most == 1 and self._client.status == "running":
                self._client.run(_wait_until_idle, on_error="ignore")

    @contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        """Turns the exceptions of a lost cluster into a FileError."""
        try:
            yield
        except FileError:
            raise
        except SCHEDULER_LOST as error:
            more = f"; {field('resume')} continues the run" if self._resumable else ""
            raise FileError(f"the scheduler of the cluster is gone{more}") from error


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


def _in_terms_of_files(error: BaseException) -> Exception:
    """The error of an item, without terms of Dask."""
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            "every worker that processed it died; the file is damaged, or there is too little memory for it"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))
