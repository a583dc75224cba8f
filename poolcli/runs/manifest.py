"""The manifest of a run, by which an interrupted run is resumed.

The manifest is a file beside the outputs with one JSON object per line. The main process appends a line when a job
begins and one when it ends. A job is done if the last line about its output has the current options and input (size,
mtime), and the output has the recorded size and mtime. An output that was begun but has no record is written again. An
incomplete last line is ignored. When all jobs are done, the lines are sorted and rewritten, so that the file does not
depend on the order of the jobs.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any

from poolcli import __version__
from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.files import relative_path
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Record, Settings

NAME = ".poolcli.jsonl"
LINES_CHECKED = 1000
RECORD_FIELDS = tuple(each.name for each in fields(Record))
FIRST_LINE = b'{"output": '
MAX_LINE = 2**20  # bytes
# Settings that do not change any output.
IRRELEVANT_SETTINGS = ("threads", "max_memory", "allowed", "dry_run", "overwrite", "resume")


class Manifest:
    """The manifest of one folder. Only one run at a time can lock it."""

    def __init__(self, folder: str) -> None:
        self._folder, self.path = folder, os.path.join(folder, NAME)
        self._check()

    def records(self) -> dict[str, Record]:
        """The last record of each output by its name."""
        lines = (line for line in self._output_lines() if line.keys() >= set(RECORD_FIELDS))
        return {line["output"]: Record(*(line[name] for name in RECORD_FIELDS)) for line in lines}

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
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from error
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
        self._append({"output": self._name(job.output), "indices": self._name(job.indices)} for job in jobs)

    def append(self, record: Record) -> None:
        """Records that a job is done."""
        self._append([vars(record)])

    def complete(self) -> None:
        """Rewrites the records sorted by name, without those of removed outputs."""
        with atomic_stream(self.path, True) as stream:
            for name, record in sorted(self.records().items()):
                if os.path.exists(os.path.join(self._folder, name)):
                    stream.write(_line(vars(record)))

    def _append(self, objects: Iterable[dict[str, Any]]) -> None:
        data = b"".join(map(_line, objects))
        try:
            if self._stream.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from error

    def _check(self) -> None:
        """Refuses a file that is not a manifest."""
        lines = list(islice(self._raw_lines(), LINES_CHECKED))
        if lines and not any(line.startswith(FIRST_LINE) for line in lines):
            raise RequestError(f"{self.path}: is not a manifest of poolcli; move it, or name another {field('output')}")

    def _raw_lines(self) -> Iterator[bytes]:
        """The lines of the file; none if it does not exist."""
        if os.path.lexists(self.path):
            with self._open("rb") as stream:
                while line := stream.readline(MAX_LINE):
                    yield line

    def _output_lines(self) -> Iterator[dict[str, Any]]:
        """The lines about outputs in this folder; others, and damaged ones, are passed over."""
        for line in self._raw_lines():
            with suppress(ValueError, RecursionError):
                found = json.loads(line)
                is_ours = isinstance(found, dict) and isinstance(found.get("output"), str)
                if is_ours and isinstance(found.setdefault("indices", None), str | None):
                    relative_path(found["output"])  # raises a ValueError for a name that leads out of the folder
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
    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in IRRELEVANT_SETTINGS}
    text = json.dumps([__version__, type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _line(record: dict[str, Any]) -> bytes:
    return f"{json.dumps(record)}\n".encode()
