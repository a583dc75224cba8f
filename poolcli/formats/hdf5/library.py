"""h5py, imported when it is first used, and its errors as one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from poolcli.errors import QUOTES, said_by
from poolcli.formats.translated import one_line
from poolcli.system.lazy_imports import Lazy
from poolcli.system.limits import limit_cpu_time

h5py: Any = Lazy("h5py")

KNOWN = (OSError, RuntimeError, KeyError, TypeError, ValueError)


def translated(path: str) -> AbstractContextManager[None]:
    """Whatever h5py raises becomes one line."""
    return one_line(path, lambda error: isinstance(error, KNOWN), _said)


@contextmanager
def reading(path: str, size: int = 0) -> Iterator[None]:
    """As `translated`, while h5py reads `size` bytes of data out of a file, which may lead it round in a circle."""
    with limit_cpu_time(os.path.getsize(path) + size), translated(path):
        yield


def _said(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    return f"HDF5 cannot read or write it: {said_by(error).strip(QUOTES)}"
