"""What `info` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoRequest(Request):
    """What files hold."""

    files: tuple[str, ...]
    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
