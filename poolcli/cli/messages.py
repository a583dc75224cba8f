"""What goes to standard error: refusals, as they are typed on the command line, and words of progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from poolcli.errors import PoolError
from poolcli.message_fields import on_command_line, printable

NAMED = 3  # files in a message about several
RED, CYAN, PLAIN = "\033[1;31m", "\033[36m", "\033[0m"


def complain(error: PoolError) -> None:
    """Writes the error, after whatever standard output holds."""
    _complain(error.typed)


@dataclass(slots=True)
class _Alike:
    """Errors that say the same: the first one, the first places, and how many places there are."""

    first: str
    places: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str | None) -> None:
        if place is not None:
            self.count += 1
            self.places += [place] if self.count <= NAMED else []


def complain_of_all(errors: Iterable[PoolError]) -> None:
    """Writes the errors of a run over several files: those that say the same of several files once."""
    alike: dict[str, _Alike] = {}
    for error in errors:
        same = error.message if error.place is None else error.bare
        alike.setdefault(same, _Alike(error.message)).add(error.place)
    for bare, found in alike.items():
        if found.count < 2:
            _complain(on_command_line(found.first))
            continue
        more = f" and {found.count - NAMED} more" if found.count > NAMED else ""
        _complain(on_command_line(f"{', '.join(found.places)}{more}: {bare}"))


def refuse(error: PoolError, arguments: Sequence[str]) -> None:
    """The error of a whole command: as `complain`, and where JSON is asked for as a document as well."""
    from poolcli.cli.program import command_named, made

    name = command_named(arguments[0]) if arguments else None
    error = error.to([each.name for each in made(name).taken]) if name else error  # offers what the command has
    if "--json" in arguments:
        from poolcli.report.as_json import SCHEMA_VERSION, error_document, to_json

        document = to_json({"schema_version": SCHEMA_VERSION, "error": error_document(error)})
        print(document, file=sys.stderr if "-" in arguments else sys.stdout)
    complain(error)


def say(text: str) -> None:
    """Writes a word about what takes time."""
    print(f"poolcli: {printable(text)}", file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(laid_out(text) if sys.stderr.isatty() else f"poolcli: {text}", file=sys.stderr)


def laid_out(text: str) -> str:
    """A message as a terminal shows it: what is wrong, the remedy on a line of its own, a caret where it points."""
    first, *pointed = text.split("\n")
    wrong, _, remedy = first.partition("; ")
    columns = columns_of(sys.stderr)
    coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    lines = _wrapped(f"poolcli: {wrong}", columns) + pointed
    if coloured:
        lines[0] = lines[0].replace("poolcli:", f"{RED}poolcli:{PLAIN}", 1)
    remedies = _wrapped(f"  {remedy}", columns) if remedy else []
    return "\n".join(lines + [f"{CYAN}{line}{PLAIN}" if coloured else line for line in remedies])


def columns_of(stream: TextIO) -> int:
    """How wide the terminal behind a stream is."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 80


def _wrapped(text: str, columns: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
