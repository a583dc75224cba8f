"""Pools one array: plans it from the header, then reads, pools and writes it, in parts if the file allows that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from math import lcm, prod
from typing import Any

from poolcli import __version__, formats
from poolcli.arguments import min_count_from
from poolcli.dtypes import lookup
from poolcli.engine import WORKING_MEMORY
from poolcli.engine.choose import ENGINES, NUMPY, engine_notes
from poolcli.errors import RequestError
from poolcli.formats import records
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import human_bytes, join_names
from poolcli.formats.files import array_names, check_distinct, check_unchanged, fingerprint_of, is_url
from poolcli.layouts import check_layout, convert_layout, converted_shape
from poolcli.message_fields import AGAIN, field
from poolcli.plan import Fact, Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import Region, whole
from poolcli.pooling import tiles
from poolcli.pooling.metadata import hidden_from, scaled_metadata
from poolcli.pooling.outcome import Colour, Job, Outcome, Settings, Stored
from poolcli.pooling.tiles import Clock, Progress
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.system.processes import allowed_threads
from poolcli.windows import slices


def prepare_job(
    outcome: Outcome, op: Attributes, settings: Settings, header: records.Header, in_parts: bool = False
) -> Outcome:
    """Plans a job; returns its outcome with the plan, the arrays that will be written, and notes.

    Refuses an array that does not fit into memory, unless it can be read `in_parts`, and then results that do not fit
    on the disk: a header that claims too much is the fault of the input.
    """
    job = outcome.job
    plan, colour = _planned(job, op, settings, header)
    dtype, mode = plan.output_dtype, header.mode
    if settings.rescale is not None:
        if lookup(dtype).kind != "float":
            remedy = f"add {field('dtype', 'float32')}, or leave it out"
            raise RequestError(f"{field('rescale')} is for float results, but this is {dtype}; {remedy}")
        dtype, mode = "uint8", None
    for target in job.targets:
        array_names(target.path, [target.key or header.key])
    output, indices = _stored(job.output, job.output_key, plan, dtype, settings.output_layout, mode), None
    if output.path and formats.output_format(output.path).chunked and (settings.chunks or settings.shards):
        from poolcli.formats.zarr.storage import grid_of

        grid_of(output.shape, output.layout, asked=settings.chunks, asked_shards=settings.chunks and settings.shards)
    if job.indices and plan.index:
        indices = _stored(job.indices, job.indices_key, plan, plan.index.dtype, settings.output_layout, header.mode)
    for path in job.outputs:
        if not is_device(path):
            check_distinct(job.source.path, path)
    written = [each for each in (output, indices) if each and each.path]
    if settings.max_memory and (in_parts or header.nbytes <= settings.max_memory):
        _check_held(plan, written, settings.max_memory, in_parts)
    if not in_parts:
        tiles.check_fits(_memory_of(plan, header, output, indices is not None), settings.max_memory)
    formats.check_space((str(each.path), each.nbytes, header if each is output else None) for each in written)
    notes = (*_notes_on(job, plan, settings, header), *(colour.notes if colour else ()))
    longest = max((each.layout for each in (output, indices) if each), key=len)
    if len(longest) > len(plan.layout) and not settings.output_layout:
        notes += (f"images become {longest} in tensors; {field('output_layout', plan.layout)}{AGAIN} keeps the axes",)
    if plan.guessed and plan.layout == "CHW" and output.layout == "HWC" and output.shape[2] > len("RGBA"):
        notes += (f"C={output.shape[2]} are samples of one page; {field('layout', 'NHW')}{AGAIN} makes pages of them",)
    return replace(outcome, header=header, plan=plan, output=output, indices=indices, notes=notes, colour=colour)


def _planned(job: Job, op: Attributes, settings: Settings, header: records.Header) -> tuple[Plan, Colour | None]:
    """The plan, and how the channels of an image are pooled together."""
    own, named = header.layout, "".join(axis.letter for axis in header.axes)
    given = check_layout(settings.layout, len(header.shape)) if settings.layout and len(named) > 3 else named
    if given != named and (own == named or "D" in given):
        found = field("layout", settings.layout)
        raise RequestError(f"{found}: the axes of the file are {named}; use {field('layout', named)}")
    about: Any = {"layout": settings.layout, "named": own, "output_dtype": settings.dtype}
    planned = partial(make_plan, op, header.shape, header.dtype, min_count=settings.min_count, **about)
    missing, colour = header.missing if settings.missing is None else settings.missing, None
    plan = planned(missing=missing or None, nodata=_nodata_of_output(job, header, settings))
    if header.mode is not None or settings.linear_light:
        from poolcli.pooling.colour import choose_colour

        colour = choose_colour(plan, header, settings.linear_light)
    if plan.missing and colour:
        if settings.missing:
            raise RequestError(
                f"{field('missing')} is for numbers, and these are colours ({'; '.join(colour.notes)}); leave it out"
            )
        plan = planned(missing=None)
    return _plan_with_mask(plan, settings, job) if header.masked else plan, colour


def _notes_on(job: Job, plan: Plan, settings: Settings, header: records.Header) -> list[str]:
    notes = [*header.notes, *filter(None, [job.note]), *(f.message for f in (*plan.layout_warnings, *plan.facts))]
    if header.missing:
        used, declared = ([str(x) for x in np.array(some, header.dtype)] for some in (plan.missing, header.missing))
        voting = [str(number) for number, stored in zip(header.missing, declared, strict=True) if stored not in used]
        if voting:
            notes.append(f"the file's nodata value ({join_names(voting)}) is pooled like any other number")
    made, row = lookup(plan.output_dtype), formats.output_format(job.output or "-")
    fractions = not row.is_image or row.name == "tiff"
    is_data = header.mode is None or (row.name == "tiff" and made.bits > 8)  # 8 bits of an image are for the eye
    if plan.reducer.divides and is_data and made.is_integer and settings.dtype is None and fractions:
        notes.append(f"averages are rounded to {made.name}; {field('dtype', 'float32')}{AGAIN} keeps fractions")
    own = header.layout or ""
    both = {*own} & {*plan.layout} & {*"HWC"}
    if settings.layout and any(own.index(letter) != plan.layout.index(letter) for letter in both):
        notes.append(f"the axes of the file are {own}, and {field('layout')} reads them as {plan.layout}")
    if settings.min_count is not None and not (plan.missing or header.masked):
        notes.append(f"{field('min_count')} has no effect: no nodata value is known")
    if getattr(plan.given, "axis", None) is not None and not job.indices:
        notes.append(f"{field('axis')} is about {field('indices')}; {field('layout')} says which axes are pooled")
    return [*notes, *engine_notes(plan, settings.engine)]


def _plan_with_mask(plan: Plan, settings: Settings, job: Job) -> Plan:
    """The plan of an image with a mask, with a note about it."""
    nothing = plan.nodata
    if not plan.missing and lookup(plan.output_dtype).kind != "float":
        nothing = 0
    least = min_count_from(settings.min_count)
    few = "without valid elements" if least is None else f"with fewer than {least} valid elements"
    again = ", hidden again" if job.output and formats.output_format(job.output).nodata == "tags" else ""
    # Of nodata values another note says what windows without valid elements give.
    left = "" if plan.missing else f"; windows {few} give {'nan' if nothing is None else nothing}"
    fact = Fact("missing", f"pixels that a mask hides are missing and excluded{left}{again}")
    return replace(plan, nodata=nothing, min_count=least, facts=(*plan.facts, fact))


def _nodata_of_output(job: Job, header: records.Header, settings: Settings) -> float | None:
    """The nodata value that the metadata of the output will name, which are those of the input; None without one."""
    if not header.missing or not job.output or settings.rescale is not None:
        return None
    names_same = formats.FORMATS[header.format].nodata == formats.output_format(job.output).nodata != ""
    return header.missing[0] if names_same else None


def _stored(
    path: str | None, key: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None
) -> Stored:
    layout = check_layout(output_layout, len(output_layout)) if output_layout else plan.layout
    if path:
        usual = formats.check_output(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, mode)
        layout = layout if output_layout else usual
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, key)


def _memory_of(plan: Plan, header: records.Header, output: Stored, indices: bool) -> int:
    """The bytes for input, output, indices, their copies in another layout or format, and buffers of the engine if the
    array is larger than those.
    """
    turned = output.layout != plan.layout
    encoded = output.path not in (None, "-") and formats.output_format(str(output.path)).is_image
    copies = (turned + encoded) * lookup(plan.output_dtype).itemsize
    positions = tiles.POSITION_BYTES * (1 + turned) * indices
    needed = whole(plan).nbytes + header.extra_memory + prod(plan.output_shape) * (copies + positions)
    return needed + (WORKING_MEMORY if needed > WORKING_MEMORY else 0)


def _check_held(plan: Plan, written: Sequence[Stored], limit: int, in_parts: bool) -> None:
    """Refuses results beyond the memory limit, unless they are written while they are computed."""
    held = sum(
        each.nbytes for each in written if not in_parts or each.layout != plan.layout
        or prod(each.shape) < formats.output_format(str(each.path)).streams_from
    )  # fmt: skip
    if held > limit:
        what = f"the result is {human_bytes(held)} and is held in memory, whose limit is {human_bytes(limit)}"
        options = ("output_size",) if hasattr(plan.given, "output_size") else ("strides", "pads")
        raise RequestError(f"{what}; change {' or '.join(map(field, options))}, or raise {field('max_memory')}")


class ArrayJob:
    """A planned job: the array that it reads, how that is computed, and the results that it writes."""

    def __init__(
        self, outcome: Outcome, settings: Settings, file: records.ArrayReader, clock: Clock, progress: Progress
    ) -> None:
        assert outcome.plan is not None  # noqa: S101  # set by prepare_job
        self.outcome, self.settings, self.file, self.plan = outcome, settings, file, outcome.plan
        self.path, self.notes = outcome.job.source.path, list[str]()
        self.source, indices = fingerprint_of(self.path), outcome.indices is not None
        self.work = tiles.make_work(outcome.plan, settings.engine, settings.threads, clock, progress, indices)
        self.targets = [stored for stored in (outcome.output, outcome.indices) if stored and stored.path]

    def run(self, distribute: tiles.Distribute | None = None) -> Outcome:
        """Reads, pools and writes the array, unless an earlier run with --resume has done so."""
        if self._is_finished():
            return Outcome(self.outcome.job, skipped=True)
        total, limit = whole(self.plan).nbytes, self.settings.max_memory
        left = limit and limit - self.file.header.extra_memory
        if total > tiles.SHOWN_BYTES:
            self.work.progress(0, total)  # the first part may take seconds
        if self.file.streams and total > tiles.bytes_of_block(left, tiles.TILE_BYTES):
            self._pool_in_parts(distribute)
        else:
            results = self.pool_whole()
            with self.work.clock.phase("write"):
                for target, array in zip(self.targets, results, strict=False):
                    self._write(target, array)
        return self.finished()

    def in_memory(self) -> list[records.NamedArray]:
        """The values, with indices if they are wanted, as they will be written."""
        return [self._as_written(*each) for each in zip(self.targets, self.pool_whole(), strict=False)]

    def finished(self) -> Outcome:
        """The outcome of what has run."""
        engine = NUMPY if self.work.reasons else ENGINES[self.work.engine]
        threads = allowed_threads(self.work.threads) if engine.is_threaded else 1
        notes = (*self.outcome.notes, *self.work.notes, *self.notes)
        return replace(self.outcome, engine=engine.name, threads=threads, notes=notes)

    def pool_whole(self) -> tuple[Array, ...]:
        """The values, and the indices if they are wanted; raises FileError if the input has changed meanwhile."""
        with self.work.clock.phase("read"):
            x = self.file.read(records.whole_region(self.plan.input_shape))
        check_unchanged(self.path, self.source)
        mask = self.file.metadata.image.get("mask")

        def hidden(region: Region) -> Array | None:
            return None if mask is None else hidden_from(mask, region)

        colour = self.outcome.colour
        if colour and colour.weighted and not colour.linear:
            alpha = x.take(-1, self.plan.layout.index("C"))
            if (alpha == np.iinfo(alpha.dtype).max).all():  # opaque
                notes = tuple(note for note in self.outcome.notes if note not in colour.notes)
                self.outcome, colour = replace(self.outcome, notes=notes), None
        if colour is None:
            values, indices = tiles.pool_in_memory(self.work, x, hidden)
            return (values,) if indices is None else (values, indices)
        from poolcli.pooling.colour import pool_colours

        def pool(region: Region, slab: Array) -> Array:
            return tiles.pool_part(self.work, region, slab, hidden(region))[0]

        return (pool_colours(pool, self.plan, x, colour, self.work.progress),)

    def _pool_in_parts(self, distribute: tiles.Distribute | None) -> None:
        limit, beside = self.settings.max_memory, self.file.header.extra_memory
        with ExitStack() as stack:
            sinks = [self._open_writer(stack, target) for target in self.targets]
            units = [sink.unit for sink in sinks if sink.unit]
            unit = tuple(map(lcm, *units)) if units else None
            chunks = None if any(target.path == "-" for target in self.targets) else self.file.chunks
            parts = tiles.divide(self.plan, limit, unit, chunks, beside, indices=self.work.indices)
            if distribute is not None and all(hasattr(sink, "writer") for sink in sinks):
                opener = partial(tiles.reading, self.outcome.job.source, self.settings.read_options)
                tiles.pool_distributed(distribute, self.work, opener, sinks, parts, None)
            else:
                tiles.pool_in_tiles(self.work, self.file.read, sinks, parts)
            check_unchanged(self.path, self.source)

    def _is_finished(self) -> bool:
        """Whether an earlier run with --resume has written all results at URLs; the manifest says so of files."""
        paths = [path for target in self.targets if is_url(path := str(target.path))]
        if not paths or not self.settings.resume:
            return False
        from poolcli.formats.zarr.write import is_finished

        return all(is_finished(path, str(self._identity(path))) for path in paths)

    def _write(self, target: Stored, array: Array) -> None:
        path, made = str(target.path), self._as_written(target, array)
        self.notes += formats.output_format(path).functions.write(path, [made], self._options(target))

    def _as_written(self, target: Stored, array: Array) -> records.NamedArray:
        """A result in the type and layout of its file, with its metadata; notes what is lost."""
        spec, rescales = self._spec(target), self._rescales(target)
        self.notes += _lost_meaning(str(target.path), spec, "before rescaling, " if rescales else "")
        if rescales:
            from poolcli.pooling.colour import rescaled

            array, note = rescaled(array, self.settings.rescale or ())
            self.notes.append(note)
            spec = replace(spec, mode=None)
        return records.NamedArray(spec, convert_layout(array, self.plan.layout, target.layout))

    def _open_writer(self, stack: ExitStack, target: Stored) -> records.RegionWriter:
        """A writer of regions of one result. If the file cannot be written in regions, or has another layout, they are
        collected in an array, which is written when the stack is closed.
        """
        if target.layout == self.plan.layout:
            spec = replace(self._spec(target), mode=None)
            direct = formats.open_writer(str(target.path), spec, self._options(target))
            if direct is not None:
                sink = stack.enter_context(direct)
                self.notes += (*sink.notes, *_lost_meaning(str(target.path), spec))
                return sink
        dtype = self.plan.output_dtype if self._rescales(target) else target.dtype
        result = np.empty(self.plan.output_shape, dtype)

        def finish(kind: object, *_: object) -> None:
            if kind is None:
                self._write(target, result)

        stack.push(finish)
        return records.CallbackWriter(lambda region, array: result.__setitem__(slices(region), array))

    def _rescales(self, target: Stored) -> bool:
        return self.settings.rescale is not None and target is self.outcome.output

    def _spec(self, target: Stored) -> records.Spec:
        """What is written of a result; metadata and mode are those of the input, which indices do not have."""
        header, metadata, mode = self.file.header, records.Metadata(), None
        if target is self.outcome.output:
            metadata, mode = scaled_metadata(self.file.metadata, self.plan, target.layout), header.mode
            if self.plan.missing and self.plan.nodata is None and not self._rescales(target):
                metadata = self._with_missing(metadata, formats.output_format(str(target.path)).nodata)
        return records.Spec(target.shape, target.dtype, target.layout, target.key or header.key, metadata, mode)

    def _with_missing(self, metadata: records.Metadata, place: str) -> records.Metadata:
        """The metadata that name the result of windows without valid elements, or else a note that they cannot."""
        from poolcli.engine.numpy.missing import nodata_of

        nodata = nodata_of(self.plan)
        if place == "tags":
            return replace(metadata, image={**metadata.image, "nodata": str(nodata)})
        if place == "attributes":
            return replace(metadata, attributes={**metadata.attributes, "_FillValue": nodata})
        lost = f"that {nodata} means missing; pool the result with {field('missing', nodata)}"
        return replace(metadata, meaning={**metadata.meaning, "missing": lost if self.settings.missing is None else ""})

    def _options(self, target: Stored) -> records.WriteOptions:
        asked = self.settings
        bytes_per_output = whole(self.plan).nbytes // max(1, prod(self.plan.output_shape))
        most = max(1, tiles.bytes_of_block(asked.max_memory) // max(1, bytes_per_output))
        identity = self._identity(str(target.path))
        return records.WriteOptions(asked.overwrite, asked.quality, identity, asked.chunks, asked.shards, most)

    def _identity(self, path: str) -> str | None:
        """A hash of the plan and the input by which unfinished output is recognised; None if it is not resumed."""
        asked = self.settings
        if not asked.resume or path == "-" or not formats.output_format(path).parallel_writes:
            return None
        if whole(self.plan).nbytes <= tiles.TILE_BYTES and not is_url(path):
            return None  # starting again takes no longer than resuming
        from hashlib import sha256  # loads OpenSSL, in 3 ms

        planned = [getattr(self.plan, each.name) for each in fields(self.plan)]
        text = repr((__version__, planned, self.outcome.job.source, self.source[:2], (asked.chunks, asked.shards)))
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _lost_meaning(path: str, spec: records.Spec, when: str = "") -> list[str]:
    """Notes on what the numbers stand for, where the format of the output at `path` cannot say it."""
    place = formats.output_format(path).nodata
    return [f"not kept: {when}{text}" for where, text in spec.metadata.meaning.items() if text and where != place]
