"""The report of a plan for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.layouts import named_shape
from poolcli.message_fields import field, on_command_line, printable
from poolcli.ops import OPERATORS
from poolcli.plan import Plan
from poolcli.report.console import grid, plain_table
from poolcli.windows import Bins, Cells

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
    """Operator and dialect, where any has it: `avg pooling, as OpenVINO`."""
    return f"{plan.op} pooling" + (f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else "")


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
    table = grid()
    words = [
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
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


def ends_table(rows: Iterable[tuple[str, str, str, str]]) -> Table:
    """Input, output and indices: name, shape with axis names, dtype, path."""
    table = grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, shape, dtype, path in rows:
        table.add_row(name, Text(shape, style="cyan"), dtype, Text(printable(path)))
    return table


def _bins_text(w: Bins) -> str:
    if isinstance(w, Cells):
        return f"{w.size}/{w.output} long, elements count in part"
    if w.equal_to:
        return "equal to kernel {}, stride {}".format(*w.equal_to)
    low, high = w.lengths
    return f"{low} long" if low == high else f"{low} or {high} long"
