"""Zarr stores written at URLs: object stores cannot rename, so metadata is written last, which makes it a store."""

from __future__ import annotations

import json
import os
import posixpath
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from poolcli.errors import FileError, RequestError, error_text
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import RETRY_WAITS, filesystem, fingerprint_of, is_url, read_object, unreachable
from poolcli.formats.names import relative_path
from poolcli.formats.resumable import DONE, Journal, check_shards, note_prefix, only_run
from poolcli.formats.table import FORMATS
from poolcli.message_fields import field
from poolcli.system.lazy_imports import need
from poolcli.system.signals import check_stopped


@contextmanager
def remote_store(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Journal]:
    """Clears the URL, yields the journal of its regions, and writes the metadata when all else is written.

    If that fails, what was written is removed. If the run is interrupted, it is kept for the next run of the same
    `identity`, unless that is None. The journal of a complete store stays, for `is_finished`.
    """
    system, place = filesystem(path)
    journal = RemoteJournal(system, _journal_beside(place), identity or "")
    with _reached(path):
        if identity is None or not journal.continues(path):
            _make_room(system, place, path, overwrite or journal.is_of_other_chunks(), journal)
            if identity is not None:
                journal.write([])  # before the first chunk: without it, what lies there is not a run's to continue
        try:
            yield journal
            check_stopped()
            write_documents(system, place, documents)
        except Exception:
            with suppress(Exception):  # the store may not be reached any more; what matters is why the run failed
                _clear(system, place, journal)
            raise
        except BaseException:
            if identity is None:
                _clear(system, place, journal)
            raise
        if identity is not None:
            with suppress(Exception):  # the store is complete without it
                journal.finish(path)


def write_documents(system: Any, place: str, documents: Mapping[str, bytes]) -> None:
    """Writes metadata, the root last, so that readers find the whole store or none."""
    for name in sorted(documents, key=lambda name: -name.count("/")):
        system.pipe_file(f"{place}/{name}", documents[name])


class RemoteJournal(Journal):
    """A journal in an object beside the store: a line with the identity of the run, one with its regions and, if the
    store is complete, one with the fingerprint of its metadata.
    """

    def __init__(self, system: Any, path: str, identity: str) -> None:
        super().__init__(path)
        self._system, self._identity = system, identity

    def is_begun(self) -> bool:
        """Whether there is a journal of this identity."""
        return self._lines()[0] == self._identity

    def continues(self, store: str) -> bool:
        """Whether there is a journal of this identity, and not of a complete store that was replaced later."""
        identity, _, mark = self._lines()
        return identity == self._identity and (not mark or mark == _mark_of(store))

    def is_finished(self, store: str) -> bool:
        """Whether a run has completed the store, which was not replaced later; its identity begins with this one."""
        identity, _, mark = self._lines()
        return bool(mark) and identity.startswith(self._identity) and mark == _mark_of(store)

    def is_of_other_chunks(self) -> bool:
        """Whether there is the journal of an incomplete store that has the same values in other chunks."""
        identity, _, mark = self._lines()
        return identity != "" and not mark and identity.partition("-")[0] == self._identity.partition("-")[0]

    def finish(self, store: str) -> None:
        """Notes that the store is complete."""
        self._store(f"{self._lines()[1]}\n{_mark_of(store)}".encode())

    def remove(self) -> None:
        """Removes the journal, of whatever identity."""
        with suppress(FileNotFoundError):
            self._system.rm_file(self.path)

    def _lines(self) -> tuple[str, str, str]:
        """The identity, the regions and the mark; "" for what is not there."""
        try:
            lines = read_object(self._system, self.path).decode().split("\n")
        except (FileNotFoundError, UnicodeDecodeError):
            lines = []
        except OSError as error:  # a journal that cannot be read must not be taken for one that is not there
            raise FileError(f"{self.path}: {unreachable(error)}") from error
        identity, regions, mark, *_ = (*lines, "", "", "")
        return identity, regions, mark

    def _load(self) -> bytes:
        identity, regions, _ = self._lines()
        return regions.encode() if identity == self._identity else b""

    def _store(self, note: bytes) -> None:
        self._system.pipe_file(self.path, self._identity.encode() + b"\n" + note)


def _mark_of(store: str) -> str:
    """The fingerprint of the metadata of a store at a URL, in one line; "-" if it has none."""
    try:
        return json.dumps(fingerprint_of(store))
    except FileNotFoundError:
        return "-"


def _make_room(system: Any, place: str, path: str, overwrite: bool, journal: Journal) -> None:
    """Clears a place for a new store, also of what is known of others that were begun there."""
    notes = _notes_beside(place)
    is_there, has_notes = system.exists(place), system.exists(notes)
    if not overwrite and (is_there or has_notes):
        raise RequestError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
    for name in FORMATS["zarr"].naming.reserved if is_there else ():  # without these it is no store
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    if has_notes:
        system.rm(notes, recursive=True)
    _clear(system, place, journal)


