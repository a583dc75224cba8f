"""Jobs on a Dask cluster: processes of this machine, or of all that a scheduler knows. One array whose output is
written in regions is shared out region by region, and this process alone begins and ends that output.

`Flow` sends items to the workers. Few messages are in flight at once, because a worker that dies makes all its messages
suspect. Small items share a message, so that each takes about a second; messages are sent and fetched in batches, which
halves the scheduler's time for each. Dask sends the messages of a worker that dies to another one; items that several
workers died of are tried once more, each alone on the cluster, so that only those that are to blame fail. An exception
of an item is final: file systems have retried by then.
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
    """A client of the cluster, whose workers have the versions of this process; a local one ends with it."""
    check_cluster(word)
    from poolcli.runs.executors import cluster

    return cluster.connected(word)


def slots_of(client: Any) -> int:
    """How many tasks the workers can run at once."""
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """The outcomes as they come, of workers of `cluster`; without one, of `count` processes of this machine."""
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
        except BaseException:  # stopped: what was done by now counts
            yield from _outcomes(flow.finished_results())
            raise


@contextmanager
def distributor(cluster: str | None, resumable: bool) -> Iterator[Distribute | None]:
    """What has parts computed by the workers of a cluster; None where there is none."""
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
    """On a worker: outcomes of tasks."""

    runner: Runner

    def __call__(self, items: Sequence[tuple[int, Task]]) -> list[Outcome]:
        asked = self.runner.settings
        runner = replace(self.runner, settings=replace(asked, max_memory=asked.allowed or _memory_of_job()))
        return [picklable(runner(task, no_progress)) for _, task in items]


@dataclass(frozen=True, slots=True)
class _Regions:
    """Shares the parts of one array out to the workers."""

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
    """The memory that a job may have: half of that of a thread of this worker; where the worker has no limit, of what
    the machine has free.
    """
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None


MESSAGES_PER_WORKER = 4  # messages for each worker
MIN_ITEMS_IN_FLIGHT = 64  # items in flight, however few workers there are; the scheduler holds back what none has begun
SETTLE_SECONDS = 5.0  # seconds in which workers may end what they have begun
BATCH_SECONDS = 0.05  # seconds in which others may land beside the first
MESSAGE_SECONDS = 1.0  # seconds of work in a message
MAX_ITEMS = 1000  # items in a message
SCHEDULER_LOST = (
    asyncio.CancelledError,
    futures.CancelledError,
    OSError,
)  # what comes of asking a scheduler that has gone

Item = TypeVar("Item")
Result = TypeVar("Result")


class Flow(Generic[Item, Result]):
    """Runs `work`, which can be pickled and takes several items, on `count` items in `slots` threads of the cluster.

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
        self._trial: Any = None  # the message in flight alone
        self._completed = distributed.as_completed(loop=client.loop)
        self._watch = WorkerWatch(client, self._in_flight)

    def results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """Each item with its result, or with the error that it failed with."""
        with self._watch:
            self._send()
            while self._in_flight:
                check_stopped()
                yield from self._results(self._wait_for_messages())
                self._send()

    def _wait_for_messages(self) -> list[Any]:
        """Waits for a message that is done; returns it and those that are done a moment later."""
        with self._scheduler_errors():
            landed = list(self._completed.next_batch())
            if len(self._in_flight) > len(landed):
                time.sleep(BATCH_SECONDS)
            return landed + list(self._completed.next_batch(block=False))

    def finished_results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results that are there by now; other messages are cancelled."""
        yield from self._results([future for future in self._in_flight if future.status == "finished"])
        self.cancel()

    def cancel(self) -> None:
        """Cancels the messages that no worker has begun."""
        with suppress(*SCHEDULER_LOST):
            self._client.cancel(list(self._in_flight), force=True)

    def settle(self) -> None:
        """Cancels, and waits a while for the messages that were begun: what they write can be removed then."""
        self.cancel()
        if self._in_flight and self._client.status == "running":
            with suppress(*SCHEDULER_LOST):
                self._client.run(_wait_until_idle, on_error="ignore")

    def _send(self) -> None:
        """Fills up what is in flight whenever half of it has landed; suspects go alone, when nothing else is left."""
        most = max(MESSAGES_PER_WORKER * self._slots, MIN_ITEMS_IN_FLIGHT // self._size)
        if 2 * len(self._in_flight) <= most:
            self._submit(list(islice(iter(self._next_items, []), most - len(self._in_flight))))
        if self._suspects and not self._in_flight:
            (self._trial,) = self._submit([[self._suspects.pop()]])

    def _next_items(self) -> list[Item]:
        """The items of the next message; none when there are no more."""
        fair = max(1, self._left // (MESSAGES_PER_WORKER * self._slots))
        items = list(islice(self._waiting, min(self._size, fair)))
        self._left -= len(items)
        return items

    def _submit(self, several: list[list[Item]]) -> list[Any]:
        """The futures of some messages, which go to the scheduler together: most of what each costs it alone."""
        messages = [self._message(items) for items in several]
        with self._scheduler_errors():
            futures: list[Any] = self._client.map(_run_message, messages, pure=False) if messages else []
        self._in_flight.update(zip(futures, several, strict=True))
        self._completed.update(futures)
        return futures

    def _message(self, items: list[Item]) -> bytes:
        """The work, the current folder and the items as bytes, which the scheduler passes on without decoding them."""
        return pickle.dumps((self._work, os.getcwd(), items), pickle.HIGHEST_PROTOCOL)

    def _results(self, landed: Sequence[Any]) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results of messages that are done, fetched in one batch."""
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
        """The items of a message that has failed; none yet of one whose workers died beside others."""
        items, error = self._in_flight.pop(future), future.exception()
        if isinstance(error, distributed.KilledWorker) and future is not self._trial:
            self._suspects += items
        else:
            yield from ((item, error) for item in items)

    @contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        """Turns the exceptions of a cluster that has gone into a FileError."""
        try:
            yield
        except SCHEDULER_LOST as error:
            missed = self._watch.missed
            gone = f"cluster has had no workers for {missed:g} s" if missed else "scheduler of the cluster is gone"
            more = f"; {field('resume')} continues the run" if self._resumable else ""
            raise FileError(f"the {gone}{more}") from error

    def _adapt_size(self, seconds: float, items: int) -> None:
        """Adapts the size of messages to the time that one took."""
        if seconds < MESSAGE_SECONDS and items >= self._size:
            self._size = min(2 * self._size, MAX_ITEMS)
        elif seconds > 2 * MESSAGE_SECONDS:
            self._size = max(1, self._size // 2)


_running: list[object] = []  # on a worker: one entry for each message in progress


async def _wait_until_idle() -> None:
    """On a worker: waits for the messages in progress, for SETTLE_SECONDS seconds at most."""
    end = time.monotonic() + SETTLE_SECONDS
    while _running and time.monotonic() < end:
        await asyncio.sleep(BATCH_SECONDS)


def _run_message(message: bytes) -> tuple[float, Any]:
    """On a worker: the seconds that some items took, and their results."""
    start = time.perf_counter()
    _running.append(None)
    try:
        packed, folder, items = pickle.loads(message)  # noqa: S301  # a worker does whatever its scheduler says
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
    """The error of an item in terms of files rather than of the cluster."""
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            "every worker that processed it died; the file is damaged, or there is too little memory for it"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


SECONDS_WITHOUT_WORKERS = 60.0  # seconds without a worker, unless Dask's own settings say how many
CHECK_SECONDS = 5.0  # seconds from one check to the next
TIMEOUT_SETTING = "distributed.scheduler.no-workers-timeout"


class WorkerWatch:
    """Cancels the messages in flight once the cluster has had no workers for some time, which wakes whoever waits.

    `missed` is that time in seconds, None before.
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
