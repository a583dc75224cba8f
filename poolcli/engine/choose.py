"""The table of engines, the choice of one for a plan, and the fallback to numpy if no kernel can be built."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import prod

from poolcli.arguments import one_of
from poolcli.dtypes import lookup
from poolcli.errors import PoolError, RequestError, error_text, warn_caller
from poolcli.plan import Plan
from poolcli.plan.plan import EXACT_SQUARES_ELEMENTS, Region
from poolcli.system.lazy_imports import Array, loading
from poolcli.windows import Cells, Sliding

# pool(slab, out, threads) writes the pooled values to `out` and returns flat positions in the plane of the whole input
# (-1: empty window) if indices were requested. threads=None uses as many as save time.
Pool = Callable[[Array, Array, int | None], Array | None]
# Called before kernels are compiled; set by the command line. The library is silent.
announce: Callable[[str], object] = str
LARGEST_DIVISOR = 2**31
LONG_BITS = 32  # longer integers do not fit into float64
MAX_ELEMENTS = 49  # of the window of a mode or median; the time grows with their square


def refusal(plan: Plan) -> str | None:
    """Why the numba engine cannot compute this plan; None where it can."""
    reducer, source = plan.reducer, lookup(plan.dtype)
    if len(plan.axes) > 3:
        return f"numba computes up to 3 spatial axes, the plan has {len(plan.axes)}"
    if plan.is_weighted and (len(plan.axes) > 2 or "float64" in (plan.dtype, plan.output_dtype)):
        return "numba computes areas of one or two axes, and not of float64"
    if (reducer.divides or reducer.is_sum) and largest_divisor(plan) >= LARGEST_DIVISOR:
        what = "adds fewer than 2**31 elements" if reducer.is_sum else "divides by numbers below 2**31"
        return f"numba {what}, the plan up to {largest_divisor(plan)}"
    if reducer.power not in (None, 1, 2) or (reducer.power is not None and plan.dtype == "float64"):
        return "numba computes norms with p 1 and 2, of types of up to 32 bits"
    if reducer.statistic is None:
        return None
    if reducer.result == "deviation":
        few = f"fewer than {EXACT_SQUARES_ELEMENTS} integers of up to 16 bits in a window"
        is_exact = source.kind == "float" or plan.has_exact_squares
        return None if is_exact else f"numba computes deviations of floats, and of {few}"
    elements = prod(windows.longest for windows in plan.windows)
    if elements > MAX_ELEMENTS:
        return f"numba computes {reducer.noun}s of up to {MAX_ELEMENTS} elements, the windows have {elements}"
    is_long = source.bits > LONG_BITS and source.kind != "float" and lookup(plan.output_dtype).kind == "float"
    return "numba computes medians of 64-bit integers as integers only" if is_long else None


def largest_divisor(plan: Plan) -> int:
    """The largest divisor of a plan."""
    return max(
        prod(w.parts[0] if isinstance(w, Cells) else w.longest for w in plan.windows), abs(plan.divisor_override or 0)
    )


def is_switched_off() -> bool:
    """Whether numba's compiler is disabled (NUMBA_DISABLE_JIT)."""
    config = getattr(sys.modules.get("numba"), "config", None)  # None also while another thread imports numba
    if config is not None:
        return bool(config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: `module` has its `prepare`."""

    name: str
    module: str
    is_threaded: bool

    def load(self) -> Callable[[Region, bool], Pool]:
        """Import `prepare(region, indices)`, which returns the function that pools the region."""
        with loading():
            prepare: Callable[[Region, bool], Pool] = import_module(self.module).prepare
        return prepare


NUMBA = Engine("numba", "poolcli.engine.compiled.pool", True)
NUMPY = Engine("numpy", "poolcli.engine.numpy", False)
ENGINES = {engine.name: engine for engine in (NUMBA, NUMPY)}


# Operations from which `auto` uses numba. Measured on 2 cores: loading the first kernel takes 60 ms, in which numpy
# does 3 (float64 averages) to 17 (float32 averages) million operations, and building it 1 to 3 s. Whether it is cached
# is not asked: float sums that cancel would have other bits then.
MIN_WORK_TO_LOAD = 3_000_000  # of a process that computes one plan
MIN_WORK = 30_000  # of a process that may compute it repeatedly: numpy takes 0.2 ms, more than any kernel
WORDS = ("auto", *ENGINES)


def choose_engine(plan: Plan, word: str = "auto", worth: int = MIN_WORK) -> Engine:
    """The engine for `plan` if `word` is requested; numpy if that engine cannot compute it.

    `auto` depends on the plan alone (numba for more than `worth` operations), so that the same call gives the same bits
    whatever was called, loaded or cached before.
    """
    one_of("engine", word, WORDS)
    engine = ENGINES.get(word) or (NUMBA if work_of(plan) > worth else NUMPY)
    return NUMPY if engine is NUMBA and refusal(plan) else engine


def engine_notes(plan: Plan, word: str) -> tuple[str, ...]:
    """A note if the requested engine cannot compute `plan`."""
    reason = refusal(plan) if word == NUMBA.name else None
    return (f"computed by numpy: {reason}",) if reason else ()


def work_of(plan: Plan) -> int:
    """Element operations of the numpy engine: one per tap, axis by axis; for statistics one per element of each
    window.
    """
    if plan.reducer.statistic:
        return prod(plan.output_shape) * prod(axis.windows.longest for axis in plan.axes)
    shape, work = list(plan.input_shape), 0
    for axis in reversed(plan.axes):
        windows = axis.windows
        taps = len(windows.taps(range(windows.output))) if isinstance(windows, Sliding) else windows.longest
        shape[axis.position] = windows.output
        work += prod(shape) * taps
    return work


# If no kernel can be built or loaded, because numba or llvmlite is missing, incompatible or broken, `auto` falls back
# to numpy and says so once; an engine that was requested by name is refused.
Tell = Callable[[str], None]


class KernelError(RequestError):
    """No kernel can be built or loaded in this process; numpy can compute the same."""


@contextmanager
def kernel_errors() -> Iterator[None]:
    """Turn anything that numba and llvmlite raise into a KernelError: a broken installation can fail in any way."""
    try:
        yield
    except (PoolError, MemoryError):
        raise
    except Exception as error:
        kind, text = type(error).__name__, error_text(error)
        reason = kind if text == kind else f"{kind}: {text}"
        raise KernelError(f"numba cannot compile kernels here ({reason}); use engine numpy or auto") from error


_warned: list[str] = []


def warn_once(reason: str) -> None:
    """Warn once per process that numpy computes what `auto` would have given to numba."""
    if not _warned:
        _warned.append(reason)
        warn_caller(f"poolcli computes with numpy: {reason}", RuntimeWarning)


def with_fallback(pool: Pool, make_other: Callable[[], Pool], tell: Tell) -> Pool:
    """`pool`, replaced by the function that `make_other` returns as soon as a KernelError occurs; `tell` gets the
    reason. Kernels are built when the first array is pooled.
    """

    def pool_or_fall_back(slab: Array, out: Array, threads: int | None) -> Array | None:
        nonlocal pool
        try:
            return pool(slab, out, threads)
        except KernelError as error:
            tell(str(error).partition(";")[0])  # without the remedy
            pool = make_other()
            return pool(slab, out, threads)

    return pool_or_fall_back
