"""The dask graph of a lazy pooling: one task per block of the result, and one for the margins of each block."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib import import_module
from itertools import accumulate, pairwise, product
from math import prod
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple

from poolcli.plan import Plan
from poolcli.plan.region import Region, whole
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Chunks = tuple[tuple[int, ...], ...]
Block = tuple[int, ...]


class Piece(NamedTuple):
    """A part of one block of the input along one axis: what of the block it is, and where it lies in what is read."""

    block: int
    taken: tuple[int, int]
    put: tuple[int, int]
    share: float  # of the block's elements


@dataclass(frozen=True, slots=True)
class Blocks:
    """The edges of blocks along each axis, of the input and of the result."""

    plan: Plan
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]

    @property
    def chunks(self) -> Chunks:
        """The lengths of the result's blocks."""
        return tuple(tuple(b - a for a, b in pairwise(edges)) for edges in self.outputs)

    @property
    def places(self) -> Iterator[Block]:
        """The number of each block of the result along each axis."""
        return product(*(range(len(edges) - 1) for edges in self.outputs))

    @property
    def is_one_to_one(self) -> bool:
        """Whether each block of the result reads the block of the input that has its number, and no other."""
        if any(len(a) != len(b) for a, b in zip(self.inputs, self.outputs, strict=True)):
            return False
        ends = whole(self.plan)
        for axis, (edges, made) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            for (low, high), outputs in zip(pairwise(edges), pairwise(made), strict=True):
                read = ends.cut(axis, range(*outputs)).reads[axis]
                if read.start < low or read.stop > high:
                    return False
        return True

    def region(self, block: Block) -> Region:
        """The region that a block of the result is."""
        return Region(self.plan, tuple(range(*e[i : i + 2]) for e, i in zip(self.outputs, block, strict=True)))

    def origin(self, block: Block) -> tuple[int, ...]:
        """Where a block of the input begins."""
        return tuple(edges[i] for edges, i in zip(self.inputs, block, strict=True))

    def pieces(self, axis: int) -> list[list[Piece]]:
        """For each block of the result along an axis, the parts of the input's blocks that it reads."""
        edges, ends, found = self.inputs[axis], whole(self.plan), []
        for outputs in pairwise(self.outputs[axis]):
            read = ends.cut(axis, range(*outputs)).reads[axis]
            spans = [(i, max(edges[i], read.start), min(edges[i + 1], read.stop)) for i in _touched(edges, read)]
            found.append(
                [
                    Piece(
                        i,
                        (low - edges[i], high - edges[i]),
                        (low - read.start, high - read.start),
                        (high - low) / max(edges[i + 1] - edges[i], 1),
                    )
                    for i, low, high in spans
                ]
            )
        return found


