"""Writing a file so that it appears whole or not at all."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from poolcli.errors import FileError

LONGEST_NAME = 255  # bytes, on every usual file system
LONGEST_TAIL = 20  # of them for what is added to a name: a dot, the process and `.part`


@contextmanager
def whole_file(path: str, overwrite: bool) -> Iterator[str]:
    """Yields the path to write to; afterwards it becomes `path` in one step, or is removed on any exception.

    A link is followed; a device or a pipe is written straight through. An existing file keeps its mode, and
    is refused at the last step, too, unless `overwrite` is true.
    """
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            yield path
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        part = _part_name(target, os.getpid())
        sweep(target)
        mode = _mode_for(target)
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            yield part
            _sync(part)
            _move(part, target, overwrite, mode)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            raise
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


def _part_name(target: str, owner: int | str) -> str:
    """A hidden name in the target's folder, unique to one process and short enough for any file system."""
    folder, name = os.path.split(target)
    tail = f".{owner}.part"
    stem = os.fsencode(name)[: LONGEST_NAME - LONGEST_TAIL]
    return os.path.join(folder, "." + os.fsdecode(stem) + tail)


def sweep(path: str) -> None:
    """Removes what processes that were killed while writing `path` have left."""
    target = os.path.realpath(path)
    pattern = glob.escape(_part_name(target, "")[: -len(".part") - 1]) + ".*.part"
    for left in glob.glob(pattern):
        owner = left.split(".")[-2]
        if owner.isdigit() and not _is_running(int(owner)):
            with suppress(OSError):
                os.unlink(left)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _mode_for(target: str) -> int:
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync(part: str) -> None:
    handle = os.open(part, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)


def _move(part: str, target: str, overwrite: bool, mode: int) -> None:
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
