"""Atomic writes of files and folders."""

from __future__ import annotations

import ctypes
import errno
import filecmp
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, BinaryIO

from poolcli.errors import FileError
from poolcli.formats.table import suffixes_of
from poolcli.system.signals import check_stopped
from poolcli.system.subprocesses import has_exited, process_token

LONGEST_NAME = 255  # bytes, on all common file systems
LONGEST_TAIL = 40  # bytes of what is added to a name: a dot, the owner or an identity, `.part`
LIST = (".poolcli", ".jsonl")  # prefix and suffix of the names of manifests
ASIDE = "old-"  # before the owner, in the name of what was moved aside
# Errors of file systems that cannot sync; any other error of a sync is a loss of data.
UNABLE = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


@contextmanager
def whole_file(path: str, overwrite: bool) -> Iterator[str]:
    """Yields a temporary path to write to, which becomes `path` in one step, or is removed on any exception.

    Links are followed; devices and pipes are written to directly. An existing file keeps its mode, and is refused, also
    in the last step, unless `overwrite` is true.
    """
    with reported(path):
        target = os.path.realpath(path)
        if is_device(target):
            yield path
            return
        make_folder(os.path.dirname(target))
        part = part_name(target, process_token())
        sweep(os.path.dirname(target))
        mode = mode_for(target)
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            yield part
            check_stopped()
            sync(part)
            move(part, target, overwrite, mode)
        except BaseException:
            remove(part)
            raise


@contextmanager
def whole_folder(path: str, overwrite: bool) -> Iterator[str]:
    """As `whole_file`, for a format that is a folder: yields a new folder to write into.

    An existing folder is exchanged with it in one step if the system can do that. Otherwise it is moved aside first; if
    the process is killed then, the next one that writes into the parent folder moves it back.
    """
    with reported(path):
        target = os.path.realpath(path)
        make_folder(os.path.dirname(target))
        part = part_name(target, process_token())
        sweep(os.path.dirname(target))
        try:
            os.mkdir(part)
            yield part
            check_stopped()
            for folder, _, names in os.walk(part):
                for name in names:
                    sync(os.path.join(folder, name))
            move_folder(part, target, overwrite)
        except BaseException:
            remove(part)
            raise


def is_device(path: str) -> bool:
    """Whether it is a device or a pipe, which is written to directly and never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def reported(path: str) -> Iterator[None]:
    """Turns errors of the system into a FileError that names the file; others of type OSError stay."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError) or not isinstance(error.strerror, str | None):
            raise
        raise FileError(f"{path}: {error.strerror or error}") from error


@contextmanager
def byte_stream(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """As `whole_file`, but yields an open binary file; `-` is standard output."""
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


def part_name(target: str, owner: str) -> str:
    """A hidden name in the target's folder, unique to a process and short enough for any file system."""
    folder, name = os.path.split(target)
    tail = f".{owner}.part"
    stem = os.fsencode(name)[: LONGEST_NAME - LONGEST_TAIL]
    return os.path.join(folder, "." + os.fsdecode(stem) + tail)


def is_left_by_writing(name: str) -> bool:
    """Whether a name is that of a manifest, or of a temporary file."""
    is_list = name.startswith(LIST[0]) and name.endswith(LIST[1])
    return is_list or (name.startswith(".") and name.endswith((".part", ".part.at")))


@cache
def sweep(folder: str) -> None:
    """Removes what killed processes have left in a folder, once in each process."""
    own = (*suffixes_of(lambda row: row.writes), ".jsonl")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name, _, owner = entry.name.removesuffix(".part").rpartition(".")
            if not entry.name.endswith(".part") or not name.lower().endswith(own):
                continue
            if has_exited(owner.removeprefix(ASIDE)):
                _take_back(entry.path, name.removeprefix(".")) if owner.startswith(ASIDE) else remove(entry.path)


def remove_part(path: str, owner: str) -> None:
    """Removes what the killed process `owner` has left of `path`."""
    remove(part_name(os.path.realpath(path), owner))


def remove(path: str) -> None:
    """Removes a file or folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        os.unlink(path)


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
        sync_handle(handle)
    finally:
        os.close(handle)


def sync_handle(handle: int) -> None:
    """Syncs a file, if its file system can; a full or broken disk may report its error only now."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNABLE:
            raise


def move(part: str, target: str, overwrite: bool, mode: int) -> None:
    os.chmod(part, mode)
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, this fails if the name exists
    except FileExistsError:
        _refuse_unless_same(part, target)
    except OSError:  # a file system without hard links
        if not os.path.lexists(target):
            os.replace(part, target)
            return
        _refuse_unless_same(part, target)
    os.unlink(part)


def move_folder(part: str, target: str, overwrite: bool) -> None:
    if not os.path.lexists(target):
        os.rename(part, target)
        return
    if not overwrite:
        _refuse_unless_same(part, target)
        remove(part)
        return
    if os.path.isdir(target):
        os.chmod(part, mode_for(target))
    if not _exchanged(part, target):
        aside = part_name(target, ASIDE + process_token())
        os.rename(target, aside)
        try:
            os.rename(part, target)
        except BaseException:
            os.rename(aside, target)
            raise
        part = aside
    remove(part)


def _refuse_unless_same(part: str, target: str) -> None:
    """Refuses a name that exists by now, unless with the same bytes: a process that was killed before it could report
    may have finished this work.
    """
    if not _same(part, target):
        raise FileError(f"{target}: exists; it was created during this run") from None


def _same(one: str, other: str) -> bool:
    """Whether two files, or two folders with all their files, are equal."""
    if os.path.islink(other) or os.path.isdir(one) != os.path.isdir(other):
        return False
    if not os.path.isdir(one):
        return os.path.isfile(other) and filecmp.cmp(one, other, shallow=False)
    names = os.listdir(one)
    return set(names) == set(os.listdir(other)) and all(
        _same(os.path.join(one, name), os.path.join(other, name)) for name in names
    )


def _exchanged(one: str, other: str) -> bool:
    """Exchanges two names in one step; False if the system or the file system cannot."""
    rename: Any = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def _take_back(aside: str, name: str) -> None:
    """Moves back what was moved aside, or removes it if the new one has its name."""
    target = os.path.join(os.path.dirname(aside), name)
    if os.path.lexists(target):
        remove(aside)
    elif len(os.fsencode(name)) < LONGEST_NAME - LONGEST_TAIL:  # longer ones were cut
        os.rename(aside, target)
