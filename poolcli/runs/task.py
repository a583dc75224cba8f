"""What a process is given to do: jobs one by one, each with what an earlier run has recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poolcli.errors import FileError
from poolcli.plan.attributes import Attributes
from poolcli.pooling.failures import failure
from poolcli.pooling.job import Job
from poolcli.pooling.outcome import Outcome, Record, Settings
from poolcli.pooling.parts import Spread
from poolcli.pooling.pool_file import Progress
from poolcli.pooling.run import run_job
from poolcli.runs.record import is_current, record_of


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
