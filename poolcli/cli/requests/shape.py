"""What `shape` is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poolcli.cli.attributes import Value
from poolcli.cli.requests.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRequest(Request):
    """The plan of an operator on a shape or a file's header, and what else is asked about it."""

    op: str
    attributes: Mapping[str, Value]
    shape: str
    explain: bool = False
    windows: bool = False
    compare: bool = False
    picture: str | None = None
    theme: str = "auto"
    solve: str | None = None
    to: str | None = None
    layout: str | None = None
    input_dtype: str | None = None
    dtype: str | None = None
    dataset: tuple[str, ...] = ()
    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    overwrite: bool = False
