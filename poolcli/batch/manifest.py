"""What a run has done, kept beside its outputs, so that a run that was stopped can go on.

One JSON object a line, appended as jobs begin and end. A job is done when the last line about its output says with
which options and from which input (size, time, hash) it was made, and the output still has the hash that it had. An
output that was begun and not ended is this program's own, and made anew. A last line that is torn counts for nothing.
When all jobs are done the lines are sorted and written anew, so that the file depends on what was done and not on how.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from poolcli.core.errors import FileError, RequestError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.state import digest_of, state_of
from poolcli.job.job import Job
from poolcli.job.outcome import Record, Settings
from poolcli.plan.attributes import Attributes

NAME = ".poolcli.jsonl"
MOST_HASHED = 2**28  # bytes; larger inputs are known by size and time alone
RUNNING = ("threads", "max_memory", "allowed", "dry_run", "overwrite", "skip_existing", "resume")  # change no output


class Manifest:
    """The records of one folder; only one run at a time may hold it."""

    def __init__(self, folder: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, NAME)
        self._read()

    def _read(self) -> None:
        self.records: dict[str, Record] = {}
        self.begun: set[str] = set()
        with suppress(FileNotFoundError), open(self._path, "rb") as stream:
            for line in stream:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            content: dict[str, Any] = json.loads(line)
            self.begun.update((content["output"], content["indices"]))
            if "options" in content:
                self.records[content["output"]] = Record(**content)
        except (ValueError, TypeError, KeyError):
            return

    @contextmanager
    def held(self) -> Iterator[None]:
        """Opens the file for appending, alone; at the end of a run that came through, sorts it."""
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._stream = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise FileError(f"{self._path}: {error.strerror}") from error
        try:
            self._lock()
            yield
        finally:
            os.close(self._stream)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Notes that the outputs of the jobs are about to be made."""
        names = ({key: self._name(path) for key, path in _outputs(job).items()} for job in jobs)
        _append(self._path, self._stream, "".join(json.dumps(content) + "\n" for content in names))

    def tidy(self) -> None:
        """Writes the records in the order of their names, without those whose outputs are gone."""
        self._read()  # the processes that made the outputs have appended to it
        kept = [r for name, r in sorted(self.records.items()) if os.path.exists(os.path.join(self._folder, name))]
        with byte_stream(self._path, True) as stream:
            for record in kept:
                stream.write((json.dumps(asdict(record)) + "\n").encode())

    def is_own(self, path: str) -> bool:
        """Whether a run made the output, or began to."""
        return self._name(path) in self.begun

    def _name(self, path: str | None) -> str | None:
        return name_in(self._folder, path)

    def _lock(self) -> None:
        try:
            import fcntl

            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"another run is writing to {self._folder}; wait for its end") from None
        except (ImportError, OSError):  # a system or a file system without locks
            return


def options_of(op: Attributes, settings: Settings) -> str:
    """A hash of everything beside the input that an output depends on."""
    from importlib.metadata import version

    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in RUNNING}
    text = json.dumps([version("poolcli"), type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def append_record(folder: str, record: Record) -> None:
    """Appends to the manifest of `folder`, from whichever process; a line is written at once."""
    path = os.path.join(folder, NAME)
    stream = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        _append(path, stream, json.dumps(asdict(record)) + "\n")
    finally:
        os.close(stream)


def _append(path: str, stream: int, lines: str) -> None:
    data = lines.encode()
    try:
        if os.write(stream, data) < len(data):
            raise OSError(28, os.strerror(28))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def record_of(job: Job, options: str, folder: str) -> Record:
    """The record of a job that is done."""
    state = state_of(job.source.path)
    return Record(
        output=str(name_in(folder, job.output)),
        indices=name_in(folder, job.indices),
        input=_input_of(job),
        input_size=state.size,
        input_mtime_ns=state.mtime_ns,
        input_hash=_hash(job.source.path) if state.size <= MOST_HASHED else None,
        options=options,
        output_hash=str(_hash(job.output)),
        indices_hash=_hash(job.indices),
    )


def is_current(record: Record, job: Job, options: str, folder: str) -> bool:
    """Whether what the record says still holds: the same options, the same input, and outputs as they were made."""
    asked = (options, _input_of(job), name_in(folder, job.indices))
    if (record.options, record.input, record.indices) != asked:
        return False
    try:
        state = state_of(job.source.path)
        if (state.size, state.mtime_ns) != (record.input_size, record.input_mtime_ns) and (
            record.input_hash is None or record.input_hash != _hash(job.source.path)
        ):
            return False
        return (record.output_hash, record.indices_hash) == (_hash(job.output), _hash(job.indices))
    except OSError:
        return False


def name_in(folder: str, path: str | None) -> str | None:
    """A path as the manifest of `folder` names it."""
    return os.path.relpath(path, folder) if path else None


def _outputs(job: Job) -> dict[str, str | None]:
    return {"output": job.output, "indices": job.indices}


def _input_of(job: Job) -> str:
    return job.source.path + (f":{job.source.key}" if job.source.key else "")


def _hash(path: str | None) -> str | None:
    return None if path is None else digest_of(path)
