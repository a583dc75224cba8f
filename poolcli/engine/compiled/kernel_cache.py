"""The folder in which compiled kernels are kept between runs, and its entries.

What lies in it is code: whoever can write there runs as whoever loads it. So it is a folder of poolcli's own, which
this user alone may write to, below folders that nobody else may change; no link is followed in it. An entry is a line
of JSON, with the hash of what follows, and machine code: whatever does not agree with itself, with these kernels, these
versions and this processor is built anew and never run. A folder that cannot be used means building for this run alone.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from poolcli.engine.compiled.codegen import Code, description

PACKAGES = ("numba", "llvmlite")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def root() -> Path:
    """The folder of all versions: XDG_CACHE_HOME/poolcli, or ~/.cache/poolcli."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "poolcli"
    try:
        return Path.home() / ".cache" / "poolcli"
    except RuntimeError:  # no home
        return Path("/nonexistent/poolcli")


@cache
def key() -> str:
    """What machine code depends on beside its kernel: the sources, the compilers and the processor."""
    return "; ".join([sources_hash(Path(__file__).parent), *map(_version, PACKAGES), description()])


def sources_hash(folder: Path) -> str:
    """A hash of all modules in a folder. Some of those here are in no kernel; that none is forgotten is worth building
    kernels anew when one of them changes.
    """
    return sha256(b"".join(file.read_bytes() for file in sorted(folder.rglob("*.py")))).hexdigest()


def _version(package: str) -> str:
    """What a package says of its version, read without importing it; importlib.metadata would cost 30 ms."""
    spec = find_spec(package)
    place = Path(spec.origin).with_name("_version.py") if spec and spec.origin else Path(package)
    return sha256(place.read_bytes()).hexdigest() if place.exists() else f"no {package}"


def folder() -> Path:
    """The folder of the entries that this process may use: others never read it."""
    return root() / f"kernels-{sha256(key().encode()).hexdigest()[:16]}"


@cache
def opened() -> int | None:
    """The folder, made if need be, open; None where entries in it could not be trusted or kept."""
    if not hasattr(os, "getuid"):
        return None
    try:
        base = Path(os.path.realpath(root().parent))
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_out_of_reach(base):
            return None
        place = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        for name in (root().name, folder().name):
            place = _entered(name, place)
    except OSError:
        return None
    return place


def _entered(name: str, above: int) -> int:
    """A folder in another, made if need be, open instead of that; refused where it is a link or not this user's own."""
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
        place = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)
    if not is_own(os.fstat(place)):
        os.close(place)
        raise PermissionError(name)
    return place


def is_own(status: os.stat_result) -> bool:
    """Whether it is this user's, and nobody else may write to it."""
    return status.st_uid == os.getuid() and not status.st_mode & OTHERS_WRITE


def is_out_of_reach(path: Path) -> bool:
    """Whether nobody but this user and the system can exchange what lies in a folder, or above it."""
    every = [os.stat(place) for place in (path, *path.parents)]
    return all(status.st_uid in (0, os.getuid()) and not _is_open_to_others(status) for status in every)


def _is_open_to_others(status: os.stat_result) -> bool:
    """Whether others may exchange what lies in a folder; a group of this user alone is nobody else."""
    if status.st_mode & stat.S_ISVTX or not status.st_mode & OTHERS_WRITE:
        return False
    return bool(status.st_mode & stat.S_IWOTH) or not _is_private(status.st_gid)


def _is_private(group: int) -> bool:
    """Whether a group is the one that many systems give each user, with the user's name and no other members."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and user.pw_name == found.gr_name and not set(found.gr_mem) - {user.pw_name}


ENTRY, PART = ".kernel", ".part"
LARGEST = 1 << 24  # bytes of an entry; kernels take some 30,000
PATIENCE = 120  # seconds that another process may take to build a kernel which this one needs too


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The cache as it is: its folder, the kernels in it, their bytes, and whether it can be used."""

    folder: str
    kernels: tuple[str, ...]
    size: int
    usable: bool


