"""Pools one planned array: reads, pools and writes it, in parts if the file allows that."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from math import lcm, prod

from poolcli import __version__, formats
from poolcli.engine.choose import ENGINES, NUMPY
from poolcli.formats import records
from poolcli.formats.files import check_unchanged, fingerprint_of, is_url
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.plan.plan import Region, whole
from poolcli.pooling import tiles
from poolcli.pooling.metadata import hidden_from, scaled_metadata
from poolcli.pooling.outcome import Outcome, Settings, Stored
from poolcli.pooling.tiles import Clock, Progress
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.system.processes import allowed_threads
from poolcli.windows import slices


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
