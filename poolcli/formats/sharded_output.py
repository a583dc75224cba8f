"""A folder of which several processes make a part each, on whatever hosts: it appears when all have, in one step.

Until then it has a hidden name beside its own, which follows from what is made: so all find it. In it each process
notes how far it is, and at last that it has ended.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import make_folder, move_folder, part_name, reported
from poolcli.formats.resumable import Journal, secure_folder
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped

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
    overwrite = any(json.loads(file.read_text())["overwrite"] for file in ended.values())
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
