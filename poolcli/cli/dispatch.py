"""Which command the words mean, and running it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from poolcli.cli.commands import Command
from poolcli.cli.which import command_called
from poolcli.core.errors import RequestError

HELP, HELP_ALL = ("-h", "--help"), "--help-all"
VERSION = ("-V", "--version")


def dispatch(words: Sequence[str]) -> int:
    """Runs what the words mean; returns the exit code."""
    words = expanded(words)
    if not words:
        from poolcli.cli.help import root_help

        print(root_help(), end="", file=sys.stderr)
        return 2
    if words[0] in (*HELP, HELP_ALL, "help") or "completion" in words[0] or words[0] == "--complete":
        from poolcli.cli.about import about

        return about(words)
    command = command_called(words)
    typed = words[1 : words.index("--")] if "--" in words else words[1:]
    if not {*HELP, HELP_ALL}.isdisjoint(typed):
        from poolcli.cli.help import command_help, show

        show(command_help(command, HELP_ALL in typed))
        return 0
    return _run(command, words[1:])


def expanded(words: Sequence[str]) -> list[str]:
    """The words, with those that a file holds in the place of @FILE; # begins a comment there."""
    found: list[str] = []
    for word in words:
        if not word.startswith("@") or len(word) == 1:
            found.append(word)
            continue
        try:
            found += shlex.split(Path(word[1:]).read_text(), comments=True)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise RequestError(
                f"{word}: {why}; @ reads arguments from a file (an input of that name: ./{word})"
            ) from None
    return found


def _run(command: Command, words: Sequence[str]) -> int:
    from poolcli.cli.parameters import parameters, request_of
    from poolcli.cli.parse import parse

    request = request_of(command, parse(command.name, list(parameters(command)), words))
    module, name = command.body.split(".")
    code: int = getattr(import_module(f"poolcli.cli.{module}"), name)(request)
    return code
