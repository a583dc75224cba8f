"""What `merge` is asked."""

from __future__ import annotations

from poolcli.cli.requests.request import Request
from poolcli.core.frozen import frozen


@frozen(kw_only=True)
class MergeRequest(Request):
    """Shards that are to become one run."""

    folder: str
