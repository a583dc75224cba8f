"""Zarr stores written at URLs: object stores cannot rename, so metadata is written last, which makes it a store."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from poolcli.errors import FileError, RequestError, error_text
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import content_of, filesystem, not_reached
from poolcli.formats.names import below
from poolcli.formats.resumable import ENDED, UNFINISHED, Journal, check_parts, note_of, only_work
from poolcli.formats.table import FORMATS
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped


@contextmanager
def remote_store(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Journal]:
    """Clears the URL, yields the journal of its regions, and writes the metadata when all else is written.

    If that fails, what was written is removed. If the run is interrupted, it is kept for the next run of the same
    `identity`, unless that is None.
    """
    system, place = filesystem(path)
    journal = RemoteJournal(system, f"{_beside(place)}{identity or 'none'}.kept.at")
    with _reached(path):
        if identity is None or not system.exists(journal.path):
            _make_room(system, place, path, overwrite)
            if identity is not None:
                journal.write([])  # before the first chunk: without it, what lies there is not a run's to continue
        try:
            yield journal
            check_stopped()
            write_documents(system, place, documents)
        except Exception:
            _clear(system, place)
            journal.remove()
            raise
        except BaseException:
            if identity is None:
                _clear(system, place)
            raise
        journal.remove()


def write_documents(system: Any, place: str, documents: Mapping[str, bytes]) -> None:
    """Writes metadata, the root last, so that readers find the whole store or none."""
    for name in sorted(documents, key=lambda name: -name.count("/")):
        system.pipe_file(f"{place}/{name}", documents[name])


class RemoteJournal(Journal):
    """A journal in an object beside the store."""

    def __init__(self, system: Any, path: str) -> None:
        super().__init__(path)
        self._system = system

    def remove(self) -> None:
        with suppress(OSError):
            if self._system.exists(self.path):
                self._system.rm_file(self.path)

    def _load(self) -> bytes:
        return content_of(self._system, self.path)

    def _store(self, note: bytes) -> None:
        self._system.pipe_file(self.path, note)


def _make_room(system: Any, place: str, path: str, overwrite: bool) -> None:
    if not system.exists(place):
        return
    if not overwrite:
        raise FileError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
    for name in FORMATS["zarr"].naming.reserved:  # without these it is no store
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    _clear(system, place)


def _clear(system: Any, place: str) -> None:
    with suppress(FileNotFoundError):
        system.rm(place, recursive=True)


@contextmanager
def shared_store(
    path: str, identity: str, part: tuple[int, int], resume: bool, documents: Mapping[str, bytes]
) -> Iterator[Journal]:
    """Yields the journal of one `part` (number, count) of a store, and finally writes a note that it has ended."""
    system, place = filesystem(path)
    note = f"{_beside(place)}{identity}{UNFINISHED}/{note_of(part)}"
    with _reached(path):
        if _is_store(system, place):
            raise RequestError(
                f"{path}: is a store already, which shards do not replace at a URL; remove it first, or name another "
                f"{field('output')}"
            )
        journal = RemoteJournal(system, f"{note}.at")
        for name in [note + ENDED] + ([] if resume else [journal.path]):
            if system.exists(name):
                system.rm_file(name)
        if not resume:
            journal.write([])  # marks the part as begun
        yield journal
        check_stopped()
        system.pipe_file(note + ENDED, json.dumps({name: text.decode() for name, text in documents.items()}).encode())


def finish_store(path: str) -> tuple[int, int]:
    """Writes the metadata of a store at a URL whose parts are all written.

    Returns the number of its parts (0 if it is a store already), and the number of outputs that they make.
    """
    system, place = filesystem(path)
    system.invalidate_cache()
    with _reached(path):
        is_store = _is_store(system, place)
        notes = _notes(system, place, path, is_store)
        if notes is None:
            return 0, 1
        names = [entry.rstrip("/").rpartition("/")[2] for entry in system.ls(notes, detail=False)]
        try:
            ended = check_parts(path, names, notes)
        except FileError:
            if not is_store:
                raise
            system.rm(notes, recursive=True)  # left by a merge that was killed while it removed them
            return 0, 1
        note = f"{notes}/{ended[0]}"
        try:
            content = json.loads(content_of(system, note))
            documents = {below(name): text.encode() for name, text in content.items()}
        except (ValueError, AttributeError) as error:
            raise FileError(f"{path}: the note {note} is damaged ({error_text(error)}); run its shard again") from error
        write_documents(system, place, documents)
        system.rm(notes, recursive=True)
    return len(ended), 1


def is_finished(path: str) -> bool:
    """Whether there is a store at a URL, with its metadata."""
    system, place = filesystem(path)
    system.invalidate_cache()
    with _reached(path):
        return _is_store(system, place)


def _is_store(system: Any, place: str) -> bool:
    return any(system.exists(f"{place}/{name}") for name in FORMATS["zarr"].markers)


def _beside(place: str) -> str:
    """The start of the names of a store's journal and notes."""
    folder, name = posixpath.split(place.rstrip("/"))
    return f"{folder}/.{name}."


def _notes(system: Any, place: str, path: str, is_store: bool) -> str | None:
    """The folder of the notes of the shards of a store; None if the store is finished."""
    start = _beside(place)
    listed = (str(name).rstrip("/") for name in system.ls(posixpath.dirname(start), detail=False))
    found = sorted(name for name in listed if name.startswith(start) and name.endswith(UNFINISHED))
    return None if not found and is_store else only_work(path, found)


def _reached(path: str) -> AbstractContextManager[None]:
    return as_file_error(path, (OSError,), not_reached, third_party=True)
