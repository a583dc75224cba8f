"""Runs jobs on a Dask cluster. A single array is divided into regions if several processes can write its output; this
process alone creates and finishes that output.

`Flow` sends items to the workers in messages. Few messages are in flight at once, because each message of a worker that
dies is suspect. Small items share a message, so that each message takes about a second; messages are sent and fetched
in batches, which halves the scheduler's time for each. Dask sends the messages of a dead worker to another one. Items
whose messages have killed several workers are tried once more, each alone on the cluster, so that only those that are
to blame fail. Exceptions of items are final, because file systems have retried by then.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, suppress
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

dask = Lazy("dask")
distributed = Lazy("distributed")


def connected(word: str) -> AbstractContextManager[Any]:
    """A client of the cluster, whose workers have the same versions as this process; a local cluster ends with it."""
    check_cluster(word)
    from poolcli.runs.executors import cluster

    return cluster.connected(word)


def slots_of(client: Any) -> int:
    """The number of tasks that the workers can run at once."""
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """Runs the tasks on a cluster, by default `count` processes of this machine; yields outcomes as they come."""
    with connected(cluster or f"local:{count}") as client:
        if len(tasks) == 1 and all(map(_is_written_in_regions, tasks)):
            yield 0, replace(runner, distribute=_Regions(client, runner.settings.resume))(next(iter(tasks)), progress)
            return
        listed = runner.folder is not None
        flow = Flow(client, _Jobs(runner), iter(enumerate(tasks)), len(tasks), slots_of(client), listed)
        try:
            yield from _outcomes(flow.results())
        except GeneratorExit:
            flow.cancel()
            raise
        except BaseException:  # stopped; finished tasks still count
            yield from _outcomes(flow.finished_results())
            raise


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


def _outcomes(results: Iterator[tuple[tuple[int, Task], Any]]) -> Outcomes:
    for (number, task), found in results:
        if isinstance(found, BaseException):
            found = Outcome(task.job, error=failure(in_terms_of_files(found), task.job.source.path))
        yield number, found


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
        flow = Flow(self.client, parts, numbers, count, slots_of(self.client), self.resumable)
        try:
            for number, found in flow.results():
                if isinstance(found, BaseException):
                    raise in_terms_of_files(found)
                done(number, found)
        except BaseException:
            flow.settle()
            raise


def _memory_of_job() -> int | None:
    """On a worker: the memory limit of a job, half of this worker's limit (or of the free memory) for each thread."""
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None


MESSAGES_PER_WORKER = 4  # in flight
MIN_ITEMS_IN_FLIGHT = 64  # also with few workers; the scheduler queues what no worker has begun
SETTLE_SECONDS = 5.0  # for workers to finish what they have begun
BATCH_SECONDS = 0.05  # to wait for further results after the first one
MESSAGE_SECONDS = 1.0  # of work in a message
MAX_ITEMS = 1000  # in a message
SCHEDULER_LOST = (
    asyncio.CancelledError,
    futures.CancelledError,
    OSError,
)  # what comes of asking a scheduler that has gone

Item = TypeVar("Item")
Result = TypeVar("Result")


