"""The errors that poolcli raises on purpose, and the exit code of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

from poolcli.message_fields import first_field, hints_for, in_python, on_command_line, one_line, printable


class PoolError(Exception):
    """Root of every refusal. The message is one line for a person.

    `str(error)` names fields as Python does; `message` has them marked, for `poolcli.message_fields` to spell. `field`
    is the one that the error is about: the first of the message where none is given, None where there is none. `bare`
    is the message without the `place` that was put before it. `pointed` are lines below it that show where in what was
    typed it points. Names in it may be any text: what is not printable is escaped here, what is very long is cut.
    """

    kind = "error"
    exit_code = 2
    place: str | None = None

    def __init__(self, message: str, *, field: str | None = None, pointed: tuple[str, ...] = ()) -> None:
        message, self.pointed = one_line(message), tuple(map(printable, pointed))
        super().__init__("\n".join((in_python(message), *self.pointed)))
        self.message = self.bare = message
        self.field = field or first_field(message)

    def at(self, place: str) -> Self:
        """The same error with the place before its message."""
        made = self._saying(f"{place}: {self.message}", self.field)
        made.place, made.bare = place, self.bare
        return made

    def to(self, names: Collection[str]) -> Self:
        """The same error for whoever has the fields `names`: without what it offers to others."""
        made = self._saying(hints_for(names, self.message), self.field if self.field in names else None)
        made.place, made.bare = self.place, hints_for(names, self.bare)
        return made

    @property
    def typed(self) -> str:
        """What the command line says: one line, and those that are pointed at."""
        return "\n".join((on_command_line(self.message), *self.pointed))

    def _saying(self, message: str, field: str | None) -> Self:
        made = type(self)(message, field=field, pointed=self.pointed)
        for note in getattr(self, "__notes__", ()):
            made.add_note(note)
        return made


class RequestError(PoolError, ValueError):
    """The request is wrong or cannot be planned: nothing was computed (exit 2)."""

    kind = "request"


class FileError(PoolError, OSError):
    """An input could not be read or an output could not be written (exit 1)."""

    kind = "file"
    exit_code = 1


class LayoutWarning(UserWarning):
    """A layout was assumed for an array that looks as if its channels were last."""


class UnexpectedError(PoolError):
    """A library, or poolcli itself, raised what nobody had thought of (exit 1). Its notes hold the traceback."""

    kind = "unexpected"
    exit_code = 1


QUOTES = "'\""  # which a KeyError has about what it says


def said_by(error: BaseException) -> str:
    """The first line of what an error says, or its kind where it says nothing."""
    try:
        text = (str(error).splitlines() or [""])[0][:200]
    except Exception:  # what cannot even say what it is
        text = ""
    return text or type(error).__name__


def unexpected(error: BaseException, place: str) -> PoolError:
    """The error that stands for any other one; it holds text alone, and so goes from process to process."""
    if isinstance(error, MemoryError):
        return FileError(f"{place}: there is not enough memory for this input")
    from traceback import format_exception  # which takes as long to import as all errors here

    kind, text = type(error).__name__, said_by(error)
    kind = kind if text == kind else f"{kind}: {text}"
    made = UnexpectedError(f"{place}: could not be done (unexpected {kind}; --debug shows where)")
    made.add_note("".join(format_exception(error)))
    return made
