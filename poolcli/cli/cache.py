"""The `cache` command: compiled kernels that are kept between runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poolcli.arguments import one_of
from poolcli.cli.requests.cache import CacheRequest
from poolcli.engine.compiled import store as kernels


def cache(request: CacheRequest) -> int:
    """Shows, fills or empties the cache; returns the exit code."""
    action = one_of("action", request.action, ("info", "warm", "clear"))
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


def _say(request: CacheRequest, document: Mapping[str, Any], text: str) -> None:
    if request.json:
        from poolcli.report.as_json import SCHEMA_VERSION, to_json

        print(to_json({"schema_version": SCHEMA_VERSION} | dict(document)))
    elif not request.quiet:
        from poolcli.message_fields import printable

        print(printable(text))
