"""Finds the files that the inputs on the command line name (files, folders, globs, lists, stdin)."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.formats import Source, folder_format, parse_source
from poolcli.formats.atomic import is_internal_file
from poolcli.formats.files import is_url
from poolcli.formats.table import format_by_magic, format_by_suffix
from poolcli.message_fields import field


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Item:
    """One input, and its path relative to the folder or glob that was named; for a single file, its name.

    `unreadable` says why the folder `source` cannot be searched.
    """

    source: Source
    relative: str
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The inputs in a fixed order, whether they count as several (a folder, glob or list does), and names in folders
    that are not inputs.
    """

    items: Sequence[Item]
    several: bool
    ignored: Sequence[str] = ()


def find_inputs(
    texts: Sequence[str],
    dataset: str | None,
    recursive: bool,
    files_from: str | None = None,
    output: str | None = None,
) -> Found:
    """The inputs; the folder `output` is not searched if it lies in an input folder."""
    items, ignored = list[Item](), list[str]()
    several = len(texts) > 1 or files_from is not None
    if not texts and files_from is None:
        raise RequestError(
            f"there is no input: name files, a folder, a quoted glob, - for a .npy stream, or a list with "
            f"{field('files_from')}"
        )
    for text in texts:
        if text != "-" and os.path.isdir(text) and not folder_format(text):
            items.extend(_folder_items(text, dataset, recursive, output, ignored))
            several = True
        elif _is_pattern(text):
            items.extend(_glob_items(text, dataset))
            several = True
        else:
            source = parse_source(text, dataset)
            items.append(Item(source, Path(source.path).name))
    if files_from is not None:
        items.extend(_listed_items(files_from, dataset))
    if sum(item.source.path == "-" for item in items) + (files_from == "-") > 1:
        raise RequestError("stdin (-) can be read only once")
    return Found(items, several, ignored)


def _listed_items(path: str, dataset: str | None) -> Iterator[Item]:
    """The files in a list, one per line, or each ended by NUL as `find -print0` writes them."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise RequestError(f"{field('files_from', path)}: {error.strerror}") from error
    if b"\0" in content and (row := format_by_magic(content)):  # a list of names may begin with BM
        raise RequestError(f"{field('files_from')} takes a list of names, and this is {row.name}, an input itself")
    names = list(filter(None, content.split(b"\0") if b"\0" in content else content.splitlines()))
    if not names:
        raise RequestError(f"{field('files_from', path)}: names no file")
    for name in names:
        source = parse_source(os.fsdecode(name), dataset)
        yield Item(source, _relative_name(source.path))


def _relative_name(path: str) -> str:
    """A path below the current folder unchanged, so that outputs keep the tree; of others and of URLs the name."""
    plain = os.path.normpath(path)
    return os.path.basename(plain) if os.path.isabs(plain) or plain.startswith("..") or is_url(path) else plain


def _is_pattern(text: str) -> bool:
    return not is_url(text) and any(sign in text for sign in "*?[") and not os.path.lexists(parse_source(text).path)


def _glob_items(pattern: str, dataset: str | None) -> list[Item]:
    root = _folder_before_wildcard(pattern)
    found = [
        Item(Source(path, dataset), os.path.relpath(path, root))
        for path in sorted(glob.iglob(pattern, recursive=True))
        if folder_format(path) or (os.path.isfile(path) and not _is_inside_input(path, root))
    ]
    if not found:
        raise RequestError(f"{pattern} matches no file")
    return found


def _is_inside_input(path: str, root: str) -> bool:
    """Whether a file is part of a folder below `root` that is itself an input, such as a .zarr."""
    return any(folder_format(str(folder)) for folder in Path(path).parents if Path(root) in folder.parents)


def _folder_before_wildcard(pattern: str) -> str:
    """The part of a pattern before its first wildcard; outputs keep the tree below this folder."""
    folders = Path(pattern).parts[:-1]
    return str(Path(*takewhile(lambda part: not any(sign in part for sign in "*?["), folders)))


def _folder_items(
    folder: str, dataset: str | None, recursive: bool, output: str | None, ignored: list[str]
) -> Iterator[Item]:
    """The inputs in a folder in the order of their names, and folders that cannot be searched; adds other names to
    `ignored`.

    Hidden names, and folders that are not entered, such as links, are ignored. The output and temporary files are left
    out. A pipe or a broken link may be an input, so that it is refused with a message and not ignored.
    """
    own = os.path.realpath(output) if output and output != "-" else None
    waiting, above, any_input = [folder], len(os.path.join(folder, "")), False
    while waiting:
        current, entered = waiting.pop(), []
        try:
            with os.scandir(current) as found:
                entries = sorted(found, key=attrgetter("name"))
        except OSError as error:
            any_input = True
            yield Item(Source(current), current[above:], f"{current}: {error.strerror}")
            continue
        for entry in entries:
            path, hidden, is_folder = os.path.join(current, entry.name), entry.name[0] == ".", _is_folder_or_link(entry)
            if is_internal_file(entry.name) or (is_folder and os.path.realpath(path) == own):
                continue
            row = folder_format(path) if is_folder else format_by_suffix(path)
            if row is not None and not hidden:
                any_input = True
                yield Item(Source(path, dataset), path[above:])
            elif recursive and is_folder and not hidden and not entry.is_symlink():
                entered.append(path)
            else:
                ignored.append(f"{path}/" if is_folder and not recursive else path)
        waiting.extend(reversed(entered))
    if not any_input:
        deeper = "" if recursive else "; -r includes subfolders"
        raise RequestError(f"{folder} holds no file that poolcli reads{deeper}")


def _is_folder_or_link(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False
