"""What a run has done, kept beside its outputs, so that a run that was stopped can go on.

One JSON object a line, appended by the one process that runs the batch, as jobs begin and end. A job is done when the
last line about its output says with which options and from which input (size, time) it was made, and the output still
has its checksum. An output that was begun and not ended is this program's own, and made anew: so is one that was moved
into place when the run was killed before its record was written. A last line that is torn counts for nothing. When all
jobs are done the lines are sorted and written anew, so that the file depends on what was done and not on how.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from hashlib import sha256
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.names import below
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Record, Settings
from poolcli.runs.shards import Shard
from poolcli.runs.task import Task, name_in
from poolcli.system.disk_list import DiskList, externally_sorted
from poolcli.version import VERSION

NAME = ".poolcli.jsonl"
AT_ONCE = 1000  # lines that are written as one
BY_OUTPUT = attrgetter("output")
NAMES = tuple(each.name for each in fields(Record))
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


class _Wanted(NamedTuple):
    """What is about one output: a record of it, or the job of a number that makes it."""

    output: str
    number: int
    what: Record | Job


class Manifest:
    """The records of one folder; only one run at a time may hold it. None of them stays in memory: what is asked of
    them is answered by going through them in the order of their names, beside what is asked about.

    A shard keeps a part of its own, beside what is known from runs before.
    """

    def __init__(self, folder: str, shard: Shard | None = None) -> None:
        self._folder, self._shard = folder, shard
        self._path = os.path.join(folder, shard.manifest if shard else NAME)
        self._before = Manifest(folder) if shard else None
        self._check()

    def records(self) -> Iterator[Record]:
        """The last record of each output, in the order of their names, those of runs before among them."""
        before = self._before.records() if self._before else iter(())
        for _, same in groupby(merge(before, self._own(), key=BY_OUTPUT), BY_OUTPUT):
            *_, last = same
            yield last

    def _own(self) -> Iterator[Record]:
        """All records in this file, in the order of their names, and of each name in that of the file."""
        return externally_sorted(filter(None, map(_record, self._contents())), BY_OUTPUT)

    def tasks(self, jobs: Iterable[Job]) -> Collection[Task]:
        """A task of each job, with the last record of its output where there is one."""
        wanted = (_Wanted(self._name(job.output) or "", number, job) for number, job in enumerate(jobs))
        known = (_Wanted(record.output, -1, record) for record in self.records())
        found: DiskList[tuple[int, Task]] = DiskList()
        for _, same in groupby(merge(known, externally_sorted(wanted, BY_OUTPUT), key=BY_OUTPUT), BY_OUTPUT):
            record: Record | None = None
            for each in same:
                if isinstance(each.what, Record):
                    record = each.what
                else:
                    found.add((each.number, Task(each.what, record)))
        return DiskList(task for _, task in externally_sorted(found, itemgetter(0)))

    def not_its_own(self, paths: Iterable[str]) -> Iterator[str]:
        """Those of some outputs that no run has made, or begun to."""
        asked = externally_sorted(((self._name(path) or "", path) for path in paths), itemgetter(0))
        first = next(asked, None)
        if first is None:
            return
        own = ((name, "") for name in externally_sorted(self._begun()))
        for _, same in groupby(merge(own, chain([first], asked), key=itemgetter(0)), itemgetter(0)):
            (_, path), *_ = same
            if path:
                yield path

    def _begun(self) -> Iterator[str]:
        """The names of outputs that were begun, in whatever order."""
        if self._before:
            yield from self._before._begun()
        for content in self._contents():
            yield from (name for name in (content["output"], content["indices"]) if name is not None)

    def _check(self) -> None:
        """Refuses a file that is not poolcli's own."""
        any_line, own = False, False
        for line in self._lines():
            any_line, own = True, line.startswith(OWN_LINE)
            if own:
                return
        if any_line and not own:
            raise RequestError(f"{self._path}: is no manifest of poolcli's; move it, or name another {field('output')}")

    def _lines(self) -> Iterator[bytes]:
        """The lines of the file, which may hold anything."""
        try:
            stream = os.fdopen(opened(self._path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed(self._path, error) from error
        with stream:
            while line := stream.readline(LONGEST_LINE):
                yield line

    def _contents(self) -> Iterator[dict[str, Any]]:
        """What the lines say that make sense."""
        for line in self._lines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                content: dict[str, Any] = json.loads(line)
                if isinstance(content["output"], str) and isinstance(content["indices"], str | None):
                    below(content["output"])  # what lies elsewhere is no output of this folder
                    yield content

    @contextmanager
    def held(self) -> Iterator[None]:
        """Opens the file for appending, alone, and reads what it holds."""
        self._open()
        try:
            self._lock()
            self._check()  # another run may have begun it since
            yield
        finally:
            os.close(self._stream)

    def _open(self) -> None:
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            self._stream = opened(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise failed(self._path, error) from error

    def append(self, record: Record) -> None:
        """Notes that a job is done."""
        if not os.fstat(self._stream).st_nlink:  # it was removed; what is made from now on must not be lost, too
            removed = self._stream
            self._open()
            os.close(removed)
            self._lock()
        _append(self._path, self._stream, line_of(record))

    def begin(self, jobs: Iterable[Job]) -> None:
        """Notes that the outputs of the jobs are about to be made."""
        names = ({key: self._name(path) for key, path in _outputs(job).items()} for job in jobs)
        lines = (json.dumps(content) + "\n" for content in names)
        while some := "".join(islice(lines, AT_ONCE)):
            _append(self._path, self._stream, some)

    def tidy(self, options: str) -> None:
        """Writes the records in the order of their names, without those whose outputs are gone; behind those of a shard
        that it has ended, and its options.
        """
        with byte_stream(self._path, True) as stream:
            for _, same in groupby(self._own(), BY_OUTPUT):
                *_, record = same
                if os.path.exists(os.path.join(self._folder, record.output)):
                    stream.write(line_of(record).encode())
            if self._shard:
                ended = {"output": None, "shard": str(self._shard), "options": options}
                stream.write((json.dumps(ended) + "\n").encode())

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
    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in RUNNING}
    text = json.dumps([VERSION, type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _append(path: str, stream: int, lines: str) -> None:
    data = lines.encode()
    try:
        if os.write(stream, data) < len(data):
            raise OSError(28, os.strerror(28))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def line_of(record: Record) -> str:
    """A record as a line."""
    return json.dumps(vars(record)) + "\n"


def _record(content: dict[str, Any]) -> Record | None:
    """The record of a line; None of one that only says what was begun, or is of another kind."""
    return Record(*(content[name] for name in NAMES)) if content.keys() >= set(NAMES) else None


def _outputs(job: Job) -> dict[str, str | None]:
    return {"output": job.output, "indices": job.indices}
