"""Tasks, and the table of the executors that run them: in this process, in workers, or on a Dask cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module

from poolcli.errors import RequestError
from poolcli.formats.files import checksum_of, fingerprint_of
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.jobs import run_job
from poolcli.pooling.outcome import Job, Outcome, Record, Settings, failure
from poolcli.pooling.tiles import Distribute, Progress
from poolcli.system.lazy_imports import need
from poolcli.system.signals import check_stopped


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Task:
    """A job, the record of its output by an earlier run, and whether a process that ran it may have died before."""

    job: Job
    known: Record | None = None
    retried: bool = False


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs tasks in any process; it can be pickled, and it writes nothing but the outputs.

    `folder` is that of the manifest, None without one; `options` is the hash for its records; `distribute` computes the
    parts of a job in other processes.
    """

    op: Attributes
    settings: Settings
    options: str = ""
    folder: str | None = None
    distribute: Distribute | None = None

    def __call__(self, task: Task, progress: Progress) -> Outcome:
        """The outcome of a job, with a record for the manifest; skipped if its known record is current."""
        job, settings = task.job, self.settings
        if task.retried or (settings.resume and self.folder is not None):  # the first try may have written the output
            settings = replace(settings, overwrite=True)
        if task.known and self.is_current(task.known, job):
            return Outcome(job, skipped=True)
        outcome = run_job(job, self.op, settings, progress, self.distribute)
        if self.folder is None or outcome.error or outcome.skipped:
            return outcome
        try:
            return replace(outcome, record=self.record_of(job))
        except OSError as error:
            return replace(outcome, error=failure(error, job.source.path))

    def record_of(self, job: Job) -> Record:
        """The record of a finished job."""
        state = fingerprint_of(job.source.path)
        return Record(
            output=os.path.relpath(str(job.output), self.folder),
            indices=os.path.relpath(job.indices, self.folder) if job.indices else None,
            input=str(job.source),
            input_size=state.size,
            input_mtime_ns=state.mtime_ns,
            options=self.options,
            output_hash=checksum_of(str(job.output)),
            indices_hash=checksum_of(job.indices) if job.indices else None,
        )

    def is_current(self, known: Record, job: Job) -> bool:
        try:
            return known.options == self.options and known == self.record_of(job)
        except OSError:
            return False


Outcomes = Generator[tuple[int, Outcome], None, None]

# Runs tasks, at most so many at once, and yields the number of each with its outcome, in any order. A failed task is an
# outcome with an error. If the run is stopped, its processes are ended.
Run = Callable[[Sequence[Task], Runner, int, Progress], Outcomes]

EXECUTORS = {  # by name, the module with the function `run`
    "here": "poolcli.runs.executors",
    "workers": "poolcli.runs.executors.workers",
    "dask": "poolcli.runs.executors.dask",
}


def load_executor(name: str, cluster: str | None = None) -> Run:
    """Imports and returns an executor; `cluster` is the value of --cluster."""
    run: Run = import_module(EXECUTORS[name]).run
    return run if cluster is None else partial(run, cluster=cluster)  # type: ignore[call-arg]  # of Dask's


SCHEDULER_FILE = ".json"  # extension of scheduler files
LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s@]+:\d+/?")


def check_cluster(word: str) -> None:
    """Refuses a value of --cluster that names no cluster, or whose packages are missing."""
    local = LOCAL.fullmatch(word)
    if not local and not _ADDRESS.fullmatch(word) and not word.endswith(SCHEDULER_FILE):
        raise RequestError(
            f"{field('cluster')} is {word[:60]!r}; write local, local:4, tcp://HOST:PORT, tls://HOST:PORT, or a "
            f"scheduler file ({SCHEDULER_FILE})"
        )
    modules = ("distributed", *(["cryptography"] if local else []))
    need(*modules, why=f"{field('cluster', word)} runs on Dask")


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the tasks in this process, one after the other."""
    for number, task in enumerate(tasks):
        yield number, runner(task, progress)
        check_stopped()
