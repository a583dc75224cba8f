"""Running the program: the one place where errors become messages and exit codes."""

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
    """Runs the program; returns its exit code. Only a bug, or --debug, lets an exception through."""
    try:
        return _run(_expanded(arguments))
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (error.cli_message,)  # what the traceback ends in
            raise
        from poolcli.cli.messages import refuse

        refuse(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read standard output is gone; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: Sequence[str]) -> int:
    if words in (["--version"], ["-V"]):  # scripts ask for it: nothing is loaded for it
        print(f"poolcli {__version__}")
        return 0
    from poolcli.cli.program import PROGRAM_OPTIONS, find_command, made, program

    name = find_command(words[0]) if words else None
    if name:
        from poolcli.cli.spelling import spelt

        command = made(name)
        return _main(command, spelt(command, words[1:]), f"poolcli {name}")
    if words and words[0] not in PROGRAM_OPTIONS:
        from poolcli.cli.mistakes import no_command

        raise no_command(words)
    if not words and not any(name.startswith("_POOLCLI_COMPLETE") for name in os.environ):
        with redirect_stdout(sys.stderr):
            _main(program(), ["--help"], "poolcli")
        return 2
    return _main(program(), words, "poolcli")


def _main(command: Any, words: Sequence[str], called: str) -> int:
    """Has Typer run a command; what it refuses is a RequestError."""
    import typer

    try:
        return command.main(list(words), prog_name=called, standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # that of Typer's errors, whose class is public in some versions only
            raise
        from poolcli.cli.mistakes import usage_error

        raise usage_error(error, str(command.name)) from None


def _expanded(words: Sequence[str]) -> list[str]:
    """The words with `help COMMAND` as `COMMAND --help`, and those that a file holds in the place of @FILE."""
    found = [each for word in words for each in (_words_in(word) if word[:1] == "@" and len(word) > 1 else [word])]
    if found[:1] in (["--install-completion"], ["--show-completion"]) and len(found) > 1:
        raise RequestError(f"{found[0]} is for the current shell and takes no name; leave {' '.join(found[1:])} out")
    return _help_for(found[1:]) if found[:1] in (["help"], ["-h"], ["--help"]) else found


def _help_for(words: Sequence[str]) -> list[str]:
    from poolcli.cli.program import HELP_ALL

    name = [word for word in words if not word.startswith("-") and word != "help"][:1]
    others = [word for word in words if word not in (*name, "help", "-h", "--help", "--all", HELP_ALL)]
    if others:
        raise RequestError(f"help takes one command and --all; leave {' '.join(others)} out")
    return [*name, HELP_ALL if name and not {"--all", HELP_ALL}.isdisjoint(words) else "--help"]


def _words_in(word: str) -> list[str]:
    """The words of a file, as a shell splits them; what follows # is a comment."""
    try:
        return shlex.split(Path(word[1:]).read_text(), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(
            f"{word}: {why}; @ takes arguments from a file, and an input of that name is typed as ./{word}"
        ) from None
