"""Pools several arrays of one file into one file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from poolcli import formats
from poolcli.errors import PoolError, RequestError
from poolcli.formats.checks import check_expansion, check_memory, describe_arrays, join_names, poolable
from poolcli.formats.files import array_names
from poolcli.formats.records import whole_region
from poolcli.layouts import is_spatial, read_axes
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes, values_of
from poolcli.plan.plan import whole
from poolcli.pooling.outcome import Job, Outcome, Settings, located
from poolcli.pooling.prepare import prepare_job
from poolcli.pooling.run import ArrayJob
from poolcli.pooling.tiles import Clock, no_progress


def run_bundle(job: Job, op: Attributes, settings: Settings, clock: Clock) -> Outcome:
    """Pools several arrays of a file; the outcome of each is in `parts`. If the settings name no arrays, all are
    pooled, and those whose axes cannot be pooled are copied.
    """
    path, parts, notes = job.source.path, list[Outcome](), list[str]()
    for target in job.targets:
        if target.key is not None:
            raise RequestError(f"{target}: several arrays keep their names; name the file alone: {target.path}")
        if not formats.output_format(target.path).is_container:
            raise RequestError(f"{target.path}: cannot hold several arrays; use .npz or .h5")
    with formats.open_container(path, replace(settings.read_options, scalars=not settings.arrays)) as file:
        with clock.phase("read"):
            headers = file.headers if settings.arrays else [file.array(h.key or "").header for h in file.headers]
            chosen = list(_chosen(path, file, headers, op, settings))
        names, rank = {header.key for header in chosen}, settings.read_options.ndim
        ranks = {len(header.shape) for header in chosen}
        copied = [] if settings.arrays else [*(each for each in headers if each.key not in names), *file.scalars]
        for target in job.targets:
            array_names(target.path, [header.key for header in (*chosen, *copied)])
        for header in chosen:
            with _naming_array(path, header.key):
                part = Outcome(replace(job, source=formats.Source(path, header.key)), seconds=clock.seconds)
                has_own_layout = not settings.arrays and rank in ranks - {len(header.shape)}
                own = replace(settings, layout=None) if has_own_layout else settings
                parts.append(prepare_job(part, op, own, file.array(header.key or "").header))
        held = sum(header.nbytes for header in (*chosen, *copied))
        check_expansion(path, os.path.getsize(path), held, settings.allowed)
        needed = max(held, sum(whole(part.plan).nbytes for part in parts if part.plan))
        what, fewer = f"{path}: its {len(chosen) + len(copied)} arrays need", f" or take fewer with {field('dataset')}"
        check_memory(what, needed, settings.max_memory, " together", fewer)
        if copied:
            notes.append(f"copied unpooled, because of their axes: {describe_arrays(copied)}")
        lost = [name for name in file.left_out if name not in {header.key for header in copied}]
        if lost and not settings.arrays:
            notes.append(f"left out, because they are not numeric arrays: {join_names(lost)}")
        values, indices = list[formats.NamedArray](), list[formats.NamedArray]()
        for number, part in enumerate(() if settings.dry_run else parts):
            with _naming_array(path, part.job.source.key):
                array = ArrayJob(part, settings, file.array(part.job.source.key or ""), clock, no_progress)
                pooled = array.in_memory()
            parts[number] = array.finished()
            values.append(pooled[0])
            indices += pooled[1:]
        for header in () if settings.dry_run else copied:
            unpooled = file.array(header.key or "")
            with clock.phase("read"):
                x = unpooled.read(whole_region(header.shape))
            notes += unpooled.header.notes
            spec = formats.Spec(header.shape, unpooled.header.dtype, "", header.key, unpooled.metadata)
            values.append(formats.NamedArray(spec, x))
    options = formats.WriteOptions(settings.overwrite, settings.quality, chunks=settings.chunks, shards=settings.shards)
    with clock.phase("write"):
        for output, arrays in ((job.output, values), (job.indices, indices)):
            if output and arrays:
                notes += formats.output_format(output).functions.write(output, arrays, options)
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


def _chosen(
    path: str, file: formats.ArrayContainer, headers: Sequence[formats.Header], op: Attributes, settings: Settings
) -> Iterator[formats.Header]:
    """The arrays to pool: those that are named, else those that can be pooled and others with the same spatial axes."""
    if not headers:
        raise RequestError(f"{path}: holds no array that can be pooled")
    if not settings.arrays:
        able = poolable(headers, settings.read_options.ndim)
        spatial = [
            {*filter(is_spatial, read_axes(h.shape, values_of(op), layout=settings.layout, named=h.layout).layout)}
            for h in able
            if h.layout or settings.layout
        ]
        yield from (
            each for each in headers if each in able or {*filter(is_spatial, each.layout or "")} in spatial or not able
        )
        return
    listed = {name.strip("/"): header for name, header in file.listed.items()}  # None for links
    for name in settings.arrays:
        header = file.array(name).header
        key = (header.key or "").strip("/")
        if key not in listed:
            raise RequestError(f"{path}: {name} describes others, as coordinates do; pool it alone: {path}:{name}")
        yield listed[key] or header
