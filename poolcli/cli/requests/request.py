"""What every command may be asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How a command reports."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
