"""The `merge` command: the manifests of shards as one."""

from __future__ import annotations

from poolcli.cli.requests.merge import MergeRequest
from poolcli.runs.merge import merge


def merge_command(request: MergeRequest) -> int:
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
