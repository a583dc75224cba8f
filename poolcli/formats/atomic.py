"""Atomic writes: a file or folder is written under a temporary name, synced, and renamed to its own."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape, glob
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from poolcli.errors import FileError, RequestError
from poolcli.formats.files import check_output_url
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped

MAX_NAME = 255  # bytes, on all common file systems
RESERVED = 40  # bytes of a temporary name for the dot, the process token or identity, and `.part`
MANIFEST = (".poolcli", ".jsonl")  # prefix and suffix of the names of manifests
KEPT = ".kept"  # after the identity, in the name of a folder that an interrupted run leaves
SYNC_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)  # any other error loses data
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # renameat2(2) of Linux


@contextmanager
def atomic_file(path: str, overwrite: bool) -> Iterator[str]:
    """Yields a temporary path to write to; it is renamed to `path` at the end, or removed on any exception.

    Links are followed; devices and pipes are written to directly. An existing file keeps its mode; without `overwrite`
    it is refused.
    """
    check_output_url(path)
    target = os.path.realpath(path)
    with os_errors(path):
        if is_device(target):
            yield path
            return
        with _removed_on_errors(target, overwrite) as part:
            mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode or 0o666))
            yield part
            check_stopped()
            sync(part)
            if mode is not None:
                os.chmod(part, mode)
            _refuse_existing(target, overwrite)
            os.replace(part, target)


@contextmanager
def atomic_folder(path: str, overwrite: bool, identity: str | None = None) -> Iterator[str]:
    """As `atomic_file`, for a format that is a folder: yields a folder to write into.

    The folder that an interrupted run of an `identity` leaves is kept for the next one of the same identity. An
    existing folder is exchanged with it atomically, or renamed first to `.old` if the system cannot do that.
    """
    target = os.path.realpath(path)
    with os_errors(path), _removed_on_errors(target, overwrite, identity) as part:
        if identity is None:
            remove(part)
        os.makedirs(part, exist_ok=True)
        yield part
        check_stopped()
        for folder, _, names in os.walk(part):
            for name in names:
                sync(os.path.join(folder, name))
        _refuse_existing(target, overwrite)
        rename_folder(part, target)


def _refuse_existing(target: str, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(target):
        raise FileError(f"{target}: exists; use {field('overwrite')}, or another name")


@contextmanager
def _removed_on_errors(target: str, overwrite: bool, identity: str | None = None) -> Iterator[str]:
    """Yields a temporary path beside the target, whose folder is made and cleared of leftovers."""
    _refuse_existing(target, overwrite)
    folder = os.path.dirname(target)
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileError(f"{folder}: is a file, and a folder is needed there") from None
    part = temporary_path(target, token_of(os.getpid()) if identity is None else f"{identity}{KEPT}")
    remove_leftovers(folder)
    for other in glob(escape(temporary_path(target, "")[: -len(".part")]) + f"*{KEPT}.part") if identity else ():
        if other != part:
            remove(other)
    try:
        yield part
    except BaseException as error:
        if identity is None or isinstance(error, Exception):  # not KeyboardInterrupt
            remove(part)
        raise


def is_device(path: str) -> bool:
    """Whether it is a device or pipe, which is written to directly and never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Converts OSErrors of the system to a FileError that names the file; other OSErrors propagate."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError) or not isinstance(error.strerror, str | None):
            raise
        raise FileError(f"{path}: {error.strerror or error}") from error


@contextmanager
def atomic_stream(path: str, overwrite: bool) -> Iterator[BinaryIO]:
    """As `atomic_file`, but yields an open binary file; `-` is standard output."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_file(path, overwrite) as part, open(part, "wb") as stream:
        yield stream


def write_bytes(path: str, content: bytes, overwrite: bool) -> None:
    """Writes a file atomically; an existing one is refused as a wrong request without `overwrite`."""
    if os.path.exists(path) and not overwrite:
        raise RequestError(f"{path} exists; use {field('overwrite', True)} to replace it")
    with atomic_stream(path, overwrite) as stream:
        stream.write(content)


def temporary_path(target: str, owner: str) -> str:
    """A hidden name in the target's folder that ends in the owner and `.part`, short enough for any file system."""
    folder, name = os.path.split(target)
    stem = os.fsdecode(os.fsencode(name)[: MAX_NAME - RESERVED])
    return os.path.join(folder, f".{stem}.{owner}.part")


def is_internal_file(name: str) -> bool:
    """Whether a name is that of a manifest or of a temporary file."""
    is_manifest = name.startswith(MANIFEST[0]) and name.endswith(MANIFEST[1])
    return is_manifest or (name.startswith(".") and name.endswith((".part", ".old")))


@cache
def remove_leftovers(folder: str) -> None:
    """Removes temporary files of killed processes from a folder; once per process."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".part") and has_exited(entry.name.removesuffix(".part").rpartition(".")[2]):
                remove(entry.path)


def token_of(process: int) -> str:
    """The owner in names of temporary files: a hash of the host and process namespace, and the id of the process."""
    return f"{_host()}-{process}"


@cache
def _host() -> str:
    names = [os.uname().nodename]
    with suppress(OSError):
        names.append(Path("/etc/machine-id").read_text(errors="replace"))
    with suppress(OSError):
        names.append(os.readlink("/proc/self/ns/pid"))
    return f"{crc32(' '.join(names).encode(errors='replace')):08x}"


def has_exited(owner: str) -> bool:
    """Whether the process of a token has ended; False for processes of other hosts, and for text that is no token."""
    host, _, number = owner.partition("-")
    if host != _host() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no number of a process
        pass
    return False


def remove(path: str) -> None:
    """Removes a file or folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        os.unlink(path)


def sync(part: str) -> None:
    """Syncs a file if its file system can; a full or broken disk may report its error only now."""
    handle = os.open(part, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in SYNC_UNSUPPORTED:
            raise
    finally:
        os.close(handle)


def rename_folder(part: str, target: str) -> None:
    if not os.path.lexists(target):
        os.rename(part, target)
        return
    if os.path.isdir(target):
        os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
    if not _exchange(part, target):
        aside = f"{part.removesuffix('.part')}.old"
        os.rename(target, aside)
        try:
            os.rename(part, target)
        except BaseException:
            os.rename(aside, target)
            raise
        part = aside
    remove(part)


def _exchange(one: str, other: str) -> bool:
    """Exchanges two names atomically; False if the system or the file system cannot."""
    rename: Any = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0
