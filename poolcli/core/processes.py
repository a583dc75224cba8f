"""Processes of poolcli's own, in which a native library may crash."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

# A fork starts in milliseconds, with all modules in place; elsewhere than on Linux it is not safe.
CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def start(target: Callable[..., None], *arguments: object) -> Any:
    """A process that runs `target`; it ends with this one."""
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    sys.stdout.flush()
    with warnings.catch_warnings():
        # Python warns of forks beside other threads; poolcli has none when it forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def ending(process: Any) -> str:
    """How a process came to its end."""
    process.join()
    code = process.exitcode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
