"""The exceptions of poolcli with their exit codes, and the conversion of unexpected exceptions."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection
from typing import Self

from poolcli.message_fields import first_field, for_cli, for_python, hints_for, one_line


class PoolError(Exception):
    """Base class of all errors that poolcli raises on purpose. Its message is one line.

    `str(error)` names fields as in Python. Other attributes:

    - `message`: the message with marked fields, for `poolcli.message_fields`
    - `place`: the file that the message begins with, or None
    - `bare`: the message without the place
    - `field`: the field that the error is about, by default the first one in the message

    Unprintable characters in the message are escaped, and very long words are shortened.
    """

    kind = "error"
    exit_code = 2
    place: str | None = None

    def __init__(self, message: str, *, field: str | None = None) -> None:
        message = one_line(message)
        super().__init__(for_python(message))
        self.message = self.bare = message
        self.field = field or first_field(message)

    def at(self, place: str) -> Self:
        """The same error with the place before its message."""
        return self._saying(f"{place}: {self.message}", self.field, place, self.bare)

    def for_fields(self, names: Collection[str]) -> Self:
        """The same error without hints about other fields than `names`."""
        own = self.field if self.field in names else None
        return self._saying(hints_for(names, self.message), own, self.place, hints_for(names, self.bare))

    @property
    def cli_message(self) -> str:
        """The message as the command line prints it."""
        return for_cli(self.message)

    def _saying(self, message: str, field: str | None, place: str | None, bare: str) -> Self:
        made = type(self)(message, field=field)
        made.place, made.bare = place, bare
        for note in getattr(self, "__notes__", ()):
            made.add_note(note)
        return made


class RequestError(PoolError, ValueError):
    """The request is wrong or cannot be planned: nothing was computed (exit 2)."""

    kind = "request"


class MissingFileError(RequestError, FileNotFoundError):
    """A file that is named does not exist (exit 2)."""


class FileError(PoolError, OSError):
    """An input could not be read or an output could not be written (exit 1)."""

    kind = "file"
    exit_code = 1


class LayoutWarning(UserWarning):
    """A layout was assumed for an array with an axis like channels; a size of an image may be width by height."""


class UnexpectedError(PoolError):
    """An unexpected error of a library or of poolcli itself (exit 1); its notes hold the traceback."""

    kind = "unexpected"
    exit_code = 1


QUOTES = "'\""  # around the message of a KeyError


def error_text(error: BaseException) -> str:
    """The first line of an error's message, or the name of its class if the message is empty."""
    try:
        text = (str(error).splitlines() or [""])[0][:200]
    except Exception:  # of an error whose __str__ fails
        text = ""
    text = re.sub(r"<class '([^']*)'>", r"\1", text)
    return re.sub(r"\bb(?=['\"])", "", text) or type(error).__name__


def is_for_users(error: Exception) -> bool:
    """Whether a library wrote the message for users; Python's own messages, such as that of `int("x")`, are not."""
    if isinstance(error, OSError | EOFError | SyntaxError):
        return True
    if isinstance(error, LookupError | TypeError | AttributeError | AssertionError | ArithmeticError | UnicodeError):
        return False
    if type(error).__module__ not in ("builtins", "struct"):
        return True
    return raising_line(error).startswith("raise")


def raising_line(error: BaseException) -> str:
    """The line of Python code that raised the error; empty for compiled code."""
    from traceback import extract_tb  # slow to import

    *_, last = extract_tb(error.__traceback__)
    return last.line or ""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the first caller outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "poolcli":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def unexpected(error: BaseException, place: str) -> PoolError:
    """The PoolError for an unexpected error; it contains text only, so that it can be pickled."""
    if isinstance(error, MemoryError):
        return FileError(f"{place}: not enough memory for this input")
    from traceback import format_exception  # slow to import

    kind, text = type(error).__name__, error_text(error)
    kind = kind if text == kind else f"{kind}: {text}"
    made = UnexpectedError(f"{place}: failed (unexpected {kind}; --debug shows the traceback)")
    made.add_note("".join(format_exception(error)))
    return made
