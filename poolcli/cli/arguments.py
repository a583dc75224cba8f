"""The words of the command line before any command has them: those of files, and `help`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from poolcli.core.errors import RequestError


def arranged(words: Sequence[str]) -> list[str]:
    """The words with `help COMMAND` as `COMMAND --help`, and those that a file holds in the place of @FILE."""
    found = [each for word in words for each in (_words_in(word) if word[:1] == "@" and len(word) > 1 else [word])]
    if found[:1] != ["help"]:
        return found
    return [*(word for word in found[1:] if not word.startswith("-")), *_kinds_of_help(found)]


def _kinds_of_help(words: Sequence[str]) -> list[str]:
    if "--man" in words:
        return ["--man"]
    return ["--help-all" if {"--all", "--help-all"} & {*words} else "--help"]


def _words_in(word: str) -> list[str]:
    """The words of a file, as a shell splits them; what follows # is a comment."""
    try:
        return shlex.split(Path(word[1:]).read_text(), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(
            f"{word}: {why}; @ takes arguments from a file, and an input of that name is typed as ./{word}"
        ) from None
