"""The numba engine: brings an array into the canonical view, prepares a kernel, and shares its tasks among threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine import cache, reference
from poolcli.plan import Plan
from poolcli.windows import AxisWindows, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[..., None]
TASK_SIZE = 1 << 16  # elements read by one tile, so that a stop request is heard soon and threads share evenly
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow

_kernels: dict[str, Kernel] = {}
_ready: set[str] = set()
_preparing = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the child has none of the parent's threads


def pool(plan: Plan, x: Array, out: Array, *, indices: bool, threads: int) -> NDArray[np.int64] | None:
    """Writes the pooled values to `out`; returns positions inside the plane (-1: none) when asked."""
    if len(plan.axes) > 3 or (plan.reducer == "mean" and _largest_divisor(plan) >= 2**31):
        return reference.pool(plan, x, out, indices=indices, threads=threads)
    view = _canonical_view(plan)
    source = view.of_input(x)
    shape = view.output_shape
    if plan.reducer == "mean":
        _store(out, view, _mean(plan, view, source, shape, threads))
        return None
    values, positions = _maximum(plan, view, source, shape, indices, threads)
    _store(out, view, values)
    return None if positions is None else view.to_layout(positions)


@dataclass(frozen=True, slots=True)
class _View:
    """Axes of the layout as (outer, D, H, W, inner); missing spatial axes are one element long."""

    plan: Plan
    order: tuple[int, ...]
    inner: int
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    windows: tuple[AxisWindows, ...]

    def of_input(self, x: Array) -> Array:
        """`x` as (outer, D, H, W * inner), contiguous and native; no copy where it lies so already."""
        if x.dtype.name in ("float16", "bfloat16"):
            x = x.astype(np.float32)
        elif x.dtype == np.bool_:
            x = x.view(np.uint8)
        native = x.astype(x.dtype.newbyteorder("="), copy=False)
        source = np.ascontiguousarray(native.transpose(self.order)).reshape(self.input_shape).view()
        source.flags.writeable = False  # one compiled variant serves writable and read-only arrays
        return source

    def to_layout(self, array: Array) -> Array:
        """An array of the canonical output shape, back in the order of the layout; a view."""
        shape = [self.plan.output_shape[i] for i in self.order]
        return array.reshape(shape).transpose(np.argsort(self.order))


def _canonical_view(plan: Plan) -> _View:
    spatial = [axis.position for axis in plan.axes]
    others = [i for i in range(len(plan.layout)) if i not in spatial]
    in_place = spatial == list(range(spatial[0], spatial[0] + len(spatial)))
    outer = [i for i in others if i < spatial[0]] if in_place else others
    inner = [i for i in others if i not in outer]
    fill = 3 - len(spatial)
    windows = (*(Sliding(1, 1, 1, 1, 1, 0, 0) for _ in range(fill)), *plan.windows)
    count = prod(plan.input_shape[i] for i in inner)
    first = prod(plan.input_shape[i] for i in outer)
    shapes = [
        (first, windows[0].size, windows[1].size, windows[2].size * count),
        (first, windows[0].output, windows[1].output, windows[2].output * count),
    ]
    return _View(plan, (*outer, *spatial, *inner), count, shapes[0], shapes[1], windows)


def _mean(plan: Plan, view: _View, x: Array, shape: tuple[int, ...], threads: int) -> Array:
    divisors = _divisors(plan, view)
    kind, target = lookup(plan.dtype), lookup(plan.output_dtype)
    if kind.kind == "float" and kind.bits == 64:
        out = np.empty(shape, np.float64)
        _run("mean_double", view, x, out, (divisors, 1.0), threads)
        if not np.isfinite(out).all():
            scaled = np.empty(shape, np.float64)
            _run("mean_double", view, x, scaled, (divisors, SCALE), threads)
            out = np.where(np.isfinite(out), out, scaled)
        return out
    if kind.kind == "float":
        out = np.empty(shape, np.float32 if target.name == "float32" else np.float64)
        _run("mean_float", view, x, out, (divisors,), threads)
        return out
    rounded = target.kind != "float"
    out = np.empty(shape, np.int64 if rounded and target.bits == 64 else target.name if rounded else np.float64)
    if kind.bits == 64:
        unsigned = kind.kind == "uint"
        _run("mean_wide", view, x.view(np.int64), out, (divisors, rounded, unsigned), threads)
    else:
        _run("mean_integer", view, x, out, (divisors, rounded), threads)
    return out.view(target.name) if rounded else out


def _maximum(
    plan: Plan, view: _View, x: Array, shape: tuple[int, ...], indices: bool, threads: int
) -> tuple[Array, NDArray[np.int64] | None]:
    out = np.empty(shape, x.dtype)
    lowest = x.dtype.type(-np.inf if x.dtype.kind == "f" else lookup(plan.dtype).limits[0])
    if not indices:
        _run("maximum", view, x, out, (lowest,), threads)
        return out, None
    positions = np.empty(shape, np.int64)
    _run("maximum_at", view, x, out, (lowest,), threads, positions)
    return out, positions


def _store(out: Array, view: _View, values: Array) -> None:
    with np.errstate(all="ignore"):
        out[...] = view.to_layout(values)


def _divisors(plan: Plan, view: _View) -> tuple[Array, ...]:
    counts = [w.divisor(np.arange(w.output)) for w in view.windows]
    if plan.divisor_override is None:
        return tuple(counts)
    ones = [np.ones_like(count) for count in counts]
    return ones[0] * plan.divisor_override, ones[1], ones[2]


def _largest_divisor(plan: Plan) -> int:
    """The largest number that a sum may be divided by; larger ones than 2**31 are left to the numpy engine."""
    return prod(w.kernel if isinstance(w, Sliding) else w.lengths[1] for w in plan.windows)


def _geometry(windows: tuple[AxisWindows, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[int, ...]]:
    """For each axis: the first input index and the number of inputs of every window, and the step between them."""
    begins, counts, steps = [], [], []
    for w in windows:
        o = np.arange(w.output)
        steps.append(w.dilation if isinstance(w, Sliding) else 1)
        begins.append(w.start(o) + (w.first_tap(o) * w.dilation if isinstance(w, Sliding) else 0))
        counts.append(w.inside(o))
    return tuple(begins), tuple(counts), tuple(steps)


def _run(
    name: str, view: _View, x: Array, out: Array, extra: tuple[Any, ...], threads: int, where: Array | None = None
) -> None:
    """Runs kernel `name` over all output rows, in tiles that `threads` threads share."""
    targets = (out,) if where is None else (out, where)
    fixed = (view.inner, *_geometry(view.windows), *extra)

    def call(first: int, last: int) -> None:
        _kernels[name](x, *targets, fixed[0], (first, last), *fixed[1:])

    _prepare(name, f"{name}-{x.dtype}-{out.dtype}", call)
    rows = prod(out.shape[:3])
    tile = max(1, min(-(-rows // threads), TASK_SIZE * rows // max(x.size, out.size, 1)))
    tiles = [(first, min(first + tile, rows)) for first in range(0, rows, tile)]
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
    futures = [helpers.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for _ in waiting:
            pass  # after an exception: nothing is left for the others
        for future in futures:
            future.result()


def _prepare(name: str, variant: str, call: Callable[[int, int], None]) -> None:
    """Loads or compiles the kernel for these types, once and in one thread; a broken cache is emptied."""
    if variant in _ready:
        return
    with _preparing, cache.timed(), cache.locked():
        if variant in _ready:
            return
        _load(name)
        if not cache.is_ready(variant):
            cache.announce(f"compiling {name} for {variant.removeprefix(name + '-')} (first use only)")
        try:
            call(0, 0)
        except Exception:
            cache.purge()  # truncated or foreign entries raise many kinds of exception
            _load(name, cached=False)
            call(0, 0)
        else:
            cache.mark_ready(variant)
        _ready.add(variant)


def _load(name: str, cached: bool = True) -> None:
    """Puts the kernel into the table; without the cache, as a fresh compilation of the same function."""
    from poolcli.engine import kernels

    if cached and name in _kernels:
        return
    kernel = getattr(kernels, name)
    _kernels[name] = kernel if cached else kernels.uncached(kernel.py_func)
