"""Worker processes. If one dies, its job is tried once more in another; then that job alone fails.

Native decoders can crash on a damaged file, which no `except` catches, so every job of a run over several files, and
every job with HDF5, runs in a worker. A worker is replaced after an error, because a library such as HDF5 may be in an
inconsistent state. concurrent.futures is no alternative: a dead worker breaks the whole pool, and neither its job nor
its exit code is known.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from poolcli.engine import choose
from poolcli.formats.atomic import remove, temporary_path, token_of
from poolcli.pooling.outcome import Job, Outcome
from poolcli.pooling.tiles import Progress
from poolcli.runs import Outcomes, Runner
from poolcli.system.processes import context, crash_of, start
from poolcli.system.signals import check_stopped, install_handlers, signals_blocked

CLEANUP_SECONDS = 2.0  # before a worker that is terminated is killed


@dataclass(slots=True, eq=False)
class _Worker:
    process: Any
    pipe: Connection
    given: tuple[int, Job] | None = None  # the number and the job that it is working on

    def end(self) -> None:
        """Waits for the process, and removes the temporary files of its job."""
        self.pipe.close()  # which ends the process, if it waits for a job
        self.process.join(CLEANUP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        for path in self.given[1].outputs if self.given else ():
            remove(temporary_path(os.path.realpath(path), token_of(self.process.pid)))


def run(jobs: Sequence[Job], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the jobs in at most `count` workers; yields outcomes as they come."""
    waiting, workers = [*enumerate(jobs)][::-1], list[_Worker]()
    try:
        while busy := _assign(waiting, workers, runner, count):
            for pipe in wait(list(busy)):
                worker, number, job = busy[pipe]  # type: ignore[index]
                try:
                    found = worker.pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    worker.end()
                    if not job.retried:
                        waiting.append((number, replace(job, retried=True)))
                        continue
                    error = crash_of(worker.process, job.source.path, "handled", ", twice")
                    yield number, Outcome(job, error=error)
                    continue
                if isinstance(found, tuple | str):
                    progress(*found) if isinstance(found, tuple) else choose.announce(found)
                    continue
                worker.given = None
                if found.error is not None:
                    workers.remove(worker)
                    worker.end()
                yield number, found
            check_stopped()
    finally:
        with signals_blocked():
            for worker in workers:
                worker.process.terminate()
            for worker in workers:
                worker.end()


def _assign(
    waiting: list[tuple[int, Job]], workers: list[_Worker], runner: Runner, count: int
) -> dict[Connection, tuple[_Worker, int, Job]]:
    """Gives jobs to idle workers, and to new ones while there are more; returns workers at work by their pipes."""
    idle = [worker for worker in workers if worker.given is None]
    while waiting and (idle or len(workers) < count):
        worker = idle.pop() if idle else _start(workers, runner)
        worker.given = waiting.pop()
        try:
            worker.pipe.send(worker.given[1])
        except OSError:  # it has died, or cannot be reached, which is found when its pipe is read
            worker.process.kill()
    return {worker.pipe: (worker, *worker.given) for worker in workers if worker.given is not None}


def _start(workers: list[_Worker], runner: Runner) -> _Worker:
    here, there = context().Pipe()
    with signals_blocked():
        gc.freeze()  # a collection in the child would copy the pages of existing objects
        process = start(_run_worker, there, [worker.pipe for worker in workers] + [here], runner)
        workers.append(_Worker(process, here))
        gc.unfreeze()
    there.close()
    return workers[-1]


def _run_worker(pipe: Connection, others: Sequence[Connection], runner: Runner) -> None:
    """The main loop of a worker: receives jobs and sends outcomes, until the other end is closed."""
    for other in others:
        other.close()  # a copy here would keep the pipe open after the parent closed it
    install_handlers()
    choose.announce = pipe.send  # this process has no progress bar, below which a notice must stand
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(runner(pipe.recv(), lambda *done: pipe.send(done)))
