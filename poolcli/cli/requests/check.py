"""What `check` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(Request):
    """The pooling layers of a model."""

    model: str
    input_shape: tuple[str, ...] = ()
    against: str | None = None
    to: str | None = None
    layer: str | None = None
    run: str | None = None
    allow_external: bool = False
    max_memory: str | None = None
