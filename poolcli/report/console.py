"""The one way to print reports."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console


def console(stream: TextIO) -> Console:
    """A Rich console that prints data as data: no markup, no highlighting, no emoji."""
    return Console(file=stream, markup=False, highlight=False, emoji=False)
