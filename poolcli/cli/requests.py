"""What each command is asked: one frozen record a command, one field an option of the same name.

The type and the default of an option are those of its field. `op` and `attributes` of pooling are no options of their
own: the operator is the command's name, and its attributes are the options of its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poolcli.cli.attributes import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """Files in, pooled files out."""

    op: str
    attributes: Mapping[str, Value]
    inputs: tuple[str, ...] = ()
    layout: str | None = None
    output_layout: str | None = None
    dtype: str | None = None
    missing: tuple[str, ...] = ()
    indices: str | None = None
    linear_light: bool = False
    rescale: str | None = None
    preview: str | None = None
    output: str | None = None
    dataset: tuple[str, ...] = ()
    all: bool = False
    format: str | None = None
    recursive: bool = False
    raw: str | None = None
    files_from: str | None = None
    pages: str | None = None
    quality: int | None = None
    chunks: str | None = None
    shards: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    overwrite: bool = False
    skip_existing: bool = False
    resume: bool = False
    engine: str = "auto"
    threads: int | None = None
    jobs: int | None = None
    cluster: str | None = None
    shard: str | None = None
    max_memory: str | None = None
    fail_fast: bool = False
    dry_run: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRequest:
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
    overwrite: bool = False
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The pooling layers of a model."""

    model: str
    input_shape: tuple[str, ...] = ()
    against: str | None = None
    to: str | None = None
    layer: str | None = None
    run: str | None = None
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """How far two files are from each other."""

    first: str
    second: str
    atol: float = 0.0
    rtol: float = 0.0
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyRequest:
    """Two arrays, and what is known of the pooling that made one of the other."""

    x: str
    y: str
    pooling: str | None = None
    attributes: Mapping[str, Value]
    layout: str | None = None
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoRequest:
    """What files hold."""

    files: tuple[str, ...]
    json: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest:
    """What becomes of the compiled kernels."""

    action: str
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Shards that are to become one run."""

    folder: str
    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidRequest:
    """An array that is to become a pyramid."""

    source: str
    output: str | None = None
    levels: int | None = None
    operator: str = "avg"
    kernel: str = "2"
    levels_from: str = "previous"
    edge: str = "ceil"
    scale: str | None = None
    unit: str | None = None
    ngff: str = "0.5"
    layout: str | None = None
    missing: tuple[str, ...] = ()
    dataset: tuple[str, ...] = ()
    chunks: str | None = None
    shards: str | None = None
    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    overwrite: bool = False
    resume: bool = False
    engine: str = "auto"
    threads: int | None = None
    max_memory: str | None = None
    dry_run: bool = False
    json: bool = False
    quiet: bool = False
    debug: bool = False


Request = (
    PyramidRequest
    | CompareRequest
    | PoolRequest
    | MergeRequest
    | ShapeRequest
    | CheckRequest
    | IdentifyRequest
    | InfoRequest
    | CacheRequest
)
