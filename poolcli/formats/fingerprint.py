"""Detects changed files: size, mtime and inode of inputs, checksums of outputs, for files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from poolcli.errors import FileError
from poolcli.formats.paths import filesystem, is_url
from poolcli.formats.table import FORMATS

BLOCK = 2**18  # bytes that are read at once


class Fingerprint(NamedTuple):
    """What tells cheaply that a file has changed; of a folder, the sum of sizes, and the newest time of all in it."""

    size: int
    mtime_ns: int
    inode: int


def fingerprint_of(path: str) -> Fingerprint:
    """The state of the file or folder at `path`, of standard input always the same; an OSError where there is none."""
    if path == "-":
        return Fingerprint(0, 0, 0)
    if is_url(path):
        return _fingerprint_of_url(path)
    whole = os.stat(path)
    if not os.path.isdir(path):
        return Fingerprint(whole.st_size, whole.st_mtime_ns, whole.st_ino)
    size, newest = 0, whole.st_mtime_ns
    for status in _states_in(path):
        size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return Fingerprint(size, newest, whole.st_ino)


def check_unchanged(path: str, before: Fingerprint) -> None:
    """Refuses what was read where its state is no longer that of `before`."""
    try:
        changed = fingerprint_of(path) != before
    except OSError:
        changed = True
    if changed:
        raise FileError(f"{path}: changed while it was being read; run again when it is at rest")


def _fingerprint_of_url(path: str) -> Fingerprint:
    """What an object store tells of the metadata of a Zarr store; its chunks are too many to be asked for."""
    system, place = filesystem(path)
    found = []
    for name in (name for row in FORMATS.values() if row.remote for name in row.markers):
        with suppress(FileNotFoundError):
            about = system.info(f"{place}/{name}")
            found.append((name, about.get("size"), *(str(about.get(key)) for key in ("ETag", "mtime", "LastModified"))))
    if not found:
        raise FileNotFoundError(path)
    return Fingerprint(sum(entry[1] or 0 for entry in found), int(sha256(repr(found).encode()).hexdigest()[:15], 16), 0)


def checksum_of(path: str) -> str:
    """The size and the CRC-32 of a file; of a folder, those of the names and checksums of its files.

    They tell what has happened to an output, not who did it: SHA-256 took a quarter of halving a plain TIFF where the
    processor has no instructions for it.
    """
    if os.path.isdir(path):
        lines = (f"{os.path.relpath(name, path)}\0{checksum_of(name)}\n" for name in _files_in(path))
        return _checksum(line.encode("utf-8", "surrogateescape") for line in lines)
    with open(path, "rb", buffering=0) as stream:
        block = memoryview(bytearray(BLOCK))
        return _checksum(block[:count] for count in iter(partial(stream.readinto, block), 0))


def _checksum(parts: Iterable[bytes | memoryview]) -> str:
    size = found = 0
    for part in parts:
        size, found = size + len(part), crc32(part, found)
    return f"{size}-{found:08x}"


def _states_in(path: str) -> Iterator[os.stat_result]:
    """What the system says of all files in a folder: a store may have millions."""
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.stat()


def _files_in(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))
