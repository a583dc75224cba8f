"""Which files the inputs on the command line mean (files, folders, globs, lists, stdin), and which are a shard's."""

from __future__ import annotations

import glob
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from poolcli.errors import FileError, RequestError
from poolcli.formats import Source, folder_format, parse_source
from poolcli.formats.atomic import is_left_by_writing
from poolcli.formats.recognise import format_beginning
from poolcli.formats.table import FORMATS, format_by_suffix
from poolcli.message_fields import field
from poolcli.suggestions import did_you_mean_file

BLOCK = 2**16  # bytes of a list that are read at once: longer than any path
SOME = 3  # names in a message
LARGEST = 10**6  # shards
_WORD = re.compile(r"\s*(\d{1,7})\s*/\s*(\d{1,7})\s*", re.ASCII)
_PART = re.compile(r"\.poolcli-(\d+)-of-(\d+)\.jsonl", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shards, the first of which is number 1: processes of one run that know nothing of each other.

    An input belongs to a shard by its relative name alone, so that no shard has to look at the inputs of others. Its
    extension, case and Unicode form do not count: inputs whose outputs could clash belong to the same shard.
    """

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def manifest(self) -> str:
        """The name of its part of the manifest."""
        return f".poolcli-{self.number}-of-{self.count}.jsonl"

    def takes(self, relative: str) -> bool:
        """Whether an input of this relative name is one of its own."""
        stem, _ = os.path.splitext(unicodedata.normalize("NFC", os.path.normpath(relative)).casefold())
        place = int.from_bytes(sha256(stem.encode("utf-8", "surrogateescape")).digest()[:8])
        return place % self.count == self.number - 1


WHOLE = Shard(1, 1)


def parse_shard(text: str | None) -> Shard | None:
    """A shard from `2/5`; None where none is asked for.

    >>> parse_shard("2/5")
    Shard(number=2, count=5)
    """
    if text is None:
        return None
    match = _WORD.fullmatch(text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= LARGEST:
        raise RequestError(f"{field('shard')} is {text[:40]!r}; write I/N, such as 1/8 for the first of eight")
    return Shard(int(match[1]), int(match[2]))


def shard_of(name: str) -> Shard | None:
    """The shard whose part of the manifest has this name; None for any other name."""
    match = _PART.fullmatch(name)
    return Shard(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Item:
    """One input, and its path below the folder that was named (its own name for a single file)."""

    source: Source
    relative: str


@dataclass(frozen=True, slots=True)
class Found:
    """The inputs in a fixed order, whether they count as several (a folder, a glob or a list does), and what of the
    folders among them is no input.
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
    shard: Shard = WHOLE,
) -> Found:
    """What the inputs mean, as far as they are the shard's; the folder `output` is passed over where it lies in one of
    them.
    """
    items, ignored = list[Item](), list[str]()
    several = len(texts) > 1 or files_from is not None
    if not texts and files_from is None:
        raise RequestError(
            f"there is no input: name files, a folder, a quoted glob, or a list with {field('files_from')}"
        )
    for text in texts:
        if text != "-" and Path(text).is_dir() and not folder_format(text):
            items.extend(_folder_items(text, dataset, recursive, output, shard, ignored))
            several = True
        elif _is_pattern(text):
            items.extend(_glob_items(text, dataset, shard))
            several = True
        else:
            source = parse_source(text, dataset)
            item = Item(source, Path(source.path).name)
            items.extend([item] if len(texts) == 1 or shard.takes(item.relative) else [])
    if files_from is not None:
        items.extend(_listed_items(files_from, dataset, shard))
    if sum(item.source.path == "-" for item in items) + (files_from == "-") > 1:
        raise RequestError("stdin (-) can be read only once")
    return Found(items, several, ignored)


def _listed_items(path: str, dataset: str | None, shard: Shard) -> Iterator[Item]:
    """The files that a list names, one a line, or ended by NUL as `find -print0` writes them."""
    any_name = False
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
            for name in map(os.fsdecode, _names(stream)):
                any_name = True
                if shard.takes(_below(name)):
                    source = parse_source(name, dataset)
                    yield Item(source, _below(source.path))
    except OSError as error:
        meant = "; a folder is an input itself" if isinstance(error, IsADirectoryError) else did_you_mean_file(path)
        raise RequestError(f"{field('files_from', path)}: {error.strerror}{meant}") from error
    if not any_name:
        raise RequestError(f"{field('files_from', path)}: names no file")


