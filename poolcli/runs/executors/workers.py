"""Worker processes. If one dies, its job is tried once more in another; then that job alone fails.

Native decoders can crash on a damaged file, which no `except` catches, so every job of a run over several files, and
every job with HDF5, runs in a worker. A worker in which HDF5 has raised an error is replaced, because the library may
be in an inconsistent state. concurrent.futures is no alternative: a dead worker breaks the whole pool, and neither its
job nor its exit code is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.atomic import remove_temporary
from poolcli.formats.table import FORMATS, format_by_suffix
from poolcli.pooling.outcome import Outcome, failure, picklable
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task
from poolcli.system.lazy_imports import gc_disabled, gc_frozen
from poolcli.system.signals import check_stopped, install_handlers, signals_blocked
from poolcli.system.subprocesses import context, ending, start, token_of

CLEANUP_SECONDS = 2.0  # before a worker that is terminated is killed


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the tasks in at most `count` workers; yields outcomes as they come."""
    workers = Workers(tasks, runner, count)
    try:
        yield from workers.outcomes(progress)
    except GeneratorExit:
        raise
    except BaseException:  # stopped; finished tasks still count
        workers.end()
        yield from workers.sent_outcomes(progress)
        raise
    finally:
        workers.end()


@dataclass(slots=True)
class _Worker:
    process: Any
    owner: str  # its process token, which is part of the names of its temporary files
    pipe: Connection
    given: tuple[int, Task] | None = None  # the number and the task that it is working on

    def remove_temporary(self) -> None:
        """Removes the temporary files of its task."""
        for path in self.given[1].job.outputs if self.given else ():
            remove_temporary(path, self.owner)


class Workers:
    """At most `count` processes that run tasks."""

    def __init__(self, tasks: Sequence[Task], runner: Runner, count: int) -> None:
        self._tasks, self._runner, self._count = enumerate(tasks), runner, count
        self._again: list[tuple[int, Task]] = []
        self._workers: list[_Worker] = []

    def outcomes(self, progress: Progress) -> Iterator[tuple[int, Outcome]]:
        """The outcomes as they come."""
        while busy := self._assign():
            for pipe in wait(list(busy)):
                found = self._receive(busy[pipe], progress)  # type: ignore[index]
                if found is not None:
                    yield found
            check_stopped()

    def sent_outcomes(self, progress: Progress) -> Iterator[tuple[int, Outcome]]:
        """The outcomes that workers sent before they were ended."""
        for worker in list(self._workers):
            with suppress(EOFError, OSError):
                while worker.given is not None and worker.pipe.poll():
                    found = self._handle(worker, worker.pipe.recv(), progress)
                    if found is not None:
                        yield found

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
            with suppress(OSError):  # it has died, which is found when its pipe is read
                worker.pipe.send(following[1])
        return {worker.pipe: worker for worker in self._workers if worker.given is not None}

    def _start(self, task: Task) -> _Worker:
        _import_before_fork(task)
        here, there = context().Pipe()
        with signals_blocked(), gc_frozen():
            process = start(_run_worker, there, [worker.pipe for worker in self._workers] + [here], self._runner)
            worker = _Worker(process, token_of(process.pid), here)
            self._workers.append(worker)
        there.close()
        return worker

    def _receive(self, worker: _Worker, progress: Progress) -> tuple[int, Outcome] | None:
        """The outcome that a worker sends; None for progress, and if the task of a dead worker is tried again."""
        try:
            return self._handle(worker, worker.pipe.recv(), progress)
        except (EOFError, OSError):
            worker.pipe.close()
            end = ending(worker.process)
        assert worker.given is not None  # noqa: S101  # only workers at work are read
        number, task = worker.given
        worker.remove_temporary()
        self._workers.remove(worker)
        if not task.retried:
            self._again.append((number, replace(task, retried=True)))
            return None
        message = f"{task.job.source.path}: the process that handled it {end.how}, twice; {end.why}"
        return number, Outcome(task.job, error=FileError(message))

    def _handle(self, worker: _Worker, message: tuple[Any, ...], progress: Progress) -> tuple[int, Outcome] | None:
        kind, *content = message
        if kind == "progress":
            progress(*content)
            return None
        assert worker.given is not None  # noqa: S101  # as above
        number, worker.given = worker.given[0], None
        if kind == "last":
            worker.pipe.close()
            worker.process.join()
            self._workers.remove(worker)
        return number, content[0]


def _import_before_fork(task: Task) -> None:
    """Imports the modules that read a task's input before a worker is forked, so that workers share them."""
    row = format_by_suffix(task.job.source.path, FORMATS.values())
    with gc_disabled():
        for module in (row.module, *row.preloads) if row and not row.fragile else ():
            with suppress(Exception):  # it occurs again where the module is used
                import_module(module)


def _run_worker(pipe: Connection, others: Sequence[Connection], runner: Runner) -> None:
    """The main loop of a worker: receives tasks and sends outcomes, until the other end is closed."""
    for other in others:
        other.close()  # a copy here would keep the pipe open after the parent closed it
    install_handlers()
    with suppress(EOFError, ConnectionError):
        kind = "done"
        while kind == "done":
            task = pipe.recv()
            outcome = runner(task, lambda done, total: pipe.send(("progress", done, total)))
            kind = "last" if outcome.error is not None and "h5py" in sys.modules else "done"
            _send(pipe, kind, outcome)


def _send(pipe: Connection, kind: str, outcome: Outcome) -> None:
    """Sends an outcome; an outcome that cannot be pickled becomes a failure."""
    try:
        pipe.send((kind, picklable(outcome)))
    except ConnectionError:
        raise
    except Exception as error:
        pipe.send((kind, Outcome(outcome.job, error=failure(error, outcome.job.source.path))))
