"""The `cache` command: compiled kernels that are kept between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from poolcli.arguments import one_of
from poolcli.cli.options import Reporting
from poolcli.cli.program import Command, Typed, app, examples, takes
from poolcli.engine.compiled import kernel_cache as kernels

ACTION = Typed(words=("info", "warm", "clear"))


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Reporting):
    """What `cache` takes."""

    # fmt: off
    action: Annotated[
        str,
        typer.Argument(metavar="info|warm|clear", help="Show the cache, compile all kernels into it, or empty it.",
                       autocompletion=ACTION.complete),
        ACTION,
    ]
    # fmt: on


@app.command(
    "cache",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples("poolcli cache info", "poolcli cache warm", "poolcli cache clear", exit_codes=""),
)
@takes(CacheOptions)
def cache(request: CacheOptions) -> int:
    """Shows, fills or empties the cache; returns the exit code."""
    action = one_of("action", request.action, ACTION.words)
    if action == "clear":
        freed = kernels.clear()
        _say(request, {"freed": freed}, f"removed {freed:,} bytes")
        return 0
    if action == "warm":
        from poolcli.ops.warm import warm

        warm()
    found = kernels.info()
    document = {"folder": found.folder, "kernels": list(found.kernels), "bytes": found.size, "usable": found.usable}
    state = "" if found.usable else " (not writable, or open to others: kernels are compiled for each run)"
    _say(request, document, f"{found.folder}{state}: {len(found.kernels)} kernels, {found.size:,} bytes")
    return 0


def _say(request: CacheOptions, document: Mapping[str, Any], text: str) -> None:
    if request.json:
        from poolcli.report.as_json import SCHEMA_VERSION, to_json

        print(to_json({"schema_version": SCHEMA_VERSION, **document}))
    elif not request.quiet:
        from poolcli.message_fields import printable

        print(printable(text))
