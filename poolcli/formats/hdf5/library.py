"""h5py, imported when it is first used, and its errors as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from poolcli.core.errors import FileError, PoolError
from poolcli.core.lazy import Lazy

h5py: Any = Lazy("h5py")


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Whatever h5py raises becomes one line."""
    try:
        yield
    except PoolError:
        raise
    except BlockingIOError as error:
        raise FileError(f"{path}: is open in another program; close it there first") from error
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0].strip("'\"")
        raise FileError(f"{path}: HDF5 cannot read or write it: {text[:200]}") from error
