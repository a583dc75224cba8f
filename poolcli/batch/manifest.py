"""What a run has done, kept beside its outputs, so that a run that was stopped can go on.

One JSON object a line, appended by the one process that runs the batch, as jobs begin and end. A job is done when the
last line about its output says with which options and from which input (size, time, hash) it was made, and the output
still has the hash that it had. An output that was begun and not ended is this program's own, and made anew: so is one
that was moved into place when the run was killed before its record was written. A last line that is torn counts for
nothing. When all jobs are done the lines are sorted and written anew, so that the file depends on what was done and not
on how.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from poolcli.batch.record import name_in
from poolcli.batch.shards import Shard
from poolcli.core.errors import FileError, RequestError
from poolcli.core.fields import field
from poolcli.formats.atomic import byte_stream
from poolcli.job.job import Job
from poolcli.job.outcome import Record, Settings
from poolcli.plan.attributes import Attributes

NAME = ".poolcli.jsonl"
OWN_LINE = b'{"output": '
LONGEST_LINE = 2**20  # bytes
RUNNING = (
    "threads",
    "max_memory",
    "allowed",
    "dry_run",
    "overwrite",
    "skip_existing",
    "resume",
    "part",
)  # change no output


def opened(path: str, flags: int) -> int:
    """A manifest itself, as a regular file: what a link leads to is somebody else's, and a pipe would wait."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file")
    return handle


def failed(path: str, error: OSError) -> FileError:
    """Why a manifest was not opened."""
    reason = "is a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
    return FileError(f"{path}: {reason}")


class Manifest:
    """The records of one folder; only one run at a time may hold it.

    A shard keeps a part of its own, beside what is known from runs before.
    """

    def __init__(self, folder: str, shard: Shard | None = None) -> None:
        self._folder, self._shard = folder, shard
        self._path = os.path.join(folder, shard.manifest if shard else NAME)
        self._before = Manifest(folder) if shard else None
        self._read()

    @property
    def known(self) -> dict[str, Record]:
        """What is known of outputs, from runs before too."""
        return {**self._before.records, **self.records} if self._before else self.records

    def _read(self) -> None:
        """Takes in the lines of the file, which may hold anything: it is refused where it is not poolcli's own."""
        self.records: dict[str, Record] = {}
        self.begun: set[str | None] = set()
        try:
            stream = os.fdopen(opened(self._path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed(self._path, error) from error
        own, any_line = False, False
        with stream:
            while line := stream.readline(LONGEST_LINE):
                any_line, own = True, line.startswith(OWN_LINE) or own
                self._take(line)
        if any_line and not own:
            raise RequestError(f"{self._path}: is no manifest of poolcli's; move it, or name another {field('output')}")

    def _take(self, line: bytes) -> None:
        try:
            content: dict[str, Any] = json.loads(line)
            names = (content["output"], content["indices"])
            if not isinstance(names[0], str) or not isinstance(names[1], str | None):
                return
            self.begun.update(names)
            if "options" in content:
                self.records[names[0]] = Record(**content)
        except (ValueError, TypeError, KeyError, RecursionError):
            return

    @contextmanager
    def held(self) -> Iterator[None]:
        """Opens the file for appending, alone, and reads what it holds."""
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._stream = opened(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise failed(self._path, error) from error
        try:
            self._lock()
            self._read()  # another run may have ended since
            yield
        finally:
            os.close(self._stream)

    def append(self, record: Record) -> None:
        """Notes that a job is done."""
        _append(self._path, self._stream, json.dumps(asdict(record)) + "\n")

    def begin(self, jobs: Sequence[Job]) -> None:
        """Notes that the outputs of the jobs are about to be made."""
        names = ({key: self._name(path) for key, path in _outputs(job).items()} for job in jobs)
        _append(self._path, self._stream, "".join(json.dumps(content) + "\n" for content in names))

    def tidy(self, options: str) -> None:
        """Writes the records in the order of their names, without those whose outputs are gone; behind those of a shard
        that it has ended, and its options.
        """
        self._read()
        kept = [r for name, r in sorted(self.records.items()) if os.path.exists(os.path.join(self._folder, name))]
        with byte_stream(self._path, True) as stream:
            for record in kept:
                stream.write((json.dumps(asdict(record)) + "\n").encode())
            if self._shard:
                ended = {"output": None, "shard": str(self._shard), "options": options}
                stream.write((json.dumps(ended) + "\n").encode())

    def is_own(self, path: str) -> bool:
        """Whether a run made the output, or began to."""
        return self._name(path) in self.begun or (self._before is not None and self._before.is_own(path))

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


def _append(path: str, stream: int, lines: str) -> None:
    data = lines.encode()
    try:
        if os.write(stream, data) < len(data):
            raise OSError(28, os.strerror(28))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def _outputs(job: Job) -> dict[str, str | None]:
    return {"output": job.output, "indices": job.indices}
