"""What `identify` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poolcli.cli.attributes import Value
from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyRequest(Request):
    """Two arrays, and what is known of the pooling that made one of the other."""

    x: str
    y: str
    pooling: str | None = None
    attributes: Mapping[str, Value]
    layout: str | None = None
    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    max_memory: str | None = None
