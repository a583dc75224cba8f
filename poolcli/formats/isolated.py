"""Looking into a file in a process of its own, where the library that reads it may crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from poolcli.errors import PoolError, unexpected
from poolcli.formats.recognise import can_crash

Result = TypeVar("Result")


def in_subprocess_if_fragile(path: str, look: Callable[[], Result]) -> Result:
    """What `look` returns or raises about the file at `path`: a PoolError, also for a crash or an odd exception."""
    if _is_worker() or not can_crash(path, None) or sys.platform != "linux":
        try:
            return look()
        except PoolError:
            raise
        except Exception as error:
            raise unexpected(error, path) from error
    from poolcli.system.subprocesses import run_in_subprocess

    return run_in_subprocess(path, look)()


def _is_worker() -> bool:
    """Whether this process may crash, and has no children; asked without the import, which takes 10 ms."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.current_process().daemon
