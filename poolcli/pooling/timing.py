"""Seconds by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from poolcli.system.lazy_imports import seconds_loading

PHASES = ("load", "read", "compile", "compute", "write")


@dataclass(slots=True)
class Clock:
    """What each phase of a job took; where phases overlap, what was waited for. To load is to import packages, which
    takes its time at the first file of a process.
    """

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Books the time inside on `name`, and what of it went into loading on that."""
        start, loaded = time.perf_counter(), seconds_loading()
        try:
            yield
        finally:
            loading = seconds_loading() - loaded
            self.seconds["load"] += loading
            self.seconds[name] += time.perf_counter() - start - loading

    def move(self, source: str, target: str, seconds: float) -> None:
        """Books seconds of one phase on another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds
