"""Prints reports with Rich: the console, the style of tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import measure_renderables
from rich.segment import Segment, Segments
from rich.table import Column, Table
from rich.text import Text

from poolcli.message_fields import escaped, for_cli

UNWRAPPED = 20_000  # columns, more than any line has
LEAST_WIDTH = 30  # columns; in fewer, Rich leaves out parts of a table
MIN_COLUMN = 14  # characters that a column is folded to, at least


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


def plain_table(*headings: str) -> Sheet:
    """A table in the style of all reports, with columns that fold."""
    table = Sheet(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
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


class Sheet(Table):
    """A table that is printed as one list per row if the terminal is too narrow for it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = options.update(max_width=UNWRAPPED)
        needed = sum(_least(column, console, whole) + 2 for column in self.columns) - 2
        if needed <= options.max_width:
            return super().__rich_console__(console, options)
        return (self._as_lists(),)

    def _as_lists(self) -> RenderableType:
        parts: list[RenderableType] = []
        for index, row in enumerate(self.rows):
            cells = grid(style="bold")
            for column in self.columns:
                cell = list(column.cells)[index]
                if cell not in ("", None):
                    cells.add_row(*((column.header, cell) if column.header else (cell, "")), style=row.style)
            parts += ["", cells] if index else [cells]
        return Group(*parts)


def _least(column: Column, console: Console, options: ConsoleOptions) -> int:
    """The least width of a column that can be read."""
    heading, widest = (
        measure_renderables(console, options, cells).maximum for cells in ([column.header], [*column.cells])
    )
    widest = max(heading, widest)
    return widest if column.no_wrap else min(widest, max(MIN_COLUMN, heading))
