"""The words of the command line before any command has them: those of files, and `help`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from poolcli.errors import RequestError

ALL = ("--all", "--help-all")


def arranged(words: Sequence[str]) -> list[str]:
    """The words with `help COMMAND` as `COMMAND --help`, and those that a file holds in the place of @FILE."""
    found = [each for word in words for each in (_words_in(word) if word[:1] == "@" and len(word) > 1 else [word])]
    if found[:1] != ["help"]:
        return found
    return _help_for(found[1:])


def _help_for(words: Sequence[str]) -> list[str]:
    names = [word for word in words if not word.startswith("-") and word != "help"]
    flags = [word for word in words if word.startswith("-")]
    if len(names) > 1:
        raise RequestError(f"help explains one command, found {' '.join(names)}; write poolcli help {names[0]}")
    unknown = [flag for flag in flags if flag not in (*ALL, "--man", "-h", "--help")]
    if unknown:
        raise RequestError(f"help has no option {unknown[0]}; it has --all and --man")
    if "--man" in flags or names == ["man"]:
        return ["--man"]
    return [*names, "--help-all" if names and {*ALL} & {*flags} else "--help"]


def _words_in(word: str) -> list[str]:
    """The words of a file, as a shell splits them; what follows # is a comment."""
    try:
        return shlex.split(Path(word[1:]).read_text(), comments=True)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RequestError(
            f"{word}: {why}; @ takes arguments from a file, and an input of that name is typed as ./{word}"
        ) from None