def read(name: str) -> Code | None:
    """The entry of a kernel, where there is one that can be trusted."""
    place = opened()
    if place is None:
        return None
    try:
        file = os.open(name + ENTRY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or not is_own(status) or status.st_size > LARGEST:
            return None
        with open(file, "rb", closefd=False) as entry:
            return _parsed(name, entry.read(LARGEST))
    except OSError:
        return None
    finally:
        os.close(file)


def _parsed(name: str, text: bytes) -> Code | None:
    first, _, data = text.partition(b"\n")
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        return None
    symbol = found.get("symbol") if isinstance(found, dict) else None
    if not isinstance(symbol, str) or found != _header(name, Code(symbol, data)):
        return None
    return Code(symbol, data)


def _header(name: str, code: Code) -> dict[str, str]:
    signed = sha256(code.symbol.encode() + b"\n" + code.data).hexdigest()
    return {"kernel": name, "key": key(), "symbol": code.symbol, "sha256": signed}


@contextmanager
def writing(name: str) -> Iterator[Callable[[Code], None]]:
    """Waits until no other process builds this kernel, then gives what keeps it; nothing where that is not possible.

    The file that becomes the entry is also the lock: who holds it may write, and whoever waited looks again.
    """
    place, part = opened(), f".{name}{PART}"
    file = _locked(part, place) if place is not None else None
    if place is None or file is None:
        yield lambda code: None
        return

    def keep(code: Code) -> None:
        with suppress(OSError):
            os.ftruncate(file, 0)
            with open(file, "wb", closefd=False) as entry:
                entry.write(json.dumps(_header(name, code)).encode() + b"\n" + code.data)
            os.rename(part, name + ENTRY, src_dir_fd=place, dst_dir_fd=place)

    try:
        yield keep
    finally:
        if _is_still(os.fstat(file), part, place):  # it became no entry
            with suppress(OSError):
                os.unlink(part, dir_fd=place)
        os.close(file)


def _locked(part: str, place: int) -> int | None:
    """The file to write to, held by this process alone; None where there is none, or another holds it too long."""
    import fcntl

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=place)
        except OSError:
            return None
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or not is_own(status):
            os.close(file)
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            time.sleep(0.02)
            continue
        except OSError:  # a file system without locks
            return file
        if _is_still(status, part, place):
            return file
        os.close(file)
    return None


def _is_still(status: os.stat_result, name: str, place: int) -> bool:
    """Whether a file still has its name: while this process waited, it may have become the entry."""
    try:
        now = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)


def info() -> CacheInfo:
    """What the cache holds now; nothing is made."""
    path = folder()
    kernels = {entry.stem: entry.lstat().st_size for entry in _entries(path) if entry.suffix == ENTRY}
    there = Path(os.path.realpath(next(place for place in (path, *path.parents) if place.exists())))
    usable = hasattr(os, "getuid") and os.access(there, os.W_OK) and is_out_of_reach(there)
    return CacheInfo(str(path), tuple(sorted(kernels)), sum(kernels.values()), usable)


def clear() -> int:
    """Removes the kernels of every version, and nothing else; returns the bytes that were freed."""
    freed = 0
    folders = [path for path in _listed(root()) if path.name.startswith("kernels-") and not path.is_symlink()]
    for path in folders:
        for entry in _entries(path):
            with suppress(OSError):
                size = entry.lstat().st_size
                entry.unlink()
                freed += size
        with suppress(OSError):
            path.rmdir()
    with suppress(OSError):
        root().rmdir()
    return freed


def _entries(path: Path) -> list[Path]:
    """The entries of a folder, and those that are being written."""
    return [entry for entry in _listed(path) if entry.suffix in (ENTRY, PART) and not entry.is_dir()]


def _listed(path: Path) -> list[Path]:
    try:
        return [] if path.is_symlink() else list(path.iterdir())
    except OSError:
        return []
