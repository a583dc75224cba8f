"""A file or a folder that takes long to write, and is gone on with when its run was stopped."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.formats.atomic import (
    UNABLE,
    make_folder,
    mode_for,
    move,
    move_folder,
    part_name,
    remove,
    reported,
    sync,
    sync_handle,
)
from poolcli.system.signals import check_stopped

if TYPE_CHECKING:
    from poolcli.plan.region import Ranges

NOTE_EVERY = 2.0  # seconds between notes of how much of a long output is written


@contextmanager
def continued_file(path: str, overwrite: bool, identity: str) -> Iterator[tuple[BinaryIO, Journal]]:
    """As `byte_stream`, for a file that may take long: yields it as it is, and a journal of what of it is good.

    When the run is stopped, both stay for the next run of the same `identity`; a run that fails removes them.
    """
    with _kept(path, identity) as (part, journal):
        mode = mode_for(os.path.realpath(path))
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, mode), "r+b") as stream:
            journal.size = os.fstat(stream.fileno()).st_size
            journal.secure = lambda: _secure(stream)
            yield stream, journal
        sync(part)
        move(part, os.path.realpath(path), overwrite, mode)


@contextmanager
def continued_folder(path: str, overwrite: bool, identity: str) -> Iterator[tuple[str, Journal]]:
    """As `whole_folder`, for a folder that may take long, and as `continued_file` otherwise."""
    with _kept(path, identity) as (part, journal):
        if not os.path.isdir(part):
            journal.remove()  # what it notes is gone
            os.mkdir(part)
        journal.secure = lambda: secure_folder(part)
        yield part, journal
        check_stopped()
        secure_folder(part)
        move_folder(part, os.path.realpath(path), overwrite)


class Journal:
    """A note beside an output of which regions of its array are on the disk.

    `size` is what a file had when it was opened; `secure` brings to the disk what was written.
    """

    def __init__(self, path: str) -> None:
        self.path, self._last = path, time.monotonic()
        self.size = 0
        self.secure: Callable[[], None] = lambda: None

    @property
    def is_due(self) -> bool:
        """Whether it is time for another note."""
        return time.monotonic() - self._last > NOTE_EVERY

    def read(self) -> list[Ranges]:
        """The regions that are noted; none where the note is of another kind, or damaged."""
        try:
            found: Any = json.loads(self._load())
            return [tuple(range(int(start), int(stop)) for start, stop in region) for region in found]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def write(self, regions: Iterable[Ranges]) -> None:
        """Brings the output to the disk, and then notes the regions, in one step."""
        self.secure()
        self._store(json.dumps([[(axis.start, axis.stop) for axis in region] for region in regions]).encode())
        self._last = time.monotonic()

    def remove(self) -> None:
        """Takes the note away."""
        remove(self.path)

    def _load(self) -> bytes:
        with open(self.path, "rb") as note:
            return note.read()

    def _store(self, note: bytes) -> None:
        with open(self.path + ".new", "wb") as stream:
            stream.write(note)
        os.replace(self.path + ".new", self.path)


@contextmanager
def _kept(path: str, identity: str) -> Iterator[tuple[str, Journal]]:
    """The name of what is written, and its journal; what other work has left of it is removed."""
    target = os.path.realpath(path)
    part = part_name(target, f"{identity}.kept")
    journal = Journal(part + ".at")
    for other in _parts(target):
        if other not in (part, journal.path):
            remove(other)
    with reported(path):
        make_folder(os.path.dirname(target))
        try:
            yield part, journal
        except Exception:  # passed on, whatever it is; not when stopped: that is what it is kept for
            remove(part)
            journal.remove()
            raise
        journal.remove()


def _secure(stream: BinaryIO) -> None:
    stream.flush()
    sync_handle(stream.fileno())


def secure_folder(path: str) -> None:
    """Brings all files of the file system of a folder to the disk: one call, however many they are."""
    handle = os.open(path, os.O_RDONLY)
    try:
        syncfs: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(handle):
            number = ctypes.get_errno()
            if number not in UNABLE:
                raise OSError(number, os.strerror(number))
            os.sync()
    finally:
        os.close(handle)


def _parts(target: str) -> list[str]:
    """What runs that were stopped have kept of `target`."""
    folder, start = os.path.split(part_name(target, "")[: -len(".part")])
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.name.startswith(start) and ".kept.part" in entry.name]
    return []
