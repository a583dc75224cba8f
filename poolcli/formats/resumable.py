"""Resumable outputs: files and folders that an interrupted run continues, also by several processes (shards)."""

from __future__ import annotations

import ctypes
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from math import prod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError, RequestError, error_text
from poolcli.formats import atomic
from poolcli.formats.checks import join_names
from poolcli.formats.records import slices
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

MOST_AT_ONCE = 1024  # chunks of one call, for each of which zarr takes about 10 KB, HDF5 6


def contiguous_runs(shape: Sequence[int], region: Ranges) -> Iterator[tuple[int, int]]:
    """The contiguous runs of elements that make up a region of a C-order array: the first element, and how many.

    >>> list(contiguous_runs((2, 3, 4), (range(1, 2), range(1, 3), range(4))))
    [(16, 8)]
    >>> list(contiguous_runs((2, 3, 4), (range(2), range(1), range(1, 3))))
    [(1, 2), (13, 2)]
    """
    last = len(shape) - 1
    while last > 0 and len(region[last]) == shape[last]:
        last -= 1
    unit = prod(shape[last + 1 :])
    length = unit * len(region[last])
    for outer in product(*region[:last]) if length else ():
        place = 0
        for index, size in zip((*outer, region[last].start), shape, strict=False):
            place = place * size + index
        yield place * unit, length


class CoveredRegions:
    """A union of regions, which may be of arrays of different ranks. Neighbours are joined, so that few are left in any
    usual order.
    """

    def __init__(self, regions: Iterable[Ranges] = ()) -> None:
        self._regions: list[Ranges] = []
        for region in regions:
            self.add(region)

    def add(self, region: Ranges) -> None:
        """Adds a region."""
        if not all(region):
            return  # it is empty
        for other in self._regions:
            joined = _joined(other, region)
            if joined is not None:
                self._regions.remove(other)
                self.add(joined)
                return
        self._regions.append(region)

    def holds(self, region: Ranges) -> bool:
        """Whether a region is empty, or lies in one of these."""
        return not all(region) or any(
            len(done) == len(region)
            and all(a.start <= b.start and b.stop <= a.stop for a, b in zip(done, region, strict=True))
            for done in self._regions
        )

    def __iter__(self) -> Iterator[Ranges]:
        return iter(self._regions)


