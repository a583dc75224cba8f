"""Resumable outputs: files and folders that an interrupted run continues, also by several processes (shards)."""

from __future__ import annotations

import ctypes
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError, RequestError, said_by
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
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from poolcli.plan.region import Ranges

MOST_AT_ONCE = 1024  # chunks of one call: zarr keeps about 10 KB for each, HDF5 6


def contiguous_runs(shape: Sequence[int], region: Ranges) -> Iterator[tuple[int, int]]:
    """The runs of elements that make up a region: the first element and the length of each.

    Trailing axes that are taken whole make one run with the axis before them.

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
    """The regions that are done, joined wherever two make a longer one, so that they stay few in any usual order."""

    def __init__(self) -> None:
        self._regions: dict[Ranges, None] = {}
        self._faces: dict[object, Ranges] = {}

    def add(self, region: Ranges) -> None:
        """Notes that a region is done."""
        if not all(region):
            return  # of nothing
        joined = self._joined(region)
        while joined is not None:
            region, joined = joined, self._joined(joined)
        self._regions[region] = None
        self._faces |= dict.fromkeys(_faces(region), region)

    def holds(self, region: Ranges) -> bool:
        """Whether a region lies in one that is done."""
        return (
            region in self._regions
            or not all(region)
            or any(
                all(a.start <= b.start and b.stop <= a.stop for a, b in zip(done, region, strict=True))
                for done in self._regions
            )
        )

    def __iter__(self) -> Iterator[Ranges]:
        return iter(self._regions)

    def _joined(self, region: Ranges) -> Ranges | None:
        """The region with a neighbour, which is taken out; None where none has the same other axes."""
        for axis, span in enumerate(region):
            rest = region[:axis] + region[axis + 1 :]
            before = self._faces.get((axis, "stops", span.start, rest))
            after = self._faces.get((axis, "starts", span.stop, rest))
            for other in (before, after):
                if other is not None:
                    self._take_out(other)
                    ends = (span.start, span.stop, other[axis].start, other[axis].stop)
                    return (*region[:axis], range(min(ends), max(ends)), *region[axis + 1 :])
        return None

    def _take_out(self, region: Ranges) -> None:
        del self._regions[region]
        for face in _faces(region):
            if self._faces.get(face) == region:
                del self._faces[face]


def _faces(region: Ranges) -> Iterator[object]:
    """The sides of a region: where it starts and stops along each axis, and what it is along the others."""
    for axis, span in enumerate(region):
        rest = region[:axis] + region[axis + 1 :]
        yield axis, "starts", span.start, rest
        yield axis, "stops", span.stop, rest


def batches(region: Ranges, chunk: Sequence[int], most: int = MOST_AT_ONCE) -> Iterator[Ranges]:
    """The region in parts, cut between chunks, of which each touches at most so many.

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


ENDED, UNFINISHED = ".ended", ".shards"
SOME = 5  # shards that a message names
_NOTE = re.compile(r"\.shard-(\d+)-of-(\d+)\.(?:ended|at|at\.new)", re.ASCII)


@contextmanager
def shared_folder(
    path: str, overwrite: bool, identity: str, part: tuple[int, int], resume: bool
) -> Iterator[tuple[str, Journal]]:
    """As `continued_folder`, for one `part` (number, count) of what `identity` names; the folder stays hidden."""
    target = os.path.realpath(path)
    note = note_of(part)
    with reported(path):
        if os.path.lexists(target) and not overwrite:
            raise FileError(f"{path}: exists; it appeared while this run was working")
        make_folder(os.path.dirname(target))
        folder = part_name(target, identity + UNFINISHED)
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
    """Gives a folder its name when all its parts are there; returns how many they are, 0 where it has its name already,
    and how many outputs they make.
    """
    target = os.path.realpath(path)
    folder = _unfinished(path, target)
    if folder is None:
        _remove_notes(target)
        return 0, 1
    notes = [name for name in os.listdir(folder) if _NOTE.fullmatch(name)]
    ended = {numbers_of(name)[0]: Path(folder, name) for name in notes if name.endswith(ENDED)}
    count = check_parts(path, map(numbers_of, notes), ended, folder)
    overwrite = any(_overwrites(path, file) for file in ended.values())
    if os.path.lexists(target) and not overwrite:
        raise FileError(f"{path}: exists; it appeared while the shards were working")
    for folder_in, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".partial"):
                os.unlink(os.path.join(folder_in, name))
    with reported(path):
        secure_folder(folder)
        move_folder(folder, target, overwrite)
    _remove_notes(target)  # at last: whoever is killed before can begin again
    return count, 1


def _overwrites(path: str, note: Path) -> bool:
    try:
        return json.loads(note.read_text())["overwrite"] is True
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise FileError(f"{path}: the note {note} is damaged ({said_by(error)}); write its part again") from error


def _remove_notes(folder: str) -> None:
    for name in filter(_NOTE.fullmatch, os.listdir(folder)):
        os.unlink(os.path.join(folder, name))


def check_parts(path: str, begun: Iterable[tuple[int, int]], ended: Collection[int], where: str) -> int:
    """How many parts there are, of which all have ended; refused while one has not, or they are not of one number."""
    counts = sorted({count for _, count in begun if count})
    if len(counts) > 1:
        raise RequestError(
            f"{path}: parts of {' and of '.join(map(str, counts))} were begun; remove {where}, begin anew"
        )
    count = counts[0] if counts else 1
    missing = [number for number in range(1, count + 1) if number not in ended]
    if missing:
        raise FileError(
            f"{path}: {_listed(missing, count)} not done: not run, stopped or still running; pool "
            f"again with {field('resume')}, then merge"
        )
    return count


def _unfinished(path: str, target: str) -> str | None:
    """The hidden folder of the only unfinished work on `path`; None where there is none and `path` exists."""
    parent, start = os.path.split(part_name(target, "")[: -len(".part")])
    with reported(path), os.scandir(parent) as entries:
        found = sorted(e.path for e in entries if e.name.startswith(start) and e.name.endswith(UNFINISHED + ".part"))
    return None if not found and os.path.isdir(target) else only_work(path, found)


def only_work(path: str, found: Sequence[str]) -> str:
    """The one place where shards work on `path`, of those that were found; refused where there is none, or several."""
    if not found:
        raise RequestError(f"{path}: no shard of it was made; pool with {field('shard', '1/4')} and so on first")
    if len(found) > 1:
        raise RequestError(
            f"{path}: shards of {len(found)} runs are there, whose inputs or options differ; "
            f"remove all but one: {', '.join(found)}"
        )
    return found[0]


def note_of(part: tuple[int, int]) -> str:
    """How the names of the notes of a part begin."""
    return ".shard-{}-of-{}".format(*part)


def numbers_of(name: str) -> tuple[int, int]:
    """The part that a note is of: its number, and of how many; zeros for any other name."""
    match = _NOTE.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _listed(numbers: Sequence[int], count: int) -> str:
    some = ", ".join(f"{number}/{count}" for number in numbers[:SOME])
    more = f" and {len(numbers) - SOME} more" if len(numbers) > SOME else ""
    return f"shards {some}{more} are" if len(numbers) > 1 else f"shard {some} is"
