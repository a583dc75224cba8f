"""Engines: a region of a plan and what it reads in, pooled values and indices out; all give the same answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from poolcli.dtypes import numpy_dtype
from poolcli.engine.choose import NUMPY, WORTH_LOADING, Tell, choose_engine, warn_once, with_fallback
from poolcli.errors import RequestError
from poolcli.plan import Plan
from poolcli.plan.region import Region, parts_of, whole
from poolcli.system.lazy_imports import loading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from poolcli.engine.call import Call
    from poolcli.engine.choose import Engine, Pool

LARGEST_PADDED = 2**62  # positions of taps must fit the int64 of the kernels
LARGEST_OUTPUT = 2**60  # elements: numpy knows no longer array of int64
TABLE = 96  # bytes that an engine takes for each output along an axis: where its window begins, its length and divisor
LARGEST_TABLE = 2**24  # bytes; a region with longer tables is computed in pieces, unless its data is far larger
PIECE = 2**21  # bytes of the tables of a piece
NUMPY_PIECE = 2**20  # bytes of input and output; of 2**22 numpy takes four times the memory and no less time
WORKING_MEMORY = 32 * NUMPY_PIECE  # bytes at most beside input and output: the sums of uint8 are 8 bytes, several times


def run(
    plan: Plan,
    x: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    indices: bool = False,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
    """Pooled values in the plan's output shape and dtype, and their indices when asked for."""
    return run_region(whole(plan), x, out=out, indices=indices, engine=engine, threads=threads)


def run_region(
    region: Region,
    slab: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    indices: bool = False,
    engine: str = "auto",
    threads: int | None = None,
    tell: Tell | None = None,
    hidden: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
    """Pooled values of a region, and their indices in the whole array, from the `slab` of the input that it reads;
    `tell` and `hidden` as in `call_of`.
    """
    return call_of(region, indices=indices, engine=engine, tell=tell, hidden=hidden)(slab, out, threads)


def call_of(
    region: Region,
    *,
    indices: bool = False,
    engine: str = "auto",
    tell: Tell | None = None,
    hidden: NDArray[np.bool_] | None = None,
) -> Call:
    """The call that computes a region, its engine chosen and loaded; refused where nothing can compute it. Elements of
    what it reads that are `hidden` are missing, whatever they are.

    Where no kernel can be had, numpy computes instead and `tell` is told why; without `tell`, `auto` warns, and an
    engine asked for by name is refused (KernelError).
    """
    from poolcli.engine.call import Call, too_large

    plan = region.plan
    chosen = choose_engine(plan, engine)
    if indices and plan.index is None:
        raise RequestError(f"{plan.op} has no indices: it does not select elements")
    _check_size(plan)
    dtype, shapes = numpy_dtype(plan.output_dtype), (region.input_shape, region.output_shape)
    if prod(shapes[1]) >= LARGEST_OUTPUT:
        raise too_large(shapes[1], dtype)
    tell = tell or (warn_once if engine == "auto" else None)
    try:
        pool: Pool = _pool_of(chosen, region, indices, tell, hidden) if prod(shapes[1]) else _nothing
    except MemoryError as error:  # of what goes along an axis of the output
        raise too_large(shapes[1], dtype) from error
    return Call(region, indices, pool, *shapes, dtype, hidden is not None)


def _pool_of(
    engine: Engine, region: Region, indices: bool, tell: Tell | None, hidden: NDArray[np.bool_] | None
) -> Pool:
    def made_by(one: Engine) -> Pool:
        pieces = _pieces_of(region, one)
        return one.load()(region, indices) if len(pieces) == 1 else _pool_pieces(one, region, pieces, indices)

    pool = made_by(engine) if tell is None else with_fallback(partial(made_by, engine), partial(made_by, NUMPY), tell)
    if not region.plan.missing and hidden is None:
        return pool
    from poolcli.engine.numpy.missing import without_missing

    return without_missing(region, pool, hidden)


def _pieces_of(region: Region, engine: Engine) -> list[Region]:
    """The region itself, or in pieces that an engine takes little more memory for than for the data.

    Cuts lie between grains, so that the pieces have the bits of the whole.
    """
    if engine is NUMPY:
        return [region] if region.nbytes <= NUMPY_PIECE else list(parts_of(region, NUMPY_PIECE))
    axis = max((planned.position for planned in region.plan.axes), key=lambda i: len(region.outputs[i]))
    outputs, grain = region.outputs[axis], region.grains[axis]
    if TABLE * len(outputs) <= max(LARGEST_TABLE, region.nbytes // 4):
        return [region]
    step = max(1, PIECE // TABLE // grain) * grain
    starts = range(outputs.start, outputs.stop, step)
    return [region.cut(axis, range(at, min(at + step, outputs.stop))) for at in starts]


def _pool_pieces(engine: Engine, region: Region, pieces: Sequence[Region], indices: bool) -> Pool:
    """What pools a region piece by piece."""
    prepare_piece = engine.load()

    def pool(slab: NDArray[Any], out: NDArray[Any], threads: int | None) -> NDArray[np.int64] | None:
        import numpy as np

        from poolcli.engine.call import in_slab, slices

        positions = np.empty(out.shape, np.int64) if indices else None
        for piece in pieces:
            reads, place = slices(piece.reads, region.reads), slices(piece.outputs, region.outputs)
            found = prepare_piece(piece, indices)(slab[reads], out[place], threads)
            if positions is not None and found is not None:
                positions[place] = in_slab(found, region.plan, piece.reads, region.reads)
        return positions

    return pool


def _nothing(slab: NDArray[Any], out: NDArray[Any], threads: int | None) -> None:
    """Pools into an array without elements."""


def prepare(plan: Plan, engine: str = "auto") -> str:
    """The engine that will run `plan` once, by its name."""
    return choose_engine(plan, engine, WORTH_LOADING).name


def _check_size(plan: Plan) -> None:
    for axis in plan.axes:
        begin, end = getattr(axis.windows, "pad_begin", 0), getattr(axis.windows, "pad_end", 0)
        if axis.windows.size + begin + end >= LARGEST_PADDED:
            raise RequestError(
                f"axis {axis.name} with its pads is 2**62 or longer; only `shape` can answer for such sizes"
            )


# What computing needs is loaded while the input is read: reading and decoding let other threads run.
_last: deque[Plan] = deque(maxlen=1)


def make_ready() -> None:
    """Loads what every kernel needs, whatever it computes: what says which of those that are kept are its."""
    with suppress(Exception):  # whoever computes meets it again
        from poolcli.engine.compiled import kernel_cache

        kernel_cache.opened()


@contextmanager
def prefetched_kernel(plan: Plan, indices: bool, engine: str) -> Iterator[None]:
    """Imports the engine and loads the kernel of a plan, where one is kept, while what is inside runs; done at its end.

    A picture of 12 megapixels takes as long to be decoded as numpy and a kernel to be loaded: 0.1 s. Nothing is left to
    load for the plan of the last array, which that of the next one is in most folders.
    """
    if any(plan is last for last in _last):
        yield
        return
    helper = threading.Thread(target=_load, args=(plan, indices, engine), name="poolcli")
    helper.start()
    try:
        yield
    finally:
        with loading():
            helper.join()
    _last.append(plan)


def _load(plan: Plan, indices: bool, engine: str) -> None:
    with suppress(Exception):  # whoever computes meets it again
        call_of(whole(plan), indices=indices, engine=engine)
