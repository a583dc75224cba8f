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
        _warm()
    found = kernels.info()
    document = {"folder": found.folder, "kernels": list(found.kernels), "bytes": found.size, "usable": found.usable}
    state = "" if found.usable else " (not writable, or open to others: kernels are compiled for each run)"
    _say(request, document, f"{found.folder}{state}: {len(found.kernels)} kernels, {found.size:,} bytes")
    return 0


def _warm() -> None:
    """Compiles every kernel that the usual types need, so that no later run waits; what is in the cache is loaded."""
    import numpy as np

    from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

    for dtype in ("uint8", "uint16", "float32", "float64"):
        x = np.ones((1, 1, 12, 12), dtype)
        for kernel, stride in ((3, 1), (2, 2), (7, 1)):
            AvgPool(kernel, stride)(x, engine="numba")
            MaxPool(kernel, stride)(x, engine="numba")
            MaxPool(kernel, stride)(x, engine="numba", return_indices=True)
        AdaptiveAvgPool(5)(x, engine="numba")
        AdaptiveMaxPool(5)(x, engine="numba")
        AdaptiveMaxPool(5)(x, engine="numba", return_indices=True)


def _say(request: CacheOptions, document: Mapping[str, Any], text: str) -> None:
    if request.json:
        from poolcli.report.as_json import SCHEMA_VERSION, to_json

        print(to_json({"schema_version": SCHEMA_VERSION, **document}))
    elif not request.quiet:
        from poolcli.message_fields import printable

        print(printable(text))
