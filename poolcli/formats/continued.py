"""A file that takes long to write, and is gone on with when its run was stopped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from poolcli.formats.atomic import make_folder, mode_for, move, part_name, reported, sync
from poolcli.plan.region import Ranges

NOTE_EVERY = 2.0  # seconds between notes of how much of a long file is written


@contextmanager
def continued_file(path: str, overwrite: bool, identity: str) -> Iterator[tuple[BinaryIO, Journal]]:
    """As `byte_stream`, for a file that may take long: yields it as it is, and a journal of what of it is good.

    When the run is stopped, both stay for the next run of the same `identity`; a run that fails removes them.
    """
    target = os.path.realpath(path)
    part = part_name(target, f"{identity}.kept")
    journal = Journal(part + ".at")
    for other in _parts(target):
        if other not in (part, journal.path):
            _unlink(other)
    with reported(path):
        make_folder(os.path.dirname(target))
        mode = mode_for(target)
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, mode), "r+b") as stream:
            journal.stream, journal.size = stream, os.fstat(stream.fileno()).st_size
            try:
                yield stream, journal
            except Exception:  # not when stopped: that is what it is kept for
                _unlink(part)
                _unlink(journal.path)
                raise
        sync(part)
        move(part, target, overwrite, mode)
        _unlink(journal.path)


class Journal:
    """A note beside a file of which regions of its array are on the disk; `size` is what the file had when opened."""

    stream: BinaryIO
    size: int

    def __init__(self, path: str) -> None:
        self.path, self._last = path, time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether it is time for another note."""
        return time.monotonic() - self._last > NOTE_EVERY

    def read(self) -> list[Ranges]:
        """The regions that are noted; none where the note is of another kind, or damaged."""
        try:
            with open(self.path, "rb") as note:
                found: Any = json.load(note)
            return [tuple(range(int(start), int(stop)) for start, stop in region) for region in found]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def write(self, regions: Iterable[Ranges]) -> None:
        """Brings the file to the disk, and then notes the regions, in one step."""
        self.stream.flush()
        with suppress(OSError):  # some file systems cannot
            os.fsync(self.stream.fileno())
        text = json.dumps([[(axis.start, axis.stop) for axis in region] for region in regions])
        with open(self.path + ".new", "w") as note:
            note.write(text)
        os.replace(self.path + ".new", self.path)
        self._last = time.monotonic()


def _parts(target: str) -> list[str]:
    """What runs that were stopped have kept of `target`."""
    folder, start = os.path.split(part_name(target, "")[: -len(".part")])
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.name.startswith(start) and ".kept.part" in entry.name]
    return []


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
