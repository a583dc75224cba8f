"""Looking into a file in a process of its own, where the library that reads it may crash."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from poolcli.errors import FileError
from poolcli.formats import can_crash

Result = TypeVar("Result")


def guarded(path: str, look: Callable[[], Result]) -> Result:
    """What `look` returns or raises about the file at `path`; a crash is a FileError."""
    if not can_crash(path, None) or sys.platform != "linux":
        return look()
    context: Any = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside other threads; poolcli has none here
        process = context.Process(target=_send, args=(there, look), daemon=True)
        process.start()
    there.close()
    try:
        succeeded, content = here.recv()
    except EOFError:
        process.join()
        name = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit code {process.exitcode}"
        raise FileError(f"{path}: the library that reads it crashed ({name}); the file is damaged") from None
    process.join()
    if not succeeded:
        raise content
    found: Result = content
    return found


def _send(pipe: Any, look: Callable[[], Any]) -> None:
    try:
        pipe.send((True, look()))
    except Exception as error:
        pipe.send((False, error))
