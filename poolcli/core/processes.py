"""Processes of poolcli's own, in which a native library may crash."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

from poolcli.core.stop import WORDS, Stopped, held

# A fork starts in milliseconds, with all modules in place; elsewhere than on Linux it is not safe.
CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(target: Callable[..., None], *arguments: object) -> Any:
    """A process that runs `target`; it ends with this one, which alone hears SIGINT from a terminal."""
    process = CONTEXT.Process(target=_begin, args=(target, *arguments), daemon=True)
    sys.stdout.flush()
    with held(), warnings.catch_warnings():
        # Python warns of forks beside other threads; poolcli has none when it forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _begin(target: Callable[..., None], *arguments: object) -> None:
    """The life of a process, until which its signals wait; one that stops it, wherever in it, is no error to print."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)
        target(*arguments)
        sys.stdout.flush()
        code = 0
    except Stopped as stop:
        code = stop.exit_code
    os._exit(code)  # HDF5 can crash in what it does at exit, after all is done


def ending(process: Any) -> str:
    """How a process came to its end."""
    process.join()
    code = process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
