"""The manifest of a run, by which an interrupted run is resumed, and the merging of the manifests of shards.

The manifest is a file beside the outputs with one JSON object per line. The main process appends a line when a job
begins and one when it ends. A job is done if the last line about its output has the current options and input (size,
mtime), and the output has the recorded checksum. An output that was begun but has no record is written again. An
incomplete last line is ignored. When all jobs are done, the lines are sorted and rewritten, so that the file does not
depend on the order of the jobs.

Each shard of a run has its own manifest; `merge` combines them when all shards have finished.
"""

from __future__ import annotations

import errno
import fcntl
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
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.files import check_url, checksum_of, is_url
from poolcli.formats.names import relative_path
from poolcli.formats.recognise import is_folder_output
from poolcli.formats.resumable import describe_shards, merge_shards
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Record, Settings
from poolcli.runs.executors import Task, relative_name
from poolcli.runs.inputs import Shard, shard_of
from poolcli.suggestions import did_you_mean_file

NAME = ".poolcli.jsonl"
LINES_PER_WRITE = 1000
RECORD_FIELDS = tuple(each.name for each in fields(Record))
FIRST_LINE = b'{"output": '
MAX_LINE = 2**20  # bytes
# Settings that do not change any output.
IRRELEVANT_SETTINGS = ("threads", "max_memory", "allowed", "dry_run", "overwrite", "skip_existing", "resume", "part")


