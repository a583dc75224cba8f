"""Which files the inputs on the command line mean: files, folders, globs and stdin."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from poolcli.errors import FileError, RequestError
from poolcli.formats import FORMATS, Source, parse_source


@dataclass(frozen=True, slots=True)
class Item:
    """One input, and its path below the folder that was named (its own name for a single file)."""

    source: Source
    relative: str


def find_inputs(texts: Sequence[str], dataset: str | None, recursive: bool) -> tuple[tuple[Item, ...], bool]:
    """The inputs in a fixed order, and whether they count as several (a folder or a glob does)."""
    items: list[Item] = []
    several = len(texts) > 1
    for text in texts:
        if text != "-" and Path(text).is_dir():
            found = _folder_items(text, dataset, recursive)
            several = True
        elif _is_pattern(text):
            found = _glob_items(text, dataset)
            several = True
        else:
            source = parse_source(text, dataset)
            found = [Item(source, Path(source.path).name)]
        items.extend(found)
    if sum(item.source.path == "-" for item in items) > 1:
        raise RequestError("stdin (-) can be read only once")
    return tuple(items), several


def _is_pattern(text: str) -> bool:
    return text != "-" and any(sign in text for sign in "*?[") and not os.path.lexists(parse_source(text).path)


def _glob_items(pattern: str, dataset: str | None) -> list[Item]:
    paths = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
    if not paths:
        raise RequestError(f"{pattern} matches no file")
    root = _fixed_part(pattern)
    return [Item(Source(path, dataset), os.path.relpath(path, root)) for path in paths]


def _fixed_part(pattern: str) -> str:
    """The folder of the pattern before its first wildcard: the tree below it is kept."""
    parts = Path(pattern).parts
    fixed = []
    for part in parts[:-1]:
        if any(sign in part for sign in "*?["):
            break
        fixed.append(part)
    return str(Path(*fixed)) if fixed else "."


def _folder_items(folder: str, dataset: str | None, recursive: bool) -> list[Item]:
    suffixes = {suffix for row in FORMATS.values() if row.reads for suffix in row.suffixes}
    found = [
        Item(Source(path, dataset), os.path.relpath(path, folder))
        for path in _walk(folder, recursive)
        if Path(path).suffix.lower() in suffixes
    ]
    if not found:
        deeper = "" if recursive else "; -r takes its subfolders too"
        raise RequestError(f"{folder} holds no file that poolcli reads{deeper}")
    return found


def _walk(folder: str, recursive: bool) -> Iterator[str]:
    """Regular files below `folder`, sorted; hidden names are passed over, links to folders are not followed."""
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise FileError(f"{current}: {error.strerror}") from error
        yield from (e.path for e in ordered if not e.name.startswith(".") and e.is_file())
        if recursive:
            folders = [e.path for e in ordered if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
            waiting.extend(reversed(folders))
