"""Engines: a region of a plan and what it reads in, pooled values and indices out; all give the same answers."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from poolcli.dtypes import numpy_dtype
from poolcli.engine.choose import WORTH_LOADING, choose_engine
from poolcli.engine.fallback import Tell, warn_once, with_fallback
from poolcli.engine.table import NUMPY
from poolcli.errors import RequestError
from poolcli.plan import Plan
from poolcli.plan.region import Region, whole

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from poolcli.engine.call import Call
    from poolcli.engine.table import Engine, Pool

LARGEST_PADDED = 2**62  # positions of taps must fit the int64 of the kernels
LARGEST_OUTPUT = 2**60  # elements: numpy knows no longer array of int64


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
) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
    """Pooled values of a region, and their indices in the whole array, from the `slab` of the input that it reads;
    `tell` as in `call_of`.
    """
    return call_of(region, indices=indices, engine=engine, tell=tell)(slab, out, threads)


def call_of(region: Region, *, indices: bool = False, engine: str = "auto", tell: Tell | None = None) -> Call:
    """The call that computes a region, its engine chosen and loaded; refused where nothing can compute it.

    Where no kernel can be had, numpy computes instead and `tell` is told why; without `tell`, `auto` warns, and an
    engine asked for by name is refused (KernelError).
    """
    from poolcli.engine.call import Call, too_large

    plan = region.plan
    chosen = choose_engine(plan, engine)
    if indices and plan.index is None:
        raise RequestError(f"{plan.op} has no indices: it picks no element of its windows")
    _check_size(plan)
    dtype, shapes = numpy_dtype(plan.output_dtype), (region.input_shape, region.output_shape)
    if prod(shapes[1]) >= LARGEST_OUTPUT:
        raise too_large(shapes[1], dtype)
    tell = tell or (warn_once if engine == "auto" else None)
    try:
        pool: Pool = _pool_of(chosen, region, indices, tell) if prod(shapes[1]) else _nothing
    except MemoryError as error:  # of what goes along an axis of the output
        raise too_large(shapes[1], dtype) from error
    return Call(region, indices, pool, *shapes, dtype)


def _pool_of(engine: Engine, region: Region, indices: bool, tell: Tell | None) -> Pool:
    def made_by(one: Engine) -> Pool:
        return one.load()(region, indices)

    pool = made_by(engine) if tell is None else with_fallback(partial(made_by, engine), partial(made_by, NUMPY), tell)
    if not region.plan.missing:
        return pool
    from poolcli.engine.numpy.missing import without_missing

    return without_missing(region, pool)


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
