"""Subprocesses in which a native library may crash, and tokens that identify processes across hosts."""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from poolcli.errors import FileError, PoolError, unexpected
from poolcli.message_fields import field
from poolcli.system.limits import allow_cpu_limit
from poolcli.system.signals import SIGNALS, Stopped, signals_blocked

DAMAGED_FILE = (
    "the file is damaged, or unpacks to far more than it says; if other programs read it, store it with another "
    "compression"
)
# How and why a subprocess ended, by the signal that ended it; `limit_cpu_time` sends SIGVTALRM.
ENDINGS = {
    "SIGVTALRM": ("did not finish", "the file is damaged"),
    "SIGKILL": (
        "was killed by SIGKILL",
        f"it may have run out of memory: try fewer {field('jobs')} or a lower {field('max_memory')}",
    ),
}


@cache
def context() -> Any:
    """The context of multiprocessing, which is imported when it is first used, because that takes 10 ms.

    A fork starts in milliseconds with all modules imported; it is safe on Linux only.
    """
    import multiprocessing

    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(target: Callable[..., None], *arguments: object) -> Any:
    """Starts a daemon process that runs `target` and ignores SIGINT and SIGHUP, which the parent handles."""
    process = context().Process(target=_main, args=(target, *arguments), daemon=True)
    sys.stdout.flush()
    with signals_blocked(), warnings.catch_warnings():
        # Python warns about forks in multi-threaded processes; poolcli has no threads when it forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _main(target: Callable[..., None], *arguments: object) -> None:
    """The main function of a subprocess: sets signal handlers, unblocks the signals, and calls `target`."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        allow_cpu_limit()
        target(*arguments)
        sys.stdout.flush()
        code = 0
    except Stopped as stop:
        code = stop.exit_code
    os._exit(code)  # skips exit handlers, because those of HDF5 can crash


class Ending(NamedTuple):
    """How and why a subprocess ended, for messages."""

    how: str
    why: str


def ending(process: Any) -> Ending:
    """Waits for a subprocess to end and returns how it did."""
    process.join()
    code = process.exitcode or 0
    if code >= 0:
        return Ending(f"ended with exit code {code}", DAMAGED_FILE)
    name = signal.Signals(-code).name
    return Ending(*ENDINGS.get(name, (f"was killed by {name}", DAMAGED_FILE)))


Result = TypeVar("Result")


def run_in_subprocess(path: str, look: Callable[[], Result]) -> Result:
    """The result of `look`, which reads the file at `path`, in a subprocess; errors and crashes become PoolErrors."""
    here, there = context().Pipe(duplex=False)
    process = start(_send, there, path, look)
    there.close()
    try:
        succeeded, content = here.recv()
    except EOFError:
        end = ending(process)
        raise FileError(f"{path}: the process that read it {end.how}; {end.why}") from None
    process.join()
    if not succeeded:
        raise content
    result: Result = content
    return result


def _send(pipe: Any, path: str, look: Callable[[], Any]) -> None:
    try:
        pipe.send((True, look()))
    except PoolError as error:
        pipe.send((False, error))
    except Exception as error:
        pipe.send((False, unexpected(error, path)))


_OWNER = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,8})-([0-9a-f]{8})", re.ASCII)


def token_of(process: int) -> str:
    """The token of a running process, from its host and process namespace, its id and its start time."""
    return f"{_host()}-{process}-{_hash(_start_time(process))}"


@cache
def process_token() -> str:
    """The token of this process."""
    return token_of(os.getpid())


os.register_at_fork(after_in_child=process_token.cache_clear)


def has_exited(owner: str) -> bool:
    """Whether the process of a token has ended; False for processes of other hosts, and for text that is no token."""
    match = _OWNER.fullmatch(owner)
    if match is None or match[1] != _host():
        return False
    process = int(match[2])
    return not _is_running(process) or match[3] != _hash(_start_time(process))


@cache
def _host() -> str:
    """A hash of the host name, the machine id and the process namespace."""
    machine = _read_text("/etc/machine-id")
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return _hash(f"{os.uname().nodename} {machine} {space}")


def _start_time(process: int) -> str:
    """The boot id, and the start time of a process since boot; empty if /proc does not show the process."""
    fields = _read_text(f"/proc/{process}/stat").rpartition(")")[2].split()  # the name before ) may have spaces
    return _read_text("/proc/sys/kernel/random/boot_id") + fields[19] if len(fields) > 19 else ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _hash(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
