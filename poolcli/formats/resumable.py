"""Resumable outputs: regions of arrays, and the journal of written regions."""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from math import prod
from threading import Lock
from typing import Any

from poolcli.formats import atomic
from poolcli.formats.records import slices
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges, ceil_div

MAX_CHUNKS = 1024  # per call of a library; zarr takes about 10 KB of memory for each, HDF5 6 KB


class CoveredRegions:
    """A union of regions. Adjacent regions are merged, so that few remain for any usual order of writing."""

    def __init__(self, regions: Iterable[Ranges] = ()) -> None:
        self._regions: list[Ranges] = []
        for region in regions:
            self.add(region)

    def add(self, region: Ranges) -> None:
        """Adds a region."""
        if not all(region):
            return  # it is empty
        for other in self._regions:
            merged = _merged(other, region)
            if merged is not None:
                self._regions.remove(other)
                self.add(merged)
                return
        self._regions.append(region)

    def holds(self, region: Ranges) -> bool:
        """Whether a region is empty or lies in one of these."""
        return not all(region) or any(
            len(done) == len(region)
            and all(a.start <= b.start and b.stop <= a.stop for a, b in zip(done, region, strict=True))
            for done in self._regions
        )

    def __iter__(self) -> Iterator[Ranges]:
        return iter(self._regions)


def _merged(one: Ranges, other: Ranges) -> Ranges | None:
    """The union of two regions if it is a region: they differ along at most one axis, and touch or overlap there."""
    if len(one) != len(other):
        return None
    axes = [axis for axis, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if not axes:
        return one
    a, b = one[axes[0]], other[axes[0]]
    if len(axes) > 1 or a.stop < b.start or b.stop < a.start:
        return None
    return (*one[: axes[0]], range(min(a.start, b.start), max(a.stop, b.stop)), *one[axes[0] + 1 :])


def batches(region: Ranges, chunk: Sequence[int], most: int = MAX_CHUNKS) -> Iterator[Ranges]:
    """Splits a region at chunk boundaries into parts that touch at most `most` chunks each.

    >>> list(batches((range(3, 9),), (4,)))
    [(range(3, 9),)]
    """
    if not all(region):
        return
    touched = [range(span.start // c, ceil_div(span.stop, c)) for span, c in zip(region, chunk, strict=True)]
    steps = [1] * len(region)
    for axis in reversed(range(len(region))):
        steps[axis] = max(1, min(len(touched[axis]), most // prod(steps)))
    starts = [range(span.start, span.stop, step) for span, step in zip(touched, steps, strict=True)]
    for first in product(*starts):
        yield tuple(
            range(max(span.start, at * c), min(span.stop, (at + step) * c))
            for span, at, step, c in zip(region, first, steps, chunk, strict=True)
        )


def read_in_batches(region: Ranges, chunk: Sequence[int], dtype: Any, read: Callable[[Ranges], Any]) -> Array:
    """Reads a region in parts that touch at most `MAX_CHUNKS` chunks each."""
    out = np.empty(tuple(map(len, region)), dtype)
    for part in batches(region, chunk):
        out[slices(part, region)] = read(part)
    return out


JOURNAL_INTERVAL = 2.0  # seconds between writes of a journal


@contextmanager
def resumable_folder(path: str, overwrite: bool, identity: str) -> Iterator[tuple[str, Journal]]:
    """As `atomic_folder`, but resumable: yields the folder as an interrupted run left it, and its journal.

    If the run is interrupted, both are kept for the next run of the same `identity`; if it fails, they are removed.
    """
    with _resumable_output(path, identity) as (part, journal):
        if not os.path.isdir(part):
            journal.remove()  # its folder no longer exists
            os.mkdir(part)
        journal.sync = lambda: sync_folder(part)
        yield part, journal
        check_stopped()
        sync_folder(part)
        atomic.rename_folder(part, os.path.realpath(path), overwrite)


class Journal:
    """A JSON file next to an output that lists the regions that have been synced to the disk.

    `written` is the time of its last write, and `sync` syncs the output to the disk.
    """

    def __init__(self, path: str) -> None:
        self.path, self.written = path, time.monotonic()
        self.sync: Callable[[], None] = lambda: None

    def read(self) -> list[Ranges]:
        """The regions in the journal; [] if it is missing or damaged."""
        try:
            found: Any = json.loads(self._load())
            return [tuple(range(int(start), int(stop)) for start, stop in region) for region in found]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def write(self, regions: Iterable[Ranges]) -> None:
        """Syncs the output, then replaces the journal atomically."""
        self.sync()
        self._store(json.dumps([[(axis.start, axis.stop) for axis in region] for region in regions]).encode())
        self.written = time.monotonic()

    def remove(self) -> None:
        """Removes the journal."""
        atomic.remove(self.path)

    def _load(self) -> bytes:
        with open(self.path, "rb") as note:
            return note.read()

    def _store(self, note: bytes) -> None:
        with open(self.path + ".new", "wb") as stream:
            stream.write(note)
        os.replace(self.path + ".new", self.path)


class Progress:
    """The regions of an output that are written, recorded in a journal if the output is resumable."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal, self._lock = journal, Lock()
        earlier = list(filter(all, journal.read())) if journal else []
        self._earlier, self._done = CoveredRegions(earlier), CoveredRegions(earlier)

    def holds(self, region: Ranges) -> bool:
        """Whether an earlier run has written the region."""
        return self._earlier.holds(region)

    def add(self, region: Ranges) -> None:
        """Adds a region that has been written; thread-safe."""
        if self._journal is None:
            return
        with self._lock:
            self._done.add(region)
            if time.monotonic() - self._journal.written > JOURNAL_INTERVAL:
                self._journal.write(self._done)

    def write(self) -> None:
        """Writes the journal now."""
        if self._journal is not None:
            self._journal.write(self._done)


@contextmanager
def _resumable_output(path: str, identity: str) -> Iterator[tuple[str, Journal]]:
    """The temporary name of an output, and its journal; removes leftovers of runs of other identities."""
    target = os.path.realpath(path)
    part = atomic.temporary_path(target, f"{identity}.kept")
    journal = Journal(part + ".at")
    with suppress(OSError):
        for other in _temporary_paths(target, ".kept.part", ".kept.part.at", ".kept.part.at.new"):
            if other not in (part, journal.path):
                atomic.remove(other)
    with atomic.os_errors(path):
        atomic.make_folder(os.path.dirname(target))
        try:
            yield part, journal
        except Exception:  # not KeyboardInterrupt: an interrupted run keeps its parts
            atomic.remove(part)
            journal.remove()
            raise
        journal.remove()


def sync_folder(path: str) -> None:
    """Syncs the file system of a folder, with one system call for any number of files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        syncfs: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(handle):
            number = ctypes.get_errno()
            if number not in atomic.SYNC_UNSUPPORTED:
                raise OSError(number, os.strerror(number))
            os.sync()
    finally:
        os.close(handle)


def _temporary_paths(target: str, *ends: str) -> list[str]:
    """The temporary files for `target` whose names end in one of `ends`."""
    folder, start = os.path.split(atomic.temporary_path(target, "")[: -len(".part")])
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if entry.name.startswith(start) and entry.name.endswith(ends))


def remove_partial(folder: str) -> None:
    """Removes zarr's temporary files of killed processes."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".partial"):
                os.unlink(os.path.join(parent, name))
