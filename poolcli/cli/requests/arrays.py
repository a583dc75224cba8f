"""What every command is asked that makes arrays of arrays."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraysRequest(Request):
    """How arrays are read, with what they are computed, and how they are written."""

    layout: str | None = None
    missing: tuple[str, ...] = ()
    output: str | None = None
    dataset: tuple[str, ...] = ()
    pages: str | None = None
    chunks: str | None = None
    shards: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    overwrite: bool = False
    resume: bool = False
    engine: str = "auto"
    threads: int | None = None
    max_memory: str | None = None
    cluster: str | None = None
    dry_run: bool = False
