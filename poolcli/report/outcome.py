"""Prints reports with Rich: the style of tables, and views of plans, jobs, runs and pyramids."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.formats.checks import human_bytes
from poolcli.layouts import channels_last, default_layout, named_shape
from poolcli.message_fields import AGAIN, escaped, field, for_cli, printable
from poolcli.ops import OPERATORS
from poolcli.plan import Plan
from poolcli.windows import Bins, Cells

if TYPE_CHECKING:  # not imported for the report of a plan
    from poolcli.pooling.outcome import Outcome, RunSummary
    from poolcli.pooling.pyramid import PyramidResult
    from poolcli.pooling.pyramid_plan import Pyramid

UNWRAPPED = 20_000  # columns, more than any line has
LEAST_WIDTH = 80  # columns; in fewer, Rich cuts cells of tables
NAMES_SHOWN = 10  # in a note
LONGEST_FORMULA = 27  # characters, beside columns of the usual distance in 80 columns
End = tuple[str, str, str, str]  # a line of a report: "input", "output" or "indices", shape, dtype, path
INDEX_ATTRIBUTES = ("axis", "index_element_type")  # part of the line "indices"


def console(stream: TextIO) -> Console:
    """A Rich console that prints data as they are, wrapped in a terminal or if COLUMNS is set."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    made = Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
    made.width = max(made.width, LEAST_WIDTH)
    return made


def show(view: RenderableType, stream: TextIO, end: str = "") -> None:
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
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()) + end)


