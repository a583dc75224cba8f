"""Pools several arrays of one file into one file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from poolcli.errors import PoolError, RequestError
from poolcli.formats import (
    ArrayContainer,
    Header,
    NamedArray,
    Source,
    Spec,
    WriteOptions,
    check_container,
    open_container,
    output_format,
)
from poolcli.formats.checks import check_expansion, check_memory, choose_array, describe_arrays, join_names, poolable
from poolcli.formats.files import array_names
from poolcli.formats.records import whole_region
from poolcli.layouts import is_spatial
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings, located
from poolcli.pooling.run import ArrayJob, prepare_job
from poolcli.pooling.tiles import Clock, bytes_of_plan


def run_bundle(job: Job, op: Attributes, settings: Settings, clock: Clock) -> Outcome:
    """Pools several arrays of a file; the outcome of each is in `parts`.

    If the settings name no arrays, all are pooled, and those whose axes cannot be pooled are copied.
    """
    path, parts, notes = job.source.path, list[Outcome](), list[str]()
    for target in job.targets:
        if target.key is not None:
            raise RequestError(f"{target}: several arrays keep their names; name the file alone: {target.path}")
        check_container(target.path)
    with open_container(path, settings.read_options) as file:
        with clock.phase("read"):
            headers = file.headers
            chosen = list(_chosen(path, headers, settings))
        names = {header.key for header in chosen}
        copied = [] if settings.arrays else [header for header in headers if header.key not in names]
        for target in job.targets:
            array_names(target.path, [header.key for header in (*chosen, *copied)])
        for header in chosen:
            with _naming_array(path, header.key):
                part = Outcome(replace(job, source=Source(path, header.key)), seconds=clock.seconds)
                parts.append(prepare_job(part, op, settings, file.array(header.key or "").header))
        _check_total_memory(path, parts, copied, settings)
        if copied:
            notes.append(f"copied unpooled, because of their axes: {describe_arrays(copied)}")
        if file.left_out and not settings.arrays:
            notes.append(f"left out, because they are not numeric arrays: {join_names(file.left_out)}")
        values, indices = list[NamedArray](), list[NamedArray]()
        for number, part in enumerate(() if settings.dry_run else parts):
            key = part.job.source.key
            with _naming_array(path, key):
                array = ArrayJob(part, settings, file.array(key or ""), clock)
                pooled = array.in_memory()
            parts[number] = array.finished()
            values.append(pooled[0])
            indices += pooled[1:]
        with clock.phase("read"):
            values += [] if settings.dry_run else [_copied(file, header) for header in copied]
    return _written(job, settings, clock, parts, notes, {job.output: values, job.indices: indices})


def _written(
    job: Job,
    settings: Settings,
    clock: Clock,
    parts: Sequence[Outcome],
    notes: Sequence[str],
    results: Mapping[str | None, Sequence[NamedArray]],
) -> Outcome:
    """Writes the arrays of each path; the outcome of the job, with `notes` added to each part."""
    options = WriteOptions(settings.overwrite, settings.quality, chunks=settings.chunks, shards=settings.shards)
    with clock.phase("write"):
        for path, arrays in results.items():
            if path and arrays:
                notes = [*notes, *output_format(path).functions.write(path, arrays, options)]
    parts = [replace(part, notes=(*part.notes, *notes)) for part in parts]
    every = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Outcome(job, seconds=clock.seconds, parts=tuple(parts), notes=every)


@contextmanager
def _naming_array(path: str, key: str | None) -> Iterator[None]:
    """Adds the name of an array to the message of an error."""
    try:
        yield
    except PoolError as error:
        raise located(error, f"{path}:{key}" if key else path) from error


def _check_total_memory(path: str, parts: Sequence[Outcome], copied: Sequence[Header], settings: Settings) -> None:
    headers = [*(part.header for part in parts if part.header), *copied]
    held = sum(header.nbytes for header in headers)
    check_expansion(path, os.path.getsize(path), held, settings.allowed)
    needed = max(held, sum(bytes_of_plan(part.plan) for part in parts if part.plan))
    what, fewer = f"{path}: its {len(headers)} arrays need", f" or take fewer with {field('dataset')}"
    check_memory(what, needed, settings.max_memory, " together", fewer)


def _copied(file: ArrayContainer, header: Header) -> NamedArray:
    array = file.array(header.key or "")
    values = array.read(whole_region(header.shape))
    return NamedArray(Spec(header.shape, header.dtype, "", header.key, array.metadata), values)


def _chosen(path: str, headers: Sequence[Header], settings: Settings) -> Iterator[Header]:
    """The arrays to pool: those that are named, else those that can be pooled and others with the same spatial axes."""
    if not headers:
        raise RequestError(f"{path}: holds no array that can be pooled")
    if not settings.arrays:
        able = poolable(headers, settings.read_options.ndim)
        spatial = [{*filter(is_spatial, header.layout)} for header in able if header.layout]
        yield from (
            each for each in headers if each in able or {*filter(is_spatial, each.layout or "")} in spatial or not able
        )
        return
    yield from (choose_array(Source(path, name), headers) for name in settings.arrays)
