"""What `pyramid` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.arrays import ArraysRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidRequest(ArraysRequest):
    """An array that is to become a pyramid."""

    source: str
    levels: int | None = None
    operator: str = "avg"
    kernel: str = "2"
    levels_from: str = "previous"
    edge: str = "ceil"
    scale: str | None = None
    unit: str | None = None
    ngff: str = "0.5"
