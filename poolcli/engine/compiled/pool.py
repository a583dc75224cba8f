"""The numba engine: brings an array into the canonical view, prepares a kernel, and shares its tasks among threads."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.core.dtypes import lookup
from poolcli.core.windows import ceil_div
from poolcli.engine.compiled import cache
from poolcli.engine.compiled.view import SHORT_ROWS, View, view_of
from poolcli.engine.numpy.pool import pool as reference
from poolcli.plan import Plan
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[..., None]
TILES = 4  # for each thread, so that threads share evenly
SMALLEST_TILE = 1 << 15  # elements; fewer are not worth a call
LARGEST_TILE = 1 << 20  # elements, so that a stop request is heard soon
BITS = {"float16": np.int16, "bfloat16": np.uint16}  # the types as which kernels see them
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow

_kernels: dict[str, Kernel] = {}
_ready: set[tuple[Any, ...]] = set()
_preparing = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_current_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the child has none of the parent's threads


def pool(region: Region, x: Array, out: Array, *, indices: bool, threads: int) -> NDArray[np.int64] | None:
    """Writes the pooled values to `out`; returns positions inside the plane of `x` (-1: none) when asked."""
    plan = region.plan
    strange = plan.reducer.power is not None or plan.reducer.better not in (None, operator.gt)
    if strange or len(plan.axes) > 3 or (plan.reducer.divides and _largest_divisor(plan) >= 2**31):
        return reference(region, x, out, indices=indices, threads=threads)
    view = view_of(region)
    source = view.of_input(x.copy() if np.may_share_memory(x, out) else x)
    if plan.reducer.divides:
        _mean(plan, view, source, out, threads)
        return None
    return _maximum(region, view, source, out, indices, threads)


def _mean(plan: Plan, view: View, x: Array, out: Array, threads: int) -> None:
    kind, target = lookup(plan.dtype), lookup(plan.output_dtype)
    if kind.is_integer and kind.bits == 64:
        _mean_wide(plan, view, x, out, threads)
    elif kind.kind != "float":
        _mean_integer(plan, view, x, out, threads)
    elif kind.bits == 64:
        values = np.empty(view.output_shape, np.float64)
        _pool(view, x, values, np.complex128, np.float64, None, threads)
        if not np.isfinite(values).all():  # perhaps of finite numbers: their sum may leave the range, their mean cannot
            scaled = np.empty(view.output_shape, np.float64)
            _pool(view, x * SCALE, scaled, np.complex128, np.float64, None, threads)
            with np.errstate(all="ignore"):
                values = np.where(np.isfinite(values), values, scaled / SCALE)
        view.store(out, values)
    else:
        values = view.target(out, BITS.get(target.name, target.name))
        _pool(view, x, values, np.float64, np.float64, None, threads)
        view.store(out, values)


def _mean_integer(plan: Plan, view: View, x: Array, out: Array, threads: int) -> None:
    kind, target = lookup(plan.dtype), lookup(plan.output_dtype)
    largest = max(map(abs, kind.limits)) * prod(axis.entire.longest for axis in view.axes)
    total = np.int16 if largest < 2**15 else np.int32 if largest < 2**31 else np.int64
    values = view.target(out, np.float64 if target.kind == "float" and target.bits == 16 else target.name)
    divisor: type = np.float64
    if target.kind != "float":
        largest = max(largest, _largest_divisor(plan))
        divisor = np.float32 if largest < 2**24 else np.float64 if largest < 2**53 else np.int64
    _pool(view, x, values, total, divisor, None, threads)
    view.store(out, values)


def _mean_wide(plan: Plan, view: View, x: Array, out: Array, threads: int) -> None:
    kind, target = lookup(plan.dtype), lookup(plan.output_dtype)
    rounded = target.kind != "float"
    values = np.empty(view.output_shape, np.int64 if rounded else np.float64)
    geometry, divisors = view.geometry(), tuple(axis.divisor for axis in view.axes)
    arguments = (*geometry, divisors, rounded, kind.kind == "uint")
    before = (x.view(np.int64), values, view.inner)
    _run("mean_wide", view, (x.dtype, values.dtype), before, arguments, view.rows, threads)
    view.store(out, values.view(target.name) if rounded else values)


def _maximum(region: Region, view: View, x: Array, out: Array, indices: bool, threads: int) -> NDArray[np.int64] | None:
    plan, half = region.plan, region.plan.dtype in BITS
    dtype = np.dtype(np.float32) if half else x.dtype
    lowest = dtype.type(-np.inf if dtype.kind == "f" else lookup(plan.dtype).limits[0])
    bits = half and plan.output_dtype == plan.dtype and not indices
    values = view.target(out, BITS[plan.dtype] if bits else dtype)
    if not indices:
        _pool(view, x, values, dtype, None, lowest, threads)
        view.store(out, values)
        return None
    positions = np.empty(view.output_shape, np.int64)
    before = (x.reshape(-1), values.reshape(-1), positions.reshape(-1), view.inner, view.shapes)
    _run("maximum_at", view, (x.dtype, dtype), before, (*view.geometry(), lowest), view.rows, threads)
    view.store(out, values)
    plane = prod(region.input_shape[axis.position] for axis in plan.axes)
    if view.axes[2].size > plane:  # several planes lie in one row, and positions count inside a plane
        positions = np.where(positions < 0, -1, positions % plane)
    return view.to_layout(positions)


def _pool(
    view: View, x: Array, out: Array, total: type | np.dtype[Any], divisor: type | None, lowest: Any, threads: int
) -> None:
    """Sums in type `total` over divisors of type `divisor`, or (with `lowest`) maxima, by the kernel that suits."""
    like = np.empty(0, total)
    if lowest is not None:
        divisors = view.divisors(np.int8)
    else:
        divisors = view.divisors(divisor, reciprocal=out.dtype != np.float64 and like.dtype == np.float64)
    arguments: tuple[Any, ...] = (*view.geometry(), divisors, lowest)
    tasks = view.rows
    across, down = view.across(like.itemsize), view.down()
    if across is None:
        name, arguments = "each", (*view.geometry(spread=True), divisors, lowest, view.axes[2].entire.longest)
    elif view.is_halving:
        name = "halve"
    elif down is not None:
        name, arguments = "slide_blocks", (*arguments, tuple(across), down)
        tasks = view.rows // view.axes[1].output * down[3] * ceil_div(across.outputs, across.piece)
    else:
        group = max(1, SHORT_ROWS // (across.reach * view.inner))
        name, arguments = "slide", (*arguments, tuple(across), group)
        tasks = ceil_div(view.rows, group) * ceil_div(across.outputs, across.piece)
    before = (x.reshape(-1), out.reshape(-1), like, view.inner, view.shapes)
    _run(name, view, (x.dtype, like.dtype, out.dtype, divisor), before, arguments, tasks, threads)


def _largest_divisor(plan: Plan) -> int:
    """The largest number that a sum may be divided by; larger ones than 2**31 are left to the numpy engine."""
    largest = prod(windows.longest for windows in plan.windows)
    return max(largest, abs(plan.divisor_override or 0))


def _run(
    name: str,
    view: View,
    dtypes: tuple[Any, ...],
    before: tuple[Any, ...],
    after: tuple[Any, ...],
    tasks: int,
    threads: int,
) -> None:
    """Runs the variant of kernel `name` for `dtypes` over all tasks, in tiles that `threads` threads share."""

    def call(first: int, last: int) -> None:
        _kernels[name](*before, (first, last), *after)

    _prepare((name, *dtypes), call)
    work = max(prod(view.input_shape), prod(view.output_shape))
    count = max(min(TILES * threads, work // SMALLEST_TILE), work // LARGEST_TILE, 1)
    tile = ceil_div(tasks, count)
    tiles = [(first, min(first + tile, tasks)) for first in range(0, tasks, tile)]
    if threads == 1 or len(tiles) == 1:
        for first, last in tiles:
            call(first, last)
        return
    _share(call, tiles, threads)


def _share(call: Callable[[int, int], None], tiles: list[tuple[int, int]], threads: int) -> None:
    """Each thread, this one included, takes the next tile until none is left; an exception here stops all."""
    waiting = iter(tiles)

    def work() -> None:
        for first, last in waiting:  # the interpreter lock makes taking the next tile safe
            call(first, last)

    helpers = _pools.get(threads) or _pools.setdefault(threads, ThreadPoolExecutor(threads - 1, "poolcli"))
    _keep_off_this_core(helpers)
    futures = [helpers.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for _ in waiting:
            pass  # after an exception: nothing is left for the others
        for future in futures:
            future.result()


def _keep_off_this_core(helpers: ThreadPoolExecutor) -> None:
    """Lets helpers run on every core but the caller's.

    Linux may wake a helper on the caller's core and leave both there for a time slice of 3 ms: a call of 1.8 ms
    after a pause of 20 ms took 3.3.
    """
    if _current_core is None:
        return
    allowed = os.sched_getaffinity(0)
    others = allowed - {_current_core()} or allowed
    for helper in helpers._threads:
        with suppress(OSError):
            os.sched_setaffinity(helper.native_id or 0, others)


def _prepare(variant: tuple[Any, ...], call: Callable[[int, int], None]) -> None:
    """Loads or compiles the kernel for these types, once and in one thread; a broken cache is emptied."""
    if variant in _ready:
        return
    with _preparing, cache.timed(), cache.locked():
        if variant in _ready:
            return
        kernel, *dtypes = variant
        marker = "-".join([kernel, *(str(np.dtype(dtype)) for dtype in dtypes if dtype)])
        _load(kernel)
        if not cache.is_ready(marker):
            cache.announce(f"compiling {kernel} for {dtypes[0]} (first use only)")
        try:
            call(0, 0)
        except Exception:
            cache.purge()  # truncated or foreign entries raise many kinds of exception
            _load(kernel, cached=False)
            call(0, 0)
        else:
            cache.mark_ready(marker)
        _ready.add(variant)


def _load(name: str, cached: bool = True) -> None:
    """Puts the kernel into the table; without the cache, as a fresh compilation of the same function."""
    from poolcli.engine.compiled import kernels

    if cached and name in _kernels:
        return
    kernel = getattr(kernels, name)
    _kernels[name] = kernel if cached else kernels.uncached(kernel.py_func)
