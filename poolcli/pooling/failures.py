"""What an exception in a job is to the run: that job's failure, whatever its kind, and nobody else's."""

from __future__ import annotations

from poolcli.errors import FileError, PoolError, unexpected
from poolcli.system.signals import check_stopped


def failure(error: Exception, place: str) -> PoolError:
    """The one line that an exception becomes, with the input's name before its message.

    A signal that a library has turned into an exception of its own is raised as what it is.
    """
    check_stopped()
    if isinstance(error, PoolError):
        return located(error, place)
    if isinstance(error, OSError) and isinstance(error.strerror, str) and error.strerror:
        named = f"{error.filename}: " if error.filename and error.filename != place else ""
        return FileError(f"{place}: {named}{error.strerror}")
    return unexpected(error, place)


def located(error: PoolError, place: str) -> PoolError:
    """The error with the input's name before its message, unless it is there already."""
    return error if error.message.startswith(place) else error.at(place)
