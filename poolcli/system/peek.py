"""Looking into a file in another process, which may crash, and meanwhile doing something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from poolcli.errors import FileError, PoolError, unexpected
from poolcli.system.subprocesses import CONTEXT, ending, start

Result = TypeVar("Result")


def run_in_subprocess(path: str, look: Callable[[], Result]) -> Callable[[], Result]:
    """Begins to look into the file at `path`, and returns at once; the function that comes back waits for what `look`
    returns or raises: a PoolError, also for a crash or an odd exception."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = start(_send, there, path, look)
    there.close()

    def found() -> Result:
        try:
            succeeded, content = here.recv()
        except EOFError:
            end = ending(process)
            raise FileError(f"{path}: the process that looked into it {end.how}; {end.why}") from None
        process.join()
        if not succeeded:
            raise content
        seen: Result = content
        return seen

    return found


def _send(pipe: Any, path: str, look: Callable[[], Any]) -> None:
    try:
        pipe.send((True, look()))
    except PoolError as error:
        pipe.send((False, error))
    except Exception as error:
        pipe.send((False, unexpected(error, path)))
