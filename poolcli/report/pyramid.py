"""The report of a pyramid: its levels, as a table and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from poolcli.layouts import named_shape
from poolcli.message_fields import on_command_line
from poolcli.pooling.pyramid.prepare import Pyramid
from poolcli.pooling.pyramid.run import Made
from poolcli.report.document import SCHEMA_VERSION
from poolcli.report.plan import ends_table, notes_view, plain_table, spaced
from poolcli.report.text import printable

PLACES = 6  # digits of a number in a table


def pyramid_view(pyramid: Pyramid, made: Made | None, dry_run: bool) -> RenderableType:
    """The pyramid for a person."""
    header = pyramid.header
    source = pyramid.source.path + (f":{header.key}" if header.key else "")
    shape = named_shape(pyramid.layout, pyramid.levels[0].shape)
    ends = [("input", shape, header.dtype, source), ("output", f"{len(pyramid.levels)} levels", "", pyramid.output)]
    table = plain_table()
    for heading in ("level", "shape", "scale", "translation"):
        table.add_column(heading, overflow="fold")
    names = ",".join(pyramid.names)
    for number, level in enumerate(pyramid.levels):
        scale, translation = _numbers(pyramid.scales[number]), _numbers(pyramid.translations[number])
        table.add_row(str(number), ",".join(map(str, level.shape)), scale, translation)
    notes = list(pyramid.notes)
    units = ", ".join(f"{name} {unit}" for name, unit in pyramid.units.items())
    stored = f"chunks {','.join(map(str, pyramid.grid.chunks))}"
    stored += f", shards {','.join(map(str, pyramid.grid.shards))}" if pyramid.grid.shards else ""
    said = Text(f"axes {names}; {units + '; ' if units else ''}{stored}")
    parts: list[RenderableType] = [ends_table(ends), table, said]
    if notes:
        parts.append(notes_view(notes))
    if made is None and not dry_run:
        parts.append(Text("is there already, made from this input"))
    elif made is not None:
        parts.append(Text(f"{made.engine}, {sum(made.seconds.values()):.3g} s"))
    return spaced(Text("pyramid"), *parts)


def pyramid_document(pyramid: Pyramid, made: Made | None) -> dict[str, Any]:
    """The pyramid as JSON."""
    header = pyramid.header
    return {
        "schema_version": SCHEMA_VERSION,
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
        "units": dict(pyramid.units),
        "chunks": list(pyramid.grid.chunks),
        "shards": list(pyramid.grid.shards) if pyramid.grid.shards else None,
        "notes": [on_command_line(note) for note in pyramid.notes],
        "engine": made.engine if made else None,
        "seconds": {name: round(value, 6) for name, value in made.seconds.items()} if made else None,
        "error": None,
    }


def _numbers(values: tuple[float, ...]) -> str:
    return printable(",".join(f"{value:.{PLACES}g}" for value in values))
