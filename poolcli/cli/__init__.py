"""Runs the command line: the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

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
    from poolcli.cli.program import program

    if any(name.startswith("_POOLCLI_COMPLETE") for name in os.environ):
        os.environ["COLUMNS"] = "1000"  # Typer wraps descriptions, and fish takes each of their lines for a word
    elif not words:
        with redirect_stdout(sys.stderr):
            program().main(["--help"], prog_name="poolcli", standalone_mode=False)
        return 2
    try:
        code = program().main(list(words), prog_name="poolcli", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # no error of Click, whose classes are private in some versions
            raise
        from poolcli.cli.mistakes import usage_error

        raise usage_error(error, words) from None


def _expand(arguments: Sequence[str]) -> list[str]:
    """The words with @FILE replaced by the words in that file, and `help COMMAND` by `COMMAND --help`."""
    words = [each for word in arguments for each in (_words_in(word) if word[:1] == "@" and len(word) > 1 else [word])]
    if words[:1] == ["help"] or (words[:1] in (["-h"], ["--help"], ["--help-all"]) and words[1:]):
        name = next((word for word in words[1:] if not word.startswith("-")), None)
        everything = not {"--all", "--help-all"}.isdisjoint(words)
        return [name, "--help-all" if everything else "--help"] if name else ["--help"]
    if words[:1] in (["--install-completion"], ["--show-completion"]) and len(words) > 1:
        raise RequestError(f"{words[0]} is for the current shell and takes no name; leave {' '.join(words[1:])} out")
    return ["--help"] if words == ["--help-all"] else words


def _words_in(word: str) -> list[str]:
    """The words in the file of @FILE, split as by a shell; # begins a comment."""
    try:
        return shlex.split(Path(word[1:]).read_text(), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(
            f"{word}: {why}; @ takes arguments from a file, and an input of that name is typed as ./{word}"
        ) from None
