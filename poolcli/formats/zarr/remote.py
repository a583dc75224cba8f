"""A Zarr store at a URL, where nothing can change its name: its metadata comes last, and until then it is no store."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.paths import filesystem, unreachable
from poolcli.formats.resumable import Journal
from poolcli.system.signals import check_stopped


@contextmanager
def remote_store(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Journal]:
    """Makes room at a URL, and writes the metadata when all else is written: yields a journal of what is there.

    What was written is removed again where that fails. When the run is stopped, it stays for the next run of the same
    `identity`, None where there is to be none.
    """
    system, place = filesystem(path)
    journal = RemoteJournal(system, _note(place, identity or "none"))
    try:
        resumed = identity is not None and bool(journal.read())
        if not resumed:
            _make_room(system, place, path, overwrite)
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
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise unreachable(path, error) from error


def write_documents(system: Any, place: str, documents: Mapping[str, bytes]) -> None:
    """Makes a store of its chunks. The root comes last: whoever looks for the store finds all of it, or nothing."""
    for name in sorted(documents, key=lambda name: -name.count("/")):
        system.pipe_file(f"{place}/{name}", documents[name])


class RemoteJournal(Journal):
    """A journal that is an object beside the store."""

    def __init__(self, system: Any, path: str) -> None:
        super().__init__(path)
        self._system = system

    def remove(self) -> None:
        with suppress(OSError):
            if self._system.exists(self.path):
                self._system.rm_file(self.path)

    def _load(self) -> bytes:
        return bytes(self._system.cat_file(self.path))

    def _store(self, note: bytes) -> None:
        self._system.pipe_file(self.path, note)


def _note(place: str, identity: str) -> str:
    folder, name = posixpath.split(place.rstrip("/"))
    return f"{folder}/.{name}.{identity}.kept.at"


def _make_room(system: Any, place: str, path: str, overwrite: bool) -> None:
    if not system.exists(place):
        return
    if not overwrite:
        raise FileError(f"{path}: exists; it appeared while this run was working")
    for name in ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"):  # from here on it is no store any more
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    _clear(system, place)


def _clear(system: Any, place: str) -> None:
    with suppress(FileNotFoundError):
        system.rm(place, recursive=True)
