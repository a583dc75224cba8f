"""Prints reports with Rich: the console, the style of tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from poolcli.message_fields import escaped, for_cli

UNWRAPPED = 20_000  # columns, more than any line has
LEAST_WIDTH = 80  # columns; in fewer, Rich cuts cells of tables


def console(stream: TextIO) -> Console:
    """A Rich console without markup, highlighting and emoji, so that data are printed as they are.

    Lines are wrapped in a terminal, or if COLUMNS is set.
    """
    width = None if stream.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    made = Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
    made.width = max(made.width, LEAST_WIDTH)
    return made


def show(view: RenderableType, stream: TextIO) -> None:
    """Prints `view` without trailing spaces; control characters other than line breaks are escaped."""
    printer = console(stream)
    segments = [
        each
        if each.text.replace("\n", "").isprintable()
        else Segment("\n".join(map(escaped, each.text.split("\n"))), each.style)
        for each in printer.render(view)
    ]
    with printer.capture() as captured:
        printer.print(Segments(segments), crop=False, end="")
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def plain_table(*headings: str) -> Table:
    """A table in the style of all reports, with columns that fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def grid(gap: int = 2, **first: Any) -> Table:
    """A table without headings: a column of names, with the settings `first`, and one of texts, which fold."""
    table = Table.grid(padding=(0, gap))
    table.add_column(no_wrap=True, **first)
    table.add_column(overflow="fold")
    return table


def notes_view(notes: Iterable[str]) -> Table:
    """Notes, one line each."""
    table = grid(style="yellow")
    for note in notes:
        table.add_row("note", Text(for_cli(note)))
    return table
