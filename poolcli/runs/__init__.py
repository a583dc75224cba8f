"""Runs all jobs of a command: in this process, in workers or on a Dask cluster, with or without a manifest."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from poolcli import __version__
from poolcli.errors import FileError, RequestError
from poolcli.formats import FORMATS, is_fragile, open_array, output_format, recognised
from poolcli.formats.atomic import atomic_stream, os_errors
from poolcli.formats.checks import memory_limit_of
from poolcli.formats.files import fingerprint_of, state_of
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes, values_of
from poolcli.pooling.outcome import Job, Outcome, Record, Settings, existing_outputs, failure
from poolcli.pooling.prepare import prepare_job
from poolcli.pooling.run import ArrayJob
from poolcli.pooling.tiles import Clock, Distribute, Progress, no_progress
from poolcli.system.processes import allowed_threads
from poolcli.system.signals import check_stopped

Outcomes = Generator[tuple[int, Outcome], None, None]  # the numbers of jobs with their outcomes, in any order
EXECUTORS = ("here", "workers", "dask")  # the last two are modules with a function `run`
NAME = ".poolcli.jsonl"
FIRST_LINE = b'{"output": '
MAX_LINE = 2**20  # bytes
# Settings that do not change any output.
IRRELEVANT_SETTINGS = ("threads", "max_memory", "allowed", "dry_run", "overwrite", "resume")


def run_job(
    job: Job, op: Attributes, settings: Settings, progress: Progress = no_progress, distribute: Distribute | None = None
) -> Outcome:
    """Runs a job; an error becomes the outcome's `error`, with the input's name in its message."""
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        if job.refusal:
            raise job.refusal
        limit = memory_limit_of(job.source.path, settings.max_memory, settings.allowed)
        job = replace(job, source=recognised(job.source))
        rescale = settings.rescale if output_format(job.output or ".png").is_image else None
        settings = replace(settings, max_memory=limit, rescale=rescale)
        if settings.arrays is not None and FORMATS[str(job.source.format)].is_container:
            from poolcli.pooling.bundle import run_bundle

            return run_bundle(job, op, settings, clock)
        with ExitStack() as stack:
            with clock.phase("read"):
                file = stack.enter_context(open_array(job.source, _read_options(job, op, settings)))
            outcome = prepare_job(outcome, op, settings, file.header, in_parts=file.streams)
            allowed = settings.overwrite or settings.resume or settings.dry_run or job.source.path != "-"
            if existing := next(existing_outputs(() if allowed else [job]), ""):  # others are refused before the run
                raise RequestError(f"{existing} exists; use {field('overwrite')}, or another {field('output')}")
            return outcome if settings.dry_run else ArrayJob(outcome, settings, file, clock, progress).run(distribute)
    except Exception as error:  # of any kind: what goes wrong with one input must not end the others
        if "-" in (job.output, job.indices) and isinstance(error, OSError) and not isinstance(error, FileError):
            raise  # an error of standard output, not of the input
        return replace(outcome, error=failure(error, job.source.path))


def _read_options(job: Job, op: Attributes, settings: Settings) -> ReadOptions:
    """How the input is read: tensors get the numbers that it stores, and modes the indices that the output can keep."""
    row = output_format(job.output or "-")
    options = settings.read_options
    indexed = op.reducer.votes and options.ndim in (None, 2)  # a layout such as HWC asks for colours
    if indexed and row.is_image:
        from poolcli.formats.image.modes import INDICES, MODES_BY_FORMAT

        indexed = INDICES in MODES_BY_FORMAT[row.name]
    volume = settings.layout is None and values_of(op) == 3
    return replace(options, as_stored=not row.is_image, indexed=indexed, volume=volume)


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs jobs in any process; it can be pickled, and it writes nothing but the outputs."""

    op: Attributes
    settings: Settings
    options: str = ""  # the hash for records
    folder: str | None = None  # of the manifest, if there is one
    distribute: Distribute | None = None

    def __call__(self, job: Job, progress: Progress) -> Outcome:
        """The outcome of a job, with a record for the manifest; skipped if its known record is current."""
        settings = self.settings
        if job.retried or (settings.resume and self.folder is not None):  # the first try may have written the output
            settings = replace(settings, overwrite=True)
        if job.known and job.known.get("options") == self.options:
            with suppress(OSError):  # a file is gone
                if self.record_of(job).items() <= job.known.items():  # others may say more
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
        return {
            "output": os.path.relpath(str(job.output), self.folder),
            "indices": os.path.relpath(job.indices, self.folder) if job.indices else None,
            "input": str(job.source),
            "input_size": state.size,
            "input_mtime_ns": state.mtime_ns,
            "options": self.options,
            "output_hash": state_of(str(job.output)),
            "indices_hash": state_of(job.indices) if job.indices else None,
        }


