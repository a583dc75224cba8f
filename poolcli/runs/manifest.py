"""The manifest: what a run has done, kept beside its outputs, so that an interrupted run can be resumed.

One JSON object a line, appended by the main process alone, as jobs begin and end. A job is done when the last line
about its output names the options and the input (size, mtime) that it was made from, and the output still has its
checksum.
An output that was begun and not ended belongs to this program and is made anew; so is one that was moved into place
when the run was killed before its record was written. An incomplete last line is ignored. When all jobs are done, the
lines are sorted and rewritten, so that the file depends on what was done and not on how.

Each shard of a run has a manifest of its own; `merge` makes one of them when every shard has ended.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from poolcli import __version__
from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.files import check_url, checksum_of, is_url
from poolcli.formats.names import below
from poolcli.formats.recognise import names_folder_output
from poolcli.formats.resumable import finish, shards_text
from poolcli.formats.zarr.remote import finish_store
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Record, Settings
from poolcli.runs.executors import Task, relative_name
from poolcli.runs.inputs import Shard, shard_of
from poolcli.suggestions import did_you_mean_file

NAME = ".poolcli.jsonl"
LINES_PER_WRITE = 1000  # lines that are written as one
RECORD_FIELDS = tuple(each.name for each in fields(Record))
FIRST_LINE = b'{"output": '
MAX_LINE = 2**20  # bytes
# Settings that change no output.
IRRELEVANT_SETTINGS = ("threads", "max_memory", "allowed", "dry_run", "overwrite", "skip_existing", "resume", "part")


class Manifest:
    """The records of one folder; only one run at a time may hold it.

    A shard keeps a part of its own, beside the records of earlier runs.
    """

    def __init__(self, folder: str, shard: Shard | None = None) -> None:
        self._folder, self._shard = folder, shard
        self.path = os.path.join(folder, shard.manifest if shard else NAME)
        self._before = Manifest(folder) if shard else None
        self._check()

    def records(self) -> dict[str, Record]:
        """The last record of each output by its name, those of earlier runs included."""
        return (self._before.records() if self._before else {}) | self.shard_records()

    def shard_records(self) -> dict[str, Record]:
        """The last record in this file of each output, by its name."""
        lines = (line for line in self._output_lines() if line.keys() >= set(RECORD_FIELDS))
        records = (Record(*(line[name] for name in RECORD_FIELDS)) for line in lines)
        return {record.output: record for record in records}

    def tasks(self, jobs: Iterable[Job]) -> list[Task]:
        """A task of each job, with the last record of its output where there is one."""
        known = self.records()
        return [Task(job, known.get(self._name(job.output) or "")) for job in jobs]

    def unowned(self, paths: Iterable[str]) -> list[str]:
        """Those of some outputs that no run has made or begun."""
        asked = list(paths)
        begun = set(self._begun()) if asked else ()
        return [path for path in asked if self._name(path) not in begun]

    def _begun(self) -> Iterator[str]:
        if self._before:
            yield from self._before._begun()
        for line in self._output_lines():
            yield from (name for name in (line["output"], line["indices"]) if name is not None)

    def _check(self) -> None:
        """Refuses a file that is not poolcli's own."""
        any_line = False
        for line in self._lines():
            any_line = True
            if line.startswith(FIRST_LINE):
                return
        if any_line:
            raise RequestError(f"{self.path}: is not a manifest of poolcli; move it, or name another {field('output')}")

    def _lines(self) -> Iterator[bytes]:
        """The lines of the file, which may hold anything."""
        try:
            stream = os.fdopen(_open_file(self.path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return
        with stream:
            while line := stream.readline(MAX_LINE):
                yield line

    def _contents(self) -> Iterator[dict[str, Any]]:
        """The object of each line; an empty one for any other content."""
        for line in self._lines():
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                content = None
            yield content if isinstance(content, dict) else {}

    def _output_lines(self) -> Iterator[dict[str, Any]]:
        """The lines about outputs of this folder."""
        for line in self._contents():
            if _is_inside(line.get("output")) and isinstance(line.get("indices", 0), str | None):
                yield line

    def check_names(self) -> None:
        """Refuses a part with an output that does not lie in its folder."""
        for line in self._contents():
            name = line.get("output")
            if name is not None and not _is_inside(name):
                raise FileError(
                    f"{self.path}: names the output {name!a}, which is outside this folder; pool that shard again "
                    f"with {field('overwrite')}, then merge"
                )

    def finished_options(self) -> str | None:
        """The options of a shard that has ended, which its last line names; None of one that has not."""
        *_, last = ({}, *self._contents())
        return str(last["options"]) if last.get("shard") == str(self._shard) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Opens the file for appending and locks it."""
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
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from error
        self._stream = _open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, record: Record) -> None:
        """Notes that a job is done."""
        if not os.fstat(self._stream).st_nlink:  # it was removed; what is made from now on must not be lost, too
            removed = self._stream
            self._open()
            os.close(removed)
            self._lock()
        self._append(_record_line(record))

    def begin(self, jobs: Iterable[Job]) -> None:
        """Notes that the outputs of the jobs are about to be made."""
        lines = (
            json.dumps({"output": self._name(job.output), "indices": self._name(job.indices)}) + "\n" for job in jobs
        )
        while some := "".join(islice(lines, LINES_PER_WRITE)):
            self._append(some)

    def _append(self, lines: str) -> None:
        data = lines.encode()
        try:
            if os.write(self._stream, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from error

    def complete(self, options: str) -> None:
        """Writes the records in the order of their names, without those whose outputs are gone; behind those of a shard
        that it has ended, and its options.
        """
        with byte_stream(self.path, True) as stream:
            for name, record in sorted(self.shard_records().items()):
                if os.path.exists(os.path.join(self._folder, name)):
                    stream.write(_record_line(record).encode())
            if self._shard:
                ended = {"output": None, "shard": str(self._shard), "options": options}
                stream.write((json.dumps(ended) + "\n").encode())

    def _name(self, path: str | None) -> str | None:
        return relative_name(self._folder, path)

    def _lock(self) -> None:
        try:
            import fcntl

            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"another run is writing to {self._folder}; wait until it ends") from None
        except (ImportError, OSError):  # a system or a file system without locks
            return


def options_of(op: Attributes, settings: Settings) -> str:
    """A hash of everything beside the input that an output depends on."""
    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in IRRELEVANT_SETTINGS}
    text = json.dumps([__version__, type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _open_file(path: str, flags: int) -> int:
    """Opens a manifest, which must be a regular file: a link leads to somebody else's file, and a pipe would block."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "is a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
        raise FileError(f"{path}: {reason}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(f"{path}: is not a regular file")
    return handle


def _is_inside(name: object) -> bool:
    """Whether the name of an output is a path below the folder of its manifest."""
    with suppress(ValueError):
        return isinstance(name, str) and below(name) == name
    return False


def _record_line(record: Record) -> str:
    return json.dumps(vars(record)) + "\n"


@dataclass(frozen=True, slots=True)
class Merged:
    """How many shards were merged, how many outputs they have made, and what says so: a manifest, or the output."""

    path: str
    shards: int
    outputs: int


def merge(folder: str) -> Merged:
    """Makes one manifest of the parts in `folder`, or one array of those of its shards; refused while a shard is
    missing or has not ended, or where an output is not as it was made. Merging again checks what is merged already.
    """
    check_url(folder)
    if names_folder_output(folder):
        return Merged(folder, *(finish_store(folder) if is_url(folder) else finish(folder)))
    shards, path = _shards(folder), os.path.join(folder, NAME)
    parts = {shard: Manifest(folder, shard) for shard in shards}
    records = Manifest(folder).records()
    if not (os.path.exists(path) and _is_merge_finished(path, parts, records)):
        _check_complete(folder, shards)
        _check_options(folder, parts)
        records = {name: record for name, record in records.items() if os.path.lexists(os.path.join(folder, name))}
    made_by = dict.fromkeys(records)
    for shard, part in parts.items():
        part.check_names()
        own = part.shard_records()
        records |= own
        made_by |= dict.fromkeys(own, shard)
    for name, record in records.items():
        _check_bytes(folder, record, made_by[name])
    with byte_stream(path, True) as stream:
        for _, record in sorted(records.items()):
            stream.write(_record_line(record).encode())
    for part in parts.values():
        os.unlink(part.path)
    return Merged(path, len(shards), len(records))


def _shards(folder: str) -> list[Shard]:
    """The shards that have parts in the folder, in their order."""
    try:
        names = os.listdir(folder)
    except NotADirectoryError:
        raise RequestError(f"{folder}: is a file; merge takes the output of the shards, a folder or a .zarr") from None
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}{did_you_mean_file(folder)}") from error
    return sorted((shard for shard in map(shard_of, names) if shard), key=lambda shard: (shard.count, shard.number))


def _is_merge_finished(path: str, parts: dict[Shard, Manifest], records: dict[str, Record]) -> bool:
    """Whether the manifest at `path` was made of all parts: of parts that are there, a merge was killed before it had
    removed them.
    """
    made = os.stat(path).st_mtime_ns
    return all(
        os.stat(part.path).st_mtime_ns <= made and part.shard_records().items() <= records.items()
        for part in parts.values()
    )


def _check_complete(folder: str, found: Sequence[Shard]) -> None:
    """Refuses parts that are not all of one run."""
    if not found:
        raise RequestError(f"{folder} contains no shards; pool with {field('shard', '1/4')}, 2/4, ... first")
    counts = sorted({shard.count for shard in found})
    if len(counts) > 1:
        listed = " and of ".join(map(str, counts))
        raise RequestError(f"{folder} holds parts of runs of {listed} shards; remove those of the wrong one")
    missing = sorted(set(range(1, counts[0] + 1)) - {shard.number for shard in found})
    if missing:
        raise FileError(f"{folder}: {shards_text(missing, counts[0])} not there; run what is missing, then merge again")


def _check_options(folder: str, parts: dict[Shard, Manifest]) -> None:
    """Refuses shards that have not ended, or were made with other options than the first one."""
    options = {shard: part.finished_options() for shard, part in parts.items()}
    first = next(iter(options))
    waiting = [shard.number for shard, found in options.items() if found is None]
    if waiting:
        raise FileError(
            f"{folder}: {shards_text(waiting, first.count)} not done: stopped, still running, or some inputs failed; "
            f"pool again with {field('resume')}, then merge"
        )
    for shard, found in options.items():
        if found != options[first]:
            raise RequestError(
                f"{folder}: shards {first} and {shard} were made with different options; "
                f"pool one of them again with {field('overwrite')}"
            )


def _check_bytes(folder: str, record: Record, shard: Shard | None) -> None:
    """Refuses an output that is not there, or does not have the checksum in its record."""
    for name, expected in ((record.output, record.output_hash), (record.indices, record.indices_hash)):
        if name is None or expected is None:
            continue
        path = os.path.join(folder, name)
        try:
            if checksum_of(path) == expected:
                continue
            found = "has changed since"
        except FileNotFoundError:
            found = "is not there, though"
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from error
        by = f"shard {shard} made it; pool that shard" if shard else "it was made; pool"
        raise FileError(f"{path}: {found} {by} again with {field('resume')}, then merge")
