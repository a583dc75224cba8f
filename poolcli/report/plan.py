"""The report of a plan for a person: tables that read well at 80 columns, without colour, and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.layouts import named_shape
from poolcli.message_fields import field, on_command_line, printable
from poolcli.plan import Plan
from poolcli.report.text import number
from poolcli.windows import Bins

OF_INDICES = ("axis", "index_element_type")  # shown as the rule that they make


def plan_view(plan: Plan, notes: Sequence[str]) -> RenderableType:
    """The report of a plan without any file."""
    ends = [
        ("input", named_shape(plan.layout, plan.input_shape), plan.dtype, ""),
        ("output", named_shape(plan.layout, plan.output_shape), plan.output_dtype, ""),
    ]
    return spaced(Text(title(plan), style="bold"), ends_table(ends), axes_table(plan), facts_view(plan, notes))


def spaced(heading: RenderableType, *parts: RenderableType) -> Group:
    """The heading, then the parts with an empty line before each but the first."""
    rows = [heading, parts[0]]
    for part in parts[1:]:
        rows += ["", part]
    return Group(*rows)


def title(plan: Plan) -> str:
    """Operator and dialect: `avg pooling, as OpenVINO`."""
    return f"{plan.op} pooling, as {DIALECTS[plan.like].title}"


def axes_table(plan: Plan) -> Table:
    """One row for each spatial axis, with the formula of its length."""
    table = plain_table()
    sliding = not isinstance(plan.axes[0].windows, Bins)
    for heading in ("axis", "input", *(("kernel", "stride", "dilation", "pads") if sliding else ()), "output"):
        table.add_column(heading, justify="left" if heading == "axis" else "right", no_wrap=True)
    table.add_column("formula" if sliding else "windows", overflow="fold")
    for axis in plan.axes:
        w = axis.windows
        if isinstance(w, Bins):
            table.add_row(axis.name, str(w.size), str(w.output), _bins_text(w))
        else:
            pads = f"{w.pad_begin},{w.pad_end}"
            middle = (str(w.kernel), str(w.stride), str(w.dilation), pads)
            table.add_row(axis.name, str(w.size), *middle, str(w.output), axis.formula)
    return table


def facts_view(plan: Plan, notes: Iterable[str]) -> Table:
    """The attributes that are not numbers of an axis, the rules of divisor and indices, and the notes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    words = [
        f"{name} {number(value)}"
        for name, value in plan.attributes.items()
        if value is not None and not isinstance(value, list) and name not in OF_INDICES
    ]
    if words:
        table.add_row("rules", ", ".join(words))
    if plan.guessed and not plan.doubts:
        told = f"{','.join(plan.layout)} (assumed; {field('layout', f'N{plan.layout[2:]}C')} to change)"
        table.add_row("axes", on_command_line(told))
    if plan.divisor_rule:
        table.add_row("divisor", plan.divisor_rule)
    if plan.index:
        table.add_row("indices", f"{plan.index.dtype}, {plan.index.rule}")
    for note in notes:
        table.add_row(Text("note", style="yellow"), Text(on_command_line(note)))
    return table


def notes_view(notes: Iterable[str]) -> Table:
    """Notes, one line each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="yellow")
    table.add_column(overflow="fold")
    for note in notes:
        table.add_row("note", Text(on_command_line(note)))
    return table


def plain_table() -> Sheet:
    """An empty table in the one style of all reports."""
    return Sheet(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def ends_table(rows: Iterable[tuple[str, str, str, str]]) -> Table:
    """Input, output and indices: name, shape with axis names, dtype, path."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, shape, dtype, path in rows:
        table.add_row(name, Text(shape, style="cyan"), dtype, Text(printable(path)))
    return table


def _bins_text(w: Bins) -> str:
    if w.equal_to:
        return "equal to kernel {}, stride {}".format(*w.equal_to)
    low, high = w.lengths
    return f"{low} long" if low == high else f"{low} or {high} long"


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
        for index, row in enumerate(self.rows):
            sheet.add_row(*(list(column.cells)[index] for column in kept), style=row.style)
        return sheet

    def _stood_up(self) -> RenderableType:
        parts: list[RenderableType] = []
        for index, row in enumerate(self.rows):
            cells = Table.grid(padding=(0, 2))
            cells.add_column(no_wrap=True, style="bold")
            cells.add_column(overflow="fold")
            for column in self.columns:
                cell = list(column.cells)[index]
                if cell not in ("", None):
                    cells.add_row(*((column.header, cell) if column.header else (cell, "")), style=row.style)
            parts += ["", cells] if index else [cells]
        return Group(*parts)


def _least(column: Column) -> int:
    """The width below which a column would lose something, or be hard to read."""
    widest = max((_width(cell) for cell in (column.header, *column.cells)), default=0)
    return widest if column.no_wrap else min(widest, max(NARROWEST, _width(column.header)))


def _width(cell: RenderableType) -> int:
    return cell.cell_len if isinstance(cell, Text) else Text(str(cell)).cell_len