def load_executor(name: str) -> Callable[..., Outcomes]:
    """The function that runs jobs in the way of that name, at most so many at once; Dask's also takes the value of
    --cluster. If the run is stopped, its processes are ended.
    """
    run: Callable[..., Outcomes] = run_here if name == "here" else import_module(f"poolcli.runs.{name}").run
    return run


def run_here(jobs: Sequence[Job], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """Runs the jobs in this process, one after the other."""
    for number, job in enumerate(jobs):
        yield number, runner(job, progress)
        check_stopped()


def run_all(
    jobs: Sequence[Job],
    op: Attributes,
    settings: Settings,
    *,
    executor: str,
    count: int,
    folder: str | None,  # of the manifest, if there is one
    progress: Progress,
    cluster: str | None = None,
) -> Generator[Outcome, None, None]:
    """Runs jobs, `count` at once, and yields their outcomes in the order of the jobs."""
    run, more = load_executor(executor), {} if cluster is None else {"cluster": cluster}
    if folder is None or settings.dry_run:
        yield from _in_order(run(jobs, Runner(op, settings), count, progress, **more))
        return
    manifest, options = Manifest(folder), options_of(op, settings)
    for path in () if settings.overwrite else manifest.unowned(existing_outputs(jobs)):
        raise RequestError(
            f"{path} exists and was made by no run that {field('resume')} could continue; "
            f"use {field('overwrite')}, or another {field('output')}"
        )
    with manifest.locked():
        manifest.begin(job for job in jobs if not job.refusal)
        jobs, failed = manifest.with_records(jobs) if settings.resume else jobs, False
        runner = Runner(op, settings, options, folder)
        for outcome in _in_order(run(jobs, runner, count, progress, **more), manifest):
            failed = failed or outcome.error is not None
            yield outcome
        if not failed:
            manifest.complete()


def choose_executor(jobs: Sequence[Job], debug: bool, cluster: str | None = None) -> str:
    """The name of the executor: `dask` on a cluster; `here` for standard streams and with --debug, else `workers` if
    there are several jobs, or a native library could crash.
    """
    streamed = any("-" in (job.source.path, job.output) for job in jobs)
    if cluster is not None:
        if streamed:
            raise RequestError(f"{field('cluster')} cannot use standard input and output, which are this process's own")
        return "dask"
    if debug or streamed:
        return "here"
    return "workers" if len(jobs) > 1 or any(is_fragile(job.source, job.output) for job in jobs) else "here"


def divide_cores(settings: Settings, jobs: int) -> tuple[int, Settings]:
    """How many jobs run at once, and settings that divide the cores and the memory among them."""
    cores = allowed_threads(settings.threads)
    count = max(1, min(jobs, cores))
    memory = settings.max_memory // count if settings.max_memory else None
    return count, replace(settings, threads=cores // count, max_memory=memory)


def _in_order(outcomes: Outcomes, manifest: Manifest | None = None) -> Iterator[Outcome]:
    """The outcomes in the order of the jobs; their records are written to the manifest as they come."""
    waiting, following = dict[int, Outcome](), 0
    with closing(outcomes):
        for number, outcome in outcomes:
            waiting[number] = outcome
            if manifest and outcome.record:
                try:
                    manifest.append([outcome.record])
                except FileError as error:
                    waiting[number] = replace(outcome, error=error)
            while following in waiting:
                yield waiting.pop(following)
                following += 1


class Manifest:
    """The manifest of one folder, by which an interrupted run is resumed. Only one run at a time can lock it.

    It is a file beside the outputs with one JSON object per line. The main process appends a line when a job begins and
    one when it ends. A job is done if the last line about its output has the current options and input (size, mtime),
    and the output has the recorded size and mtime. An output that was begun but has no record is written again. An
    incomplete last line is ignored. When all jobs are done, the lines are sorted and rewritten, so that the file does
    not depend on the order of the jobs.
    """

    def __init__(self, folder: str) -> None:
        self._folder, self.path = folder, os.path.join(folder, NAME)
        if not next(self._raw_lines(), FIRST_LINE).startswith(FIRST_LINE):
            raise RequestError(f"{self.path}: is not a manifest of poolcli; move it, or name another {field('output')}")

    def records(self) -> dict[str, Record]:
        """The last record of each output by its name."""
        return {line["output"]: line for line in self._output_lines() if "output_hash" in line}

    def with_records(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs, with the last record of the output of each that is not refused."""
        known = self.records()
        return [job if job.refusal else replace(job, known=known.get(self._name(job.output) or "")) for job in jobs]

    def unowned(self, paths: Iterable[str]) -> list[str]:
        """Those of the outputs that no run has begun."""
        asked = list(paths)
        begun = {line[name] for line in self._output_lines() for name in ("output", "indices")} if asked else ()
        return [path for path in asked if self._name(path) not in begun]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Opens the file for appending, and locks it inside the block."""
        with os_errors(self.path):
            Path(self._folder).mkdir(parents=True, exist_ok=True)
        with self._open("ab", 0) as self._stream:
            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RequestError(f"another run is writing to {self._folder}; wait until it ends") from None
            except OSError:  # a file system without locks
                pass
            yield

    def begin(self, jobs: Iterable[Job]) -> None:
        """Records that the outputs of the jobs are begun."""
        self.append({"output": self._name(job.output), "indices": self._name(job.indices)} for job in jobs)

    def complete(self) -> None:
        """Rewrites the records sorted by name, without those of removed outputs."""
        with atomic_stream(self.path, True) as stream:
            for name, record in sorted(self.records().items()):
                if os.path.exists(os.path.join(self._folder, name)):
                    stream.write(f"{json.dumps(record)}\n".encode())

    def append(self, objects: Iterable[dict[str, Any]]) -> None:
        """Appends a line for each."""
        data = "".join(f"{json.dumps(each)}\n" for each in objects).encode()
        with os_errors(self.path):
            if self._stream.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _raw_lines(self) -> Iterator[bytes]:
        """The lines of the file; none if it does not exist."""
        if os.path.lexists(self.path):
            with self._open("rb") as stream:
                while line := stream.readline(MAX_LINE):
                    yield line

    def _output_lines(self) -> Iterator[dict[str, Any]]:
        """The lines about outputs; others, and damaged ones, are passed over."""
        for line in self._raw_lines():
            with suppress(ValueError, RecursionError):
                found = json.loads(line)
                is_ours = isinstance(found, dict) and isinstance(found.get("output"), str)
                if is_ours and isinstance(found.setdefault("indices", None), str | None):
                    yield found

    def _open(self, mode: str, buffering: int = -1) -> IO[bytes]:
        """Opens the file; refuses links, which may lead to other files, and pipes, which would block."""
        try:
            return open(
                self.path, mode, buffering,
                opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666),
            )  # fmt: skip
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from error

    def _name(self, path: str | None) -> str | None:
        """A path relative to the folder of the manifest."""
        return os.path.relpath(path, self._folder) if path else None


def options_of(op: Attributes, settings: Settings) -> str:
    """A hash of the operator, the settings and the version, which the outputs depend on."""
    from hashlib import sha256  # loads OpenSSL, in 3 ms

    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in IRRELEVANT_SETTINGS}
    text = json.dumps([__version__, type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]
