"""The `info` command: what a file holds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated

import typer

from poolcli.cli.completion import inputs
from poolcli.cli.messages import complain
from poolcli.cli.options import AllowExternal, MaxPixels, Pages, Reporting
from poolcli.cli.program import Command, Typed, app, examples, takes
from poolcli.cli.reading import header_options
from poolcli.errors import PoolError
from poolcli.formats import Header, ReadOptions, list_arrays, parse_source
from poolcli.formats.checks import choose
from poolcli.formats.files import shown
from poolcli.formats.recognise import in_subprocess_if_fragile
from poolcli.layouts import named_shape
from poolcli.message_fields import on_command_line, printable


@dataclass(frozen=True, kw_only=True)
class InfoOptions(Reporting):
    """What `info` takes."""

    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files to look into.", autocompletion=inputs),
        Typed(example="x.npy"),
    ]
    pages: Pages = None
    max_pixels: MaxPixels = None
    allow_external: AllowExternal = False


@app.command(
    "info",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli info samples/volume.h5 samples/astronaut.png",
        "poolcli info samples/volume.h5:/volume",
        "poolcli info samples/features.npy --json",
        exit_codes="",
    ),
)
@takes(InfoOptions, without=["quiet"])
def info(request: InfoOptions) -> int:
    """Prints the arrays of every file; returns the exit code."""
    failed, options = False, header_options(request, [parse_source(path) for path in request.files])
    for path in request.files:
        try:
            headers = in_subprocess_if_fragile(path, partial(_headers, path, options))
        except PoolError as error:
            if request.debug:
                raise
            failed, error = True, error.to([each.name for each in fields(InfoOptions)])
            if request.json:
                _print_json(shown(path), [], error)
            complain(error)
            continue
        if request.json:
            _print_json(path, headers, None)
        else:
            _print_table(path, headers)
    return 1 if failed else 0


def _headers(text: str, options: ReadOptions) -> list[Header]:
    """The arrays of a file, or the one that is named."""
    source = parse_source(text)
    headers = list_arrays(source.path, options)
    return [choose(source, headers)] if source.key else headers


def _print_json(path: str, headers: list[Header], error: PoolError | None) -> None:
    from poolcli.report.as_json import SCHEMA_VERSION, error_document, to_json

    arrays = [
        {
            "dataset": h.key,
            "shape": list(h.shape),
            "dtype": h.dtype,
            "layout": h.layout,
            "notes": list(map(on_command_line, h.notes)),
        }
        for h in headers
    ]
    kind = headers[0].format if headers else None
    print(
        to_json(
            {
                "schema_version": SCHEMA_VERSION,
                "path": path,
                "format": kind,
                "arrays": arrays,
                "error": error_document(error),
            }
        )
    )


def _print_table(path: str, headers: list[Header]) -> None:
    from rich.text import Text

    from poolcli.report.console import show
    from poolcli.report.plan import notes_view, plain_table

    kind = headers[0].format if headers else "no arrays"
    show(Text(f"{printable(path)}: {kind}", style="bold"), sys.stdout)
    table = plain_table()
    for heading in ("array", "shape", "dtype"):
        table.add_column(heading, overflow="fold")
    for header in headers:
        shape = named_shape(header.layout, header.shape) if header.layout else ",".join(map(str, header.shape))
        table.add_row(Text(printable(header.key or "-")), shape, header.dtype)
    show(table, sys.stdout)
    notes = [note for header in headers for note in header.notes]
    if notes:
        show(notes_view(notes), sys.stdout)
