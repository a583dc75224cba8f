"""Worker processes. If one dies, its job is tried once more; then that job alone fails.

Native decoders can crash on a damaged file, which no `except` catches, so every job of a run over several files, and
every job with HDF5, runs in a worker. A worker in which HDF5 has raised an error is replaced, because the library may
be in an inconsistent state. concurrent.futures is no alternative: a dead worker breaks the whole pool, and neither its
job nor its exit code is known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

from poolcli.errors import FileError
from poolcli.formats.atomic import remove_temporary
from poolcli.formats.table import FORMATS, format_by_suffix
from poolcli.pooling.outcome import Job, Outcome, failure, picklable
from poolcli.pooling.tiles import Progress
from poolcli.runs.executors import Outcomes, Runner, Task
from poolcli.system.lazy_imports import gc_disabled, gc_frozen
from poolcli.system.signals import check_stopped, install_handlers, signals_blocked
from poolcli.system.subprocesses import Ending, context, ending, start, token_of

TRIES = 2
MAX_UNREACHED = 10  # workers in a row that die before they get a task
CLEANUP_SECONDS = 2.0  # before a worker that is terminated is killed
LARGE_IMAGE = 1 << 18  # bytes of a file from which an image probably needs a kernel
ENGINE = ("poolcli.pooling.colour", "poolcli.engine.call", "poolcli.engine.compiled.pool", "llvmlite.binding")


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the tasks in workers; yields outcomes as they come."""
    with Workers(tasks, runner, count) as workers:
        try:
            yield from workers.run(progress)
        except GeneratorExit:
            raise
        except BaseException:  # stopped; finished tasks still count
            yield from workers.finished_results(progress)
            raise


@dataclass(slots=True)
class _Worker:
    process: Any
    owner: str  # its process token, which is part of the names of its temporary files
    pipe: Connection
    given: tuple[int, Task] | None = None  # the number and the task that it is working on


