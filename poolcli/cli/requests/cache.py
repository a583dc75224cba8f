"""What `cache` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest(Request):
    """What becomes of the compiled kernels."""

    action: str
