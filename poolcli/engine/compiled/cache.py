"""Where compiled kernels are kept between runs, and what keeps that place safe.

numba's own disk cache breaks in three ways: two processes that compile at once can mix up each other's
entries, a truncated index ends in an exception, and without a writable folder it fails on import. So kernels
are compiled and loaded under a lock for each name, because numba keeps an index for each, in a folder of
poolcli's own that only its owner may write to (entries are code); a folder that cannot be used, or that
breaks, means compiling for this run alone.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from sys import version_info


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The cache as it is: its folder, the kernels in it, their bytes, and whether it can be used."""

    folder: str
    kernels: tuple[str, ...]
    size: int
    usable: bool


def _say_nothing(text: str) -> None:
    """The library compiles in silence; the command line sets `announce` to something that prints."""


announce: Callable[[str], None] = _say_nothing

LOCK = ".lock"
_spent: list[float] = []


def root() -> Path:
    """The folder of all versions: XDG_CACHE_HOME/poolcli, or ~/.cache/poolcli."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "poolcli"
    try:
        return Path.home() / ".cache" / "poolcli"
    except RuntimeError:  # no home
        return Path("/nonexistent/poolcli")


def folder() -> Path:
    """The folder for this numba, this Python and these kernels: another version never reads it."""
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "none"
    sources = b"".join(
        Path(__file__).with_name(name).read_bytes()
        for name in ("arithmetic.py", "geometry.py", "kernels.py", "numbers.py")
    )
    source = sha256(sources).hexdigest()[:12]
    return root() / f"numba-{numba}-py{version_info.major}.{version_info.minor}-{source}"


@cache
def usable_folder() -> Path | None:
    """The folder, made if need be, when this user alone owns and writes it; None otherwise. Tells numba."""
    path = folder()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
        owned = status.st_uid == os.getuid() if hasattr(os, "getuid") else True
        if not owned or stat.S_IMODE(status.st_mode) & 0o022:
            return None
        probe = path / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:
        return None
    from numba.core import config

    config.CACHE_DIR = str(path)  # type: ignore[attr-defined]  # numba makes its settings at run time
    return path


@contextmanager
def locked(kernel: str) -> Iterator[None]:
    """Holds what is kept of one kernel for this process alone; without a usable folder there is nothing to hold."""
    path = usable_folder()
    if path is None:
        yield
        return
    import fcntl

    try:
        handle = os.open(path / f"{kernel}{LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def timed() -> Iterator[None]:
    """Adds the time inside to what this process has spent on compiling and loading kernels."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _spent.append(time.perf_counter() - start)


def seconds_spent() -> float:
    """What this process has spent on compiling and loading kernels."""
    return sum(_spent)


def is_ready(kernel: str) -> bool:
    """Whether the cache holds `kernel`, as far as its marker tells."""
    path = usable_folder()
    return path is not None and (path / f"{kernel}.ready").exists()


def mark_ready(kernel: str) -> None:
    """Notes that the cache holds `kernel`."""
    path = usable_folder()
    if path is not None:
        with suppress(OSError):
            (path / f"{kernel}.ready").write_bytes(b"")


def purge() -> None:
    """Removes every entry of the current folder, but not the locks, which processes may hold."""
    path = usable_folder()
    if path is None:
        return
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix != LOCK:
            with suppress(OSError):
                entry.unlink()


def info() -> CacheInfo:
    """What the cache holds now; numba is not loaded and nothing is made."""
    path = folder()
    files = [entry for entry in path.rglob("*") if entry.is_file()] if path.is_dir() else []
    kernels = tuple(sorted(entry.stem for entry in files if entry.suffix == ".ready"))
    home = next((p for p in (path, *path.parents) if p.exists()), path)
    return CacheInfo(str(path), kernels, sum(entry.stat().st_size for entry in files), os.access(home, os.W_OK))


def clear() -> int:
    """Removes the kernels of every version; returns the bytes that were freed."""
    freed = 0
    if root().is_dir():
        freed = sum(entry.stat().st_size for entry in root().rglob("*") if entry.is_file())
        shutil.rmtree(root(), ignore_errors=True)
    return freed
