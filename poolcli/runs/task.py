"""Tasks of a worker: a job with the record of an earlier run, and whether that record still holds."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from poolcli.errors import FileError
from poolcli.formats.fingerprint import checksum_of, fingerprint_of
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Record, Settings, failure
from poolcli.pooling.pool_file import Progress
from poolcli.pooling.run import run_job
from poolcli.pooling.tiles import Spread


def record_of(job: Job, options: str, folder: str) -> Record:
    """The record of a job that is done."""
    state = fingerprint_of(job.source.path)
    return Record(
        output=str(name_in(folder, job.output)),
        indices=name_in(folder, job.indices),
        input=_input_of(job),
        input_size=state.size,
        input_mtime_ns=state.mtime_ns,
        options=options,
        output_hash=str(_checksum(job.output)),
        indices_hash=_checksum(job.indices),
    )


def is_current(record: Record, job: Job, options: str, folder: str) -> bool:
    """Whether what the record says still holds: the same options, the same input, and outputs as they were made."""
    asked = (options, _input_of(job), name_in(folder, job.indices))
    if (record.options, record.input, record.indices) != asked:
        return False
    try:
        state = fingerprint_of(job.source.path)
        if (state.size, state.mtime_ns) != (record.input_size, record.input_mtime_ns):
            return False
        return (record.output_hash, record.indices_hash) == (_checksum(job.output), _checksum(job.indices))
    except OSError:
        return False


def name_in(folder: str, path: str | None) -> str | None:
    """A path as the manifest of `folder` names it."""
    return os.path.relpath(path, folder) if path else None


def _input_of(job: Job) -> str:
    return job.source.path + (f":{job.source.key}" if job.source.key else "")


def _checksum(path: str | None) -> str | None:
    return None if path is None else checksum_of(path)


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Task:
    """A job, its record by an earlier run that is to be continued, and whether a process has died of it before."""

    job: Job
    known: Record | None = None
    retried: bool = False


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs tasks, in whichever process: a task in, an outcome out, and nothing else is touched but the job's outputs.

    `folder` is the one whose manifest wants a record of each output, made with `options`; None where none is wanted.
    `spread` has the parts of a job computed elsewhere.
    """

    op: Attributes
    settings: Settings
    options: str = ""
    folder: str | None = None
    spread: Spread | None = None

    def __call__(self, task: Task, progress: Progress) -> Outcome:
        """The job's outcome, with a record where one is wanted; skipped where the known record still holds."""
        job, recorded = task.job, self.folder is not None
        try:
            if task.known and self.folder is not None and is_current(task.known, job, self.options, self.folder):
                return Outcome(job, skipped=True)
        except Exception as error:
            return Outcome(job, error=failure(error, job.source.path))
        settings = self.settings
        if task.retried and (job.output_key or job.indices_key):  # what died may have added the array already
            settings = replace(settings, overwrite=True)
        outcome = run_job(job, self.op, settings, progress, self.spread)
        if not recorded or outcome.error or outcome.skipped:
            return outcome
        try:
            return replace(outcome, record=record_of(job, self.options, str(self.folder)))
        except OSError as error:
            return replace(outcome, error=FileError(f"{job.source.path}: {error.strerror}, after it was pooled"))
