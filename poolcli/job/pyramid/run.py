"""A pyramid is made level by level, each block of it at once.

The source is read once, block by block: each block is written to the first level, and what is pooled from it to the
second. Further levels are read from what was written, or from the source again where they are computed from that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import gcd, lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError
from poolcli.core.fields import field
from poolcli.core.layouts import convert_layout
from poolcli.core.stop import check_stopped
from poolcli.formats import Opened
from poolcli.formats.arrays import byte_count, human_bytes
from poolcli.formats.places import is_url
from poolcli.formats.state import state_of
from poolcli.formats.zarr.documents import encoded, made
from poolcli.formats.zarr.write import StoreSink, sinks
from poolcli.job.blocks import LARGEST, blocks_of
from poolcli.job.clock import Clock
from poolcli.job.outcome import Settings
from poolcli.job.pool_file import Progress
from poolcli.job.pyramid.prepare import Pyramid
from poolcli.job.tiles import HELD, Work, bytes_of, pool_aligned, pool_in_tiles
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Read = Callable[[Ranges], "Array"]


@dataclass(frozen=True, slots=True)
class Made:
    """How a pyramid was made."""

    engine: str
    seconds: dict[str, float]


def make(pyramid: Pyramid, file: Opened, settings: Settings, progress: Progress) -> Made:
    """Writes the store, whole or not at all."""
    most = LARGEST if settings.max_memory is None else max(1, min(LARGEST, settings.max_memory // HELD))
    _check_memory(pyramid, file, settings)
    path = pyramid.source.path
    before, clock = state_of(path), Clock()
    identity = _identity(pyramid, before) if settings.resume else None
    done = _Done(progress, sum(bytes_of(level.plan) for level in pyramid.levels if level.plan))
    engine = "none"
    with sinks(pyramid.output, pyramid.specs, pyramid.options(settings.overwrite, identity)) as levels:
        read = _source(pyramid, file)
        for number, level in enumerate(pyramid.levels):
            if level.plan is None:
                continue
            work = _work(level.plan, settings, clock, done)
            engine = work.engine
            if number == 1:
                _first(work, read, _chunks(pyramid, file), levels, most)
            else:
                base = levels[level.base] if level.base else None
                chunks = pyramid.grid.chunks if base else _chunks(pyramid, file)
                _further(work, base.read if base else read, chunks, levels[number], most)
            done.move(bytes_of(level.plan))
        if len(pyramid.levels) == 1:
            _copy(pyramid, read, levels[0], most)
        if state_of(path) != before:
            raise FileError(f"{path}: changed while it was being read; run again when it is at rest")
    return Made(engine, clock.seconds)


def is_made(pyramid: Pyramid) -> bool:
    """Whether the output is this very pyramid, and the source has not changed since it was made."""
    if is_url(pyramid.output) or is_url(pyramid.source.path) or not os.path.isdir(pyramid.output):
        return False
    made_of = (made(spec, pyramid.options(False, None)).documents for spec in pyramid.specs)
    wanted = encoded({name: content for documents in made_of for name, content in documents.items()})
    try:
        alike = all(Path(pyramid.output, name).read_bytes() == content for name, content in wanted.items())
        newest = max(os.stat(Path(pyramid.output, name)).st_mtime_ns for name in wanted)
    except OSError:
        return False
    return alike and state_of(pyramid.source.path).mtime_ns < newest


class _Done:
    """Progress over all levels."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def __call__(self, done: int, of_level: int) -> None:
        self._progress(self._before + done, self._total)

    def move(self, size: int) -> None:
        self._before += size


def _check_memory(pyramid: Pyramid, file: Opened, settings: Settings) -> None:
    needed = byte_count(pyramid.header.shape, _itemsize(pyramid))
    if not file.streams and settings.max_memory is not None and needed > settings.max_memory:
        raise FileError(
            f"needs {human_bytes(needed)} of memory, the limit is {human_bytes(settings.max_memory)}; "
            f"raise {field('max_memory')}"
        )


def _itemsize(pyramid: Pyramid) -> int:
    from poolcli.core.dtypes import lookup

    return lookup(pyramid.header.dtype).itemsize


