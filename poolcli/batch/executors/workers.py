"""Processes that run jobs, several at once. One that dies costs its file a second try, and then that file alone.

Native decoders can crash on a damaged file, and no `except` helps; so every job of a run over several files, and
every job with HDF5 in it, runs in a process of its own. A worker that has met an error in HDF5 is replaced: its
library may be in no state to go on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import FrameType, TracebackType
from typing import Any, Self

from poolcli.core.errors import FileError
from poolcli.core.processes import CONTEXT, ending, start
from poolcli.formats.atomic import remove_part
from poolcli.job.job import Job
from poolcli.job.outcome import Outcome
from poolcli.job.pool_file import Progress

TRIES = 2
PATIENCE = 2.0  # seconds in which a worker that is asked to stop may clean up

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of the C library's mallopt

Run = Callable[[Job, Progress], Outcome]


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Connection
    number: int | None = None  # of the job that it holds


class Workers:
    """At most `count` processes that call `run`; a context manager, at whose end none is left."""

    def __init__(self, count: int, run: Run) -> None:
        self._count, self._run = count, run
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        held = [worker for worker in self._workers if worker.number is not None]
        for worker in self._workers:
            worker.pipe.close()  # ends an idle worker
            if worker in held:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        for worker in held:
            _sweep(self._jobs[worker.number or 0], worker.process.pid)

    def run(self, jobs: Sequence[Job], progress: Progress) -> Iterator[Outcome]:
        """The outcomes in the order of the jobs."""
        self._jobs = jobs
        waiting = list(range(len(jobs) - 1, -1, -1))
        tries: dict[int, int] = {}
        ready: dict[int, Outcome] = {}
        for next_one in range(len(jobs)):
            while next_one not in ready:
                self._assign(waiting)
                self._listen(waiting, tries, ready, progress)
            yield ready.pop(next_one)

    def _listen(self, waiting: list[int], tries: dict[int, int], ready: dict[int, Outcome], progress: Progress) -> None:
        """Takes in what workers have sent, or waits until one sends something; the jobs of dead ones wait again."""
        for worker in self._heard():
            number = worker.number
            outcome = self._hear(worker, progress)
            if number is None or outcome is None:
                continue
            if isinstance(outcome, Outcome):
                ready[number] = outcome
                continue
            job = self._jobs[number]
            _sweep(job, worker.process.pid)
            tries[number] = tries.get(number, 0) + 1
            if tries[number] < TRIES:
                waiting.append(number)
            else:
                ready[number] = Outcome(job, error=FileError(f"{job.source.path}: {outcome}"))

    def _assign(self, waiting: list[int]) -> None:
        """Gives a job to every idle worker, and starts workers while there are more jobs."""
        while waiting:
            idle = next((worker for worker in self._workers if worker.number is None), None)
            if idle is None:
                if len(self._workers) >= self._count:
                    return
                idle = self._start()
            idle.number = waiting.pop()
            try:
                idle.pipe.send(self._jobs[idle.number])
            except OSError:  # it died while it was idle, which is no job's fault
                waiting.append(idle.number)
                self._bury(idle)

    def _start(self) -> _Worker:
        here, there = CONTEXT.Pipe()
        process = start(_serve, there, [worker.pipe for worker in self._workers] + [here], self._run)
        there.close()
        worker = _Worker(process, here)
        self._workers.append(worker)
        return worker

    def _heard(self) -> list[_Worker]:
        busy = {worker.pipe: worker for worker in self._workers if worker.number is not None}
        return [busy[pipe] for pipe in wait(list(busy))]  # type: ignore[index]

    def _hear(self, worker: _Worker, progress: Progress) -> Outcome | str | None:
        """The outcome that a worker sends, why it died, or None for a sign of life."""
        try:
            kind, *content = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if kind == "progress":
            progress(*content)
            return None
        if kind == "raised":
            raise content[0]
        worker.number = None
        if kind == "last":
            self._bury(worker)
        outcome: Outcome = content[0]
        return outcome

    def _bury(self, worker: _Worker) -> str:
        how = ending(worker.process)
        worker.pipe.close()
        self._workers.remove(worker)
        return f"the process that worked on it {how}, twice; the file is damaged, or the memory too small for it"


def _sweep(job: Job, process: int) -> None:
    for path in job.outputs:
        remove_part(path, process)


def _serve(pipe: Connection, others: Sequence[Connection], run: Run) -> None:
    """The life of a worker: jobs in, outcomes out, until the other end is closed."""
    for other in others:
        other.close()  # else this process would keep alive what only the parent should
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    signal.signal(signal.SIGTERM, _stop)
    _keep_freed_memory()
    code = 0
    try:
        while True:
            job = pipe.recv()
            outcome = run(job, lambda done, total: pipe.send(("progress", done, total)))
            worn = outcome.error is not None and "h5py" in sys.modules
            pipe.send(("last" if worn else "done", outcome))
            if worn:
                break
    except (EOFError, BrokenPipeError, ConnectionError):
        pass
    except SystemExit:
        code = 143
    except Exception as error:
        error.add_note(traceback.format_exc())
        pipe.send(("raised", error))
    sys.stdout.flush()
    os._exit(code)  # HDF5 can crash in what it does at exit, after all is done


def _keep_freed_memory() -> None:
    """Lets the arrays of one file have the memory of those before: getting it anew took a tenth of the time."""
    setting = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if setting is not None:
        setting(M_MMAP_THRESHOLD, 2**30)
        setting(M_TRIM_THRESHOLD, 2**30)


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(143)
