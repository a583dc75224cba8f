"""All jobs of a run: in this process or in workers, with or without a manifest."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from poolcli.core.errors import FileError, RequestError
from poolcli.engine.threads import allowed_threads
from poolcli.formats import can_crash
from poolcli.job.job import Job, existing_outputs
from poolcli.job.outcome import Outcome, Record, Settings
from poolcli.job.pool_file import Progress
from poolcli.job.run import run_job
from poolcli.plan.attributes import Attributes

if TYPE_CHECKING:
    from poolcli.batch.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Task:
    """Runs a job, in whichever process; `folder` is that of the manifest, None without one."""

    op: Attributes
    settings: Settings
    options: str = ""
    folder: str | None = None
    records: Mapping[str, Record] | None = None

    def __call__(self, job: Job, progress: Progress) -> Outcome:
        """The job's outcome, with a record for the manifest; skipped where its record says that it is done."""
        if self.folder is None or self.settings.dry_run:
            return run_job(job, self.op, self.settings, progress)
        from poolcli.batch.manifest import append_record, is_current, name_in, record_of

        if self.records and self.settings.resume:
            known = self.records.get(str(name_in(self.folder, job.output)))
            if known and is_current(known, job, self.options, self.folder):
                return Outcome(job, skipped=True)
        outcome = run_job(job, self.op, self.settings, progress)
        if outcome.error or outcome.skipped:
            return outcome
        try:
            record = record_of(job, self.options, self.folder)
            append_record(self.folder, record)
        except FileError as error:
            return replace(outcome, error=error)
        except OSError as error:
            return replace(outcome, error=FileError(f"{job.source.path}: {error.strerror}, after it was pooled"))
        return outcome


def run_all(
    jobs: Sequence[Job], op: Attributes, settings: Settings, *, count: int, folder: str | None, progress: Progress
) -> Generator[Outcome, None, None]:
    """The outcomes in the order of the jobs, of which `count` run at once (0: in this process); `folder` is where a
    manifest is kept, None for none.
    """
    with ExitStack() as stack:
        task = Task(op, settings)
        manifest = None
        if folder is not None and not settings.dry_run:
            from poolcli.batch.manifest import Manifest, options_of

            manifest = Manifest(folder)
            _refuse_unowned(manifest, jobs, settings)
            stack.enter_context(manifest.held())
            manifest.begin([job for job in jobs if not (settings.skip_existing and existing_outputs((job,)))])
            task = Task(op, settings, options_of(op, settings), folder, manifest.records)
            if settings.resume:
                task = replace(task, settings=replace(settings, overwrite=True))
        failed = False
        for outcome in _outcomes(stack, jobs, task, count, progress):
            failed = failed or outcome.error is not None
            yield outcome
        if manifest and not failed:
            manifest.tidy()


def shared_out(settings: Settings, jobs: int, asked: int | None) -> tuple[int, Settings]:
    """How many jobs run at once, and the settings of each: together they use no more cores than are allowed."""
    if asked is not None and asked < 1:
        raise RequestError(f"--jobs is {asked}, it must be at least 1")
    cores = allowed_threads()
    threads = min(settings.threads or cores, cores)
    count = max(1, min(asked or (cores // threads if settings.threads else cores), jobs, cores))
    memory = settings.max_memory // count if settings.max_memory else None
    return count, replace(settings, threads=max(1, min(threads, cores // count)), max_memory=memory, many=jobs > 1)


def needs_workers(jobs: Sequence[Job]) -> bool:
    """Whether a crash of a native library must not end this process, or several jobs are to run at once."""
    return len(jobs) > 1 or any(can_crash(job.source.path, job.output) for job in jobs)


def _outcomes(stack: ExitStack, jobs: Sequence[Job], task: Task, count: int, progress: Progress) -> Iterator[Outcome]:
    if not count or any("-" in (job.source.path, job.output) for job in jobs):
        for job in jobs:
            yield task(job, progress)
        return
    from poolcli.batch.executors.workers import Workers

    yield from stack.enter_context(Workers(count, task)).run(jobs, progress)


def _refuse_unowned(manifest: Manifest, jobs: Sequence[Job], settings: Settings) -> None:
    if settings.overwrite or settings.skip_existing:
        return
    for path in existing_outputs(jobs):
        if not manifest.is_own(path):
            raise RequestError(
                f"{path} exists and was made by no run that --resume could continue; "
                "use --overwrite or --skip-existing, or another --output"
            )
