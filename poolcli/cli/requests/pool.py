"""What the pooling commands are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poolcli.cli.attributes import Value
from poolcli.cli.requests.arrays import ArraysRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest(ArraysRequest):
    """Files in, pooled files out."""

    op: str
    attributes: Mapping[str, Value]
    inputs: tuple[str, ...] = ()
    output_layout: str | None = None
    dtype: str | None = None
    indices: str | None = None
    linear_light: bool = False
    rescale: str | None = None
    preview: str | None = None
    all: bool = False
    format: str | None = None
    recursive: bool = False
    raw: str | None = None
    files_from: str | None = None
    quality: int | None = None
    skip_existing: bool = False
    jobs: int | None = None
    shard: str | None = None
    fail_fast: bool = False
    verbose: bool = False