class Flow(Generic[Item, Result]):
    """Runs `work`, a picklable function of several items, on `count` items in `slots` threads of the cluster.

    `resumable` says whether another run can resume this one.
    """

    def __init__(
        self,
        client: Any,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        items: Iterator[Item],
        count: int,
        slots: int,
        resumable: bool = False,
    ) -> None:
        self._client, self._slots, self._resumable = client, slots, resumable
        self._work = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
        self._waiting, self._left, self._size = items, count, 1
        self._in_flight: dict[Any, list[Item]] = {}
        self._suspects: list[Item] = []
        self._trial: Any = None  # the message of a suspect, alone in flight
        self._completed = distributed.as_completed(loop=client.loop)
        self._watch = WorkerWatch(client, self._in_flight)

    def results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """Each item with its result or its exception."""
        with self._watch:
            self._send()
            while self._in_flight:
                check_stopped()
                yield from self._results(self._wait_for_messages())
                self._send()

    def _wait_for_messages(self) -> list[Any]:
        """Waits for a message to finish; returns it and those that finish within BATCH_SECONDS."""
        with self._scheduler_errors():
            landed = list(self._completed.next_batch())
            if len(self._in_flight) > len(landed):
                time.sleep(BATCH_SECONDS)
            return landed + list(self._completed.next_batch(block=False))

    def finished_results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results that are there; cancels all other messages."""
        yield from self._results([future for future in self._in_flight if future.status == "finished"])
        self.cancel()

    def cancel(self) -> None:
        """Cancels the messages that no worker has begun."""
        with suppress(*SCHEDULER_LOST):
            self._client.cancel(list(self._in_flight), force=True)

    def settle(self) -> None:
        """Cancels, and waits for messages that were begun, so that what they write can be removed."""
        self.cancel()
        if self._in_flight and self._client.status == "running":
            with suppress(*SCHEDULER_LOST):
                self._client.run(_wait_until_idle, on_error="ignore")

    def _send(self) -> None:
        """Sends messages when half of those in flight have finished; suspects go alone, when no other is left."""
        most = max(MESSAGES_PER_WORKER * self._slots, MIN_ITEMS_IN_FLIGHT // self._size)
        if 2 * len(self._in_flight) <= most:
            self._submit(list(islice(iter(self._next_items, []), most - len(self._in_flight))))
        if self._suspects and not self._in_flight:
            (self._trial,) = self._submit([[self._suspects.pop()]])

    def _next_items(self) -> list[Item]:
        """The items of the next message; an empty list at the end."""
        fair = max(1, self._left // (MESSAGES_PER_WORKER * self._slots))
        items = list(islice(self._waiting, min(self._size, fair)))
        self._left -= len(items)
        return items

    def _submit(self, several: list[list[Item]]) -> list[Any]:
        """Sends messages in one call, because each call costs the scheduler more than a message; returns futures."""
        messages = [self._message(items) for items in several]
        with self._scheduler_errors():
            futures: list[Any] = self._client.map(_run_message, messages, pure=False) if messages else []
        self._in_flight.update(zip(futures, several, strict=True))
        self._completed.update(futures)
        return futures

    def _message(self, items: list[Item]) -> bytes:
        """The work, the current folder and the items, pickled so that the scheduler does not decode them."""
        return pickle.dumps((self._work, os.getcwd(), items), pickle.HIGHEST_PROTOCOL)

    def _results(self, landed: Sequence[Any]) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results of finished messages, fetched in one batch."""
        good = [future for future in landed if future.status != "error"]
        with self._scheduler_errors():
            gathered = self._client.gather(good)
        for future, (seconds, results) in zip(good, gathered, strict=True):
            items = self._in_flight.pop(future)
            self._adapt_size(seconds, len(items))
            yield from zip(items, results, strict=True)
        for future in landed:
            if future in self._in_flight:
                yield from self._failed(future)

    def _failed(self, future: Any) -> Iterator[tuple[Item, BaseException]]:
        """The items of a failed message with their error; none for a message that killed workers, which is suspect."""
        items, error = self._in_flight.pop(future), future.exception()
        if isinstance(error, distributed.KilledWorker) and future is not self._trial:
            self._suspects += items
        else:
            yield from ((item, error) for item in items)

    @contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        """Turns the exceptions of a lost cluster into a FileError."""
        try:
            yield
        except SCHEDULER_LOST as error:
            missed = self._watch.missed
            gone = f"cluster has had no workers for {missed:g} s" if missed else "scheduler of the cluster is gone"
            more = f"; {field('resume')} continues the run" if self._resumable else ""
            raise FileError(f"the {gone}{more}") from error

    def _adapt_size(self, seconds: float, items: int) -> None:
        """Adapts the number of items in a message to the time that one took."""
        if seconds < MESSAGE_SECONDS and items >= self._size:
            self._size = min(2 * self._size, MAX_ITEMS)
        elif seconds > 2 * MESSAGE_SECONDS:
            self._size = max(1, self._size // 2)


_running: list[object] = []  # on a worker, one entry for each message in progress


async def _wait_until_idle() -> None:
    """On a worker: waits until no message is in progress, at most for SETTLE_SECONDS."""
    end = time.monotonic() + SETTLE_SECONDS
    while _running and time.monotonic() < end:
        await asyncio.sleep(BATCH_SECONDS)


def _run_message(message: bytes) -> tuple[float, Any]:
    """On a worker: runs the items of a message; returns the seconds and the results."""
    start = time.perf_counter()
    _running.append(None)
    try:
        packed, folder, items = pickle.loads(message)  # noqa: S301  # a worker trusts its scheduler
        _enter(folder)
        results = pickle.loads(packed)(items)  # noqa: S301
    finally:
        _running.pop()
    return time.perf_counter() - start, results


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(
            f"{folder}: a worker cannot use this folder ({error.strerror}); all must see the same"
        ) from None


def in_terms_of_files(error: BaseException) -> Exception:
    """The error of an item, without terms of Dask."""
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            "every worker that processed it died; the file is damaged, or there is too little memory for it"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


SECONDS_WITHOUT_WORKERS = 60.0  # unless Dask's configuration says how many
CHECK_SECONDS = 5.0
TIMEOUT_SETTING = "distributed.scheduler.no-workers-timeout"


class WorkerWatch:
    """Cancels the messages in flight when the cluster has had no workers for some time, so that waiting for them ends.

    `missed` is that time in seconds, or None before it has passed.
    """

    def __init__(self, client: Any, in_flight: Iterable[Any]) -> None:
        self._client, self._in_flight = client, in_flight
        self.missed: float | None = None

    def __enter__(self) -> None:
        self._look = asyncio.run_coroutine_threadsafe(self._watch_workers(), self._client.loop.asyncio_loop)

    def __exit__(self, *_: object) -> None:
        self._look.cancel()

    async def _watch_workers(self) -> None:
        patience = dask.utils.parse_timedelta(dask.config.get(TIMEOUT_SETTING, None) or SECONDS_WITHOUT_WORKERS)
        seen = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if await self._client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen >= patience:
                self.missed = patience
                await self._client.cancel(list(self._in_flight), force=True)
