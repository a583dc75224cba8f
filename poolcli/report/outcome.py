"""Views of plans, of single jobs, of runs over several inputs and of pyramids; and the JSON of pyramids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.layouts import channels_last, default_layout, named_shape
from poolcli.message_fields import field, for_cli, printable
from poolcli.ops import OPERATORS
from poolcli.plan import Plan
from poolcli.report.console import grid, notes_view, plain_table
from poolcli.windows import Bins, Cells

if TYPE_CHECKING:  # not imported for the report of a plan
    from poolcli.pooling.outcome import NoteCount, Outcome, RunSummary, Stored
    from poolcli.pooling.pyramid import PyramidResult
    from poolcli.pooling.pyramid_plan import Pyramid

NAMES_SHOWN = 10  # in a note
End = tuple[str, str, str, str]  # a line of a report: "input", "output" or "indices", shape, dtype, path
INDEX_ATTRIBUTES = ("axis", "index_element_type")  # part of the line "indices"


def plan_view(plan: Plan, notes: Iterable[str], ends: Sequence[End] = (), closing: str = "") -> RenderableType:
    """The report of a plan; for a job also with its files as `ends`, and a last line."""
    has_indices = not ends or any(name == "indices" for name, *_ in ends)  # of a job, whether they are written
    ends = ends or (
        ("input", named_shape(plan.layout, plan.input_shape), plan.dtype, ""),
        ("output", named_shape(plan.layout, plan.output_shape), plan.output_dtype, ""),
    )
    like = f", as {DIALECTS[plan.like].title}" if OPERATORS[plan.op].rules_of is None else ""
    heading = Group(Text(f"{plan.op} pooling{like}", style="bold"), ends_table(ends))
    facts = facts_view(plan, notes, has_indices)
    return spaced(heading, axes_table(plan), Group(facts, Text(closing, style="dim")) if closing else facts)


def spaced(*parts: RenderableType) -> Group:
    """The parts with an empty line between them."""
    first, *others = parts
    return Group(first, *(row for part in others for row in ("", part)))


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


def facts_view(plan: Plan, notes: Iterable[str], has_indices: bool) -> Table:
    """The attributes that are not per axis, an assumed layout, the rules of divisor and indices, and notes."""
    table = grid()
    words = [
        f"{name} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in plan.attributes.items()
        if value is not None and not isinstance(value, list) and name not in INDEX_ATTRIBUTES
    ]
    if words:
        table.add_row("rules", ", ".join(words))
    if plan.guessed and not plan.layout_warnings:
        rank = len(plan.layout)
        orders = {default_layout(rank): channels_last(rank), channels_last(rank): default_layout(rank)}
        other = orders.get(plan.layout) if rank > 2 else None
        told = field("layout") if other is None else field("layout", other)
        table.add_row("axes", for_cli(f"{','.join(plan.layout)} (assumed; {told} to change)"))
    if plan.divisor_rule:
        table.add_row("divisor", plan.divisor_rule)
    if plan.index and has_indices:
        table.add_row("indices", f"{plan.index.dtype}, {plan.index.rule}")
    for note in notes:
        table.add_row(Text("note", style="yellow"), Text(for_cli(note)))
    return table


def ends_table(rows: Iterable[End]) -> Table:
    """Input, output and indices, one line each."""
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


def outcome_view(outcome: Outcome) -> RenderableType:
    """The report of one job that ran or was planned."""
    if outcome.parts:
        return _bundle_view(outcome)
    plan = outcome.plan
    if plan is None:
        return Text(f"{printable(outcome.job.source.path)}: skipped, the output exists")
    header = outcome.header
    source = outcome.job.source.path + (f":{header.key}" if header and header.key else "")
    ends = [("input", named_shape(plan.layout, plan.input_shape), plan.dtype, source)]
    for name, stored in (("output", outcome.output), ("indices", outcome.indices)):
        if stored:
            ends.append((name, named_shape(stored.layout, stored.shape), stored.dtype, _target(stored)))
    return plan_view(plan, outcome.notes, ends, _closing(outcome))


def _bundle_view(outcome: Outcome) -> RenderableType:
    """One row for each array of a file."""
    table = plain_table("array", "type", "shape", "output shape")
    for part in outcome.parts:
        if part.plan and part.output and part.header:
            shapes = (part.plan.layout, part.plan.input_shape), (part.output.layout, part.output.shape)
            table.add_row(Text(printable(part.header.key or "-")), part.plan.dtype, *(named_shape(*s) for s in shapes))
    ends = Text(f"{printable(outcome.job.source.path)} to {printable(outcome.job.output or 'nowhere')}", style="bold")
    notes = dict.fromkeys(note for each in (*outcome.parts, outcome) for note in each.notes)
    closing = Text(_closing(replace(outcome.parts[0], seconds=outcome.seconds)), style="dim")
    return Group(ends, table, *((notes_view(notes),) if notes else ()), closing)


def summary_view(summary: RunSummary, dry_run: bool) -> RenderableType:
    """The summary of a run over several inputs: counts, and notes with the numbers of files."""
    counts = (
        f"{summary.done} {'planned' if dry_run else 'done'}, {summary.skipped} skipped, {len(summary.errors)} failed"
    )
    if summary.ignored:
        counts += f", {len(summary.ignored)} ignored"
    rows: list[RenderableType] = [Text(counts, style="bold")]
    if summary.ignored:
        rows.append(notes_view([ignored_note(summary.ignored)]))
    if summary.notes:
        rows.append(notes_view(_counted(noted, summary.total) for noted in summary.notes.values()))
    return Group(*rows)


def _counted(noted: NoteCount, total: int) -> str:
    alike = "" if noted.same else "similar in "
    return f"{noted.first} ({alike}{noted.count} of {total} files)"


def ignored_note(names: Collection[str]) -> str:
    """The note about names in folders that are not inputs."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    deeper = " (use -r for subfolders)" if any(name.endswith("/") for name in names) else ""
    return f"ignored: {', '.join(printable(name) for name in islice(names, NAMES_SHOWN))}{more}{deeper}"


