"""Limits of memory (`--max-memory`, RLIMIT_DATA), of threads, and of CPU time in calls of native libraries."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.message_fields import field

MIN_CPU_SECONDS = 10.0  # for any file
BYTES_PER_CPU_SECOND = 2**22  # a tenth of the speed of the slowest filters
MAX_NUMBER = 2.0**63  # of a size, before the unit
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_is_worker = False


def allow_cpu_limit() -> None:
    """Marks this process as a worker, which `limit_cpu_time` may kill."""
    global _is_worker
    _is_worker = True


@contextmanager
def limit_cpu_time(size: int) -> Iterator[None]:
    """Kills a worker by SIGVTALRM after 10 s + size / 2**22 s of CPU time in a library call.

    Python runs neither signal handlers nor other threads while a C library holds the GIL, so the system has to end the
    process. Only workers are ended; their parent process reports it.
    """
    if not _is_worker:
        yield
        return
    before = signal.setitimer(signal.ITIMER_VIRTUAL, MIN_CPU_SECONDS + size / BYTES_PER_CPU_SECOND)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *before)


@contextmanager
def data_limit(count: int) -> Iterator[None]:
    """Sets RLIMIT_DATA to the current size + `count` bytes; allocations above it fail, with a MemoryError in Python.

    Only in workers on Linux: a limit is for the whole process.
    """
    if not _is_worker or sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _pages_of_process(5) + count
    if before[1] != resource.RLIM_INFINITY:
        most = min(most, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _pages_of_process(column: int) -> int:
    """The bytes of this process by a column of /proc/self/statm."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()


def parse_size(text: str, option: str) -> int:
    """Bytes from `500M`, `4GiB` or `1073741824`; units are powers of 1024."""
    match = SIZE.fullmatch(text.strip())
    if not match or not 0 < float(match[1]) < MAX_NUMBER:
        raise RequestError(f"{option} is {text[:40]!r}; write a size such as 500M or 4G")
    return int(float(match[1]) * UNITS[match[2].lower()])


def memory_budget(asked: str | None) -> int | None:
    """`--max-memory` in bytes, by default half of the free memory of the machine, of the control group, or up to the
    limit of the process, whichever is least; None if none is known.
    """
    if asked is not None:
        return parse_size(asked, field("max_memory"))
    free = list[int]()
    with suppress(OSError, ValueError):
        free += (int(line) * 1024 for line in re.findall(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text()))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    with suppress(OSError, ValueError):
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            free.append(max(limit - _pages_of_process(0), 0))
    return min(free) // 2 if free else None


def allowed_threads(asked: int | None = None) -> int:
    """The number of threads: `asked`, by default and at most the cores in the process' affinity and cgroup quota."""
    if asked is not None and asked < 1:
        raise RequestError(f"{field('threads')} is {asked}; it must be at least 1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(asked or cores, cores, _quota() or cores))


@cache
def _quota() -> int | None:
    """The cores of the quota of the control group (version 2), rounded up; None without a quota.

    Cached, because reading it takes as long as pooling thousands of elements.
    """
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no control group, or "max"
        return None