class Workers:
    """At most `count` processes that run tasks; a context manager that ends them."""

    def __init__(self, tasks: Sequence[Task], runner: Runner, count: int) -> None:
        self._total, self._runner, self._count = len(tasks), runner, count
        self._tasks = enumerate(tasks)
        self._again: list[tuple[int, Task]] = []
        self._tries: dict[int, int] = {}
        self._workers: list[_Worker] = []
        self._unreached = 0  # workers in a row that no task could be sent to

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        with signals_blocked():
            at_work = self._end()
            for worker in self._workers:
                worker.pipe.close()
            for worker in at_work:
                if worker.given is not None:
                    _remove_partial_outputs(worker.given[1].job, worker.owner)

    def _end(self) -> list[_Worker]:
        """Ends all processes; returns the workers that had a job."""
        at_work = [worker for worker in self._workers if worker.given is not None]
        for worker in self._workers:
            if worker in at_work:
                worker.process.terminate()
            else:
                worker.pipe.close()  # an idle worker ends when its pipe is closed
        for worker in self._workers:
            worker.process.join(CLEANUP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        return at_work

    def run(self, progress: Progress) -> Outcomes:
        """The outcomes as they come."""
        left = self._total
        while left:
            check_stopped()
            self._assign()
            for worker in self._wait():
                found = self._receive(worker, progress)
                if found is not None:
                    left -= 1
                    yield found

    def finished_results(self, progress: Progress) -> Outcomes:
        """Ends all workers; yields the outcomes that they have sent."""
        for worker in self._end():
            with suppress(EOFError, OSError):
                while worker.given is not None and worker.pipe.poll():
                    found = self._handle(worker, worker.pipe.recv(), progress)
                    if found is not None:
                        yield found

    def _assign(self) -> None:
        """Sends a task to every idle worker, and starts workers while there are more tasks."""
        while True:
            idle = next((worker for worker in self._workers if worker.given is None), None)
            if idle is None and len(self._workers) >= self._count:
                return
            following = self._again.pop() if self._again else next(self._tasks, None)
            if following is None:
                return
            if idle is None:
                _load_before_fork(following[1].job)
                idle = self._start()
            idle.given = following
            try:
                idle.pipe.send(following[1])
            except OSError as error:  # it died while it was idle, so no task is to blame
                self._again.append(following)
                self._remove(idle)
                self._unreached += 1
                if self._unreached > MAX_UNREACHED:
                    raise FileError(f"no worker can be given a file: {error.strerror}") from error
            else:
                self._unreached = 0

    def _start(self) -> _Worker:
        here, there = context().Pipe()
        with signals_blocked(), gc_frozen():
            process = start(_run_worker, there, [worker.pipe for worker in self._workers] + [here], self._runner)
            worker = _Worker(process, token_of(process.pid), here)
            self._workers.append(worker)
        there.close()
        return worker

    def _wait(self) -> list[_Worker]:
        busy = {worker.pipe: worker for worker in self._workers if worker.given is not None}
        return [busy[pipe] for pipe in wait(list(busy))]  # type: ignore[index]

    def _receive(self, worker: _Worker, progress: Progress) -> tuple[int, Outcome] | None:
        """The outcome that a worker sends; None for progress, and if the task of a dead worker is tried again."""
        try:
            return self._handle(worker, worker.pipe.recv(), progress)
        except (EOFError, OSError):
            given, end = worker.given, self._remove(worker)
        if given is None:
            return None
        number, job = given[0], given[1].job
        _remove_partial_outputs(job, worker.owner)
        self._tries[number] = self._tries.get(number, 0) + 1
        if self._tries[number] < TRIES and not end.each_time:
            self._again.append((number, replace(given[1], retried=True)))
            return None
        times = "" if end.each_time else ", twice"
        why = f"the process that handled it {end.how}{times}; {end.why}"
        return number, Outcome(job, error=FileError(f"{job.source.path}: {why}"))

    def _handle(self, worker: _Worker, message: tuple[Any, ...], progress: Progress) -> tuple[int, Outcome] | None:
        kind, *content = message
        given = worker.given
        if kind == "progress":
            progress(*content)
        if kind == "progress" or given is None:
            return None
        worker.given = None
        if kind == "last":
            self._remove(worker)
        return given[0], content[0]

    def _remove(self, worker: _Worker) -> Ending:
        worker.pipe.close()  # ends the worker if it is still running
        end = ending(worker.process)
        self._workers.remove(worker)
        return end


def _load_before_fork(job: Job) -> None:
    """Imports the packages that a job needs before a worker is forked, so that workers share them."""
    row = format_by_suffix(job.source.path, FORMATS.values())
    if row is None or row.fragile:  # libraries that may crash are loaded by workers only
        return
    modules = [row.module, *row.preloads]
    with suppress(OSError):
        modules += ENGINE if row.is_image and os.path.getsize(job.source.path) >= LARGE_IMAGE else ()
    with gc_disabled():
        for module in modules:
            with suppress(Exception):  # it occurs again where the module is used
                import_module(module)


def _remove_partial_outputs(job: Job, owner: str) -> None:
    for path in job.outputs:
        remove_temporary(path, owner)


def _run_worker(pipe: Connection, others: Sequence[Connection], runner: Runner) -> None:
    """The main loop of a worker: receives tasks and sends outcomes, until the other end is closed."""
    for other in others:
        other.close()  # a copy here would keep the pipe open after the parent closed it
    install_handlers()
    try:
        while True:
            task = pipe.recv()
            outcome = runner(task, lambda done, total: pipe.send(("progress", done, total)))
            worn = outcome.error is not None and "h5py" in sys.modules
            _send(pipe, "last" if worn else "done", outcome)
            if worn:
                break
    except (EOFError, BrokenPipeError, ConnectionError):
        pass


def _send(pipe: Connection, kind: str, outcome: Outcome) -> None:
    """Sends an outcome; an outcome that cannot be pickled becomes a failure."""
    try:
        pipe.send((kind, picklable(outcome)))
    except (BrokenPipeError, ConnectionError):
        raise
    except Exception as error:
        job = outcome.job
        pipe.send((kind, Outcome(job, error=failure(error, job.source.path))))
