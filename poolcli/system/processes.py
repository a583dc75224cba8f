"""Processes: subprocesses in which a native library may crash, and limits of memory, CPU time and threads."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from poolcli.errors import FileError, PoolError, RequestError, unexpected
from poolcli.message_fields import field
from poolcli.system.signals import SIGNALS, Stopped, signals_blocked

DAMAGED_FILE = "the file is damaged, or unpacks to far more than it says; try it stored with another compression"
MIN_CPU_SECONDS = 10.0  # for any file
BYTES_PER_CPU_SECOND = 2**22  # a tenth of the speed of the slowest filters
MAX_NUMBER = 2.0**63  # of a size, before the unit
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
Result = TypeVar("Result")

_is_worker = False  # whether `start` made this process


@cache
def context() -> Any:
    """The context of multiprocessing, which takes 10 ms to import; forks start in less, and are safe on Linux only."""
    import multiprocessing

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(target: Callable[..., None], *arguments: object) -> Any:
    """Starts a daemon process that runs `target` and ignores SIGINT and SIGHUP, which the parent handles."""
    process = context().Process(target=_main, args=(target, *arguments), daemon=True)
    sys.stdout.flush()
    with signals_blocked(), warnings.catch_warnings():
        # Python warns about forks in multi-threaded processes; those of poolcli wait for work then, without a lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _main(target: Callable[..., None], *arguments: object) -> None:
    global _is_worker
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        _is_worker = True
        target(*arguments)
        sys.stdout.flush()
        code = 0
    except Stopped as stop:
        code = stop.exit_code
    os._exit(code)  # skips exit handlers, because those of HDF5 can crash


def crash_of(process: Any, path: str, task: str, times: str = "") -> FileError:
    """Waits for a subprocess that read the file at `path`, and says how and why it ended."""
    process.join()
    code = process.exitcode or 0
    how, why = f"ended with exit code {code}", DAMAGED_FILE
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    if code == -signal.SIGKILL:
        why = f"it may have run out of memory: try fewer {field('jobs')} or a lower {field('max_memory')}"
    elif code == -signal.SIGVTALRM:  # from `limit_worker`
        how, why = "did not finish", "the file is damaged"
    return FileError(f"{path}: the process that {task} it {how}{times}; {why}")


def run_in_subprocess(path: str, look: Callable[[], Result]) -> Result:
    """The result of `look`, which reads the file at `path`, in a fork; errors and crashes become PoolErrors."""
    here, there = context().Pipe(duplex=False)

    def answer() -> None:
        try:
            there.send(look())
        except Exception as error:
            there.send(error if isinstance(error, PoolError) else unexpected(error, path))

    process = start(answer)
    there.close()
    try:
        result: Result | PoolError = here.recv()
    except EOFError:
        raise crash_of(process, path, "read") from None
    process.join()
    if isinstance(result, PoolError):
        raise result
    return result


@contextmanager
def limit_worker(memory: int, size: int | None = None) -> Iterator[None]:
    """Limits RLIMIT_DATA of a worker to its current size + `memory` bytes; more is a MemoryError in Python.

    With `size`, SIGVTALRM kills it after 10 s + size / 2**22 s of CPU time: Python runs neither signal handlers nor
    other threads while a C library holds the GIL. Other processes are not limited.
    """
    if not _is_worker or sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _pages_of_process(5) + memory
    if before[1] != resource.RLIM_INFINITY:
        most = min(most, before[1])
    seconds = 0 if size is None else MIN_CPU_SECONDS + size / BYTES_PER_CPU_SECOND
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)


def _pages_of_process(column: int) -> int:
    """The bytes of this process by a column of /proc/self/statm."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()


def parse_size(name: str, text: str) -> int:
    """Bytes from `500M`, `4GiB` or `1073741824`; units are powers of 1024. `name` is that of the field."""
    match = SIZE.fullmatch(text.strip())
    if not match or not 0 < float(match[1]) < MAX_NUMBER:
        raise RequestError(f"{field(name)} is {text[:40]!r}; write a size such as 500M or 4G")
    return int(float(match[1]) * UNITS[match[2].lower()])


def memory_budget(asked: int | None) -> int | None:
    """`--max-memory` in bytes; by default half of what the machine, control group and process may still take."""
    if asked is not None:
        return asked
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


@cache  # reading it takes as long as pooling thousands of elements
def _quota() -> int | None:
    """The cores of the quota of the control group (version 2), rounded up; None without a quota."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no control group, or "max"
        return None