def _names(stream: BinaryIO) -> Iterator[bytes]:
    """The names in a list, of which a block is in memory: its first one shows how they are ended."""
    rest, end = b"", b""
    while block := stream.read(BLOCK):
        if not end:
            _refuse_array(block)
        end = end or (b"\0" if b"\0" in block else b"\n")
        whole, _, rest = (rest + block).rpartition(end)
        yield from filter(None, whole.split(end) if end == b"\0" else whole.splitlines())
    yield from filter(None, rest.splitlines() if end == b"\n" else [rest])


def _refuse_array(start: bytes) -> None:
    """Refuses an input that is given as a list of inputs."""
    row = format_beginning(start) if b"\0" in start else None
    if row is not None:
        raise RequestError(f"{field('files_from')} takes a list of names, and this is {row.name}, an input itself")


def _below(path: str) -> str:
    """A relative path as it is, so that the tree is kept; the name alone of a path that leads elsewhere."""
    plain = os.path.normpath(path)
    return os.path.basename(plain) if os.path.isabs(plain) or plain.startswith("..") else plain


def _is_pattern(text: str) -> bool:
    return text != "-" and any(sign in text for sign in "*?[") and not os.path.lexists(parse_source(text).path)


def _glob_items(pattern: str, dataset: str | None, shard: Shard) -> Iterator[Item]:
    root = _fixed_part(pattern)
    several = False  # whether something is a shard's, or another's
    for path in sorted(glob.iglob(pattern, recursive=True)):
        relative = os.path.relpath(path, root)
        if not shard.takes(relative):
            several = True
        elif folder_format(path) or (os.path.isfile(path) and not _lies_in_one(path, pattern)):
            several = True
            yield Item(Source(path, dataset), relative)
    if not several:
        raise RequestError(f"{pattern} matches no file{_array_meant(pattern) or _there_is(root)}")


def _array_meant(pattern: str) -> str:
    """The array of a file where it was meant: `two.npz[first]`."""
    path, _, key = pattern.partition("[")
    return f"; an array in a file is written {path}:{key.rstrip(']')}" if os.path.isfile(path) else ""


def _there_is(folder: str) -> str:
    """What a folder holds of which a pattern matches nothing."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        return f"; {folder}: {error.strerror}{did_you_mean_file(folder)}"
    more = f" and {len(names) - SOME:,} more" if len(names) > SOME else ""
    return f"; {'the folder' if folder == '.' else folder} holds {', '.join(names[:SOME]) or 'nothing'}{more}"


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
    folder: str, dataset: str | None, recursive: bool, output: str | None, shard: Shard, ignored: list[str]
) -> Iterator[Item]:
    """The shard's inputs in a folder; its names in it that are none are added to those that were passed over."""
    readable = [row for row in FORMATS.values() if row.reads]
    several = False  # whether something is a shard's, or another's
    above = len(os.path.join(folder, ""))
    for path, may_be_one in _walk(folder, recursive, output):
        relative = path[above:]
        if not shard.takes(relative):
            several = True
        elif may_be_one and (format_by_suffix(path, readable) or folder_format(path)):
            several = True
            yield Item(Source(path, dataset), relative)
        else:
            ignored.append(path)
    if not several:
        deeper = "" if recursive else "; -r includes subfolders"
        raise RequestError(f"{folder} holds no file that poolcli reads{deeper}")


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
            path, hidden = os.path.join(current, entry.name), entry.name.startswith(".")
            leads_to_folder = _leads_to_folder(entry)
            if is_left_by_writing(entry.name) or (leads_to_folder and os.path.realpath(path) == own):
                continue
            if hidden or not leads_to_folder or folder_format(path):
                yield path, not hidden
            elif recursive and entry.is_dir(follow_symlinks=False):
                entered.append(path)
            else:
                yield path if recursive else f"{path}/", False
        waiting.extend(reversed(entered))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=attrgetter("name"))
    except OSError as error:
        raise FileError(f"{folder}: {error.strerror}") from error


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in circles
        return False
