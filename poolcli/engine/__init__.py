"""Runs an engine on arrays: `run` a whole plan; `call_of` prepares calls for a region of it.

All engines give the same bits, but for float sums that cancel (docs/rules.md, Types); `poolcli.engine.choose` selects
one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from poolcli.dtypes import numpy_dtype
from poolcli.engine.choose import NUMPY, Engine, Pool, Tell, choose_engine, warn_once, with_fallback
from poolcli.errors import RequestError
from poolcli.plan import Plan
from poolcli.plan.plan import Region, parts_of, whole
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import slices

if TYPE_CHECKING:
    from poolcli.engine.call import Call
    from poolcli.engine.numpy.missing import Moved

MAX_PADDED_LENGTH = 2**62  # positions of taps must fit the int64 of the kernels
MAX_OUTPUT = 2**60  # elements: numpy has no longer arrays of int64
# Kernels keep a table per axis: start, length and divisor of each window. A region with larger tables is computed in
# pieces, unless its data is far larger.
TABLE_BYTES, ROW_BYTES = 96, 48  # for each output along an axis, and for each output row of a plane of the input
MAX_TABLE_BYTES = 2**24
PIECE_TABLE_BYTES = 2**21
NUMPY_PIECE_BYTES = 2**20  # of input and output; with 2**22 numpy takes four times the memory and no less time
WORKING_MEMORY = 32 * NUMPY_PIECE_BYTES  # at most, besides input and output: sums of uint8 take 8 bytes, several times


def run(
    plan: Plan,
    x: Array,
    *,
    out: Array | None = None,
    indices: bool = False,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[Array, Array | None]:
    """Pooled values in the plan's output shape and dtype, and their indices if requested."""
    return call_of(whole(plan), indices=indices, engine=engine)(x, out, threads)


def call_of(
    region: Region,
    *,
    indices: bool = False,
    engine: str = "auto",
    tell: Tell | None = None,
    mask: Array | None = None,
    moved: Moved | None = None,
) -> Call:
    """Prepare the computation of a region: chooses and loads the engine. Elements where `mask` is True are missing.

    If no kernel can be built, numpy computes instead and `tell` is called with the reason; without `tell`, `auto`
    warns, and an engine requested by name is refused (KernelError). `moved` is called with which results were moved
    away from the missing value.
    """
    from poolcli.engine.call import Call, too_large

    plan = region.plan
    chosen = choose_engine(plan, engine)
    if indices and plan.index is None:
        raise RequestError(f"{plan.op} has no indices: it does not select elements")
    for axis in plan.axes:
        if axis.windows.size + axis.windows.pad_begin + axis.windows.pad_end >= MAX_PADDED_LENGTH:
            raise RequestError(f"axis {axis.name} with its pads is 2**62 or longer; only `shape` answers such sizes")
    dtype, shape = numpy_dtype(plan.output_dtype), region.output_shape
    if prod(shape) >= MAX_OUTPUT:
        raise too_large(shape, dtype)
    tell = tell or (warn_once if engine == "auto" else None)
    try:
        pool = None
        if prod(shape):
            pool = _with_pieces(chosen, region, indices)
            if tell is not None and chosen is not NUMPY:
                pool = with_fallback(pool, lambda: _with_pieces(NUMPY, region, indices), tell)
    except MemoryError as error:  # of the tables along an axis of the output
        raise too_large(shape, dtype) from error
    if pool and (plan.missing or mask is not None):
        from poolcli.engine.numpy.missing import without_missing

        pool = without_missing(region, pool, mask, moved)
    return Call(region, indices, pool, dtype, mask is not None)


def _pieces_of(region: Region, engine: Engine) -> list[Region]:
    """The region itself, or pieces for which an engine needs little memory besides the data.

    Cuts are at multiples of the grain, so that the pieces give the same bits as the whole.
    """
    if engine is NUMPY:
        return [region] if region.nbytes <= NUMPY_PIECE_BYTES else list(parts_of(region, NUMPY_PIECE_BYTES))
    *others, last = (planned.position for planned in region.plan.axes)
    axis = max((*others, last), key=lambda i: len(region.outputs[i]))
    outputs, grain = region.outputs[axis], region.grains[axis]
    rows = ROW_BYTES * prod(len(region.outputs[i]) for i in others)
    if TABLE_BYTES * len(outputs) + rows <= max(MAX_TABLE_BYTES, region.nbytes // 4):
        return [region]
    each = TABLE_BYTES + (0 if axis == last else rows // len(outputs))
    step = max(1, PIECE_TABLE_BYTES // each // grain) * grain
    starts = range(outputs.start, outputs.stop, step)
    return [region.cut(axis, range(at, min(at + step, outputs.stop))) for at in starts]


def _with_pieces(engine: Engine, region: Region, indices: bool) -> Pool:
    """The function that pools the region, piece by piece."""
    prepare, pieces = engine.load(), _pieces_of(region, engine)
    if len(pieces) == 1:
        return prepare(region, indices)

    def pool(slab: Array, out: Array, threads: int | None) -> Array | None:
        positions = np.empty(out.shape, np.int64) if indices else None
        for piece in pieces:
            reads, place = slices(piece.reads, region.reads), slices(piece.outputs, region.outputs)
            found = prepare(piece, indices)(slab[reads], out[place], threads)
            if positions is not None and found is not None:
                positions[place] = found
        return positions

    return pool
