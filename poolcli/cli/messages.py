"""What goes to standard error: refusals, as they are typed on the command line, and words of progress."""

from __future__ import annotations

import sys

from poolcli.core.errors import PoolError
from poolcli.core.fields import on_command_line
from poolcli.report.text import printable_lines


def complain(error: PoolError) -> None:
    """Writes the error, after whatever standard output holds."""
    sys.stdout.flush()
    print(f"poolcli: {printable_lines(on_command_line(error.message))}", file=sys.stderr)


def refuse(error: PoolError, as_json: bool) -> None:
    """The error of a whole command: as `complain`, and where JSON is asked for as a document as well."""
    if as_json:
        from poolcli.report.document import SCHEMA_VERSION, error_document, to_json

        print(to_json({"schema_version": SCHEMA_VERSION, "error": error_document(error)}))
    complain(error)


def say(text: str) -> None:
    """Writes a word about what takes time."""
    print(f"poolcli: {text}", file=sys.stderr, flush=True)