def _clear(system: Any, place: str, journal: Journal) -> None:
    """Removes the journal of a store and then the store, which the journal must not survive."""
    journal.remove()
    for wait in (0, 0, *RETRY_WAITS):  # removed at once, which is checked at once
        time.sleep(wait)
        system.invalidate_cache()
        if not system.exists(place):
            return
        with suppress(FileNotFoundError):  # s3fs does not tell which of several objects a store refuses to remove
            system.rm(place, recursive=True)
    raise FileError(f"{place}: objects in it cannot be removed")


@contextmanager
def shared_store(
    path: str, identity: str, part: tuple[int, int], resume: bool, documents: Mapping[str, bytes]
) -> Iterator[Journal]:
    """Yields the journal of one `part` (number, count) of a store, and finally writes a note that it has ended."""
    system, place = filesystem(path)
    notes = _notes_beside(place)
    note = f"{notes}/{identity}/{note_prefix(part)}"
    with _reached(path):
        if _is_store(system, place):
            raise RequestError(
                f"{path}: is a store already, which shards do not replace at a URL; remove it first, or name another "
                f"{field('output')}"
            )
        if system.exists(place) and not system.exists(notes):  # asked in this order: notes are written first
            raise RequestError(
                f"{path}: exists; shards do not replace what another run has written at a URL; remove it first, or "
                f"name another {field('output')}"
            )
        journal = RemoteJournal(system, f"{note}.at", identity)
        with suppress(FileNotFoundError):
            system.rm_file(note + DONE)
        if not (resume and journal.is_begun()):
            journal.write([])  # marks the part as begun, before its first chunk
        system.invalidate_cache()
        if others := [name for name in _names_in(system, notes) if name != identity]:
            journal.remove()
            raise RequestError(
                f"{path}: shards of another run, with other inputs or options, exist; remove {notes}/{others[0]} and "
                f"the store, or name another {field('output')}"
            )
        yield journal
        check_stopped()
        system.pipe_file(note + DONE, json.dumps({name: text.decode() for name, text in documents.items()}).encode())


def finish_store(path: str) -> tuple[int, int]:
    """Writes the metadata of a store at a URL whose parts are all written.

    Returns the number of its parts (0 if it is a store already), and the number of outputs that they make.
    """
    system, place = filesystem(path)
    system.invalidate_cache()
    with _reached(path):
        is_store = _is_store(system, place)
        runs = _names_in(system, _notes_beside(place))
        if not runs and is_store:
            return 0, 1
        notes = only_run(path, [f"{_notes_beside(place)}/{run}" for run in runs])
        names = _names_in(system, notes)
        try:
            ended = check_shards(path, names, notes)
        except FileError:
            if not is_store:
                raise
            system.rm(_notes_beside(place), recursive=True)  # left by a merge that was killed while it removed them
            return 0, 1
        note = f"{notes}/{ended[0]}"
        try:
            content = json.loads(read_object(system, note))
            documents = {relative_path(name): text.encode() for name, text in content.items()}
        except (ValueError, AttributeError) as error:
            raise FileError(f"{path}: the note {note} is damaged ({error_text(error)}); run its shard again") from error
        write_documents(system, place, documents)
        system.rm(_notes_beside(place), recursive=True)
    return len(ended), 1


def mark_finished(path: str, identity: str) -> None:
    """Notes beside a complete store in a folder which run has made it, for `is_finished`."""
    system, place = _located(path)
    with suppress(OSError):  # the store is complete without it
        RemoteJournal(system, _journal_beside(place), identity).finish(path)


def is_finished(path: str, identity: str) -> bool:
    """Whether a run has completed the store at a path or URL, which was not replaced later. `identity` may leave out
    what does not change the values.
    """
    system, place = _located(path)
    system.invalidate_cache()
    with _reached(path):
        return RemoteJournal(system, _journal_beside(place), identity).is_finished(path)


def _located(path: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path in it."""
    if is_url(path):
        return filesystem(path)
    (fsspec,) = need("fsspec", why=f"{path}: notes on what was read from URLs need fsspec")
    return fsspec.filesystem("file"), os.path.abspath(path)


def _is_store(system: Any, place: str) -> bool:
    return any(system.exists(f"{place}/{name}") for name in FORMATS["zarr"].markers)


def _beside(place: str) -> str:
    """The start of the names of a store's journal and notes."""
    folder, name = posixpath.split(place.rstrip("/"))
    return f"{folder}/.{name}."


def _journal_beside(place: str) -> str:
    """The object of the journal of a store."""
    return f"{_beside(place)}kept.at"


def _notes_beside(place: str) -> str:
    """The folder of the notes of shards, which has a folder for each run."""
    return f"{_beside(place)}shards"


def _names_in(system: Any, folder: str) -> list[str]:
    """The names of what is in a folder; none if there is no such folder."""
    try:
        return sorted(str(name).rstrip("/").rpartition("/")[2] for name in system.ls(folder, detail=False))
    except FileNotFoundError:
        return []


def _reached(path: str) -> AbstractContextManager[None]:
    """Converts what a store raises to a FileError; NotImplementedError is raised by stores that only read (HTTP)."""

    def describe(error: Exception) -> str:
        return "cannot be written to" if isinstance(error, NotImplementedError) else unreachable(error)

    return as_file_error(path, (OSError, NotImplementedError), describe, third_party=True)
