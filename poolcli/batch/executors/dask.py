"""Jobs on a Dask cluster: processes of this machine, or of all that a scheduler knows.

Few tasks are in flight at once, because a worker that dies makes all that it holds suspect. Small jobs go together, so
that each message is worth a second of work. A task is run anew where its worker dies; jobs that several workers died
of are tried once more, one at a time and nothing beside, so that only those that are to blame fail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from poolcli.batch.executors.cluster import connected, slots_of
from poolcli.batch.executors.table import Outcomes
from poolcli.batch.memory import memory_limit
from poolcli.batch.task import Runner, Task
from poolcli.core.errors import FileError, PoolError
from poolcli.core.lazy import Lazy
from poolcli.core.stop import check_stopped
from poolcli.job.failure import failure
from poolcli.job.outcome import Outcome
from poolcli.job.pool_file import Progress

distributed = Lazy("distributed")

RETRIES = 3
IN_FLIGHT = 4  # messages for each worker
LONG_ENOUGH = 1.0  # seconds of work in a message
MOST = 1000  # jobs in a message

Group = list[tuple[int, Task]]


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """The outcomes as they come, of workers of `cluster`; without one, of `count` processes of this machine."""
    with connected(cluster or f"local:{count}") as client:
        flow = _Flow(client, runner, iter(enumerate(tasks)), len(tasks), slots_of(client))
        try:
            yield from flow.outcomes()
        except GeneratorExit:
            flow.cancel()
            raise
        except BaseException:  # stopped: what was done by now counts
            yield from flow.last_words()
            raise


@dataclass
class _Flow:
    """Groups of tasks on their way to the workers and back."""

    client: Any
    runner: Runner
    waiting: Iterator[tuple[int, Task]]
    left: int  # of those that wait
    slots: int
    size: int = 1
    flying: dict[Any, Group] = field(default_factory=dict)
    trial: Any = None  # the one in flight alone
    suspects: Group = field(default_factory=list)

    def __post_init__(self) -> None:
        self._landing = distributed.as_completed(loop=self.client.loop)

    def outcomes(self) -> Outcomes:
        self._send()
        while self.flying:
            check_stopped()
            yield from self._taken(next(self._landing))
            self._send()

    def _send(self) -> None:
        """Keeps as many groups in flight as are allowed; suspects go alone, when nothing else is left."""
        while len(self.flying) < IN_FLIGHT * self.slots:
            fair = max(1, self.left // (IN_FLIGHT * self.slots))
            group = list(islice(self.waiting, min(self.size, fair)))
            self.left -= len(group)
            if not group:
                break
            self._submit(group)
        if self.suspects and not self.flying:
            self.trial = self._submit([self.suspects.pop()])

    def _submit(self, group: Group) -> Any:
        future = self.client.submit(
            _work, self.runner, [task for _, task in group], os.getcwd(), retries=RETRIES, pure=False
        )
        self.flying[future] = group
        self._landing.add(future)
        return future

    def _taken(self, future: Any) -> Outcomes:
        """The outcomes of a group that has landed; none yet of one whose workers died beside others."""
        group = self.flying.pop(future)
        error = future.exception() if future.status == "error" else None
        if error is None:
            seconds, outcomes = future.result()
            self._weigh(seconds, len(group))
            yield from zip((number for number, _ in group), outcomes, strict=True)
        elif isinstance(error, distributed.KilledWorker) and future is not self.trial:
            self.suspects += group
        else:
            yield from ((n, Outcome(task.job, error=_failed(error, task.job.source.path))) for n, task in group)

    def _weigh(self, seconds: float, jobs: int) -> None:
        """Makes groups larger or smaller by how long one took."""
        if seconds < LONG_ENOUGH and jobs >= self.size:
            self.size = min(2 * self.size, MOST)
        elif seconds > 2 * LONG_ENOUGH:
            self.size = max(1, self.size // 2)

    def cancel(self) -> None:
        """Takes back what no worker has begun."""
        self.client.cancel(list(self.flying), force=True)

    def last_words(self) -> Outcomes:
        """What was done by now; the rest is taken back."""
        done = [future for future in self.flying if future.status == "finished"]
        for future in done:
            yield from self._taken(future)
        self.cancel()


def _failed(error: BaseException, place: str) -> PoolError:
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            f"{place}: the workers that worked on it died, one after the other; the file is damaged, or the memory too "
            "small for it"
        )
    return failure(error if isinstance(error, Exception) else RuntimeError(str(error)), place)


def _work(runner: Runner, tasks: Sequence[Task], folder: str) -> tuple[float, list[Outcome]]:
    """On a worker: the outcomes of some tasks, whose names are meant in `folder`, and the seconds that they took."""
    start = time.perf_counter()
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(
            f"{folder}: a worker cannot use this folder ({error.strerror}); all must see the same"
        ) from None
    settings = runner.settings
    # Of a worker that died, what it had done is done again: an output that exists by now is this run's own.
    own = replace(settings, max_memory=settings.allowed or _share(), overwrite=not settings.skip_existing)
    runner = replace(runner, settings=own)
    outcomes = [runner(task, lambda done, total: None) for task in tasks]
    return time.perf_counter() - start, outcomes


def _share() -> int | None:
    """Half of the memory of a thread of this worker; where the worker has no limit, of what the machine has free."""
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_limit(None)
    return half // worker.state.nthreads if half else None