def plain_table(*headings: str) -> Table:
    """A table in the style of all reports, with columns that fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


class Rows:
    """A table; its last column is below the others where the terminal is too narrow for a row."""

    def __init__(self, columns: Mapping[str, Iterable[str | Text]]) -> None:
        self.columns = [[Text(heading, style="bold"), *map(Text.assemble, cells)] for heading, cells in columns.items()]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [2 + max(cell.cell_len for cell in cells) for cells in self.columns]
        below = "\n  " if sum(widths) - 2 > options.max_width else ""
        for *cells, last in zip(*self.columns, strict=True):
            padded = ((cell, " " * (width - cell.cell_len)) for cell, width in zip(cells, widths, strict=False))
            yield Text.assemble(*(part for pair in padded for part in pair), below, last)


def grid(gap: int = 2, **first: Any) -> Table:
    """A table without headings: a column of names, with the settings `first`, and one of texts, which fold."""
    table = Table.grid(padding=(0, gap))
    table.add_column(**{"no_wrap": True} | first)
    table.add_column(overflow="fold")
    return table


def add_notes(table: Table, notes: Iterable[str], written: bool = False) -> Table:
    """Adds notes, one line each; once outputs are `written`, the settings that they propose need --overwrite, too."""
    for note in notes:
        table.add_row(Text("note", style="magenta"), Text(for_cli(note, written)))
    return table


def plan_view(
    plan: Plan, notes: Iterable[str], ends: Sequence[End] = (), closing: str = "", written: bool = False
) -> RenderableType:
    """The report of a plan; for a job also with its files as `ends`, and a last line."""
    has_indices = not ends or any(name == "indices" for name, *_ in ends)  # of a job, whether they are written
    ends = ends or (
        ("input", named_shape(plan.layout, plan.input_shape), plan.dtype, ""),
        ("output", named_shape(plan.layout, plan.output_shape), plan.output_dtype, ""),
    )
    like = f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else ""
    facts = grid()
    for name, text in _facts(plan, has_indices).items():
        facts.add_row(name, text)
    told = Group(add_notes(facts, notes, written), *[Text(closing, style="dim")] * bool(closing))
    return spaced(_heading(f"{plan.op} pooling{like}", ends), _axes_table(plan), told)


def spaced(*parts: RenderableType) -> Group:
    """The parts with an empty line between them."""
    first, *others = parts
    return Group(first, *(row for part in others for row in ("", part)))


def _heading(title: str, ends: Iterable[End]) -> Group:
    """A title, and input, output and indices, one line each."""
    table = grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, shape, dtype, path in ends:
        table.add_row(name, Text(shape, style="bold"), dtype, Text(printable(path)))
    return Group(Text(title, style="bold"), table)


def _axes_table(plan: Plan) -> Table:
    """One row for each spatial axis, with the formula of its length."""
    table = plain_table()
    sliding = not isinstance(plan.axes[0].windows, Bins)
    for heading in ("axis", "input", *(("kernel", "stride", "dilation", "pads") if sliding else ()), "output"):
        table.add_column(heading, justify="left" if heading == "axis" else "right", no_wrap=True)
    table.add_column("formula" if sliding else "windows", overflow="fold")
    if sliding and max(len(axis.formula) for axis in plan.axes) > LONGEST_FORMULA:
        table.padding = (0, 1, 0, 0)
    for axis in plan.axes:
        w = axis.windows
        if isinstance(w, Bins):
            table.add_row(axis.name, str(w.size), str(w.output), _bins_text(w))
        else:
            pads = f"{w.pad_begin},{w.pad_end}"
            middle = (str(w.kernel), str(w.stride), str(w.dilation), pads)
            table.add_row(axis.name, str(w.size), *middle, str(w.output), axis.formula)
    return table


def _bins_text(w: Bins) -> str:
    if isinstance(w, Cells):
        return f"{w.size / w.output:.4g} elements each; partly covered ones are weighted"
    if w.equal_to:
        return "equal to kernel {}, stride {}".format(*w.equal_to)
    low, high = w.lengths
    return f"{low} long" if low == high else f"{low} or {high} long"


def _facts(plan: Plan, has_indices: bool) -> dict[str, str]:
    """The attributes that are not per axis, an assumed layout, and the rules of divisor and indices."""
    words = [
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in plan.attributes.items()
        if value is not None and not isinstance(value, list) and name not in INDEX_ATTRIBUTES
    ]
    facts = {"rules": ", ".join(words)}
    if plan.guessed and not plan.layout_warnings:
        rank = len(plan.layout)
        orders = {default_layout(rank): channels_last(rank), channels_last(rank): default_layout(rank), "HW": "CW"}
        other = field("layout", orders.get(plan.layout) if rank > 1 else None)
        facts["axes"] = for_cli(f"{','.join(plan.layout)} (assumed; {other} to change)")
    facts["counted" if "p" in plan.attributes else "divisor"] = plan.divisor_rule or ""
    is_default = getattr(plan.given, "exclude_pad", False) is None and plan.attributes["exclude_pad"]
    if is_default and any(w.pad_begin + w.pad_end for w in plan.windows):
        facts["divisor"] += "; PyTorch counts padding by default"
    if plan.index and has_indices:
        unpool = for_cli(f"; {plan.unpool_note}" if plan.unpool_note else "")
        facts["indices"] = f"{plan.index.dtype}, {plan.index.rule}{unpool}"
    return {name: text for name, text in facts.items() if text}


def outcome_view(outcome: Outcome) -> RenderableType:
    """The report of one job that ran or was planned."""
    if outcome.parts:
        return _bundle_view(outcome)
    plan, header, source = outcome.plan, outcome.header, outcome.job.source.path
    if plan is None:
        return Text(f"{printable(source)}: skipped, the output exists")
    path = f"{source}:{header.key}" if header and header.key else source
    ends = [("input", named_shape(plan.layout, plan.input_shape), plan.dtype, path)]
    for name, stored in (("output", outcome.output), ("indices", outcome.indices)):
        if stored:
            path = "standard output" if stored.path == "-" else stored.path or ""
            path = path if stored.key is None else f"{path}:{stored.key}"
            ends.append((name, named_shape(stored.layout, stored.shape), stored.dtype, path))
    return plan_view(plan, outcome.notes, ends, _closing(outcome), _is_written(outcome))


def _is_written(outcome: Outcome) -> bool:
    return outcome.engine is not None and outcome.job.output != "-"


def _bundle_view(outcome: Outcome) -> RenderableType:
    """One row for each array of a file."""
    table = plain_table("array", "type", "shape", "output shape")
    for part in outcome.parts:
        if part.plan and part.output and part.header:
            shapes = (part.plan.layout, part.plan.input_shape), (part.output.layout, part.output.shape)
            table.add_row(Text(printable(part.header.key or "-")), part.plan.dtype, *(named_shape(*s) for s in shapes))
    ends = Text(f"{printable(outcome.job.source.path)} to {printable(outcome.job.output or 'nowhere')}", style="bold")
    where: dict[str, list[str]] = {}  # the arrays of each note
    for part in outcome.parts:
        for note in part.notes:
            where.setdefault(note, []).append((part.header and part.header.key) or "")
    named = {note: ", ".join(keys) if len(keys) < len(outcome.parts) else "" for note, keys in where.items()}
    notes = [*(f"{keys}: {note}" if keys else note for note, keys in named.items())]
    notes += (note for note in outcome.notes if note not in where)
    closing = Text(_closing(replace(outcome.parts[0], parts=outcome.parts, seconds=outcome.seconds)), style="dim")
    return Group(ends, table, add_notes(grid(), notes, _is_written(outcome.parts[0])), closing)


def _closing(outcome: Outcome) -> str:
    if outcome.engine is None:
        parts = outcome.parts or (outcome,)
        return _planned(sum(each.nbytes for part in parts for each in (part.output, part.indices) if each))
    spent = [f"{phase} {_duration(t)}" for phase, t in outcome.seconds.items()
             if t >= 0.0005 or phase not in ("load", "compile")]  # fmt: skip
    return f"{outcome.engine}, {outcome.threads} thread{'' if outcome.threads == 1 else 's'}: {', '.join(spent)}"


def _planned(size: int) -> str:
    """The last line of a dry run, with the bytes that would be written, before they are compressed."""
    return f"dry run: nothing was written; the result would be {human_bytes(size)}"


def _duration(seconds: float) -> str:
    """A time with three digits: `4.21 ms`, `1.30 s`."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms"


