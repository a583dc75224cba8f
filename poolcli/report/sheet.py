"""A table that stands its rows up where the terminal is too narrow for its columns."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

NARROWEST = 14  # columns of the screen that one may be folded to


class Sheet(Table):
    """Rows beside headings; below so many columns of the screen as they need, each row as a list of its cells.

    Columns whose headings are `spare` say nothing that is not said elsewhere, and are left out before that.
    """

    spare: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = sum(_least(column) + 2 for column in self.columns) - 2
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
        elif self.spare:
            yield self._without(self.spare[0])
        else:
            yield self._stood_up()

    def _without(self, heading: str) -> Sheet:
        """The same without the column of this heading, which is spare."""
        sheet = Sheet(box=self.box, pad_edge=self.pad_edge, padding=self.padding, header_style=self.header_style)
        sheet.spare = tuple(each for each in self.spare if each != heading)
        kept = [column for column in self.columns if column.header != heading]
        for column in kept:
            sheet.add_column(column.header, no_wrap=column.no_wrap, overflow=column.overflow, justify=column.justify)
        for number, row in enumerate(self.rows):
            sheet.add_row(*(list(column.cells)[number] for column in kept), style=row.style)
        return sheet

    def _stood_up(self) -> RenderableType:
        parts: list[RenderableType] = []
        for number, row in enumerate(self.rows):
            cells = Table.grid(padding=(0, 2))
            cells.add_column(no_wrap=True, style="bold")
            cells.add_column(overflow="fold")
            for column in self.columns:
                cell = list(column.cells)[number]
                if cell not in ("", None):
                    cells.add_row(*((column.header, cell) if column.header else (cell, "")), style=row.style)
            parts += ["", cells] if number else [cells]
        return Group(*parts)


def _least(column: Column) -> int:
    """The width below which a column would lose something, or be hard to read."""
    widest = max((_width(cell) for cell in (column.header, *column.cells)), default=0)
    return widest if column.no_wrap else min(widest, max(NARROWEST, _width(column.header)))


def _width(cell: RenderableType) -> int:
    return cell.cell_len if isinstance(cell, Text) else Text(str(cell)).cell_len
