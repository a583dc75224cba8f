"""What `compare` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest(Request):
    """How far two files are from each other."""

    first: str
    second: str
    atol: float = 0.0
    rtol: float = 0.0
    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    max_memory: str | None = None