def _joined(one: Ranges, other: Ranges) -> Ranges | None:
    """The union of two regions that differ along one axis at most, and touch or overlap there; None for others."""
    if len(one) != len(other):
        return None
    axes = [axis for axis, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if not axes:
        return one
    a, b = one[axes[0]], other[axes[0]]
    if len(axes) > 1 or a.stop < b.start or b.stop < a.start:
        return None
    return (*one[: axes[0]], range(min(a.start, b.start), max(a.stop, b.stop)), *one[axes[0] + 1 :])


def batches(region: Ranges, chunk: Sequence[int], most: int = MOST_AT_ONCE) -> Iterator[Ranges]:
    """The region in parts, cut between chunks, that touch at most `most` chunks each.

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


def read_in_batches(region: Ranges, chunk: Sequence[int], dtype: Any, read: Callable[[Ranges], Any]) -> NDArray[Any]:
    """A region as one array, read in parts that touch few chunks each."""
    import numpy as np

    out = np.empty(tuple(map(len, region)), dtype)
    for part in batches(region, chunk):
        out[slices(part, region)] = read(part)
    return out


NOTE_EVERY = 2.0  # seconds between two writes of a journal


@contextmanager
def continued_file(path: str, overwrite: bool, identity: str) -> Iterator[tuple[BinaryIO, Journal]]:
    """As `byte_stream`, for a file that may take long: yields it as it was left, and the journal of its regions.

    Both are kept for the next run of the same `identity` when the run is interrupted, and removed when it fails.
    """
    with _kept(path, identity) as (part, journal):
        mode = atomic.mode_for(os.path.realpath(path))
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, mode), "r+b") as stream:

            def secure() -> None:
                stream.flush()
                atomic.sync_handle(stream.fileno())

            journal.size, journal.secure = os.fstat(stream.fileno()).st_size, secure
            yield stream, journal
        atomic.sync(part)
        atomic.move(part, os.path.realpath(path), overwrite, mode)


@contextmanager
def continued_folder(path: str, overwrite: bool, identity: str) -> Iterator[tuple[str, Journal]]:
    """As `whole_folder`, for a folder that may take long, and as `continued_file` otherwise."""
    with _kept(path, identity) as (part, journal):
        if not os.path.isdir(part):
            journal.remove()  # the folder that it describes is gone
            os.mkdir(part)
        journal.secure = lambda: secure_folder(part)
        yield part, journal
        check_stopped()
        secure_folder(part)
        atomic.move_folder(part, os.path.realpath(path), overwrite)


class Journal:
    """A JSON file beside an output: the regions of its array that are on the disk.

    `written` is when it was written last, `size` that of the output when it was opened; `secure` syncs the output to
    the disk.
    """

    def __init__(self, path: str) -> None:
        self.path, self.written, self.size = path, time.monotonic(), 0
        self.secure: Callable[[], None] = lambda: None

    def read(self) -> list[Ranges]:
        """The regions in the journal; none if it is missing or damaged."""
        try:
            found: Any = json.loads(self._load())
            return [tuple(range(int(start), int(stop)) for start, stop in region) for region in found]
        except (OSError, ValueError, TypeError, RecursionError):
            return []

    def write(self, regions: Iterable[Ranges]) -> None:
        """Syncs the output, and then replaces the journal atomically."""
        self.secure()
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
    """The regions of an output that are written, with a journal of them if the output can be continued.

    `is_valid` tells regions of the journal that are really there.
    """

    def __init__(self, journal: Journal | None, is_valid: Callable[[Ranges], bool] = all) -> None:
        self._journal, self._lock = journal, Lock()
        before = list(filter(is_valid, journal.read())) if journal else []
        self._before, self._done = CoveredRegions(before), CoveredRegions(before)

    def holds(self, region: Ranges) -> bool:
        """Whether the region was written by an earlier run."""
        return self._before.holds(region)

    def add(self, region: Ranges) -> None:
        """Adds a region that has been written; called from any thread."""
        if self._journal is None:
            return
        with self._lock:
            self._done.add(region)
            if time.monotonic() - self._journal.written > NOTE_EVERY:
                self._journal.write(self._done)

    def write(self) -> None:
        """Writes the journal now."""
        if self._journal is not None:
            self._journal.write(self._done)


@contextmanager
def _kept(path: str, identity: str) -> Iterator[tuple[str, Journal]]:
    """The temporary name of an output, and its journal; removes what runs of other identities have left of it."""
    target = os.path.realpath(path)
    part = atomic.part_name(target, f"{identity}.kept")
    journal = Journal(part + ".at")
    with suppress(OSError):
        for other in _temporary(target, ".kept.part", ".kept.part.at", ".kept.part.at.new"):
            if other not in (part, journal.path):
                atomic.remove(other)
    with atomic.reported(path):
        atomic.make_folder(os.path.dirname(target))
        try:
            yield part, journal
        except Exception:  # not KeyboardInterrupt: an interrupted run keeps its parts
            atomic.remove(part)
            journal.remove()
            raise
        journal.remove()


def secure_folder(path: str) -> None:
    """Syncs the file system of a folder: one call for any number of files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        syncfs: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(handle):
            number = ctypes.get_errno()
            if number not in atomic.UNABLE:
                raise OSError(number, os.strerror(number))
            os.sync()
    finally:
        os.close(handle)


def _temporary(target: str, *ends: str) -> list[str]:
    """The temporary names of `target` in its folder that end in one of these."""
    folder, start = os.path.split(atomic.part_name(target, "")[: -len(".part")])
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if entry.name.startswith(start) and entry.name.endswith(ends))


ENDED, UNFINISHED = ".ended", ".shards"
SHOWN = 5  # shards that a message names
_NOTE = re.compile(r"\.shard-(\d+)-of-(\d+)\.(?:ended|at|at\.new)", re.ASCII)


