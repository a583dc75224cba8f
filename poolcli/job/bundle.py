"""Several arrays of one file, each pooled under its own name into one file of that kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import PoolError, RequestError
from poolcli.formats import (
    Header,
    Metadata,
    Named,
    Source,
    Spec,
    WriteOptions,
    check_holds_several,
    list_arrays,
    opened,
    write_several,
)
from poolcli.formats.arrays import listing
from poolcli.job.clock import Clock
from poolcli.job.failure import located
from poolcli.job.job import Job
from poolcli.job.outcome import Outcome, Settings, Stored
from poolcli.job.pool_file import pool_to_memory
from poolcli.job.prepare import prepare_job
from poolcli.plan.attributes import Attributes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run_bundle(job: Job, op: Attributes, settings: Settings) -> Outcome:
    """Pools the arrays that the settings name (all of them for none); the outcomes of each are its `parts`."""
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    for path in job.outputs:
        check_holds_several(path)
    with clock.phase("read"):
        headers = list(_chosen(job.source.path, list_arrays(job.source.path), settings.arrays or ()))
    parts, values, positions = [], list[Named](), list[Named]()
    for header in headers:
        part = Outcome(replace(job, source=Source(job.source.path, header.key)), seconds=clock.seconds)
        try:
            with opened(part.job.source, settings.read_options) as file:
                part = prepare_job(part, op, settings, file.header)
                if settings.dry_run:
                    parts.append(part)
                    continue
                part, pooled, found, metadata = pool_to_memory(part, settings, file, clock)
        except PoolError as error:
            raise located(error, f"{job.source.path}:{header.key}") from error
        parts.append(part)
        values.append(_named(header.key, pooled, part.output, metadata))
        if found is not None:
            positions.append(_named(header.key, found, part.indices, Metadata()))
    notes: tuple[str, ...] = ()
    with clock.phase("write"):
        for target, arrays in ((job.output, values), (job.indices, positions)):
            if target and arrays:
                notes += write_several(target, arrays, WriteOptions(settings.overwrite))
    return replace(outcome, parts=tuple(parts), notes=notes)


def _named(key: str | None, array: NDArray[Any], stored: Stored | None, metadata: Metadata) -> Named:
    assert stored is not None  # noqa: S101  # set by prepare_job
    return Named(Spec(stored.shape, stored.dtype, stored.layout, key, metadata), array)


def _chosen(path: str, headers: Sequence[Header], names: Sequence[str]) -> Iterator[Header]:
    if not headers:
        raise RequestError(f"{path}: holds no array that can be pooled")
    if not names:
        yield from headers
        return
    for name in names:
        found = [header for header in headers if (header.key or "").strip("/") == name.strip("/")]
        if not found:
            raise RequestError(f"{path}: has no array {name!r}; it holds {listing(headers)}")
        yield found[0]
