"""Which command a word names."""

from __future__ import annotations

from collections.abc import Sequence

from poolcli.cli.commands import BY_NAME, Command
from poolcli.cli.words import operator_named


def command_called(words: Sequence[str]) -> Command:
    """The command that the first word names, by whatever name; refuses all others."""
    word = words[0]
    name = word if word in BY_NAME else word.lower() if word.lower() in BY_NAME else operator_named(word)
    if name is None:
        from poolcli.cli.mistakes import no_command

        raise no_command(words)
    return BY_NAME[name]
