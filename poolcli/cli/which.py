"""Which command a word names."""

from __future__ import annotations

from poolcli.cli.commands import BY_NAME, Command
from poolcli.cli.words import operator_named


def command_called(word: str) -> Command | None:
    """The command that people mean by `word`, whatever name they have for it; None where there is none."""
    name = next((name for name in (word, word.lower()) if name in BY_NAME), None) or operator_named(word)
    return BY_NAME[name] if name else None
