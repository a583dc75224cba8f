"""The kernel cache: a folder of machine code that is kept between runs.

Whoever can write to the cache can run code as its user. So it is a private folder, which only this user may write to,
below folders that nobody else may change, and no links are followed in it. An entry is a hash of the rest and of what
it is for, a line with the name of the function, and machine code. Entries that are damaged or belong to other kernels,
versions or processors are compiled again and never run. If the folder cannot be used, kernels are compiled for the
current run only.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("numba", "llvmlite")
NO_ROOT = Path(os.devnull) / "poolcli"  # which nobody can make
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
ENTRY, PART = ".kernel", ".part"


class Code(NamedTuple):
    """Machine code as an object file, and the name of its function."""

    symbol: str
    data: bytes


@cache
def binding() -> Any:
    """llvmlite, initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def processor() -> tuple[str, str]:
    """The name and features of the processor: from numba's environment variables, else of this machine."""
    llvm = binding()
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return name, llvm.get_host_cpu_features().flatten() if features is None else features


def root() -> Path:
    """The folder of all versions in XDG_CACHE_HOME or ~/.cache; NO_ROOT if the home is empty or the root."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "poolcli"
    home = Path(os.path.expanduser("~"))  # as it is, if there is none
    return home / ".cache/poolcli" if home.is_absolute() and home != Path("/") else NO_ROOT


@cache
def key() -> str:
    """What machine code depends on besides the kernel's name: the sources, the compilers and the processor."""
    llvm, (name, features) = binding(), processor()
    machine = f"{llvm.get_default_triple()} {name} {features} LLVM {llvm.llvm_version_info}"
    return "; ".join([sources_hash(Path(__file__).parent), *map(_version, PACKAGES), machine])


def sources_hash(folder: Path) -> str:
    """A hash of all modules in a folder: a list of those that kernels depend on could be incomplete."""
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
def opened() -> Path | None:
    """The folder, which is created if needed; None if entries there cannot be trusted or kept."""
    try:
        place = Path(os.path.realpath(root().parent))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_out_of_reach(place):
            return None
        for name in (root().name, folder().name):  # which nobody else can exchange
            place /= name
            place.mkdir(mode=0o700, exist_ok=True)
            if not _is_own(place, stat.S_ISDIR):
                return None
    except OSError:
        return None
    return place


def _is_own(path: Path, is_kind: Any) -> bool:
    """Whether a file or folder, no link, belongs to this user, and nobody else may write to it."""
    status = path.lstat()
    return bool(is_kind(status.st_mode)) and status.st_uid == os.getuid() and not status.st_mode & OTHERS_WRITE


def is_out_of_reach(path: Path) -> bool:
    """Whether only this user and root can replace a folder or any folder above it."""
    every = [os.stat(place) for place in (path, *path.parents)]
    return all(status.st_uid in (0, os.getuid()) and not _is_open_to_others(status) for status in every)


def _is_open_to_others(status: os.stat_result) -> bool:
    """Whether others may replace files in a folder; the private group of this user has no other members."""
    if status.st_mode & stat.S_ISVTX or not status.st_mode & OTHERS_WRITE:
        return False
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    is_private = user.pw_gid == status.st_gid and user.pw_name == group.gr_name and not {*group.gr_mem} - {user.pw_name}
    return bool(status.st_mode & stat.S_IWOTH) or not is_private


def read(name: str) -> Code | None:
    """The machine code of a kernel; None if there is no entry, or it cannot be trusted."""
    place = opened()
    try:
        if place is None or not _is_own(place / (name + ENTRY), stat.S_ISREG):
            return None
        digest, symbol, data = (place / (name + ENTRY)).read_bytes().split(b"\n", 2)
        code = Code(symbol.decode(), data)
    except (OSError, ValueError):
        return None
    return code if digest == _digest(name, code) else None


def _digest(name: str, code: Code) -> bytes:
    return sha256(f"{key()}\n{name}\n{code.symbol}\n".encode() + code.data).hexdigest().encode()


def keep(name: str, code: Code) -> None:
    """Store the machine code of a kernel, if it can be stored: whole, or not at all."""
    place = opened()
    if place is None:
        return
    part = place / f".{name}-{os.urandom(8).hex()}{PART}"
    try:
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as entry:
            entry.write(b"\n".join((_digest(name, code), code.symbol.encode(), code.data)))
        part.rename(place / (name + ENTRY))
    except OSError:
        with suppress(OSError):
            part.unlink()


def info() -> dict[str, Any]:
    """The folder of the cache, its kernels, their bytes, and whether it can be used; creates nothing."""
    path = folder()
    kernels = {entry.stem: entry.lstat().st_size for entry in _entries(path) if entry.suffix == ENTRY}
    there = Path(os.path.realpath(next(place for place in (path, *path.parents) if place.exists())))
    usable = os.access(there, os.W_OK) and is_out_of_reach(there)
    return {"folder": str(path), "kernels": sorted(kernels), "bytes": sum(kernels.values()), "usable": usable}


def clear() -> int:
    """Remove the kernels of all versions, and nothing else; returns the number of bytes freed."""
    freed = 0
    for path in [] if root().is_symlink() else [*root().glob("kernels-*")]:
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
    found = [] if path.is_symlink() else [*path.glob("*")]
    return [entry for entry in found if entry.suffix in (ENTRY, PART) and not entry.is_dir()]