def summary_view(summary: RunSummary, dry_run: bool) -> RenderableType:
    """The summary of a run over several inputs: counts, and notes with the numbers of files."""
    counts = f"{summary.done} {('done', 'planned')[dry_run]}, {summary.skipped} skipped, {len(summary.errors)} failed"
    counts += f", {len(summary.ignored)} ignored" if summary.ignored else ""
    facts, notes = grid(), [ignored_note(summary.ignored)] if summary.ignored else []
    if len(summary.sizes) == 1 and not dry_run:
        facts.add_row("each", " to ".join(*summary.sizes))
    return Group(Text(counts, style="bold"), add_notes(facts, [*notes, *summary.note_lines()], not dry_run))


def ignored_note(names: Collection[str]) -> str:
    """The note about names in folders that are not inputs."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    deeper = f"; use -r{AGAIN} for subfolders" if any(name.endswith("/") for name in names) else ""
    return f"ignored: {', '.join(printable(name) for name in islice(names, NAMES_SHOWN))}{more}{deeper}"


def shapes_view(outcomes: Iterable[Outcome]) -> Rows:
    """One row for each input: its shape, the output's shape and the output's path."""
    planned = [(each.job.source.path, each.plan, each.output) for each in outcomes if each.plan and each.output]
    return Rows({
        "input": [printable(path) for path, _, _ in planned],
        "shape": [named_shape(plan.layout, plan.input_shape) for _, plan, _ in planned],
        "output shape": [named_shape(output.layout, output.shape) for *_, output in planned],
        "output": [printable(output.path or "") for *_, output in planned],
    })  # fmt: skip


def pyramid_view(pyramid: Pyramid, made: PyramidResult | None, dry_run: bool) -> RenderableType:
    """The report of a pyramid."""
    header, levels, chunks = pyramid.header, pyramid.levels, pyramid.grid
    source = pyramid.source.path + (f":{header.key}" if header.key else "")
    result = f"{len(levels)} level{'' if len(levels) == 1 else 's'}"
    result += f", {1 + len(pyramid.others)} images" if pyramid.others else ""
    shape = named_shape(pyramid.layout, levels[0].shape)
    ends = [("input", shape, header.dtype, source), ("output", result, "", pyramid.output)]
    table = plain_table("level", "shape", "scale", "translation")
    for number, (level, *places) in enumerate(zip(levels, pyramid.scales, pyramid.translations, strict=True)):
        numbers = (printable(",".join(f"{value:.6g}" for value in place)) for place in places)
        table.add_row(str(number), ",".join(map(str, level.shape)), *numbers)
    units = ", ".join(f"{name} {unit}" for name, unit in pyramid.units.items())
    axes, held = ",".join(pyramid.names), ",".join(map(str, chunks.chunks))
    storage = f"{axes}; {f'{units}; ' if units else ''}chunks {held}"
    storage += f", shards {','.join(map(str, chunks.shards))}" if chunks.shards else ""
    facts, closing = grid(), "is already complete, made from this input"
    facts.add_row("axes", printable(storage))
    if dry_run:
        closing = _planned(pyramid.nbytes)
    elif made is not None:  # a single level is a copy
        closing = f"{made.engine}: {_duration(sum(made.seconds.values()))}" if made.engine != "none" else ""
    notes = add_notes(facts, (*pyramid.notes, *(made.notes if made else ())), made is not None)
    return spaced(_heading("pyramid", ends), table, Group(notes, *[Text(closing, style="dim")] * bool(closing)))


def pyramid_document(pyramid: Pyramid, made: PyramidResult | None) -> dict[str, Any]:
    """The pyramid as JSON."""
    header = pyramid.header
    placed = zip(pyramid.levels, pyramid.scales, pyramid.translations, strict=True)
    return {
        "input": {
            "path": pyramid.source.path,
            "dataset": header.key,
            "shape": list(header.shape),
            "dtype": header.dtype,
            "layout": pyramid.read_layout,
        },
        "output": {"path": pyramid.output, "layout": pyramid.layout, "axes": list(pyramid.names)},
        "levels": [
            {"path": str(number), "shape": list(level.shape), "scale": list(scale), "translation": list(translation)}
            for number, (level, scale, translation) in enumerate(placed)
        ],
        "images": [each.source.key for each in (pyramid, *pyramid.others)] if pyramid.others else None,
        "units": dict(pyramid.units),
        "chunks": list(pyramid.grid.chunks),
        "shards": list(pyramid.grid.shards) if pyramid.grid.shards else None,
        "notes": [for_cli(note) for note in (*pyramid.notes, *(made.notes if made else ()))],
        "engine": made.engine if made else None,
        "seconds": {name: round(value, 6) for name, value in made.seconds.items()} if made else None,
        "error": None,
    }
