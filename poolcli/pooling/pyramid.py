"""Writes pyramids of images with their labels, of plates and of series, block by block.

The source is read once: each block is copied to the first level and pooled into the second. Further levels are pooled
from the level before, or from the source again (`--from source`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from math import gcd, lcm

from poolcli import __version__
from poolcli.dtypes import lookup
from poolcli.formats import ArrayReader, open_array
from poolcli.formats.checks import byte_count
from poolcli.formats.files import Fingerprint, check_unchanged, fingerprint_of
from poolcli.formats.records import WriteOptions
from poolcli.formats.zarr.targets import is_finished
from poolcli.formats.zarr.write import ZarrWriter, open_writers
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Settings
from poolcli.pooling.pyramid_plan import Pyramid
from poolcli.system.lazy_imports import Array
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges


@dataclass(frozen=True, slots=True)
class LevelOpener:
    """Opens what a level is pooled from, in any process: the level `base`, or the source `file`.

    If `copy` is given, blocks of the source are also written to it, the first level; `kernel` is that of the windows.
    """

    file: tiles.FileOpener
    read_layout: str
    layout: str
    kernel: tuple[int, ...]
    base: ZarrWriter | None = None
    copy: ZarrWriter | None = None

    @contextmanager
    def __call__(self) -> Iterator[tiles.Read]:
        if self.base is not None:
            yield self.base.read
            return
        with self.file() as read:
            yield self.reader(read)

    def reader(self, read: tiles.Read) -> tiles.Read:
        """The level below, or the source that `read` reads, with its axes in the order of the pyramid."""
        if self.base is not None:
            return self.base.read

        def read_source(region: Ranges) -> Array:
            block = region
            if self.copy is not None:  # also the elements at the end of an axis that no window reads
                ends = zip(region, self.copy.array.shape, self.kernel, strict=True)
                block = tuple(range(span.start, n if n - span.stop < k else span.stop) for span, n, k in ends)
            own = tuple(block[self.layout.index(letter)] for letter in self.read_layout)
            x = convert_layout(read(own), self.read_layout, self.layout)
            if self.copy is not None:
                self.copy(block, x)
            return x[tuple(slice(len(span)) for span in region)]

        return read_source


@dataclass(frozen=True, slots=True)
class PyramidResult:
    """The engine and the seconds of a pyramid that was written, and notes."""

    engine: str
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()


def write_pyramid(
    pyramid: Pyramid,
    file: ArrayReader,
    settings: Settings,
    progress: tiles.Progress,
    distribute: tiles.Distribute | None = None,
) -> PyramidResult:
    """Writes the store atomically; `distribute` computes the blocks whose source can be read in parts elsewhere."""
    path, every, engine, notes = pyramid.source.path, pyramid.all_pyramids, "none", dict[str, None]()
    before, clock = fingerprint_of(path), tiles.Clock()  # the source must not change meanwhile
    identity = _identity(pyramid, before) if settings.resume else None
    finished, total = 0, sum(tiles.bytes_of_plan(level.plan) for each in every for level in each.levels if level.plan)

    def step(done: int, of_level: int) -> None:
        progress(finished + done, total)

    tiles.begin(progress, total)
    specs = [spec for each in every for spec in each.specs]
    options = WriteOptions(settings.overwrite, identity=identity, run=identity)
    with open_writers(pyramid.output, specs, options) as writers:
        left = iter(writers)
        for each in every:
            own = list(islice(left, len(each.levels)))
            source = replace(each.source, key=each.header.key)
            with nullcontext(file) if each is pyramid else open_array(source, settings.read_options) as opened:
                for work in _write_levels(each, opened, own, settings, clock, step, distribute):
                    finished += tiles.bytes_of_plan(work.plan)
                    notes |= dict.fromkeys(work.notes)
                    if each is pyramid:
                        engine = "numpy" if work.reasons else work.engine
        check_unchanged(path, before)
    return PyramidResult(engine, clock.seconds, tuple(notes))


def _write_levels(
    pyramid: Pyramid,
    file: ArrayReader,
    levels: Sequence[ZarrWriter],
    settings: Settings,
    clock: tiles.Clock,
    progress: tiles.Progress,
    distribute: tiles.Distribute | None,
) -> Iterator[tiles.Work]:
    """Writes the levels of one image or label image; yields the work of each level when it is done."""
    header, layout, beside = pyramid.header, pyramid.layout, pyramid.header.extra_memory
    most = tiles.bytes_of_block(None if settings.max_memory is None else settings.max_memory - beside)
    if not file.streams:
        tiles.check_fits(byte_count(header.shape, lookup(header.dtype).itemsize) + beside, settings.max_memory)
    opening = tiles.FileOpener(replace(pyramid.source, key=header.key), settings.read_options)
    opener = LevelOpener(opening, pyramid.read_layout, layout, (1,) * len(layout))
    chunks = file.chunks and tuple(file.chunks[pyramid.read_layout.index(letter)] for letter in layout)
    for number, level in enumerate(pyramid.levels):
        if level.plan is None:
            continue
        work = tiles.make_work(level.plan, settings.engine, settings.threads, clock, progress)
        copy, base = levels[0] if number == 1 else None, levels[level.base] if level.base else None
        kernel = _kernel_of(level.plan)
        unit = levels[number].unit
        if copy is not None:  # whole units of the first level too, into which the source is copied on the way
            own = zip(copy.unit, unit, kernel, strict=True)
            unit = tuple(lcm(of_level, of_copy // gcd(of_copy, k)) for of_copy, of_level, k in own)
        blocks = tiles.blocks_of(level.plan, unit, pyramid.grid.chunks if base else chunks, most)
        # A block that is copied to the first level must not be pooled in pieces, which may read elements twice.
        memory = max(most, blocks.largest.aligned.nbytes) if copy else most
        if distribute is not None and (base or file.streams):
            lower, first = (each.writer if each else None for each in (base, copy))
            reading = replace(opener, kernel=kernel, base=lower, copy=first)
            tiles.pool_distributed(distribute, work, reading, [levels[number]], blocks, memory)
        else:
            read = replace(opener, kernel=kernel, base=base, copy=copy).reader(file.read)
            _pool_blocks(work, read, levels[number], blocks, memory)
        yield work
    if len(pyramid.levels) == 1:
        _copy_source(pyramid, opener.reader(file.read), levels[0], most)


def _kernel_of(plan: Plan) -> tuple[int, ...]:
    """The length of a window along each axis of the array; 1 along axes that are not pooled."""
    lengths = {axis.position: axis.windows.longest for axis in plan.axes}
    return tuple(lengths.get(position, 1) for position in range(len(plan.input_shape)))


def _pool_blocks(work: tiles.Work, read: tiles.Read, sink: ZarrWriter, blocks: tiles.Blocks, most: int) -> None:
    """Pools the blocks of a level that are not written yet."""
    if blocks.largest.nbytes <= most:
        tiles.pool_in_tiles(work, read, [sink], blocks)
        return
    for block in blocks:
        if not sink.holds(block.outputs):
            sink(block.outputs, tiles.pool_block(work, read, block, most)[0])
        check_stopped()


def _copy_source(pyramid: Pyramid, read: tiles.Read, sink: ZarrWriter, most: int) -> None:
    """Copies the source, for a pyramid of one level."""
    from poolcli.ops import MaxPool

    same = MaxPool(1).plan(pyramid.levels[0].shape, pyramid.header.dtype, layout=pyramid.layout)
    for block in tiles.blocks_of(same, sink.unit, None, most):
        if not sink.holds(block.outputs):
            sink(block.outputs, read(block.outputs))
        check_stopped()


def is_up_to_date(pyramid: Pyramid) -> bool:
    """Whether the output is this pyramid of the source as it is now, which the attributes of a store say that a run
    with --resume has completed.
    """
    return is_finished(pyramid.output, _identity(pyramid, fingerprint_of(pyramid.source.path)))


def _identity(pyramid: Pyramid, state: Fingerprint) -> str:
    every = [(each.source, each.grid, each.levels, each.specs) for each in pyramid.all_pyramids]
    text = repr((__version__, state[:2], every))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
