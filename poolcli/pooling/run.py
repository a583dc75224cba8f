"""Runs one job: one array, or all arrays of a file, prepared from the header before data is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.engine.choose import engine_notes
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import (
    ArrayContainer,
    Header,
    Metadata,
    NamedArray,
    Source,
    Spec,
    WriteOptions,
    check_chunks,
    check_holds_several,
    check_output,
    holds_several,
    open_array,
    open_container,
    write_several,
)
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import byte_count, check_expansion, human_bytes, listing, memory_limit_of, named, usable
from poolcli.formats.files import check_apart
from poolcli.formats.names import array_names
from poolcli.formats.records import whole_region
from poolcli.layouts import check_layout, converted_shape
from poolcli.message_fields import field
from poolcli.nodata import Missing
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.pooling.colour import STORED, check_rescale, choose_colour
from poolcli.pooling.outcome import Job, Outcome, Settings, Stored, existing_outputs, failure, located
from poolcli.pooling.pool_file import Progress, pool_file, pool_to_memory
from poolcli.pooling.tiles import Spread, bytes_of
from poolcli.pooling.timing import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray


def prepare_job(outcome: Outcome, op: Attributes, settings: Settings, header: Header) -> Outcome:
    """The outcome with its plan, the arrays that will be stored, and notes."""
    job = outcome.job
    layout = settings.layout or header.layout
    missing = header.missing if settings.missing is None else settings.missing
    plan = _plan(op, header, layout, settings, missing)
    colour = choose_colour(plan, header, settings.linear_light)
    if plan.missing and not colour.is_plain:
        if settings.missing:
            raise RequestError(
                f"{field('missing')} is for numbers, and these are colours ({'; '.join(colour.notes)}); leave it out"
            )
        plan = _plan(op, header, layout, settings, ())
    dtype, mode = plan.output_dtype, header.mode
    if settings.rescale is not None:
        check_rescale(plan, job.output)
        dtype, mode = STORED, None
    for target in job.targets:
        array_names(target.path, [target.key or header.key])
    output = _stored(job.output, job.output_key, plan, dtype, settings.output_layout, mode)
    if output.path:
        check_chunks(output.path, output.shape, output.layout, settings.chunks, settings.shards)
    indices = None
    if job.indices:
        if plan.index is None:
            raise RequestError(f"{plan.op} has no indices: it picks no element of its windows")
        indices = _stored(job.indices, job.indices_key, plan, plan.index.dtype, settings.output_layout, header.mode)
    _refuse_input(job, header)
    ran = (*_voting(header, plan), *engine_notes(plan, settings.engine))
    notes = (*header.notes, *(fact.message for fact in (*plan.doubts, *plan.facts)), *ran, *colour.notes)
    return replace(outcome, header=header, plan=plan, output=output, indices=indices, notes=notes, colour=colour)


def _refuse_input(job: Job, header: Header) -> None:
    """Refuses to put a result in the place of the array that it is computed from."""
    for target in job.targets:
        if target.key is None and not is_device(target.path):
            check_apart(job.source.path, target.path)
        same = target.key is not None and header.key is not None and target.key.strip("/") == header.key.strip("/")
        if same and os.path.exists(target.path) and os.path.samefile(target.path, job.source.path):
            raise RequestError(f"output {target} is the input; name another dataset")


def _voting(header: Header, plan: Plan) -> tuple[str, ...]:
    """A note on numbers that the file calls missing and that count all the same."""
    voting = [str(number) for number in header.missing if str(number) not in map(str, plan.missing)]
    return (f"what the file calls missing ({named(voting)}) is pooled like any other number",) if voting else ()


def _plan(op: Attributes, header: Header, layout: str | None, settings: Settings, missing: Missing) -> Plan:
    if missing:  # of these, 0.0 and -0.0 are equal, and not the same
        return make_plan(op, header.shape, header.dtype, layout=layout, output_dtype=settings.dtype, missing=missing)
    return _kept_plan(op, header.shape, header.dtype, layout, settings.dtype)


@lru_cache(maxsize=16)
def _kept_plan(op: Attributes, shape: tuple[int, ...], dtype: str, layout: str | None, output_dtype: object) -> Plan:
    """The plan of arrays that are alike, which most of a folder are."""
    return make_plan(op, shape, dtype, layout=layout, output_dtype=output_dtype)


def _stored(
    path: str | None, key: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None
) -> Stored:
    layout, shape = plan.layout, plan.output_shape
    if output_layout:
        layout = check_layout(output_layout, len(output_layout))
        shape = converted_shape(plan.output_shape, plan.layout, layout)
    if path:
        kept = check_output(path, shape, dtype, layout, mode)
        layout = layout if output_layout else kept
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, key)


def run_bundle(job: Job, op: Attributes, settings: Settings) -> Outcome:
    """Pools the arrays that the settings name (all of them for none); the outcomes of each are its `parts`.

    Where all are meant, those that have other axes than can be pooled are copied.
    """
    clock = Clock()
    for target in job.targets:
        if target.key is not None:
            raise RequestError(f"{target}: several arrays keep their names; name the file alone: {target.path}")
        check_holds_several(target.path)
    with open_container(job.source.path, settings.read_options) as file:
        with clock.phase("read"):
            headers = file.headers
            chosen = list(_chosen(job.source.path, headers, settings))
        pooled = {header.key for header in chosen}
        copied = [] if settings.arrays else [header for header in headers if header.key not in pooled]
        for target in job.targets:
            array_names(target.path, [header.key for header in (*chosen, *copied)])
        parts = [_prepared(job, op, settings, file, header, clock) for header in chosen]
        _check_sum(job.source.path, parts, copied, settings)
        notes: tuple[str, ...] = (f"copied as they are, for their axes: {listing(copied)}",) if copied else ()
        left_out = () if settings.arrays else file.left_out
        notes += (f"left out, for they are no arrays of numbers: {named(left_out)}",) if left_out else ()
        if not settings.dry_run:
            parts, kept = _pooled_and_written(job, settings, file, parts, copied, clock)
            notes += kept
    parts = [replace(part, notes=(*part.notes, *notes)) for part in parts]
    every = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Outcome(job, seconds=clock.seconds, parts=tuple(parts), notes=every)


def _prepared(
    job: Job, op: Attributes, settings: Settings, file: ArrayContainer, header: Header, clock: Clock
) -> Outcome:
    part = Outcome(replace(job, source=Source(job.source.path, header.key)), seconds=clock.seconds)
    try:
        return prepare_job(part, op, settings, file.array(str(header.key)).header)
    except PoolError as error:
        raise located(error, f"{job.source.path}:{header.key}") from error


def _check_sum(path: str, parts: Sequence[Outcome], copied: Sequence[Header], settings: Settings) -> None:
    """Refuses what is too large together, though each array for itself is not."""
    headers = [*(part.header for part in parts if part.header), *copied]
    held = sum(byte_count(header.shape, DTYPES[header.dtype].itemsize) for header in headers)
    check_expansion(path, os.path.getsize(path), held, settings.allowed)
    needed = max(held, sum(bytes_of(part.plan) for part in parts if part.plan))
    if settings.max_memory is not None and needed > settings.max_memory:
        raise FileError(
            f"{path}: its {len(headers)} arrays need {human_bytes(needed)} of memory together, the limit is "
            f"{human_bytes(settings.max_memory)}; raise {field('max_memory')} or take fewer with {field('dataset')}"
        )


def _pooled_and_written(
    job: Job, settings: Settings, file: ArrayContainer, parts: Sequence[Outcome], copied: Sequence[Header], clock: Clock
) -> tuple[list[Outcome], tuple[str, ...]]:
    """The outcomes, and notes on what could not be kept."""
    ran, values, positions = [], list[NamedArray](), list[NamedArray]()
    for part in parts:
        key = part.job.source.key
        try:
            done, pooled, found, metadata = pool_to_memory(part, settings, file.array(str(key)), clock)
        except PoolError as error:
            raise located(error, f"{job.source.path}:{key}") from error
        ran.append(done)
        values.append(_named(key, pooled, part.output, metadata))
        if found is not None:
            positions.append(_named(key, found, part.indices, Metadata()))
    with clock.phase("read"):
        values += [_copied(file, header) for header in copied]
    notes: tuple[str, ...] = ()
    with clock.phase("write"):
        for target, arrays in ((job.output, values), (job.indices, positions)):
            if target and arrays:
                notes += write_several(
                    target, arrays, WriteOptions(settings.overwrite, chunks=settings.chunks, shards=settings.shards)
                )
    return ran, notes


def _named(key: str | None, array: NDArray[Any], stored: Stored | None, metadata: Metadata) -> NamedArray:
    assert stored is not None  # noqa: S101  # set by prepare_job
    return NamedArray(Spec(stored.shape, stored.dtype, stored.layout, key, metadata), array)


def _copied(file: ArrayContainer, header: Header) -> NamedArray:
    array = file.array(str(header.key))
    values = array.read(whole_region(header.shape))
    return NamedArray(Spec(header.shape, header.dtype, "", header.key, array.metadata), values)


def _chosen(path: str, headers: Sequence[Header], settings: Settings) -> Iterator[Header]:
    """The arrays that are to be pooled: those that are named, else those of which one could be taken by itself."""
    if not headers:
        raise RequestError(f"{path}: holds no array that can be pooled")
    if not settings.arrays:
        yield from usable(headers, settings.read_options.axes) or headers
        return
    by_name = {(header.key or "").strip("/"): header for header in headers}
    for name in settings.arrays:
        if name.strip("/") not in by_name:
            raise RequestError(f"{path}: has no array {name!r}; it holds {listing(headers)}")
        yield by_name[name.strip("/")]


def run_job(
    job: Job,
    op: Attributes,
    settings: Settings,
    progress: Progress = lambda done, total: None,
    spread: Spread | None = None,
) -> Outcome:
    """Runs `job`; what goes wrong is in the outcome's `error`, with the place in its message. With `spread` the parts
    of an output that several processes can write are computed elsewhere.
    """
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        limit = memory_limit_of(job.source.path, settings.max_memory, settings.allowed)
        settings = replace(settings, max_memory=limit)
        if settings.skip_existing and any(existing_outputs((job,))):
            return Outcome(job, skipped=True)
        if settings.arrays is not None and holds_several(job.source.path):
            return run_bundle(job, op, settings)
        with ExitStack() as stack:
            with clock.phase("read"):
                file = stack.enter_context(open_array(job.source, settings.read_options))
            outcome = prepare_job(outcome, op, settings, file.header)
            return outcome if settings.dry_run else pool_file(outcome, settings, file, clock, progress, spread)
    except Exception as error:  # of any kind: what goes wrong with one input must not end the others
        if "-" in (job.output, job.indices) and isinstance(error, OSError) and not isinstance(error, FileError):
            raise  # standard output itself, which is no fault of the input
        return replace(outcome, error=failure(error, job.source.path))
