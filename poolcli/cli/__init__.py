"""Runs the command line: the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from poolcli import __version__
from poolcli.errors import PoolError, RequestError


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code. Exceptions are bugs, or any error with --debug."""
    try:
        return _run(_expand(arguments))
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


def _run(words: Sequence[str]) -> int:
    if words in (["--version"], ["-V"]):  # without importing Typer, because scripts call it
        print(f"poolcli {__version__}")
        return 0
    from poolcli.cli.program import PROGRAM_OPTIONS, find_command, load_command, program

    name = find_command(words[0]) if words else None
    if name:
        from poolcli.cli.normalize import normalize

        command = load_command(name)
        return _call_typer(command, normalize(command, words[1:]), f"poolcli {name}")
    if words and words[0] not in PROGRAM_OPTIONS:
        from poolcli.cli.mistakes import unknown_command

        raise unknown_command(words)
    if any(name.startswith("_POOLCLI_COMPLETE") for name in os.environ):
        os.environ["COLUMNS"] = "1000"  # Typer wraps descriptions, and fish takes each of their lines for a word
    elif not words:
        with redirect_stdout(sys.stderr):
            _call_typer(program(), ["--help"], "poolcli")
        return 2
    return _call_typer(program(), words, "poolcli")


def _call_typer(command: Any, words: Sequence[str], name: str) -> int:
    """Calls a command; errors of Typer become RequestErrors."""
    import typer

    try:
        return command.main(list(words), prog_name=name, standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # no error of Typer, whose class is public in some versions only
            raise
        from poolcli.cli.mistakes import usage_error

        raise usage_error(error, str(command.name)) from None


def _expand(words: Sequence[str]) -> list[str]:
    """The words with `help COMMAND` replaced by `COMMAND --help`, and @FILE by the words in that file."""
    found = [each for word in words for each in (_words_in(word) if word[:1] == "@" and len(word) > 1 else [word])]
    if found[:1] in (["--install-completion"], ["--show-completion"]) and len(found) > 1:
        raise RequestError(f"{found[0]} is for the current shell and takes no name; leave {' '.join(found[1:])} out")
    return _help_for(found) if found[:1] in (["help"], ["-h"], ["--help"], ["--help-all"]) else found


def _help_for(words: Sequence[str]) -> list[str]:
    from poolcli.cli.program import HELP_ALL

    name = [word for word in words if not word.startswith("-") and word != "help"][:1]
    others = [word for word in words if word not in (*name, "help", "-h", "--help", "--all", HELP_ALL)]
    if others:
        raise RequestError(f"help takes one command and --all; leave {' '.join(others)} out")
    return [*name, HELP_ALL if name and not {"--all", HELP_ALL}.isdisjoint(words) else "--help"]


def _words_in(word: str) -> list[str]:
    """The words in the file of @FILE, split as by a shell; # begins a comment."""
    try:
        return shlex.split(Path(word[1:]).read_text(), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(
            f"{word}: {why}; @ takes arguments from a file, and an input of that name is typed as ./{word}"
        ) from None
