"""The one way to print reports."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console, RenderableType

UNWRAPPED = 20_000  # columns, more than any line has


def console(stream: TextIO) -> Console:
    """A Rich console that prints data as data: no markup, no highlighting, no emoji.

    What goes to no terminal is not wrapped, unless COLUMNS says where.
    """
    width = None if stream.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def show(view: RenderableType, stream: TextIO) -> None:
    """Prints `view` without the spaces with which tables fill their lines."""
    printer = console(stream)
    with printer.capture() as captured:
        printer.print(view, crop=False)
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