def blocks_of(plan: Plan, chunks: Sequence[Sequence[int]]) -> Blocks:
    """The blocks of a plan's result for an input in these chunks: a window belongs to the block that it begins in.

    Blocks begin at multiples of the grains of regions, so that their bits are those of the whole.
    """
    inputs = tuple((0, *accumulate(lengths)) for lengths in chunks)
    outputs, region = list(inputs), whole(plan)
    for axis in plan.axes:
        edges, grain = inputs[axis.position], region.grains[axis.position]
        places = range(axis.windows.output)
        first = (bisect_left(places, edge, key=axis.windows.start) for edge in edges[1:-1])
        cut = {(place + grain // 2) // grain * grain for place in first}
        inner = sorted(place for place in cut if 0 < place < len(places))
        outputs[axis.position] = (0, *inner, len(places))
    return Blocks(plan, inputs, tuple(outputs))


def _touched(edges: Sequence[int], read: range) -> range:
    """The numbers of the blocks that a range lies in."""
    if not read:
        return range(1)
    return range(bisect_right(edges, read.start) - 1, bisect_left(edges, read.stop))


dask_array = Lazy("dask.array")
dask_base = Lazy("dask.base")
highlevelgraph = Lazy("dask.highlevelgraph")
TASKS = "dask._task_spec"  # no public module has the Task of dask's specification of graphs

MARGIN = 0.5  # of a block: where less is read of it, its margins are cut out where the block is, and no more is moved


def pooled(plan: Plan, x: Any, indices: bool, engine: str, name: str) -> Any:
    """The dask array of a plan's result, and with `indices` that of the positions behind it."""
    from poolcli.dtypes import numpy_dtype
    from poolcli.engine.choose import choose_engine

    choose_engine(plan, engine)  # refuses an unknown word now
    blocks = blocks_of(plan, x.chunks)
    token = dask_base.tokenize(x.name, [repr(getattr(plan, own.name)) for own in fields(plan)], engine, indices)
    dtypes = [numpy_dtype(plan.output_dtype)]
    if not indices:
        if blocks.is_one_to_one:
            return _mapped(blocks, x, engine, f"{name}-{token}", dtypes[0])
        return _array(_layer(blocks, x, engine, False, f"{name}-{token}"), x, blocks, f"{name}-{token}", dtypes[0])
    both = f"{name}-both-{token}"
    layer = _layer(blocks, x, engine, True, both)
    dtypes.append(numpy_dtype(plan.index.dtype if plan.index else "int64"))
    made = highlevelgraph.HighLevelGraph.from_collections(both, layer, dependencies=[x])
    return tuple(
        _one_of(made, both, blocks, place, f"{name}-{word}-{token}", dtype)
        for place, (word, dtype) in enumerate(zip(("values", "indices"), dtypes, strict=True))
    )


def _mapped(blocks: Blocks, x: Any, engine: str, name: str, dtype: Any) -> Any:
    """Block by block, which dask fuses with its surroundings."""
    pool, meta = partial(_pool_one, blocks, engine), _nothing(x.ndim, dtype)
    return dask_array.map_blocks(pool, x, name=name, dtype=dtype, chunks=blocks.chunks, meta=meta)


@cache
def _tasks() -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """What makes a task of its key, a function, what comes first and references; and a reference of a key.

    dask converts graphs of tuples twice before it computes them, which takes as long as all the rest.
    """
    try:
        found = import_module(TASKS)
        task, reference = found.Task, found.TaskRef
    except (ImportError, AttributeError):
        return (lambda _, work, first, *sources: (partial(work, *first), *sources)), (lambda key: key)
    return (lambda key, work, first, *sources: task(key, work, *first, *sources)), reference


def _layer(blocks: Blocks, x: Any, engine: str, indices: bool, name: str) -> dict[Any, Any]:
    """The tasks by their keys: one for each block of the result, and one for all margins of a block of the input."""
    task, reference = _tasks()
    beside = f"{name}-margins"
    tasks, margins = dict[Any, Any](), dict[Block, dict[tuple[tuple[int, int], ...], None]]()
    tables = [blocks.pieces(axis) for axis in range(x.ndim)]
    for place in blocks.places:
        along, sources = [table[i] for table, i in zip(tables, place, strict=True)], []
        for pieces in product(*along):
            block = tuple(piece.block for piece in pieces)
            if prod(piece.share for piece in pieces) < MARGIN:
                margins.setdefault(block, {})[tuple(piece.taken for piece in pieces)] = None
                sources.append(reference((beside, *block)))
            else:
                sources.append(reference((x.name, *block)))
        key = (name, *place)
        tasks[key] = task(key, _pool_pieces, (blocks.region(place), engine, indices, along), *sources)
    for block, spans in margins.items():
        key = (beside, *block)
        tasks[key] = task(key, _margins, (tuple(spans),), reference((x.name, *block)))
    return tasks


def _array(layer: dict[Any, Any], x: Any, blocks: Blocks, name: str, dtype: Any) -> Any:
    graph = highlevelgraph.HighLevelGraph.from_collections(name, layer, dependencies=[x])
    return dask_array.Array(graph, name, blocks.chunks, meta=_nothing(x.ndim, dtype))


def _one_of(made: Any, both: str, blocks: Blocks, which: int, name: str, dtype: Any) -> Any:
    """The values, or the indices, of the tasks that make both."""
    task, reference = _tasks()
    layer = {
        (key := (name, *place)): task(key, getitem, (), reference((both, *place)), which) for place in blocks.places
    }
    graph = highlevelgraph.HighLevelGraph({**made.layers, name: layer}, {**made.dependencies, name: {both}})
    return dask_array.Array(graph, name, blocks.chunks, meta=_nothing(len(blocks.chunks), dtype))


def _nothing(rank: int, dtype: Any) -> Array:
    import numpy as np

    return np.empty((0,) * rank, dtype)


def _pool_one(blocks: Blocks, engine: str, x: Array, block_id: Block) -> Array:
    """On a worker: a block of the result from the block of the input with its number."""
    region = blocks.region(block_id)
    origin = blocks.origin(block_id)
    slab = x[tuple(slice(read.start - low, read.stop - low) for read, low in zip(region.reads, origin, strict=True))]
    return _pool(region, slab, engine, False)[0]


def _margins(spans: Sequence[tuple[tuple[int, int], ...]], x: Array) -> dict[Any, Array]:
    """On a worker: what is read of a block beside the block of the result that it is the most of, by its spans."""
    return {taken: x[tuple(slice(*span) for span in taken)].copy() for taken in spans}


def _pool_pieces(region: Region, engine: str, indices: bool, along: list[list[Piece]], *sources: Any) -> Any:
    """On a worker: a block of the result, and its indices where they are asked for, from what is read of several."""
    import numpy as np

    slab: Any = None
    for source, pieces in zip(sources, product(*along), strict=True):
        taken = tuple(piece.taken for piece in pieces)
        part = source[taken] if isinstance(source, dict) else source[tuple(slice(*span) for span in taken)]
        if len(sources) == 1:
            slab = part
            break
        slab = np.empty(region.input_shape, part.dtype) if slab is None else slab
        slab[tuple(slice(*piece.put) for piece in pieces)] = part
    values, at = _pool(region, slab, engine, indices)
    return (values, at) if indices else values


def _pool(region: Region, slab: Array, engine: str, indices: bool) -> tuple[Array, Array | None]:
    from poolcli.engine import run_region

    return run_region(region, slab, indices=indices, engine=engine, threads=1)