def _identity(pyramid: Pyramid, state: tuple[int, ...]) -> str:
    from importlib.metadata import version

    text = repr((version("poolcli"), pyramid.source, state[:2], pyramid.specs, pyramid.grid, pyramid.levels))
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _work(plan: Plan, settings: Settings, clock: Clock, progress: Progress) -> Work:
    from poolcli.engine import prepare

    with clock.phase("compute"):
        engine = prepare(plan, settings.engine)
    return Work(plan, False, engine, settings.threads, clock, progress)


def _source(pyramid: Pyramid, file: Opened) -> Read:
    """Reads regions of the source in the order of axes that the levels have."""
    own, wanted = pyramid.read_layout, pyramid.layout

    def read(region: Ranges) -> Array:
        return convert_layout(file.read(tuple(region[wanted.index(letter)] for letter in own)), own, wanted)

    return read


def _chunks(pyramid: Pyramid, file: Opened) -> tuple[int, ...] | None:
    found = file.chunks
    return None if found is None else tuple(found[pyramid.read_layout.index(letter)] for letter in pyramid.layout)


def _first(work: Work, read: Read, chunks: tuple[int, ...] | None, levels: Sequence[StoreSink], most: int) -> None:
    """The first level, which is the source, and the second, in one pass over it."""
    copy, sink = levels[:2]
    lengths = work.plan.input_shape
    kernels = _kernels(work.plan)

    def read_and_copy(reads: Ranges) -> Array:
        """What a block reads; the first level has it by then, with what no window reads at the end of an axis."""
        ends = zip(reads, lengths, kernels, strict=True)
        block = tuple(range(span.start, n if n - span.stop < k else span.stop) for span, n, k in ends)
        x = read(block)
        copy(block, x)
        return x[tuple(slice(len(span)) for span in reads)]

    # A block of the second level is made of whole units, and so is what it is pooled from.
    own = zip(copy.unit, sink.unit, kernels, strict=True)
    unit = tuple(lcm(of_level, of_copy // gcd(of_copy, k)) for of_copy, of_level, k in own)
    pool_in_tiles(work, read_and_copy, [sink], blocks_of(work.plan, unit, chunks, most))


def _kernels(plan: Plan) -> tuple[int, ...]:
    found = [1] * len(plan.input_shape)
    for axis in plan.axes:
        found[axis.position] = axis.windows.longest
    return tuple(found)


def _further(work: Work, read: Read, chunks: tuple[int, ...] | None, sink: StoreSink, most: int) -> None:
    """A level from one that is there, or from the source."""
    blocks = blocks_of(work.plan, sink.unit, chunks, most)
    if blocks.largest.nbytes <= most:
        pool_in_tiles(work, read, [sink], blocks)
        return
    for block in blocks:
        if not sink.holds(block.outputs):
            sink(block.outputs, _in_pieces(work, read, block, most))
        check_stopped()


def _in_pieces(work: Work, read: Read, block: Region, most: int) -> Array:
    """A block whose input is larger than memory."""
    import numpy as np

    out = np.empty(block.output_shape, work.plan.output_dtype)
    for piece in _pieces(block, most):
        place = zip(piece.outputs, block.outputs, strict=True)
        inside = tuple(slice(own.start - whole.start, own.stop - whole.start) for own, whole in place)
        out[inside] = pool_aligned(work, piece, read(piece.aligned.reads))[0]
    return out


def _pieces(region: Region, most: int) -> Iterator[Region]:
    """The region halved along the axis that it reads most of, until each part is small enough, or one output."""
    if region.aligned.nbytes <= most or max(region.output_shape) <= 1:
        yield region
        return
    able = [axis for axis, length in enumerate(region.output_shape) if length > 1]
    axis = max(able, key=lambda axis: region.input_shape[axis])
    outputs = region.outputs[axis]
    middle = outputs.start + (len(outputs) + 1) // 2
    yield from _pieces(region.cut(axis, range(outputs.start, middle)), most)
    yield from _pieces(region.cut(axis, range(middle, outputs.stop)), most)


def _copy(pyramid: Pyramid, read: Read, sink: StoreSink, most: int) -> None:
    """The source alone."""
    from poolcli.ops import MaxPool

    same = MaxPool(1).plan(pyramid.levels[0].shape, pyramid.header.dtype, layout=pyramid.layout)
    for block in blocks_of(same, sink.unit, None, most):
        if not sink.holds(block.outputs):
            sink(block.outputs, read(block.outputs))
        check_stopped()
