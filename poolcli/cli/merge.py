"""The `merge` command: the manifests of shards as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from poolcli.cli.options import Reporting
from poolcli.cli.program import Command, Typed, app, examples, takes
from poolcli.runs.manifest import merge


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Reporting):
    """What `merge` takes."""

    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="The output of all shards: a folder, or a .zarr."),
        Typed(example="pooled"),
    ]


@app.command(
    "merge",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli avg samples -o pooled/ -k 2 -s 2 --shard 1/2",
        "poolcli avg samples -o pooled/ -k 2 -s 2 --shard 2/2",
        "poolcli merge pooled",
        exit_codes="Exit codes: 0 merged, 1 shards are missing or not done, 2 the parts are not of one run.",
    ),
)
@takes(MergeOptions)
def merge_command(request: MergeOptions) -> int:
    """Merges the parts in a folder; returns the exit code."""
    merged = merge(request.folder)
    if request.json:
        from poolcli.report.as_json import SCHEMA_VERSION, to_json

        content = {"path": merged.path, "shards": merged.shards, "outputs": merged.outputs}
        print(to_json({"schema_version": SCHEMA_VERSION, **content}))
    elif not request.quiet:
        from poolcli.message_fields import printable

        shards = f"{merged.shards} shard{'' if merged.shards == 1 else 's'}"
        outputs = f"{merged.outputs:,} output{'' if merged.outputs == 1 else 's'}"
        print(printable(f"{merged.path}: {shards}, {outputs}"))
    return 0
