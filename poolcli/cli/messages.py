"""What goes to standard error: refusals, as they are typed on the command line, and words of progress."""

from __future__ import annotations

import sys

from typer.exceptions import TyperException

from poolcli.core.errors import PoolError
from poolcli.core.fields import on_command_line
from poolcli.report.text import printable_lines


def complain(error: PoolError) -> None:
    """Writes the error, after whatever standard output holds."""
    sys.stdout.flush()
    print(f"poolcli: {printable_lines(on_command_line(error.message))}", file=sys.stderr)


def complain_of_usage(error: TyperException) -> None:
    """Writes what is wrong with the words of the command line, or the help where there are none."""
    message = error.format_message()
    if type(error).__name__ != "NoArgsIsHelpError":
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "poolcli"
        message = f"poolcli: {printable_lines(message)} ({path} --help shows the options)"
    print(message, file=sys.stderr)


def say(text: str) -> None:
    """Writes a word about what takes time."""
    print(f"poolcli: {text}", file=sys.stderr, flush=True)
