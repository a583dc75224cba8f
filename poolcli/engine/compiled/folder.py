"""The folder in which compiled kernels are kept between runs, and what keeps it safe.

What lies in it is code: whoever can write there runs as whoever loads it. So it is a folder of poolcli's own, which
this user alone may write to, below folders that nobody else may change; no link is followed in it. A folder that cannot
be used means building for this run alone.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from poolcli.engine.compiled.machine import description

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
