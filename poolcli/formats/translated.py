"""Errors of a library that reads or writes a file, as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from poolcli.errors import FileError, PoolError


@contextmanager
def one_line(where: str, known: Callable[[Exception], bool], say: Callable[[Exception], str]) -> Iterator[None]:
    """What the library raises becomes a FileError that begins with `where`; what it is not known to raise, a mistake of
    poolcli's own perhaps, stays as it is.
    """
    try:
        yield
    except PoolError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or not known(error):
            raise
        raise FileError(f"{where}: {say(error)}") from error
