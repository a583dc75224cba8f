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
from typing import Any, TypeVar
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
Result = TypeVar("Result")


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


def crash_of(process: Any, path: str, task: str, times: str = "") -> FileError:
    """Waits for a subprocess that read the file at `path`, and says how and why it ended."""
    process.join()
    code = process.exitcode or 0
    how, why = f"ended with exit code {code}", DAMAGED_FILE
    if code < 0:
        name = signal.Signals(-code).name
        how, why = ENDINGS.get(name, (f"was killed by {name}", DAMAGED_FILE))
    return FileError(f"{path}: the process that {task} it {how}{times}; {why}")


def run_in_subprocess(path: str, look: Callable[[], Result]) -> Result:
    """The result of `look`, which reads the file at `path`, in a subprocess; errors and crashes become PoolErrors."""
    here, there = context().Pipe(duplex=False)
    process = start(_send, there, path, look)
    there.close()
    try:
        result: Result | PoolError = here.recv()
    except EOFError:
        raise crash_of(process, path, "read") from None
    process.join()
    if isinstance(result, PoolError):
        raise result
    return result


def _send(pipe: Any, path: str, look: Callable[[], Any]) -> None:
    try:
        pipe.send(look())
    except PoolError as error:
        pipe.send(error)
    except Exception as error:
        pipe.send(unexpected(error, path))


_OWNER = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,8})", re.ASCII)


def token_of(process: int) -> str:
    """The token of a running process, from its host and process namespace, and its id."""
    return f"{_host()}-{process}"


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
    try:
        os.kill(int(match[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's
        pass
    return False


@cache
def _host() -> str:
    """A hash of the host name, the machine id and the process namespace."""
    space = Path("/proc/self/ns/pid")
    names = os.uname().nodename, _read_text("/etc/machine-id"), os.readlink(space) if space.is_symlink() else ""
    return _hash(" ".join(names))


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _hash(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
