"""What holds for a run, and what comes of each of its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from poolcli.batch.jobs import Job
from poolcli.errors import PoolError
from poolcli.formats import Header
from poolcli.plan import Plan


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every job of a run; `max_memory` in bytes, None for no limit."""

    layout: str | None = None
    output_layout: str | None = None
    dtype: str | None = None
    engine: str = "auto"
    threads: int | None = None
    max_memory: int | None = None
    dry_run: bool = False
    overwrite: bool = False
    skip_existing: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as it is written: axes in the order of `layout`."""

    path: str | None
    shape: tuple[int, ...]
    dtype: str
    layout: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known about a job after it ran, failed or was skipped. Seconds are by phase."""

    job: Job
    header: Header | None = None
    plan: Plan | None = None
    output: Stored | None = None
    indices: Stored | None = None
    notes: tuple[str, ...] = ()
    engine: str | None = None
    threads: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: bool = False
    error: PoolError | None = None
