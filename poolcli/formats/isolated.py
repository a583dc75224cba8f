"""Looking into a file in a process of its own, where the library that reads it may crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from poolcli.core.errors import FileError, PoolError, unexpected
from poolcli.formats.recognise import can_crash

Result = TypeVar("Result")


def guarded(path: str, look: Callable[[], Result]) -> Result:
    """What `look` returns or raises about the file at `path`: a PoolError, also for a crash or an odd exception."""
    if _is_worker() or not can_crash(path, None) or sys.platform != "linux":
        try:
            return look()
        except PoolError:
            raise
        except Exception as error:
            raise unexpected(error, path) from error
    from poolcli.core.processes import CONTEXT, ending, start

    here, there = CONTEXT.Pipe(duplex=False)
    process = start(_send, there, path, look)
    there.close()
    try:
        succeeded, content = here.recv()
    except EOFError:
        end = ending(process)
        raise FileError(f"{path}: the process that looked into it {end.how}; {end.why}") from None
    process.join()
    if not succeeded:
        raise content
    found: Result = content
    return found


def _is_worker() -> bool:
    """Whether this process may crash, and has no children; asked without the import, which takes 10 ms."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.current_process().daemon


def _send(pipe: Any, path: str, look: Callable[[], Any]) -> None:
    try:
        pipe.send((True, look()))
    except PoolError as error:
        pipe.send((False, error))
    except Exception as error:
        pipe.send((False, unexpected(error, path)))
