"""Which files the inputs on the command line mean: files, folders, globs and stdin."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from poolcli.batch.shards import WHOLE, Shard
from poolcli.core.errors import FileError, RequestError
from poolcli.core.fields import field
from poolcli.formats import Source, folder_format, parse_source
from poolcli.formats.atomic import is_left_by_writing
from poolcli.formats.table import FORMATS, with_suffix


@dataclass(frozen=True, slots=True)
class Item:
    """One input, and its path below the folder that was named (its own name for a single file)."""

    source: Source
    relative: str


@dataclass(frozen=True, slots=True)
class Found:
    """The inputs in a fixed order, whether they count as several (a folder, a glob or a list does), and what of the
    folders among them is no input.
    """

    items: tuple[Item, ...]
    several: bool
    passed_over: tuple[str, ...] = ()


def find_inputs(
    texts: Sequence[str],
    dataset: str | None,
    recursive: bool,
    files_from: str | None = None,
    output: str | None = None,
    shard: Shard = WHOLE,
) -> Found:
    """What the inputs mean, as far as they are the shard's; the folder `output` is passed over where it lies in one of
    them.
    """
    items: list[Item] = []
    passed_over: list[str] = []
    several = len(texts) > 1 or files_from is not None
    if not texts and files_from is None:
        raise RequestError(
            f"there is no input: name files, a folder, a quoted glob, or a list with {field('files_from')}"
        )
    for text in texts:
        if text != "-" and Path(text).is_dir() and not folder_format(text):
            found, others = _folder_items(text, dataset, recursive, output, shard)
            passed_over += others
            several = True
        elif _is_pattern(text):
            found = _glob_items(text, dataset, shard)
            several = True
        else:
            source = parse_source(text, dataset)
            found = [Item(source, Path(source.path).name)]
            found = found if len(texts) == 1 or shard.takes(found[0].relative) else []
        items.extend(found)
    if files_from is not None:
        items += _listed_items(files_from, dataset, shard)
    if sum(item.source.path == "-" for item in items) + (files_from == "-") > 1:
        raise RequestError("stdin (-) can be read only once")
    return Found(tuple(items), several, tuple(passed_over))


def _listed_items(path: str, dataset: str | None, shard: Shard) -> list[Item]:
    """The files that a list names, one a line, or ended by NUL as `find -print0` writes them."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise RequestError(f"{field('files_from', path)}: {error.strerror}") from error
    names = [os.fsdecode(name) for name in (data.split(b"\0") if b"\0" in data else data.splitlines()) if name]
    if not names:
        raise RequestError(f"{field('files_from', path)}: names no file")
    own = (parse_source(name, dataset) for name in names if shard.takes(_below(name)))
    return [Item(source, _below(source.path)) for source in own]


def _below(path: str) -> str:
    """A relative path as it is, so that the tree is kept; the name alone of a path that leads elsewhere."""
    plain = os.path.normpath(path)
    return os.path.basename(plain) if os.path.isabs(plain) or plain.startswith("..") else plain


def _is_pattern(text: str) -> bool:
    return text != "-" and any(sign in text for sign in "*?[") and not os.path.lexists(parse_source(text).path)


def _glob_items(pattern: str, dataset: str | None, shard: Shard) -> list[Item]:
    root = _fixed_part(pattern)
    every = sorted(glob.glob(pattern, recursive=True))
    found = [path for path in every if shard.takes(os.path.relpath(path, root))]
    whole = {path for path in found if folder_format(path)}
    paths = [path for path in found if path in whole or (Path(path).is_file() and not _lies_in_one(path, pattern))]
    if not paths and len(found) == len(every):
        raise RequestError(f"{pattern} matches no file")
    return [Item(Source(path, dataset), os.path.relpath(path, root)) for path in paths]


def _lies_in_one(path: str, pattern: str) -> bool:
    """Whether a file that matches is a part of a folder that is itself one input."""
    root = Path(_fixed_part(pattern))
    return any(folder_format(str(folder)) for folder in Path(path).parents if root in folder.parents)


def _fixed_part(pattern: str) -> str:
    """The folder of the pattern before its first wildcard: the tree below it is kept."""
    parts = Path(pattern).parts
    fixed = []
    for part in parts[:-1]:
        if any(sign in part for sign in "*?["):
            break
        fixed.append(part)
    return str(Path(*fixed)) if fixed else "."


def _folder_items(
    folder: str, dataset: str | None, recursive: bool, output: str | None, shard: Shard
) -> tuple[list[Item], list[str]]:
    """The shard's inputs in a folder, and its names in it that are none."""
    readable = [row for row in FORMATS.values() if row.reads]
    found, others, several = list[Item](), list[str](), False
    for path, may_be_one in _walk(folder, recursive, output):
        if not shard.takes(os.path.relpath(path, folder)):
            several = True
        elif may_be_one and (with_suffix(path, readable) or folder_format(path)):
            found.append(Item(Source(path, dataset), os.path.relpath(path, folder)))
        else:
            others.append(path)
    if not found and not several:
        deeper = "" if recursive else "; -r takes its subfolders too"
        raise RequestError(f"{folder} holds no file that poolcli reads{deeper}")
    return found, others


def _walk(folder: str, recursive: bool, output: str | None) -> Iterator[tuple[str, bool]]:
    """What is below `folder`, sorted, and whether it may be an input: files, and folders that are one input each.

    Hidden names are none, nor folders that are not entered, links to folders among them. The output is passed over, and
    so is what writing leaves in a folder. What is no regular file (a pipe, a link to nothing) may be one: it is refused
    by name, not left out in silence.
    """
    own = os.path.realpath(output) if output and output != "-" else None
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        entered = []
        for entry in _entries(current):
            hidden, is_folder = entry.name.startswith("."), _leads_to_folder(entry)
            if is_left_by_writing(entry.name) or (is_folder and os.path.realpath(entry.path) == own):
                continue
            if hidden or not is_folder or folder_format(entry.path):
                yield entry.path, not hidden
            elif recursive and entry.is_dir(follow_symlinks=False):
                entered.append(entry.path)
            else:
                yield entry.path if recursive else f"{entry.path}/", False
        waiting.extend(reversed(entered))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise FileError(f"{folder}: {error.strerror}") from error


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in circles
        return False
