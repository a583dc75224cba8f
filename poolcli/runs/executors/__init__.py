"""Tasks, and the table of the executors that run them: in this process, in workers, or on a Dask cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol, cast

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
    """A job, the record of its output by an earlier run, and whether a process that ran it has died before."""

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
        job, settings, folder = task.job, self.settings, self.folder
        if folder is not None and task.known and is_current(task.known, job, self.options, folder):
            return Outcome(job, skipped=True)
        if task.retried and (job.output_key or job.indices_key):  # the first try may have added the array
            settings = replace(settings, overwrite=True)
        outcome = run_job(job, self.op, settings, progress, self.distribute)
        if folder is None or outcome.error or outcome.skipped:
            return outcome
        try:
            return replace(outcome, record=record_of(job, self.options, folder))
        except OSError as error:
            return replace(outcome, error=failure(error, job.source.path))


def record_of(job: Job, options: str, folder: str) -> Record:
    """The record of a finished job."""
    state = fingerprint_of(job.source.path)
    return Record(
        output=os.path.relpath(str(job.output), folder),
        indices=os.path.relpath(job.indices, folder) if job.indices else None,
        input=job.source.path + (f":{job.source.key}" if job.source.key else ""),
        input_size=state.size,
        input_mtime_ns=state.mtime_ns,
        options=options,
        output_hash=checksum_of(str(job.output)),
        indices_hash=checksum_of(job.indices) if job.indices else None,
    )


def is_current(record: Record, job: Job, options: str, folder: str) -> bool:
    """Whether options, input and outputs are those of the record."""
    try:
        return record.options == options and record == record_of(job, options, folder)
    except OSError:
        return False


Outcomes = Generator[tuple[int, Outcome], None, None]


class Run(Protocol):
    """Runs tasks, at most `count` at once, and yields the number of each with its outcome, in any order.

    A failed task is an outcome with an error. If the run is stopped, it yields the finished outcomes, ends its
    processes, and raises the exception again.
    """

    def __call__(self, tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes: ...


EXECUTORS = {  # by name, the module with the function `run`
    "here": "poolcli.runs.executors",
    "workers": "poolcli.runs.executors.workers",
    "dask": "poolcli.runs.executors.dask",
}


def load_executor(name: str, cluster: str | None = None) -> Run:
    """Imports and returns an executor; `cluster` is the value of --cluster."""
    found: Run = import_module(EXECUTORS[name]).run
    return found if cluster is None else partial(cast("Any", found), cluster=cluster)


SCHEDULER_FILE = ".json"  # extension of scheduler files
CONFIGURED = "dask"  # --cluster dask: the scheduler in Dask's configuration
LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s@]+:\d+/?")


def check_cluster(word: str) -> None:
    """Refuses a value of --cluster that names no cluster, or whose packages are missing."""
    local = LOCAL.fullmatch(word)
    if not local and not _ADDRESS.fullmatch(word) and not word.endswith(SCHEDULER_FILE) and word != CONFIGURED:
        raise RequestError(
            f"{field('cluster')} is {word[:60]!r}; write local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a "
            f"scheduler file ({SCHEDULER_FILE}), or {CONFIGURED} (DASK_SCHEDULER_ADDRESS)"
        )
    modules = ("distributed", *(["cryptography"] if local else []))
    need(*modules, why=f"{field('cluster', word)} runs on Dask")


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the tasks in this process, one after the other."""
    for number, task in enumerate(tasks):
        yield number, runner(task, progress)
        check_stopped()
