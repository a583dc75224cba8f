"""The `info` command: what a file holds."""

from __future__ import annotations

import sys
from functools import partial

from poolcli.cli.messages import complain, told_by
from poolcli.cli.reading import header_options
from poolcli.cli.requests.info import InfoRequest
from poolcli.errors import PoolError
from poolcli.formats import Header, ReadOptions, list_arrays, parse_source
from poolcli.formats.checks import choose
from poolcli.formats.isolated import in_subprocess_if_fragile
from poolcli.formats.paths import shown
from poolcli.layouts import named_shape
from poolcli.message_fields import on_command_line, printable


def info(request: InfoRequest) -> int:
    """Prints the arrays of every file; returns the exit code."""
    failed, options = False, header_options(request, [parse_source(path) for path in request.files])
    for path in request.files:
        try:
            headers = in_subprocess_if_fragile(path, partial(_headers, path, options))
        except PoolError as error:
            if request.debug:
                raise
            failed, error = True, told_by("info", error)
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
