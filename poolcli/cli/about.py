"""What the program says of itself: help of everything, completion, the manual page."""

from __future__ import annotations

from collections.abc import Sequence

from poolcli.cli.help import command_help, root_help, show
from poolcli.cli.which import command_called


def about(words: Sequence[str]) -> int:
    """Answers `help`, `--help` and their like; returns the exit code."""
    asked = [word for word in words[1:] if not word.startswith("-")]
    show(command_help(command_called(asked), "--help-all" in words or "--all" in words) if asked else root_help())
    return 0
