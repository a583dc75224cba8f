"""Worker processes. If one dies, its job is tried once more in another; then that job alone fails.

Native decoders can crash on a damaged file, which no `except` catches, so every job of a run over several files, and
every job with HDF5, runs in a worker. A worker is replaced after an error, because a library such as HDF5 may be in an
inconsistent state. concurrent.futures is no alternative: a dead worker breaks the whole pool, and neither its job nor
its exit code is known.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from poolcli.formats.atomic import remove_temporary
from poolcli.formats.table import format_by_suffix
from poolcli.pooling.outcome import Outcome, failure
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task
from poolcli.system.lazy_imports import need
from poolcli.system.processes import context, crash_of, start
from poolcli.system.signals import check_stopped, install_handlers, signals_blocked

CLEANUP_SECONDS = 2.0  # before a worker that is terminated is killed


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the tasks in at most `count` workers; yields outcomes as they come."""
    workers = Workers(tasks, runner, count, progress)
    try:
        yield from workers.outcomes()
    finally:
        workers.end()


@dataclass(slots=True, eq=False)
class _Worker:
    process: Any
    pipe: Connection
    given: tuple[int, Task] | None = None  # the number and the task that it is working on

    @property
    def task(self) -> tuple[int, Task]:
        assert self.given is not None  # noqa: S101  # asked of workers at work only
        return self.given

    def remove_temporary(self) -> None:
        for path in self.given[1].job.outputs if self.given else ():
            remove_temporary(path, self.process.pid)


class Workers:
    """At most `count` processes that run tasks."""

    def __init__(self, tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> None:
        self._tasks, self._runner, self._count, self._progress = enumerate(tasks), runner, count, progress
        self._again: list[tuple[int, Task]] = []
        self._workers: list[_Worker] = []

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """The outcomes as they come."""
        while busy := self._assign():
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                try:
                    found = self._received(worker)
                except (EOFError, OSError):
                    found = self._after_death(worker)
                if found is not None:
                    yield found
            check_stopped()

    def end(self) -> None:
        """Ends all processes, and removes the temporary files of those that had a task."""
        with signals_blocked():
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                worker.process.join(CLEANUP_SECONDS)
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()
                worker.remove_temporary()

    def _assign(self) -> dict[Connection, _Worker]:
        """Gives tasks to idle workers, and to new ones while there are more; returns workers at work by their pipes."""
        idle = [worker for worker in self._workers if worker.given is None]
        while idle or len(self._workers) < self._count:
            following = self._again.pop() if self._again else next(self._tasks, None)
            if following is None:
                break
            worker = idle.pop() if idle else self._start(following[1])
            worker.given = following
            try:
                worker.pipe.send(following[1])
            except OSError:  # it has died, or cannot be reached, which is found when its pipe is read
                worker.process.kill()
        return {worker.pipe: worker for worker in self._workers if worker.given is not None}

    def _start(self, task: Task) -> _Worker:
        _import_before_fork(task)
        here, there = context().Pipe()
        with signals_blocked():
            gc.freeze()  # a collection in the child would copy the pages of existing objects
            process = start(_run_worker, there, [worker.pipe for worker in self._workers] + [here], self._runner)
            worker = _Worker(process, here)
            self._workers.append(worker)
            gc.unfreeze()
        there.close()
        return worker

    def _received(self, worker: _Worker) -> tuple[int, Outcome] | None:
        """The outcome that a worker sends; None for progress."""
        message = worker.pipe.recv()
        if isinstance(message, tuple):
            self._progress(*message)
            return None
        number, _ = worker.task
        worker.given = None
        if message.error is not None:
            self._remove(worker)
        return number, message

    def _after_death(self, worker: _Worker) -> tuple[int, Outcome] | None:
        """The failure of the task of a dead worker; None if it is tried again."""
        number, task = worker.task
        self._remove(worker)
        worker.remove_temporary()
        if not task.retried:
            self._again.append((number, replace(task, retried=True)))
            return None
        return number, Outcome(task.job, error=crash_of(worker.process, task.job.source.path, "handled", ", twice"))

    def _remove(self, worker: _Worker) -> None:
        worker.pipe.close()  # which ends the process, if it runs
        worker.process.join()
        self._workers.remove(worker)


def _import_before_fork(task: Task) -> None:
    """Imports the modules that read a task's input before a worker is forked, so that workers share them."""
    row = format_by_suffix(task.job.source.path)
    if row and not row.fragile:
        with suppress(Exception):  # it occurs again where the module is used
            need(row.module, *row.preloads, why="")


def _run_worker(pipe: Connection, others: Sequence[Connection], runner: Runner) -> None:
    """The main loop of a worker: receives tasks and sends outcomes, until the other end is closed."""
    for other in others:
        other.close()  # a copy here would keep the pipe open after the parent closed it
    install_handlers()
    with suppress(EOFError, ConnectionError):
        while True:
            _send(pipe, runner(pipe.recv(), lambda *done: pipe.send(done)))


def _send(pipe: Connection, outcome: Outcome) -> None:
    """Sends an outcome; an outcome that cannot be pickled becomes a failure."""
    try:
        pipe.send(outcome)
    except ConnectionError:
        raise
    except Exception as error:
        pipe.send(Outcome(outcome.job, error=failure(error, outcome.job.source.path)))
