"""What a process is known by to later ones, on this machine and on others that see the same files.

An owner is written `PLACE-NUMBER-START`: the host with its namespace of processes, the number of the process there, and
when it began. Numbers are used again, and mean nothing elsewhere: a process is known to be gone only to one of the same
place that finds the number free, or taken by a process that began at another time.
"""

from __future__ import annotations

import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

_OWNER = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,8})-([0-9a-f]{8})", re.ASCII)


def token_of(process: int) -> str:
    """The owner that a process of this place is, which is running."""
    return f"{_place()}-{process}-{_short(_start(process))}"


@cache
def process_token() -> str:
    """The owner that this process is."""
    return token_of(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_token.cache_clear)


def has_exited(owner: str) -> bool:
    """Whether the process is known to have ended; False for what is no owner at all."""
    match = _OWNER.fullmatch(owner)
    if match is None or match[1] != _place():
        return False
    process = int(match[2])
    return not _is_running(process) or match[3] != _short(_start(process))


@cache
def _place() -> str:
    """The host and the namespace of processes; what the system does not tell is the same for all."""
    machine = _read("/etc/machine-id")
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _short(f"{os.uname().nodename} {machine} {space}")


def _start(process: int) -> str:
    """When a process began: the boot, and the time since; '' where the system does not tell."""
    if not _knows_this_place():
        return ""
    fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()  # a name may hold anything
    return _read("/proc/sys/kernel/random/boot_id") + fields[19] if len(fields) > 19 else ""


def _knows_this_place() -> bool:
    """Whether /proc has the numbers of this namespace, and not those of one around it."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]
