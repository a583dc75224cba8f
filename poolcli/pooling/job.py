"""One input and where its results go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from poolcli.formats import Source, holds_array
from poolcli.formats.atomic import is_device
from poolcli.formats.paths import exists


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Job:
    """One input and where its results go; None for output in a dry run without one.

    With an `output_key` (or an `indices_key`) the result is added under that name to what the file holds already.
    """

    source: Source
    output: str | None
    indices: str | None = None
    output_key: str | None = None
    indices_key: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that the job writes."""
        return tuple(path for path in (self.output, self.indices) if path and path != "-")

    @property
    def targets(self) -> tuple[Source, ...]:
        """The same, and the arrays in them that it adds."""
        both = ((self.output, self.output_key), (self.indices, self.indices_key))
        return tuple(Source(path, key) for path, key in both if path and path != "-")


def existing_outputs(jobs: Iterable[Job]) -> Iterator[str]:
    """The outputs that exist already, devices and pipes left out; of what is added to a file, the array in it."""
    return (str(target) for job in jobs for target in job.targets if _exists(target))


def _exists(target: Source) -> bool:
    if not exists(target.path) or is_device(target.path):
        return False
    return target.key is None or holds_array(target)
