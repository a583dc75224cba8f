"""Writes pyramids of images with their labels, of plates and of series, block by block.

The source is read once, to copy it to the first level. Further levels are pooled from the level before, or from the
first one (`--from source`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any

from poolcli import __version__
from poolcli.formats import ArrayReader, open_array
from poolcli.formats.checks import memory_limit_of
from poolcli.formats.files import Fingerprint, check_unchanged, fingerprint_of
from poolcli.formats.records import WriteOptions
from poolcli.formats.zarr.write import ZarrWriter, is_finished, open_writers
from poolcli.plan.plan import blocks_of, largest_block, whole
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Settings
from poolcli.pooling.pyramid_plan import Pyramid
from poolcli.pooling.tiles import Distribute, Progress
from poolcli.system.signals import check_stopped


@dataclass(frozen=True, slots=True)
class PyramidResult:
    """The engine and the seconds of a pyramid that was written, and notes."""

    engine: str
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()


def write_pyramid(
    pyramid: Pyramid, file: ArrayReader, settings: Settings, progress: Progress, distribute: Distribute | None
) -> PyramidResult:
    """Writes the store atomically; `distribute` computes the blocks whose source can be read in parts elsewhere."""
    path, every, engine, notes = pyramid.source.path, pyramid.all_pyramids, "none", dict[str, None]()
    before, clock = fingerprint_of(path), tiles.Clock()  # the source must not change meanwhile
    identity = _identity(pyramid, before) if settings.resume else None
    finished, total = 0, sum(whole(level.plan).nbytes for each in every for level in each.levels)

    def step(done: int, of_level: int) -> None:
        progress(finished + done, total)

    if total > tiles.SHOWN_BYTES:
        progress(0, total)
    specs = [spec for each in every for spec in each.specs]
    options = WriteOptions(settings.overwrite, identity=identity, run=identity)
    with open_writers(pyramid.output, specs, options) as writers:
        left = iter(writers)
        for each in every:
            own = list(islice(left, len(each.levels)))
            source = replace(each.source, key=each.header.key)
            with nullcontext(file) if each is pyramid else open_array(source, settings.read_options) as opened:
                for work in _write_levels(each, opened, own, settings, clock, step, distribute):
                    finished += whole(work.plan).nbytes
                    notes |= dict.fromkeys(work.notes)
                    if each is pyramid and work.plan is not pyramid.levels[0].plan:
                        engine = "numpy" if work.reasons else work.engine
        check_unchanged(path, before)
    return PyramidResult(engine, clock.seconds, tuple(notes))


def _write_levels(
    pyramid: Pyramid,
    file: ArrayReader,
    levels: Sequence[ZarrWriter],
    settings: Settings,
    clock: tiles.Clock,
    progress: Progress,
    distribute: Distribute | None,
) -> Iterator[tiles.Work]:
    """Writes the levels of one image or label image; yields the work of each level when it is done."""
    header, layout, beside = pyramid.header, pyramid.layout, pyramid.header.extra_memory
    source = replace(pyramid.source, key=header.key)
    most = tiles.bytes_of_block(None if settings.max_memory is None else settings.max_memory - beside)
    if not file.streams:
        limit = memory_limit_of(source.path, settings.max_memory, settings.allowed)
        tiles.check_fits(header.nbytes + beside, limit)
    layouts = pyramid.read_layout, layout
    own_chunks = file.chunks and tuple(file.chunks[pyramid.read_layout.index(letter)] for letter in layout)
    for number, (level, sink) in enumerate(zip(pyramid.levels, levels, strict=True)):
        is_copy, base = number == 0, levels[level.base]
        engine = "numpy" if is_copy else settings.engine
        work = tiles.make_work(level.plan, engine, settings.threads, clock, progress)
        shape = tiles.block_shape(level.plan, sink.unit, own_chunks if is_copy else pyramid.grid.chunks, most)
        region = whole(level.plan)
        blocks = blocks_of(region, shape)
        if distribute is not None and (file.streams or not is_copy):
            of_source = partial(tiles.reading, source, settings.read_options, layouts)
            opener: Any = of_source if is_copy else partial(nullcontext, base.writer.read)
            tiles.pool_distributed(distribute, work, opener, [sink], blocks, most)
        else:
            read = partial(tiles.read_in_order, file.read, layouts) if is_copy else base.read
            if largest_block(region, shape).nbytes <= most:
                tiles.pool_in_tiles(work, read, [sink], blocks)
                blocks = iter(())
            for block in blocks:
                if not sink.holds(block.outputs):
                    sink(block.outputs, tiles.pool_block(work, read, block, most)[0])
                check_stopped()
        yield work


def is_up_to_date(pyramid: Pyramid) -> bool:
    """Whether a run with --resume has completed this pyramid of the source as it is now."""
    return is_finished(pyramid.output, _identity(pyramid, fingerprint_of(pyramid.source.path)))


def _identity(pyramid: Pyramid, state: Fingerprint) -> str:
    every = [(each.source, each.grid, each.levels, each.specs) for each in pyramid.all_pyramids]
    text = repr((__version__, state[:2], every))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
