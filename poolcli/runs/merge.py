"""The manifests of all shards of a run as one, when every shard has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from heapq import merge as in_order
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import byte_stream
from poolcli.formats.fingerprint import checksum_of
from poolcli.formats.names import below
from poolcli.formats.paths import check_url, is_url
from poolcli.formats.recognise import names_folder_output
from poolcli.formats.resumable import finish
from poolcli.formats.zarr.remote import finish_store
from poolcli.message_fields import field
from poolcli.runs.manifest import LONGEST_LINE, NAME, Manifest, failed, line_of, opened
from poolcli.runs.shards import Shard, shard_of
from poolcli.suggestions import did_you_mean_file

Line = tuple[str, int, bytes]  # the name of an output, the place of its manifest among all, and what that says of it
SOME = 5  # shards that a message names


@dataclass(frozen=True, slots=True)
class Merged:
    """How many shards were merged, how many outputs they have made, and what says so: a manifest, or the output."""

    path: str
    shards: int
    outputs: int


def merge(folder: str) -> Merged:
    """Makes one manifest of the parts in `folder`, or one array of those of its shards; refused while a shard is
    missing or has not ended, or where an output is not as it was made. Merging again checks what is merged already.

    Memory does not grow with the parts, which are in the order of their outputs: the ends of shards see to that.
    """
    check_url(folder)
    if names_folder_output(folder):
        return Merged(folder, *(finish_store(folder) if is_url(folder) else finish(folder)))
    shards, path = _shards(folder), os.path.join(folder, NAME)
    merged = os.path.exists(path) and _is_merged(folder, shards)
    if not merged:
        _check_complete(folder, shards)
        _check_options(folder, shards)
    own = ((record.output, 0, line_of(record).encode()) for record in Manifest(folder).records())
    outputs = 0
    with ExitStack() as stack:
        lines = in_order(own, *_parts(stack, folder, shards), key=itemgetter(0, 1))
        stream = stack.enter_context(byte_stream(path, True))
        for name, found in groupby(lines, key=itemgetter(0)):
            *_, (_, place, line) = found  # what a shard says counts more than what was known before
            if not place and not merged and not os.path.lexists(os.path.join(folder, name)):
                continue
            _check_bytes(folder, _content(line), shards[place - 1] if place else None)
            stream.write(line)
            outputs += 1
    for shard in shards:
        os.unlink(os.path.join(folder, shard.manifest))
    return Merged(path, len(shards), outputs)


def _shards(folder: str) -> list[Shard]:
    """The shards that have parts in the folder, in their order."""
    try:
        names = os.listdir(folder)
    except NotADirectoryError:
        raise RequestError(f"{folder}: is a file; merge takes the output of the shards, a folder or a .zarr") from None
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}{did_you_mean_file(folder)}") from error
    return sorted((shard for shard in map(shard_of, names) if shard), key=lambda shard: (shard.count, shard.number))


def _is_merged(folder: str, shards: Sequence[Shard]) -> bool:
    """Whether the manifest holds already what the parts say: there are none, or they are what a merge has left that was
    killed while it removed them, from the first to the last.
    """
    if not shards:
        return True
    numbers = range(shards[0].number, shards[0].count + 1)
    if shards[0].number == 1 or shards != [Shard(number, shards[0].count) for number in numbers]:
        return False
    made = os.stat(os.path.join(folder, NAME)).st_mtime_ns
    if any(os.stat(os.path.join(folder, shard.manifest)).st_mtime_ns > made for shard in shards):
        return False
    own = ((record.output, 0, line_of(record).encode()) for record in Manifest(folder).records())
    with ExitStack() as stack:
        lines = in_order(own, *_parts(stack, folder, shards), key=itemgetter(0, 1))
        return all(len({line for _, _, line in found}) == 1 for found in _held_by_parts(lines))


def _held_by_parts(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """What is said of each output that a part names; with an empty line where the manifest does not name it."""
    for _, same in groupby(lines, key=itemgetter(0)):
        found = list(same)
        if found[0][1]:
            yield [*found, ("", 0, b"")]
        elif len(found) > 1:
            yield found


def _parts(stack: ExitStack, folder: str, shards: Sequence[Shard]) -> list[Iterator[Line]]:
    """The records of the parts."""
    return [
        _lines(stack.enter_context(_opened(folder, shard)), place, os.path.join(folder, shard.manifest))
        for place, shard in enumerate(shards, 1)
    ]


def _check_complete(folder: str, found: Sequence[Shard]) -> None:
    """Refuses parts that are not all of one run."""
    if not found:
        raise RequestError(f"{folder} holds no part of any shard; pool with {field('shard', '1/4')} and so on first")
    counts = sorted({shard.count for shard in found})
    if len(counts) > 1:
        listed = " and of ".join(map(str, counts))
        raise RequestError(f"{folder} holds parts of runs of {listed} shards; remove those of the wrong one")
    missing = sorted(set(range(1, counts[0] + 1)) - {shard.number for shard in found})
    if missing:
        raise FileError(f"{folder}: {_listed(missing, counts[0])} not there; run what is missing, then merge again")


def _listed(numbers: Sequence[int], count: int) -> str:
    some = ", ".join(f"{number}/{count}" for number in numbers[:SOME])
    more = f" and {len(numbers) - SOME} more" if len(numbers) > SOME else ""
    return f"shards {some}{more} are" if len(numbers) > 1 else f"shard {some} is"


def _check_options(folder: str, shards: Sequence[Shard]) -> None:
    """Refuses shards that have not ended, or were made with other options than the first one."""
    options = [_ended(folder, shard) for shard in shards]
    waiting = [shard.number for shard, found in zip(shards, options, strict=True) if found is None]
    if waiting:
        raise FileError(
            f"{folder}: {_listed(waiting, shards[0].count)} not done: stopped, still running, or some inputs failed; "
            f"pool again with {field('resume')}, then merge"
        )
    for shard, found in zip(shards, options, strict=True):
        if found != options[0]:
            raise RequestError(
                f"{folder}: shards {shards[0]} and {shard} were made with different options; "
                f"pool one of them again with {field('overwrite')}"
            )


def _ended(folder: str, shard: Shard) -> str | None:
    """The options of a shard that has ended; None of one that has not: its last line says so."""
    with _opened(folder, shard) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - LONGEST_LINE))
        last = (stream.read().splitlines() or [b""])[-1]
    content = _content(last)
    return str(content["options"]) if content.get("shard") == str(shard) else None


def _opened(folder: str, shard: Shard) -> BinaryIO:
    path = os.path.join(folder, shard.manifest)
    try:
        return os.fdopen(opened(path, os.O_RDONLY), "rb")
    except OSError as error:
        raise failed(path, error) from error


def _lines(stream: BinaryIO, place: int, where: str) -> Iterator[Line]:
    """The records of a part, which is the file `where`."""
    while line := stream.readline(LONGEST_LINE):
        name = _content(line).get("output")
        if isinstance(name, str):
            yield _checked(name, where), place, line


def _checked(name: str, where: str) -> str:
    """The name of an output, refused where that does not lie in the folder."""
    with suppress(ValueError):
        if below(name) == name:
            return name
    raise FileError(
        f"{where}: names the output {name!a}, which does not lie in this folder; pool that shard again with "
        f"{field('overwrite')}, then merge"
    )


def _content(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _check_bytes(folder: str, record: dict[str, Any], shard: Shard | None) -> None:
    """Refuses an output that is not there, or does not have the bytes that its record names."""
    for what in ("output", "indices"):
        name, expected = record.get(what), record.get(f"{what}_hash")
        if name is None or expected is None:
            continue
        path = os.path.join(folder, name)
        try:
            if checksum_of(path) == expected:
                continue
            found = "has changed since"
        except FileNotFoundError:
            found = "is not there, though"
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from error
        by = f"shard {shard} made it; pool that shard" if shard else "it was made; pool"
        raise FileError(f"{path}: {found} {by} again with {field('resume')}, then merge")