@contextmanager
def shared_folder(
    path: str, overwrite: bool, identity: str, part: tuple[int, int], resume: bool
) -> Iterator[tuple[str, Journal]]:
    """As `continued_folder`, for one `part` (number, count) of an output; the folder keeps its temporary name."""
    target = os.path.realpath(path)
    note = note_of(part)
    with atomic.reported(path):
        if os.path.lexists(target) and not overwrite:
            raise FileError(f"{path}: exists; it was created during this run")
        atomic.make_folder(os.path.dirname(target))
        folder = atomic.part_name(target, identity + UNFINISHED)
        os.makedirs(folder, exist_ok=True)
        ended, journal = Path(folder, note + ENDED), Journal(os.path.join(folder, note + ".at"))
        ended.unlink(missing_ok=True)
        if not resume:
            journal.remove()
        journal.secure = lambda: secure_folder(folder)
        yield folder, journal
        check_stopped()
        secure_folder(folder)
        ended.write_text(json.dumps({"overwrite": overwrite}))


def finish(path: str) -> tuple[int, int]:
    """Renames a folder whose parts are all written.

    Returns the number of its parts (0 if it has its name already), and the number of outputs that they make.
    """
    target = os.path.realpath(path)
    with atomic.reported(path):
        found = _temporary(target, UNFINISHED + ".part")
    if not found and os.path.isdir(target):
        _remove_notes(target)
        return 0, 1
    folder = only_work(path, found)
    ended = check_parts(path, os.listdir(folder), folder)
    overwrite = any(_overwrites(path, Path(folder, name)) for name in ended)
    if os.path.lexists(target) and not overwrite:
        raise FileError(f"{path}: exists; it was created while the shards were running")
    remove_torn(folder)
    with atomic.reported(path):
        secure_folder(folder)
        atomic.move_folder(folder, target, overwrite)
    _remove_notes(target)  # last, so that a merge that is killed can be repeated
    return len(ended), 1


def remove_torn(folder: str) -> None:
    """Removes the temporary files of zarr that killed processes have left in a folder."""
    for below, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".partial"):
                os.unlink(os.path.join(below, name))


def _overwrites(path: str, note: Path) -> bool:
    try:
        return json.loads(note.read_text())["overwrite"] is True
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FileError(f"{path}: the note {note} is damaged ({error_text(error)}); run its shard again") from error


def _remove_notes(folder: str) -> None:
    for name in filter(_NOTE.fullmatch, os.listdir(folder)):
        os.unlink(os.path.join(folder, name))


def check_parts(path: str, names: Sequence[str], where: str) -> list[str]:
    """The note of each part, of the names in a folder; refused unless all have ended, and are of the same number."""
    notes = {name: match for name in names if (match := _NOTE.fullmatch(name))}
    ended = {int(match[1]): name for name, match in notes.items() if name.endswith(ENDED)}
    counts = sorted({int(match[2]) for match in notes.values()} - {0})
    if len(counts) > 1:
        raise RequestError(
            f"{path}: parts of {' and of '.join(map(str, counts))} were begun; remove {where} and start again"
        )
    count = counts[0] if counts else 1
    missing = [number for number in range(1, count + 1) if number not in ended]
    if missing:
        raise FileError(
            f"{path}: {shards_text(missing, count)} not done: not run, stopped or still running; pool "
            f"again with {field('resume')}, then merge"
        )
    return [ended[number] for number in range(1, count + 1)]


def only_work(path: str, found: Sequence[str]) -> str:
    """The only one of the places found where shards of `path` are; refused for none or several."""
    if not found:
        raise RequestError(f"{path}: it has no shards; pool with {field('shard', '1/4')}, 2/4, ... first")
    if len(found) > 1:
        raise RequestError(
            f"{path}: shards of {len(found)} runs with different inputs or options exist; "
            f"remove all but one: {', '.join(found)}"
        )
    return found[0]


def note_of(part: tuple[int, int]) -> str:
    """The start of the names of a part's notes."""
    return ".shard-{}-of-{}".format(*part)


def shards_text(numbers: Sequence[int], count: int) -> str:
    """Some shards in a sentence: `shards 2/4, 3/4 are`."""
    some = join_names([f"{number}/{count}" for number in numbers], SHOWN)
    return f"shards {some} are" if len(numbers) > 1 else f"shard {some} is"
