"""Processes of poolcli's own, in which a native library may crash."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from poolcli.message_fields import field
from poolcli.system.cpu_limit import allow_cpu_limit
from poolcli.system.signals import SIGNALS, Stopped, signals_blocked

# A fork starts in milliseconds, with all modules in place; elsewhere than on Linux it is not safe.
ENDLESS = "SIGVTALRM"
DAMAGED = (
    "the file is damaged, or unpacks to far more than it says; if other programs read it, store it with another "
    "compression"
)
# How a process came to its end, by the signal that ended it, and why.
ENDINGS = {
    ENDLESS: ("found no end of it", "the file is damaged"),
    "SIGKILL": (
        "was ended by SIGKILL",
        f"the memory may be too small for it: try fewer {field('jobs')} or less {field('max_memory')}",
    ),
}
CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(target: Callable[..., None], *arguments: object) -> Any:
    """A process that runs `target`; it ends with this one, which alone hears SIGINT from a terminal."""
    process = CONTEXT.Process(target=_begin, args=(target, *arguments), daemon=True)
    sys.stdout.flush()
    with signals_blocked(), warnings.catch_warnings():
        # Python warns of forks beside other threads; poolcli has none when it forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _begin(target: Callable[..., None], *arguments: object) -> None:
    """The life of a process, until which its signals wait; one that stops it, wherever in it, is no error to print."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        allow_cpu_limit()
        target(*arguments)
        sys.stdout.flush()
        code = 0
    except Stopped as stop:
        code = stop.exit_code
    os._exit(code)  # HDF5 can crash in what it does at exit, after all is done


class Ending(NamedTuple):
    """How a process came to its end, and why; whether it would do so each time."""

    how: str
    why: str
    each_time: bool


def ending(process: Any) -> Ending:
    """How a process came to its end."""
    process.join()
    code = process.exitcode or 0
    name = signal.Signals(-code).name if code < 0 else ""
    how = f"was ended by {name}" if name else f"ended with exit code {code}"
    return Ending(*ENDINGS.get(name, (how, DAMAGED)), name == ENDLESS)
