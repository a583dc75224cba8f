"""h5py, imported when it is first used, and its errors as one line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from poolcli.core.errors import QUOTES, said_by
from poolcli.core.lazy import Lazy
from poolcli.formats.translated import one_line

h5py: Any = Lazy("h5py")

KNOWN = (OSError, RuntimeError, KeyError, TypeError, ValueError)


def translated(path: str) -> AbstractContextManager[None]:
    """Whatever h5py raises becomes one line."""
    return one_line(path, lambda error: isinstance(error, KNOWN), _said)


def _said(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    return f"HDF5 cannot read or write it: {said_by(error).strip(QUOTES)}"
