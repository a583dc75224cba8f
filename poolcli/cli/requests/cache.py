"""What `cache` is asked."""

from __future__ import annotations

from poolcli.cli.requests.request import Request
from poolcli.core.frozen import frozen


@frozen(kw_only=True)
class CacheRequest(Request):
    """What becomes of the compiled kernels."""

    action: str
