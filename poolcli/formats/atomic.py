"""Writing a file so that it appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import BinaryIO

from poolcli.core.errors import FileError
from poolcli.formats.table import suffixes_of

LONGEST_NAME = 255  # bytes, on every usual file system
LONGEST_PROCESS = 9  # digits of a process that can be asked for
LONGEST_TAIL = 40  # of them for what is added to a name: a dot, the process or an identity, `.part`


@contextmanager
def whole_file(path: str, overwrite: bool) -> Iterator[str]:
    """Yields the path to write to; afterwards it becomes `path` in one step, or is removed on any exception.

    A link is followed; a device or a pipe is written straight through. An existing file keeps its mode, and
    is refused at the last step, too, unless `overwrite` is true.
    """
    with reported(path):
        target = os.path.realpath(path)
        if is_device(target):
            yield path
            return
        make_folder(os.path.dirname(target))
        part = part_name(target, os.getpid())
        _sweep(os.path.dirname(target))
        mode = mode_for(target)
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            yield part
            sync(part)
            move(part, target, overwrite, mode)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            raise


@contextmanager
def whole_folder(path: str, overwrite: bool) -> Iterator[str]:
    """As `whole_file`, for a format that is a folder: yields a new folder to write into.

    What it replaces is moved aside first: a process that is killed in between leaves one of both under a hidden name.
    """
    with reported(path):
        target = os.path.realpath(path)
        make_folder(os.path.dirname(target))
        part = part_name(target, os.getpid())
        _sweep(os.path.dirname(target))
        try:
            os.mkdir(part)
            yield part
            for folder, _, names in os.walk(part):
                for name in names:
                    sync(os.path.join(folder, name))
            _move_folder(part, target, overwrite)
        except BaseException:
            _remove(part)
            raise


def is_device(path: str) -> bool:
    """Whether a device or a pipe is there, which is written through and never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Errors of the system become one line with the name of the file."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: {error.strerror or error}") from error


@contextmanager
def byte_stream(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """As `whole_file`, as an open binary file; `-` is standard output."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(path, overwrite) as part, open(part, "wb") as stream:
        yield stream


def make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileError(f"{path}: is a file, and a folder is needed there") from None


def part_name(target: str, owner: int | str) -> str:
    """A hidden name in the target's folder, unique to one process and short enough for any file system."""
    folder, name = os.path.split(target)
    tail = f".{owner}.part"
    stem = os.fsencode(name)[: LONGEST_NAME - LONGEST_TAIL]
    return os.path.join(folder, "." + os.fsdecode(stem) + tail)


@cache
def _sweep(folder: str) -> None:
    """Removes, once in a process, what processes that were killed while writing into the folder have left."""
    own = (*suffixes_of(lambda row: row.writes), ".jsonl")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name, _, owner = entry.name.removesuffix(".part").rpartition(".")
            number = owner.isascii() and owner.isdigit() and len(owner) <= LONGEST_PROCESS
            if not entry.name.endswith(".part") or not number or not name.lower().endswith(own):
                continue
            if not _is_running(int(owner)):
                _remove(entry.path)


def remove_part(path: str, owner: int) -> None:
    """Removes what the process `owner`, which was killed, has left of `path`."""
    _remove(part_name(os.path.realpath(path), owner))


def _remove(path: str) -> None:
    """Removes a file or a folder that may be gone already."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        os.unlink(path)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def mode_for(target: str) -> int:
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def sync(part: str) -> None:
    handle = os.open(part, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)


def move(part: str, target: str, overwrite: bool, mode: int) -> None:
    os.chmod(part, mode)
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, this fails where the name is taken
    except FileExistsError:
        raise FileError(f"{target}: exists; it appeared while this run was working") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileError(f"{target}: exists; it appeared while this run was working") from None
        os.replace(part, target)
        return
    os.unlink(part)


def _move_folder(part: str, target: str, overwrite: bool) -> None:
    if os.path.lexists(target) and not overwrite:
        raise FileError(f"{target}: exists; it appeared while this run was working")
    old = part_name(target, "old")
    if os.path.lexists(target):
        _remove(old)
        os.rename(target, old)
    os.rename(part, target)
    _remove(old)
