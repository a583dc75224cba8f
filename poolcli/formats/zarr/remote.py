"""Zarr stores written at URLs: object stores cannot rename, so metadata is written last, which makes it a store."""

from __future__ import annotations

import json
import os
import posixpath
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import RETRY_WAITS, filesystem, fingerprint_of, is_url, read_object, unreachable
from poolcli.formats.resumable import Journal
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
    """Clears a place for a new store."""
    is_there = system.exists(place)
    if not overwrite and is_there:
        raise RequestError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
    for name in FORMATS["zarr"].naming.reserved if is_there else ():  # without these it is no store
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
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


def _journal_beside(place: str) -> str:
    """The object of the journal of a store."""
    folder, name = posixpath.split(place.rstrip("/"))
    return f"{folder}/.{name}.kept.at"


def _reached(path: str) -> AbstractContextManager[None]:
    """Converts what a store raises to a FileError; NotImplementedError is raised by stores that only read (HTTP)."""

    def describe(error: Exception) -> str:
        return "cannot be written to" if isinstance(error, NotImplementedError) else unreachable(error)

    return as_file_error(path, (OSError, NotImplementedError), describe, third_party=True)
