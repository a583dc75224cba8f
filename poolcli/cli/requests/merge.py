"""What `merge` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(Request):
    """Shards that are to become one run."""

    folder: str
