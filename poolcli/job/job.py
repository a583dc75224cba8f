"""One input and where its results go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from poolcli.formats import Source
from poolcli.formats.atomic import is_device


@dataclass(frozen=True, slots=True)
class Job:
    """One input and where its results go; None for output in a dry run without one."""

    source: Source
    output: str | None
    indices: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that the job writes."""
        return tuple(path for path in (self.output, self.indices) if path and path != "-")


def existing_outputs(jobs: Sequence[Job]) -> tuple[str, ...]:
    """The outputs that exist already, devices and pipes left out."""
    return tuple(path for job in jobs for path in job.outputs if os.path.lexists(path) and not is_device(path))