class Manifest:
    """The manifest of one folder, or of one shard beside it. Only one run at a time can lock it."""

    def __init__(self, folder: str, shard: Shard | None = None) -> None:
        self._folder, self._shard = folder, shard
        self.path = os.path.join(folder, shard.manifest if shard else NAME)
        self._before = Manifest(folder) if shard else None
        self._check()

    def records(self) -> dict[str, Record]:
        """The last record of each output by its name; a shard's own records replace those of earlier runs."""
        return (self._before.records() if self._before else {}) | self.shard_records()

    def shard_records(self) -> dict[str, Record]:
        """The last record of each output in this file, by its name."""
        lines = (line for line in self._output_lines() if line.keys() >= set(RECORD_FIELDS))
        records = (Record(*(line[name] for name in RECORD_FIELDS)) for line in lines)
        return {record.output: record for record in records}

    def tasks(self, jobs: Iterable[Job]) -> list[Task]:
        """A task for each job, with the last record of its output."""
        known = self.records()
        return [Task(job, known.get(self._name(job.output) or "")) for job in jobs]

    def unowned(self, paths: Iterable[str]) -> list[str]:
        """Those of the outputs that no run has begun."""
        asked = list(paths)
        begun = set(self._begun()) if asked else ()
        return [path for path in asked if self._name(path) not in begun]

    def _begun(self) -> Iterator[str]:
        if self._before:
            yield from self._before._begun()
        for line in self._output_lines():
            yield from (name for name in (line["output"], line["indices"]) if name is not None)

    def _check(self) -> None:
        """Refuses a file that is not a manifest."""
        any_line = False
        for line in self._lines():
            any_line = True
            if line.startswith(FIRST_LINE):
                return
        if any_line:
            raise RequestError(f"{self.path}: is not a manifest of poolcli; move it, or name another {field('output')}")

    def _lines(self) -> Iterator[bytes]:
        """The raw lines of the file; none if it does not exist."""
        try:
            stream = os.fdopen(_open_file(self.path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return
        with stream:
            while line := stream.readline(MAX_LINE):
                yield line

    def _contents(self) -> Iterator[dict[str, Any]]:
        """The JSON object on each line; an empty one for other content."""
        for line in self._lines():
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                content = None
            yield content if isinstance(content, dict) else {}

    def _output_lines(self) -> Iterator[dict[str, Any]]:
        """The lines about outputs in this folder."""
        for line in self._contents():
            if _is_inside(line.get("output")) and isinstance(line.get("indices", 0), str | None):
                yield line

    def check_names(self) -> None:
        """Refuses a manifest with an output outside its folder."""
        for line in self._contents():
            name = line.get("output")
            if name is not None and not _is_inside(name):
                raise FileError(
                    f"{self.path}: names the output {name!a}, which is outside this folder; pool that shard again "
                    f"with {field('overwrite')}, then merge"
                )

    def finished_options(self) -> str | None:
        """The options of a shard that has finished, from its last line; None for other shards."""
        *_, last = ({}, *self._contents())
        return str(last["options"]) if last.get("shard") == str(self._shard) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Opens the file for appending, and locks it inside the block."""
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
        """Records that a job is done."""
        if not os.fstat(self._stream).st_nlink:  # the file was removed; later records must not be lost as well
            removed = self._stream
            self._open()
            os.close(removed)
            self._lock()
        self._append(_record_line(record))

    def begin(self, jobs: Iterable[Job]) -> None:
        """Records that the outputs of the jobs are begun."""
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
        """Rewrites the records sorted by name, without those of removed outputs, and marks a shard as finished."""
        with atomic_stream(self.path, True) as stream:
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
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"another run is writing to {self._folder}; wait until it ends") from None
        except OSError:  # a file system without locks
            return


def options_of(op: Attributes, settings: Settings) -> str:
    """A hash of the operator, the settings and the version, which the outputs depend on."""
    given = {f.name: repr(getattr(settings, f.name)) for f in fields(settings) if f.name not in IRRELEVANT_SETTINGS}
    text = json.dumps([__version__, type(op).__name__, repr(op), given], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _open_file(path: str, flags: int) -> int:
    """Opens a manifest; refuses links, which may lead to other files, and pipes, which would block."""
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
    """Whether the name of an output is a normalized path below the folder of the manifest."""
    with suppress(ValueError):
        return isinstance(name, str) and relative_path(name) == name
    return False


def _record_line(record: Record) -> str:
    return json.dumps(vars(record)) + "\n"


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged manifest or store, and the numbers of shards and outputs."""

    path: str
    shards: int
    outputs: int


def merge(folder: str) -> Merged:
    """Merges the manifests of the shards in a folder, or finishes the store that shards have written.

    Refuses while a shard is missing or unfinished, or if an output has changed. Can be repeated.
    """
    check_url(folder)
    if is_folder_output(folder):
        if not is_url(folder):
            return Merged(folder, *merge_shards(folder))
        from poolcli.formats.zarr.remote import finish_store

        return Merged(folder, *finish_store(folder))
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
    with atomic_stream(path, True) as stream:
        for _, record in sorted(records.items()):
            stream.write(_record_line(record).encode())
    for part in parts.values():
        os.unlink(part.path)
    return Merged(path, len(shards), len(records))


def _shards(folder: str) -> list[Shard]:
    """The shards that have manifests in a folder, in order."""
    try:
        names = os.listdir(folder)
    except NotADirectoryError:
        raise RequestError(f"{folder}: is a file; merge takes the output of the shards, a folder or a .zarr") from None
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}{did_you_mean_file(folder)}") from error
    return sorted((shard for shard in map(shard_of, names) if shard), key=lambda shard: (shard.count, shard.number))


def _is_merge_finished(path: str, parts: dict[Shard, Manifest], records: dict[str, Record]) -> bool:
    """Whether the manifest at `path` has all records of the parts already: an earlier merge was killed before it
    removed them.
    """
    made = os.stat(path).st_mtime_ns
    return all(
        os.stat(part.path).st_mtime_ns <= made and part.shard_records().items() <= records.items()
        for part in parts.values()
    )


def _check_complete(folder: str, found: Sequence[Shard]) -> None:
    """Refuses shards that are not all those of one run."""
    if not found:
        raise RequestError(f"{folder} contains no shards; pool with {field('shard', '1/4')}, 2/4, ... first")
    counts = sorted({shard.count for shard in found})
    if len(counts) > 1:
        listed = " and of ".join(map(str, counts))
        raise RequestError(f"{folder} holds parts of runs of {listed} shards; remove those of the wrong one")
    missing = sorted(set(range(1, counts[0] + 1)) - {shard.number for shard in found})
    if missing:
        raise FileError(
            f"{folder}: {describe_shards(missing, counts[0])} not there; run what is missing, then merge again"
        )


def _check_options(folder: str, parts: dict[Shard, Manifest]) -> None:
    """Refuses unfinished shards, and shards with different options."""
    options = {shard: part.finished_options() for shard, part in parts.items()}
    first = next(iter(options))
    waiting = [shard.number for shard, found in options.items() if found is None]
    if waiting:
        raise FileError(
            f"{folder}: {describe_shards(waiting, first.count)} not done: stopped, still running, or some inputs "
            f"failed; pool again with {field('resume')}, then merge"
        )
    for shard, found in options.items():
        if found != options[first]:
            raise RequestError(
                f"{folder}: shards {first} and {shard} were made with different options; "
                f"pool one of them again with {field('overwrite')}"
            )


def _check_bytes(folder: str, record: Record, shard: Shard | None) -> None:
    """Refuses an output that is missing, or that does not have the recorded checksum."""
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
