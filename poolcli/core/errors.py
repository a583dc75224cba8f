"""The errors that poolcli raises on purpose, and the exit code of each."""

from __future__ import annotations


class PoolError(Exception):
    """Root of every refusal. The message is one line for a person."""

    kind = "error"
    exit_code = 2


class RequestError(PoolError, ValueError):
    """The request is wrong or cannot be planned: nothing was computed (exit 2)."""

    kind = "request"


class FileError(PoolError, OSError):
    """An input could not be read or an output could not be written (exit 1)."""

    kind = "file"
    exit_code = 1