def shapes_view(outcomes: Iterable[Outcome]) -> Table:
    """One row for each input: its shape, the output's shape and the output's path."""
    table = plain_table("input", "shape", "output shape", "output")
    for outcome in outcomes:
        if outcome.plan and outcome.output:
            table.add_row(
                Text(printable(outcome.job.source.path)),
                named_shape(outcome.plan.layout, outcome.plan.input_shape),
                named_shape(outcome.output.layout, outcome.output.shape),
                Text(printable(outcome.output.path or "")),
            )
    return table


def _target(stored: Stored) -> str:
    path = {None: "", "-": "standard output"}.get(stored.path, stored.path or "")
    return path if stored.key is None else f"{path}:{stored.key}"


def _closing(outcome: Outcome) -> str:
    if outcome.engine is None:
        return "dry run: nothing was written"
    spent = ", ".join(
        f"{phase} {_duration(t)}"
        for phase, t in outcome.seconds.items()
        if t >= 0.0005 or phase not in ("load", "compile")
    )
    threads = f"{outcome.threads} thread{'' if outcome.threads == 1 else 's'}"
    return f"{outcome.engine}, {threads}: {spent}"


def _duration(seconds: float) -> str:
    """A time with three digits: `4.21 ms`, `1.30 s`."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms"


PLACES = 6  # digits of a number in a table


def pyramid_view(pyramid: Pyramid, made: PyramidResult | None, dry_run: bool) -> RenderableType:
    """The report of a pyramid."""
    header = pyramid.header
    source = pyramid.source.path + (f":{header.key}" if header.key else "")
    shape = named_shape(pyramid.layout, pyramid.levels[0].shape)
    count = len(pyramid.levels)
    levels = f"{count} level{'' if count == 1 else 's'}"
    levels += f", {1 + len(pyramid.others)} images" if pyramid.others else ""
    ends = [("input", shape, header.dtype, source), ("output", levels, "", pyramid.output)]
    table = plain_table("level", "shape", "scale", "translation")
    names = ",".join(pyramid.names)
    for number, level in enumerate(pyramid.levels):
        scale, translation = _numbers(pyramid.scales[number]), _numbers(pyramid.translations[number])
        table.add_row(str(number), ",".join(map(str, level.shape)), scale, translation)
    notes = [*pyramid.notes, *(made.notes if made else ())]
    units = ", ".join(f"{name} {unit}" for name, unit in pyramid.units.items())
    stored = f"chunks {','.join(map(str, pyramid.grid.chunks))}"
    stored += f", shards {','.join(map(str, pyramid.grid.shards))}" if pyramid.grid.shards else ""
    storage = Text(printable(f"axes {names}; {units + '; ' if units else ''}{stored}"))
    parts: list[RenderableType] = [Group(Text("pyramid"), ends_table(ends)), table, storage]
    if notes:
        parts.append(notes_view(notes))
    if made is None and not dry_run:
        parts.append(Text("is already complete, made from this input"))
    elif made is not None and made.engine != "none":  # a single level is a copy
        parts.append(Text(f"{made.engine}: {_duration(sum(made.seconds.values()))}"))
    return spaced(*parts)


def pyramid_document(pyramid: Pyramid, made: PyramidResult | None) -> dict[str, Any]:
    """The pyramid as JSON."""
    header = pyramid.header
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
            {
                "path": str(number),
                "shape": list(level.shape),
                "scale": list(pyramid.scales[number]),
                "translation": list(pyramid.translations[number]),
            }
            for number, level in enumerate(pyramid.levels)
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


def _numbers(values: tuple[float, ...]) -> str:
    return printable(",".join(f"{value:.{PLACES}g}" for value in values))
