"""Whether an input or an output is still what it was: size, time and hash, of a file or of all files in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import file_digest, sha256
from typing import NamedTuple


class State(NamedTuple):
    """What tells cheaply that a file has changed; of a folder, the sum of sizes, and the newest time of all in it."""

    size: int
    mtime_ns: int
    inode: int


def state_of(path: str) -> State:
    """The state of the file or folder at `path`; raises OSError where there is none."""
    whole = os.stat(path)
    if not os.path.isdir(path):
        return State(whole.st_size, whole.st_mtime_ns, whole.st_ino)
    size, newest = 0, whole.st_mtime_ns
    for name in _files_in(path):
        status = os.stat(name)
        size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return State(size, newest, whole.st_ino)


def digest_of(path: str) -> str:
    """The SHA-256 of a file; of a folder, that of the names and hashes of its files."""
    if os.path.isdir(path):
        lines = (f"{os.path.relpath(name, path)}\0{digest_of(name)}\n" for name in _files_in(path))
        return sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _files_in(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))
