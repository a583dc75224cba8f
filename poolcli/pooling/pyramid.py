"""Plans pyramids of images with their labels, of plates and of series, and writes them block by block.

The source is read once: each block is copied to the first level and pooled into the second. Further levels are pooled
from the level before, or from the source again (`--from source`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from math import gcd, lcm
from typing import Any

from poolcli import __version__
from poolcli.dtypes import lookup
from poolcli.errors import PoolError, RequestError
from poolcli.formats import ArrayReader, Header, Metadata, Source, Spec, open_array
from poolcli.formats.checks import byte_count, join_names
from poolcli.formats.files import check_unchanged, fingerprint_of
from poolcli.formats.names import array_names
from poolcli.formats.records import WriteOptions
from poolcli.formats.zarr import Images
from poolcli.formats.zarr.targets import is_finished
from poolcli.formats.zarr.write import ZarrWriter, open_writers
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Settings, failure
from poolcli.pooling.pyramid_plan import Pyramid, Request, plan_pyramid
from poolcli.system.lazy_imports import Array
from poolcli.system.signals import check_stopped
from poolcli.windows import Ranges


def plan_with_labels(
    request: Request, source: Source, header: Header, metadata: Metadata | None, output: str, settings: Settings
) -> Pyramid:
    """Plans the pyramid of an input and of its labels; raises RequestError for inputs that cannot be pooled."""
    metadata = metadata or Metadata()
    image = plan_pyramid(request, source, header, metadata, output, settings)
    labels: Mapping[str, str] = metadata.ome.get("labels", {})
    return _with_labels(request, image, labels, settings) if labels else image


def plan_all_images(request: Request, source: Source, images: Images, output: str, settings: Settings) -> Pyramid:
    """Plans the pyramids of several images; returns the first, with the others in its `others`."""
    options, every = replace(settings.read_options, as_pyramid=True), list[Pyramid]()
    for place, key in images.keys.items():
        image, asked = replace(source, key=key), replace(request, place=place, groups=images.groups)
        try:
            with open_array(image, options) as file:
                every.append(plan_with_labels(asked, image, file.header, file.metadata, output, settings))
        except Exception as error:
            raise failure(error, f"{source.path}:/{key}") from error
    counts = Counter(note for each in every for note in dict.fromkeys(each.notes))
    shared = [note for note, count in counts.items() if count == len(every)]
    own = [f"{each.source.key}: {note}" for each in every for note in each.notes if note not in shared]
    return replace(every[0], others=tuple(every[1:]), notes=(*shared, *own))


def _with_labels(request: Request, image: Pyramid, labels: Mapping[str, str], settings: Settings) -> Pyramid:
    """The pyramid with those of its labels, which keep their storage; notes name labels that cannot be pooled."""
    settings = replace(settings, layout=None, chunks=None, shards=None, missing=None, min_count=None)
    reduction, keys = replace(request.reduction, op="mode"), [spec.key for spec in image.specs]
    found, notes, above = dict[str, Pyramid](), [*image.notes], f"{request.place}labels/"
    asked = replace(request, reduction=reduction, levels=len(image.levels), of_labels=True)
    for name, key in labels.items():
        source = replace(image.source, key=key)
        try:
            if not key:
                raise RequestError("the store has no such level of them")
            with open_array(source, settings.read_options) as file:
                place = replace(asked, place=f"{above}{name}/")
                each = plan_pyramid(place, source, file.header, file.metadata, image.output, settings)
            array_names(image.output, [*keys, *(spec.key for spec in each.specs)])
        except PoolError as error:
            notes.append(f"left out: the labels {name}: {error}")
            continue
        keys += [spec.key for spec in each.specs]
        found[name] = each
        notes += [f"labels {name}: {note}" for note in each.notes]
    if not found:
        return replace(image, notes=tuple(notes))
    notes.append(f"pooled with mode: the labels {join_names(list(found))}")
    listed = {"labels": list(found)}
    groups: dict[str, Any] = {above: listed if request.ngff == "0.4" else {"ome": {"version": request.ngff, **listed}}}
    for each in (image, *found.values()):
        groups |= each.specs[0].metadata.groups
    image, *pooled = (replace(each, specs=_in_groups(each.specs, groups)) for each in (image, *found.values()))
    return replace(image, labels=tuple(pooled), notes=tuple(notes))


def _in_groups(specs: Sequence[Spec], groups: Mapping[str, Any]) -> tuple[Spec, ...]:
    return tuple(replace(spec, metadata=replace(spec.metadata, groups=groups)) for spec in specs)


@dataclass(frozen=True, slots=True)
class LevelOpener:
    """Opens what a level is pooled from, in any process: the level `base`, or the source `file`.

    If `copy` is given, blocks of the source are also written to it, the first level.
    """

    file: tiles.FileOpener
    read_layout: str
    layout: str
    plan: Plan
    base: ZarrWriter | None = None
    copy: ZarrWriter | None = None

    @contextmanager
    def __call__(self) -> Iterator[tiles.Read]:
        base, copy = self.base, self.copy
        if base is not None:
            yield base.read
            return
        with self.file() as read:
            read = transposed(read, self.read_layout, self.layout)
            yield read if copy is None else copying(read, copy, self.plan)


def transposed(read: tiles.Read, own: str, wanted: str) -> tiles.Read:
    """A reader of the source with its axes in the order `wanted`."""

    def read_transposed(region: Ranges) -> Array:
        return convert_layout(read(tuple(region[wanted.index(letter)] for letter in own)), own, wanted)

    return read_transposed


def copying(read: tiles.Read, copy: Callable[[Ranges, Array], None], plan: Plan) -> tiles.Read:
    """A reader that also writes what it reads to the first level, with the elements at the end of an axis that no
    window reads.
    """

    def read_and_copy(reads: Ranges) -> Array:
        ends = zip(reads, plan.input_shape, kernels_of(plan), strict=True)
        block = tuple(range(span.start, n if n - span.stop < k else span.stop) for span, n, k in ends)
        x = read(block)
        copy(block, x)
        return x[tuple(slice(len(span)) for span in reads)]

    return read_and_copy


def kernels_of(plan: Plan) -> tuple[int, ...]:
    """The length of a window along each axis of the array; 1 along axes that are not pooled."""
    found = [1] * len(plan.input_shape)
    for axis in plan.axes:
        found[axis.position] = axis.windows.longest
    return tuple(found)


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

    with open_writers(
        pyramid.output, pyramid.all_specs, WriteOptions(settings.overwrite, identity=identity, run=identity)
    ) as writers:
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
    room = None if settings.max_memory is None else settings.max_memory - pyramid.header.extra_memory
    most = tiles.bytes_of_block(room)
    if not file.streams:
        held = byte_count(pyramid.header.shape, lookup(pyramid.header.dtype).itemsize) + pyramid.header.extra_memory
        tiles.check_fits(held, settings.max_memory)
    opening = tiles.FileOpener(replace(pyramid.source, key=pyramid.header.key), settings.read_options)
    read = transposed(file.read, pyramid.read_layout, pyramid.layout)
    for number, level in enumerate(pyramid.levels):
        if level.plan is None:
            continue
        work = tiles.make_work(level.plan, settings.engine, settings.threads, clock, progress)
        copy, base = levels[0] if number == 1 else None, levels[level.base] if level.base else None
        chunks = pyramid.grid.chunks if base else _chunks_of_source(pyramid, file)
        blocks = _blocks(level.plan, levels[number], copy, chunks, most)
        # A block that is copied to the first level must not be pooled in pieces, which may read elements twice.
        room = max(most, blocks.largest.aligned.nbytes) if copy else most
        if distribute is not None and (base or file.streams):
            below, first = (each.writer if each else None for each in (base, copy))
            reading = LevelOpener(opening, pyramid.read_layout, pyramid.layout, level.plan, below, first)
            tiles.pool_distributed(distribute, work, reading, [levels[number]], blocks, room)
        else:
            source = base.read if base else copying(read, copy, level.plan) if copy else read
            _pool_blocks(work, source, levels[number], blocks, room)
        yield work
    if len(pyramid.levels) == 1:
        _copy_source(pyramid, read, levels[0], most)


def is_up_to_date(pyramid: Pyramid) -> bool:
    """Whether the output is this pyramid of the source as it is now, which the attributes of a store say that a run
    with --resume has completed.
    """
    return is_finished(pyramid.output, _identity(pyramid, fingerprint_of(pyramid.source.path)))


def _identity(pyramid: Pyramid, state: tuple[int, ...]) -> str:
    every = [(each.source, each.grid, each.levels, each.specs) for each in pyramid.all_pyramids]
    text = repr((__version__, state[:2], every))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _chunks_of_source(pyramid: Pyramid, file: ArrayReader) -> tuple[int, ...] | None:
    found = file.chunks
    return None if found is None else tuple(found[pyramid.read_layout.index(letter)] for letter in pyramid.layout)


def _blocks(
    plan: Plan, sink: ZarrWriter, copy: ZarrWriter | None, chunks: tuple[int, ...] | None, most: int
) -> tiles.Blocks:
    """The blocks of a level: whole units of it, and also of the first level if that is copied on the way."""
    unit = sink.unit
    if copy is not None:
        own = zip(copy.unit, sink.unit, kernels_of(plan), strict=True)
        unit = tuple(lcm(of_level, of_copy // gcd(of_copy, k)) for of_copy, of_level, k in own)
    return tiles.blocks_of(plan, unit, chunks, most)


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
