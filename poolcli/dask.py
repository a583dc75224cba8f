"""Lazy pooling of dask arrays with any chunks; results are bit-identical to those of the whole array.

The functions are those of poolcli, with the same keywords less `out` and `threads`; they take and return dask arrays.
A block of the result reads exactly the elements in its windows, without rechunking. If every block reads a single block
of the input, as for non-overlapping windows that divide the chunks, dask fuses the work with its neighbours. The graph
has one task per block of the result, and one for the margins of each block.

>>> import dask.array as da
>>> from poolcli.dask import avg_pool
>>> y = avg_pool(da.ones((1, 1, 512, 512), chunks=(1, 1, 128, 128)), 2, strides=2)
>>> y.shape, y.dtype, y.chunksize
((1, 1, 256, 256), dtype('float64'), (1, 1, 64, 64))
>>> float(y.sum().compute())
65536.0
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from itertools import accumulate, pairwise, product
from math import isnan, prod
from operator import getitem
from typing import Any, NamedTuple

import poolcli
from poolcli.arguments import flag
from poolcli.array_interop import is_labelled, like_input, named_layout, warn_of_layout
from poolcli.dtypes import numpy_dtype
from poolcli.engine import call_of
from poolcli.engine.choose import choose_engine
from poolcli.errors import RequestError
from poolcli.formats.cf import declared_missing
from poolcli.plan import Plan, make_plan
from poolcli.plan.plan import Region, whole
from poolcli.system.lazy_imports import Array, Lazy, numpy as np

Block = tuple[int, ...]  # its number along each axis
dask_array = Lazy("dask.array")
dask_base = Lazy("dask.base")
highlevelgraph = Lazy("dask.highlevelgraph")

# If less than this share of a block is read, only its margins are sent to the worker that needs them.
MARGIN = 0.5


class Piece(NamedTuple):
    """The part of a block of the input that is read, along one axis: its place in the block and in the slab."""

    block: int
    taken: slice
    put: slice
    share: float  # of the block's elements


def result_edges(plan: Plan, chunks: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The edges of the result's blocks along each axis; a window belongs to the block that it begins in.

    Blocks begin at multiples of the grains of regions, so that the order of additions is that of the whole array.
    """
    found, grains = [(0, *accumulate(lengths)) for lengths in chunks], whole(plan).grains
    for axis in plan.axes:
        grain, windows = grains[axis.position], range(axis.windows.output)
        first = (bisect_left(windows, edge, key=axis.windows.start) for edge in found[axis.position][1:-1])
        inner = {(place + grain // 2) // grain * grain for place in first}
        found[axis.position] = (0, *sorted(place for place in inner if 0 < place < len(windows)), len(windows))
    return found


def pieces_read(read: range, edges: Sequence[int]) -> list[Piece]:
    """The parts of the input's blocks, whose `edges` are given, that a range along an axis lies in."""
    blocks = range(bisect_right(edges, read.start) - 1, bisect_left(edges, read.stop)) if read else range(1)
    found = []
    for i in blocks:
        low, high = max(edges[i], read.start), min(edges[i + 1], read.stop)
        taken, put = (slice(low - start, high - start) for start in (edges[i], read.start))
        found.append(Piece(i, taken, put, (high - low) / max(edges[i + 1] - edges[i], 1)))
    return found


def _layer(plan: Plan, edges: Sequence[Sequence[int]], x: Any, engine: str, indices: bool, name: str) -> dict[Any, Any]:
    """The tasks by key: one for each block of the result, and one for the margins of each block of the input."""
    whole_plan, beside = whole(plan), f"{name}-margins"
    outputs = [[range(*ends) for ends in pairwise(each)] for each in edges]
    reads = [[whole_plan.cut(axis, span).reads[axis] for span in each] for axis, each in enumerate(outputs)]
    given = [(0, *accumulate(lengths)) for lengths in x.chunks]
    tables = [[pieces_read(read, given[axis]) for read in each] for axis, each in enumerate(reads)]
    tasks, margins = dict[Any, Any](), dict[Block, dict[tuple[tuple[int, int], ...], None]]()
    for place in product(*(range(len(each)) for each in outputs)):
        along, sources = [table[i] for table, i in zip(tables, place, strict=True)], list[Any]()
        for pieces in product(*along):
            block, taken = tuple(piece.block for piece in pieces), tuple(piece.taken for piece in pieces)
            if prod(piece.share for piece in pieces) < MARGIN:
                spans = tuple((part.start, part.stop) for part in taken)
                margins.setdefault(block, {})[spans] = None
                sources.append((getitem, (beside, *block), spans))
            else:
                sources.append((getitem, (x.name, *block), taken))
        region = Region(plan, tuple(each[i] for each, i in zip(outputs, place, strict=True)))
        tasks[name, *place] = (partial(_pool_pieces, region, engine, indices, along), *sources)
    for block, own in margins.items():
        tasks[beside, *block] = (partial(_margins, tuple(own)), (x.name, *block))
    return tasks


def _margins(spans: Sequence[tuple[tuple[int, int], ...]], x: Array) -> dict[Any, Array]:
    """On a worker: the margins of a block of the input that other blocks of the result read, by their spans."""
    return {taken: x[tuple(slice(*span) for span in taken)].copy() for taken in spans}


def _pool_pieces(region: Region, engine: str, indices: bool, along: list[list[Piece]], *parts: Any) -> Any:
    """On a worker: a block of the result, with `indices` a pair, from pieces of several blocks of the input."""
    slab = parts[0]
    if len(parts) > 1:
        slab = np.empty(region.input_shape, slab.dtype)
        for pieces, part in zip(product(*along), parts, strict=True):
            slab[tuple(piece.put for piece in pieces)] = part
    values, at = call_of(region, indices=indices, engine=engine)(slab, threads=1)
    return (values, at) if indices else values


def pool_lazily(op: Any, x: Any, indices: bool, engine: str = "auto", **options: Any) -> tuple[Any, Any | None]:
    """The pooled dask array, or DataArray of one, and its indices or None; `options` are those of every function."""
    data = x.data if is_labelled(x) else x
    _check(data)
    named, dtype = named_layout(x), options.pop("dtype", None)
    if options.get("missing") is None and getattr(x, "attrs", None):
        options["missing"] = declared_missing(x, x.dtype.name)
    plan = make_plan(op, x.shape, x.dtype, named=named, output_dtype=dtype, **options)
    warn_of_layout(plan)
    indices = flag("return_indices", indices)
    choose_engine(plan, engine)  # refuses an unknown engine now rather than in a worker
    edges, nothing = result_edges(plan, data.chunks), (0,) * data.ndim
    token = dask_base.tokenize(data.name, [repr(getattr(plan, own.name)) for own in fields(plan)], engine, indices)
    key = f"{op.name.replace('-', '_')}_pool-{token}"
    layer = _layer(plan, edges, data, engine, indices, key)
    graph = highlevelgraph.HighLevelGraph.from_collections(key, layer, dependencies=[data])
    chunks = tuple(tuple(b - a for a, b in pairwise(each)) for each in edges)
    values = np.empty(nothing, numpy_dtype(plan.output_dtype))
    both = dask_array.Array(graph, key, chunks, meta=values)
    if not indices:
        return like_input(x, both, plan), None
    at = np.empty(nothing, numpy_dtype(plan.index.dtype if plan.index else "int64"))
    values, positions = (both.map_blocks(getitem, i, meta=meta) for i, meta in enumerate((values, at)))
    return like_input(x, values, plan), like_input(x, positions, plan, warns=False)


def _check(x: Any) -> None:
    """Refuses chunks of unknown lengths, and of other arrays than numpy's."""
    if any(isnan(size) for size in x.shape):
        raise RequestError("x has chunks of unknown lengths; call x.compute_chunk_sizes() first")
    if isinstance(x._meta, np.ma.MaskedArray):
        raise RequestError(
            "x has masked chunks, whose masks would be ignored; give dask.array.ma.filled(x, value) with "
            "missing=value, or dask.array.ma.getdata(x) for all"
        )
    if type(x._meta) is not np.ndarray:
        raise RequestError(f"x has chunks of {type(x._meta).__name__}; x.map_blocks(numpy.asarray) makes them numpy's")


def __getattr__(name: str) -> Any:
    """The functions of poolcli, which import this module themselves; of other arrays they give what they give there."""
    if name == "__all__":
        return [each for each in poolcli.__all__ if each.endswith("_pool")]
    if name.startswith("_") or not name.endswith("_pool"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(poolcli, name)
