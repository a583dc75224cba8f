"""Runs the command line: the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from poolcli import __version__
from poolcli.errors import PoolError


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code. Exceptions are bugs, or any error with --debug."""
    try:
        return _run(list(arguments))
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (error.cli_message,)  # for the last line of the traceback
            raise
        from poolcli.cli.messages import report_error

        report_error(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        # The reader of standard output has exited. Without this, the interpreter would fail to flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"]):  # without importing Typer, because scripts call it
        print(f"poolcli {__version__}")
        return 0
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    from poolcli.cli.program import program

    if any(name.startswith("_POOLCLI_COMPLETE") for name in os.environ):
        os.environ["COLUMNS"] = "1000"  # Typer wraps descriptions, and fish takes each of their lines for a word
    elif not words:
        with redirect_stdout(sys.stderr):
            program().main(["--help"], prog_name="poolcli", standalone_mode=False)
        return 2
    try:
        code = program().main(words, prog_name="poolcli", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # no error of Click, whose classes are private in some versions
            raise
        from poolcli.cli.mistakes import usage_error

        raise usage_error(error, words[0]) from None
