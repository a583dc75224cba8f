"""Seconds by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PHASES = ("read", "compile", "compute", "write")


@dataclass(slots=True)
class Clock:
    """What each phase of a job took; where phases overlap, what was waited for."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Books the time inside on `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def move(self, source: str, target: str, seconds: float) -> None:
        """Books seconds of one phase on another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds
