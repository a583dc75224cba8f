"""zarr-python, imported when it is first used, and its errors as one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from poolcli.errors import QUOTES, said_by
from poolcli.formats.translated import one_line
from poolcli.system.lazy_imports import Lazy

zarr: Any = Lazy("zarr")
asyncio: Any = Lazy("asyncio")

PATIENCE = 10.0  # seconds in which what zarr has begun may end, before it is cancelled
WAITS = "poolcli waits"
KNOWN = (
    OSError, EOFError, SystemError, RuntimeError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    ImportError,
)  # fmt: skip


def translated(path: str) -> AbstractContextManager[None]:
    """Whatever zarr, a codec or an object store raises becomes one line."""
    return one_line(path, lambda error: isinstance(error, KNOWN) or _is_a_kind_of_its_own(error), _said)


def _said(error: Exception) -> str:
    only_a_word = type(error) is KeyError  # the one that was looked for
    return f"Zarr cannot read or write it: {'Unknown name ' if only_a_word else ''}{said_by(error).strip(QUOTES)}"


@contextmanager
def opening(path: str) -> Iterator[None]:
    """As `translated`, where metadata is read or made: what zarr warns of there is no concern of users."""
    with translated(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def finished(after: type[BaseException] = BaseException) -> Iterator[None]:
    """Ends where all that zarr has begun has ended, too, after such an exception: of several chunks of which one fails,
    it leaves the others to be written later, when a folder may have been removed for good, or to be asked for anew
    until the process ends, which says a page about each.
    """
    try:
        yield
    except after:
        with suppress(*KNOWN):
            zarr.core.sync.sync(_all_others(), timeout=2 * PATIENCE)
        raise


async def _all_others() -> None:
    """Waits for what is at work beside this, but not for others that wait; what it raises is known by now. What is
    asked of an object store anew and anew is not waited for to its end.
    """
    own = asyncio.current_task()
    own.set_name(WAITS)
    others = [task for task in asyncio.all_tasks() if task is not own and task.get_name() != WAITS]
    if others:
        _, late = await asyncio.wait(others, timeout=PATIENCE)
        for task in late:
            task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def side_by_side(chunk: int, room: int) -> Iterator[None]:
    """Lets zarr work on no more chunks of so many bytes at once than there is room for."""
    count = max(1, min(zarr.config.get("async.concurrency"), room // max(chunk, 1)))
    with zarr.config.set({"async.concurrency": count}):
        yield


def _is_a_kind_of_its_own(error: Exception) -> bool:
    """Whether a library has made its own kind of error for it: those of codecs and of object stores share no class with
    anything.
    """
    return type(error).__module__ != "builtins"
