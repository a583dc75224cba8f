"""Pools one array: plans it from the header, then reads, pools and writes it, in parts if the file allows that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from dataclasses import field as default
from functools import partial
from math import lcm, prod

from poolcli import __version__
from poolcli.arguments import min_count_from
from poolcli.dtypes import lookup
from poolcli.engine import WORKING_MEMORY
from poolcli.engine.choose import ENGINES, NUMPY, engine_notes
from poolcli.errors import RequestError
from poolcli.formats import (
    FORMATS,
    ArrayReader,
    Header,
    Metadata,
    RegionWriter,
    Spec,
    WriteOptions,
    check_chunks,
    check_output,
    open_writer,
    output_format,
    write,
)
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import join_names
from poolcli.formats.files import Fingerprint, check_distinct, check_unchanged, fingerprint_of, is_url
from poolcli.formats.names import array_names
from poolcli.formats.records import CallbackWriter, slices, whole_region
from poolcli.layouts import check_layout, convert_layout, converted_shape
from poolcli.message_fields import field
from poolcli.plan import Fact, Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import Region, whole
from poolcli.pooling import tiles
from poolcli.pooling.metadata import hidden_from, scaled_metadata
from poolcli.pooling.outcome import Job, Outcome, Settings, Stored
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.system.limits import allowed_threads
from poolcli.windows import Ranges


def prepare_job(outcome: Outcome, op: Attributes, settings: Settings, header: Header) -> Outcome:
    """Plans a job; returns its outcome with the plan, the arrays that will be written, and notes."""
    job = outcome.job
    layout, own = settings.layout or header.layout, header.layout if header.axes else None
    if layout and own and len(own) > 3 and layout.strip().upper() != own:
        raise RequestError(f"{field('layout', layout)}: the axes of the file are {own}; use {field('layout', own)}")
    missing = header.missing if settings.missing is None else settings.missing
    planned = partial(
        make_plan,
        op,
        header.shape,
        header.dtype,
        layout=layout,
        output_dtype=settings.dtype,
        min_count=settings.min_count,
    )
    plan = planned(missing=missing or None, nodata=_nodata_of_output(job, header, settings))
    colour = None
    if header.mode is not None or settings.linear_light:
        from poolcli.pooling.colour import choose_colour

        colour = choose_colour(plan, header, settings.linear_light)
    if plan.missing and colour:
        if settings.missing:
            raise RequestError(
                f"{field('missing')} is for numbers, and these are colours ({'; '.join(colour.notes)}); leave it out"
            )
        plan = planned(missing=None)
    if header.masked:
        plan = _plan_with_mask(plan, settings, job)
    dtype, mode = plan.output_dtype, header.mode
    if settings.rescale is not None:
        from poolcli.pooling.colour import RESCALED_DTYPE, check_rescale

        check_rescale(plan, job.output)
        dtype, mode = RESCALED_DTYPE, None
    for target in job.targets:
        array_names(target.path, [target.key or header.key])
    output = _stored(job.output, job.output_key, plan, dtype, settings.output_layout, mode)
    if output.path:
        check_chunks(output.path, output.shape, output.layout, settings.chunks, settings.shards)
    indices = None
    if job.indices:
        if plan.index is None:
            raise RequestError(f"{plan.op} has no indices: it does not select elements")
        indices = _stored(job.indices, job.indices_key, plan, plan.index.dtype, settings.output_layout, header.mode)
    _refuse_overwriting_input(job, header)
    least = f"{field('min_count')} has no effect: no nodata value is known"
    moved = _moved_axes(header.layout, plan.layout) if settings.layout else ()
    unused = (least,) if settings.min_count is not None and not (plan.missing or header.masked) else ()
    ran = (*_unused_nodata_notes(header, plan), *moved, *unused, *engine_notes(plan, settings.engine))
    renamed = (job.note,) if job.note else ()
    facts = (fact.message for fact in (*plan.doubts, *plan.facts))
    notes = (*header.notes, *renamed, *facts, *ran, *(colour.notes if colour else ()))
    return replace(outcome, header=header, plan=plan, output=output, indices=indices, notes=notes, colour=colour)


def _plan_with_mask(plan: Plan, settings: Settings, job: Job) -> Plan:
    """The plan of an image with a mask, with a note about it."""
    nothing = plan.nodata
    if not plan.missing and lookup(plan.output_dtype).kind != "float":
        nothing = 0
    least = min_count_from(settings.min_count)
    few = "without other elements" if least is None else f"with fewer than {least} other elements"
    again = ", hidden again" if job.output and output_format(job.output).nodata == "tags" else ""
    # Of nodata values another note says what windows without other elements give.
    left = "" if plan.missing else f"; windows {few} give {'nan' if nothing is None else nothing}"
    fact = Fact("missing", f"pixels that a mask hides are missing and excluded{left}{again}")
    return replace(plan, nodata=nothing, min_count=least, facts=(*plan.facts, fact))


def _moved_axes(own: str | None, layout: str) -> tuple[str, ...]:
    """The note that the given layout moves H, W or C of a file that names its axes."""
    both = {*(own or "")} & {*layout} & {*"HWC"}
    if own is None or all(own.index(letter) == layout.index(letter) for letter in both):
        return ()
    return (f"the axes of the file are {own}, and {field('layout')} reads them as {layout}",)


def _refuse_overwriting_input(job: Job, header: Header) -> None:
    """Refuses to replace the input by the result."""
    for target in job.targets:
        if target.key is None and not is_device(target.path):
            check_distinct(job.source.path, target.path)
        same = target.key is not None and header.key is not None and target.key.strip("/") == header.key.strip("/")
        if same and os.path.exists(target.path) and os.path.samefile(target.path, job.source.path):
            raise RequestError(f"output {target} is the input; name another dataset")


def _unused_nodata_notes(header: Header, plan: Plan) -> tuple[str, ...]:
    """The note on nodata values of the file that are pooled like other numbers."""
    if not header.missing:
        return ()
    used, declared = ([str(x) for x in np.array(found, header.dtype)] for found in (plan.missing, header.missing))
    voting = [str(number) for number, stored in zip(header.missing, declared, strict=True) if stored not in used]
    return (f"the file's nodata value ({join_names(voting)}) is pooled like any other number",) if voting else ()


def _nodata_of_output(job: Job, header: Header, settings: Settings) -> float | None:
    """The nodata value that the metadata of the output will name, which are those of the input; None without one."""
    if not header.missing or not job.output or settings.rescale is not None:
        return None
    names_same = FORMATS[header.format].nodata == output_format(job.output).nodata != ""
    return header.missing[0] if names_same else None


def _stored(
    path: str | None, key: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None
) -> Stored:
    layout, shape = plan.layout, plan.output_shape
    if output_layout:
        layout = check_layout(output_layout, len(output_layout))
        shape = converted_shape(plan.output_shape, plan.layout, layout)
    if path:
        usual = check_output(path, shape, dtype, layout, mode)
        layout = layout if output_layout else usual
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, key)


def pool_file(
    outcome: Outcome,
    settings: Settings,
    file: ArrayReader,
    clock: tiles.Clock,
    progress: tiles.Progress,
    distribute: tiles.Distribute | None = None,
) -> Outcome:
    """Reads, pools and writes the array of a planned outcome, unless an earlier run with --resume has done so."""
    work = _work(outcome, settings, file.streams, clock, progress)
    writer = ResultWriter(outcome, work.plan, settings, fingerprint_of(outcome.job.source.path))
    if writer.is_finished():
        return Outcome(outcome.job, skipped=True)
    return _finish(outcome, work, _read_pool_write(work, outcome, settings, file, writer, distribute))


def pool_to_memory(
    outcome: Outcome, settings: Settings, file: ArrayReader, clock: tiles.Clock
) -> tuple[Outcome, Array, Array | None, Metadata]:
    """The outcome with values, indices and metadata, in the layout of the output."""
    work = _work(outcome, settings, False, clock, tiles.no_progress)
    plan, output = work.plan, outcome.output
    assert output is not None  # noqa: S101  # set by prepare_job
    values, positions = _pool_whole(work, outcome, file, fingerprint_of(outcome.job.source.path))
    turned = convert_layout(values, plan.layout, output.layout)
    where = None if positions is None else convert_layout(positions, plan.layout, output.layout)
    return _finish(outcome, work), turned, where, scaled_metadata(file.metadata, plan, output.layout)


def _finish(outcome: Outcome, work: tiles.Work, not_kept: Sequence[str] = ()) -> Outcome:
    engine = NUMPY if work.reasons else ENGINES[work.engine]
    threads = allowed_threads(work.threads) if engine.is_threaded else 1
    return replace(outcome, engine=engine.name, threads=threads, notes=(*outcome.notes, *work.notes, *not_kept))


def _work(
    outcome: Outcome, settings: Settings, streams: bool, clock: tiles.Clock, progress: tiles.Progress
) -> tiles.Work:
    """The work of a job; refuses an array that cannot be read in parts and does not fit into memory."""
    plan = outcome.plan
    assert plan is not None  # noqa: S101  # set by prepare_job
    if not streams:
        tiles.check_fits(_memory_at_once(outcome), settings.max_memory)
    return tiles.make_work(plan, settings.engine, settings.threads, clock, progress, outcome.indices is not None)


def _memory_at_once(outcome: Outcome) -> int:
    """The bytes that pooling a whole array takes: input, output, indices, copies in another layout or format, and
    buffers of the engine if the array is larger than those.
    """
    plan, header, output = outcome.plan, outcome.header, outcome.output
    assert plan is not None and header is not None  # noqa: PT018, S101  # set by prepare_job
    count = prod(plan.output_shape)
    turned = output is not None and output.layout != plan.layout
    encoded = output is not None and output.path not in (None, "-") and output_format(str(output.path)).is_image
    copies = (turned + encoded) * lookup(plan.output_dtype).itemsize
    positions = tiles.POSITION_BYTES * (1 + turned) if outcome.indices else 0
    needed = tiles.bytes_of_plan(plan) + header.extra_memory + count * (copies + positions)
    return needed + WORKING_MEMORY if needed > WORKING_MEMORY else needed


def _read_pool_write(
    work: tiles.Work,
    outcome: Outcome,
    settings: Settings,
    file: ArrayReader,
    writer: ResultWriter,
    distribute: tiles.Distribute | None,
) -> list[str]:
    """Reads, pools and writes; returns notes on metadata that could not be kept."""
    targets, path, before = writer.targets, outcome.job.source.path, writer.source
    beside = file.header.extra_memory
    at_url = settings.resume and any(is_url(target.path) for target in targets)
    small = tiles.bytes_of_plan(work.plan) <= tiles.bytes_of_tile(settings.max_memory, beside) and not at_url
    if small or not file.streams:
        results = _pool_whole(work, outcome, file, before)
        with work.clock.phase("write"):
            for i, (target, array) in enumerate(zip(targets, (a for a in results if a is not None), strict=False)):
                writer.write(target, array, None if i else file.metadata)
        return writer.notes
    with ExitStack() as stack:
        sinks = [writer.open_writer(stack, target, None if i else file.metadata) for i, target in enumerate(targets)]
        units = [sink.unit for sink in sinks if sink.unit]
        unit = tuple(map(lcm, *units)) if units else None
        to_stream = any(target.path == "-" for target in targets)
        parts = tiles.divide(
            work.plan, settings.max_memory, unit, file.chunks, beside, front_to_back=to_stream, indices=work.indices,
            largest=tiles.largest_block(work.plan, at_url),
        )  # fmt: skip
        shared = [sink for sink in sinks if isinstance(sink, tiles.SharedWriter)]
        if distribute is not None and isinstance(parts, Sequence) and len(shared) == len(sinks):
            tiles.pool_distributed(
                distribute, work, tiles.FileOpener(outcome.job.source, settings.read_options), shared, parts
            )
        else:
            tiles.pool_in_tiles(work, file.read, sinks, parts)
        check_unchanged(path, before)
    return writer.notes


def _pool_whole(
    work: tiles.Work, outcome: Outcome, file: ArrayReader, before: Fingerprint
) -> tuple[Array, Array | None]:
    """Reads and pools the whole array; raises FileError if the input has changed since `before`."""
    with work.clock.phase("read"):
        x = file.read(whole_region(work.plan.input_shape))
    check_unchanged(outcome.job.source.path, before)
    mask = file.metadata.image.get("mask")

    def pool(region: Region, slab: Array) -> tuple[Array, Array | None]:
        return tiles.pool_part(work, region, slab, None if mask is None else hidden_from(mask, region))

    if outcome.colour is None:
        return pool(whole(work.plan), x)
    from poolcli.pooling.colour import pool_colours

    return pool_colours(lambda *part: pool(*part)[0], work.plan, x, outcome.colour), None


@dataclass(slots=True)
class ResultWriter:
    """Writes the results of one job; `source` is the fingerprint of the input, `notes` say which metadata are lost."""

    outcome: Outcome
    plan: Plan
    settings: Settings
    source: Fingerprint
    notes: list[str] = default(default_factory=list)

    @property
    def targets(self) -> list[Stored]:
        """The results that are written."""
        return [stored for stored in (self.outcome.output, self.outcome.indices) if stored and stored.path]

    def is_finished(self) -> bool:
        """Whether an earlier run with --resume has written all results at URLs; the manifest says so of files."""
        paths = [str(target.path) for target in self.targets] if self.settings.resume else []
        identities = {path: self._identity(path) for path in paths if is_url(path)}
        if not identities:
            return False
        from poolcli.formats.zarr.remote import is_finished

        return all(identity is not None and is_finished(path, identity) for path, identity in identities.items())

    def write(self, target: Stored, array: Array, metadata: Metadata | None) -> None:
        """Writes one result at once; `metadata` is that of the input, None for indices."""
        header = self.outcome.header
        mode = header.mode if header else None
        if self._rescales(target):
            from poolcli.pooling.colour import rescaled

            array, note = rescaled(array, self.settings.rescale or ())
            self.notes.append(note)
            mode = None
        self.notes += write(
            str(target.path),
            convert_layout(array, self.plan.layout, target.layout),
            target.layout,
            key=self._key(target),
            metadata=scaled_metadata(metadata, self.plan, target.layout) if metadata else None,
            mode=mode,
            options=self._options(append=target.key is not None),
        )

    def _rescales(self, target: Stored) -> bool:
        return self.settings.rescale is not None and target is self.outcome.output

    def open_writer(self, stack: ExitStack, target: Stored, metadata: Metadata | None) -> RegionWriter:
        """A writer of regions of one result.

        If the file cannot be written in regions, or has another layout, regions are collected in an array, which is
        written when the stack is closed.
        """
        if target.layout == self.plan.layout:
            path = str(target.path)
            scaled = scaled_metadata(metadata, self.plan, target.layout) if metadata else Metadata()
            spec = Spec(target.shape, target.dtype, target.layout, self._key(target), scaled)
            direct = open_writer(path, spec, self._options(self._identity(path), target.key is not None))
            if direct is not None:
                sink = stack.enter_context(direct)
                self.notes += sink.notes
                return sink
        dtype = self.plan.output_dtype if self._rescales(target) else target.dtype
        result = np.empty(self.plan.output_shape, dtype)

        def finish(kind: object, *_: object) -> None:
            if kind is None:
                self.write(target, result, metadata)

        def put(region: Ranges, array: Array) -> None:
            result[slices(region)] = array

        stack.push(finish)
        return CallbackWriter(put)

    def _options(self, identity: str | None = None, append: bool = False) -> WriteOptions:
        asked = self.settings
        bytes_per_output = tiles.bytes_of_plan(self.plan) // max(1, prod(self.plan.output_shape))
        most = max(1, tiles.bytes_of_block(asked.max_memory) // max(1, bytes_per_output))
        return WriteOptions(asked.overwrite, asked.quality, identity, append, asked.chunks, asked.shards, most)

    def _key(self, target: Stored) -> str | None:
        """The name of the array in the file: the one that was typed, or that of the input."""
        header = self.outcome.header
        return target.key or (header.key if header else None)

    def _identity(self, path: str) -> str | None:
        """A hash of the plan and the input by which unfinished output is recognised; None if it is not resumed."""
        asked = self.settings
        if not (asked.resume and output_format(path).parallel_writes):
            return None
        if tiles.bytes_of_plan(self.plan) <= tiles.TILE_BYTES and not is_url(path):
            return None  # starting again takes no longer than resuming
        from hashlib import sha256  # loads OpenSSL, in 3 ms

        source = self.outcome.job.source
        stored = (asked.chunks, asked.shards)
        planned = [getattr(self.plan, each.name) for each in fields(self.plan)]
        text = repr((__version__, planned, source, self.source[:2], stored))
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
