"""The kernel cache: a folder of machine code that is kept between runs.

Whoever can write to the cache can run code as its user. So it is a private folder, which only this user may write to,
below folders that nobody else may change, and no links are followed in it. An entry is a line of JSON, which has the
hash of the rest, and machine code. Entries that are damaged or belong to other kernels, versions or processors are
compiled again and never run. If the folder cannot be used, kernels are compiled for the current run only.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from poolcli.engine.compiled.build import Code, description

PACKAGES = ("numba", "llvmlite")
NO_ROOT = Path(os.devnull) / "poolcli"  # which nobody can make
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def root() -> Path:
    """The folder of all versions: XDG_CACHE_HOME/poolcli, or ~/.cache/poolcli; a home that is no folder of a user, as
    an empty one and the root, has no cache.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "poolcli"
    home = Path(os.path.expanduser("~"))  # as it is, if there is none
    return home / ".cache/poolcli" if home.is_absolute() and home != Path("/") else NO_ROOT


@cache
def key() -> str:
    """What machine code depends on besides the kernel's name: the sources, the compilers and the processor."""
    return "; ".join([sources_hash(Path(__file__).parent), *map(_version, PACKAGES), description()])


def sources_hash(folder: Path) -> str:
    """A hash of all modules in a folder.

    Kernels do not depend on all of them, but a list of those that they depend on could be incomplete.
    """
    return sha256(b"".join(file.read_bytes() for file in sorted(folder.rglob("*.py")))).hexdigest()


def _version(package: str) -> str:
    """A hash of the version file of a package, which is not imported; importlib.metadata would take 30 ms."""
    spec = find_spec(package)
    place = Path(spec.origin).with_name("_version.py") if spec and spec.origin else Path(package)
    return sha256(place.read_bytes()).hexdigest() if place.exists() else f"no {package}"


def folder() -> Path:
    """The folder of the entries with the key of this process."""
    return root() / f"kernels-{sha256(key().encode()).hexdigest()[:16]}"


@cache
def opened() -> int | None:
    """A file descriptor of the folder, which is created if needed; None if entries there cannot be trusted or kept."""
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
    """Create a folder in the open folder `above`, open it and close `above`; refuse one that is not this user's."""
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
    """Whether a file belongs to this user, and nobody else may write to it."""
    return status.st_uid == os.getuid() and not status.st_mode & OTHERS_WRITE


def is_out_of_reach(path: Path) -> bool:
    """Whether only this user and root can replace a folder or any folder above it."""
    every = [os.stat(place) for place in (path, *path.parents)]
    return all(status.st_uid in (0, os.getuid()) and not _is_open_to_others(status) for status in every)


def _is_open_to_others(status: os.stat_result) -> bool:
    """Whether others may replace files in a folder; the private group of this user does not count."""
    if status.st_mode & stat.S_ISVTX or not status.st_mode & OTHERS_WRITE:
        return False
    return bool(status.st_mode & stat.S_IWOTH) or not _is_private(status.st_gid)


def _is_private(group: int) -> bool:
    """Whether it is the private group of this user: of the same name, without other members."""
    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and user.pw_name == found.gr_name and not set(found.gr_mem) - {user.pw_name}


ENTRY, PART = ".kernel", ".part"
LARGEST = 1 << 24  # bytes of an entry; kernels take some 30,000


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The folder of the cache, its kernels, their bytes, and whether it can be used."""

    folder: str
    kernels: tuple[str, ...]
    size: int
    usable: bool


def read(name: str) -> Code | None:
    """The machine code of a kernel; None if there is no entry, or it cannot be trusted."""
    place = opened()
    if place is None:
        return None

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)

    try:
        with open(name + ENTRY, "rb", opener=opener) as entry:
            status = os.fstat(entry.fileno())
            if not stat.S_ISREG(status.st_mode) or not is_own(status) or status.st_size > LARGEST:
                return None
            return _parsed(name, entry.read(LARGEST))
    except OSError:
        return None


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


def keep(name: str, code: Code) -> None:
    """Store the machine code of a kernel, if it can be stored: whole, or not at all."""
    place, part = opened(), f".{name}-{os.urandom(8).hex()}{PART}"
    if place is None:
        return
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)
        with open(file, "wb") as entry:
            entry.write(json.dumps(_header(name, code)).encode() + b"\n" + code.data)
        os.rename(part, name + ENTRY, src_dir_fd=place, dst_dir_fd=place)
    except OSError:
        with suppress(OSError):
            os.unlink(part, dir_fd=place)


def info() -> CacheInfo:
    """The state of the cache; creates nothing."""
    path = folder()
    kernels = {entry.stem: entry.lstat().st_size for entry in _entries(path) if entry.suffix == ENTRY}
    there = Path(os.path.realpath(next(place for place in (path, *path.parents) if place.exists())))
    usable = os.access(there, os.W_OK) and is_out_of_reach(there)
    return CacheInfo(str(path), tuple(sorted(kernels)), sum(kernels.values()), usable)


def clear() -> int:
    """Remove the kernels of all versions, and nothing else; returns the number of bytes freed."""
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
    """The entries of a folder, including those that are being written."""
    return [entry for entry in _listed(path) if entry.suffix in (ENTRY, PART) and not entry.is_dir()]


def _listed(path: Path) -> list[Path]:
    try:
        return [] if path.is_symlink() else list(path.iterdir())
    except OSError:
        return []
