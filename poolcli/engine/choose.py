"""The engines as a table, which one computes a plan (the one asked for, and under `auto` the compiled one where it
saves time), and what happens where no kernel can be built.
"""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.arguments import one_of
from poolcli.dtypes import lookup
from poolcli.errors import PoolError, RequestError, error_text
from poolcli.plan import Plan
from poolcli.plan.attributes import is_known
from poolcli.plan.plan import EXACT
from poolcli.windows import Sliding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from poolcli.plan.region import Region

    Array = NDArray[Any]
    # pool(slab, out, threads) writes the pooled values to `out` and returns positions inside the plane of the slab (-1:
    # none) where they were asked for; None for threads is as many as pay
    Pool = Callable[[Array, Array, int | None], NDArray[np.int64] | None]

# The fields of a reducer that each engine reads: one that learns to read a new field adds it to its own.
READ_BY_NUMBA = frozenset(
    ["name", "noun", "result", "better", "nothing", "divides", "power", "signed", "votes", "adds", "statistic", "ddof"]
)
READ_BY_NUMPY = READ_BY_NUMBA
COMPARED = (operator.gt, operator.lt)
LARGEST_DIVISOR = 2**31
LONG = 32  # bits of integers that float64 holds
LARGEST_MEDIAN = 49  # elements of a window; the time grows with their square
LARGEST_POWER = 6  # of numbers of at most 32 bits (and of integers), it keeps float64 between 2**-900 and 2**1000


def refusal(plan: Plan) -> str | None:
    """Why the numba engine cannot compute this plan; None where it can."""
    if len(plan.axes) > 3:
        return f"numba computes up to 3 spatial axes, the plan has {len(plan.axes)}"
    reducer = plan.reducer
    if plan.is_weighted and (len(plan.axes) > 2 or "float64" in (plan.dtype, plan.output_dtype)):
        return "numba computes areas of one or two axes, and not of float64"
    if (reducer.divides or reducer.is_sum) and largest_divisor(plan) >= LARGEST_DIVISOR:
        what = "adds fewer than 2**31 elements" if reducer.is_sum else "divides by numbers below 2**31"
        return f"numba {what}, the plan up to {largest_divisor(plan)}"
    # LLVM's powers and numpy's differ in the last bit of float64; other types do not hold it.
    last_bit = plan.output_dtype == "float64" and reducer.power not in (1, 2)
    if reducer.power is not None and (reducer.power > LARGEST_POWER or plan.dtype == "float64" or last_bit):
        return f"numba computes norms with p up to {LARGEST_POWER}, of types of up to 32 bits"
    if not is_known(reducer, READ_BY_NUMBA) or reducer.better not in (None, *COMPARED):
        return f"numba has no {reducer.noun}"
    return _refused_statistic(plan) if reducer.statistic else None


def _refused_statistic(plan: Plan) -> str | None:
    source, elements = lookup(plan.dtype), prod(windows.longest for windows in plan.windows)
    if plan.reducer.statistic == "median":
        if elements > LARGEST_MEDIAN:
            return f"numba computes medians of up to {LARGEST_MEDIAN} elements, the windows have {elements}"
        is_long = source.bits > LONG and source.kind != "float" and lookup(plan.output_dtype).kind == "float"
        return "numba computes medians of 64-bit integers as integers only" if is_long else None
    if plan.reducer.statistic != "deviation":
        return f"numba has no {plan.reducer.noun}"
    if source.kind == "float" or plan.has_exact_squares or source.bits == LONG:
        return None
    return f"numba computes deviations of floats, {LONG}-bit integers, and fewer than {EXACT} shorter ones in a window"


def largest_divisor(plan: Plan) -> int:
    """The largest number that a sum may be divided by."""
    return max(prod(windows.largest_divisor for windows in plan.windows), abs(plan.divisor_override or 0))


def is_switched_off() -> bool:
    """Whether the user of numba wants nothing to be compiled."""
    config = getattr(sys.modules.get("numba"), "config", None)  # None also while another thread imports numba
    if config is not None:
        return bool(config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its name; `module` holds its `prepare`, `refusal` says why a plan is not for it."""

    name: str
    module: str
    is_threaded: bool
    refusal: Callable[[Plan], str | None]

    def load(self) -> Callable[[Region, bool], Pool]:
        """What makes of a region, and whether positions are wanted, the function that pools it; imported at need."""
        prepare: Callable[[Region, bool], Pool] = import_module(self.module).prepare
        return prepare


def _refused_by_numpy(plan: Plan) -> str | None:
    known, statistic = is_known(plan.reducer, READ_BY_NUMPY), plan.reducer.statistic
    if known and statistic is not None:
        from poolcli.engine.numpy.statistics import STATISTICS

        known = statistic in STATISTICS
    return None if known else f"numpy has no {plan.reducer.noun}"


NUMBA = Engine("numba", "poolcli.engine.compiled.pool", True, refusal)
NUMPY = Engine("numpy", "poolcli.engine.numpy", False, _refused_by_numpy)
ENGINES = {engine.name: engine for engine in (NUMBA, NUMPY)}


# Measured on 2 cores: loading the first kernel takes a process 60 ms, in which numpy does 3 (float64 averages) to 17
# (float32 averages) million of these operations.
WORTH_LOADING = 1_000_000  # by a process that computes one plan
WORTH_CALLING = 30_000  # by one that may compute it again and again: numpy needs 0.2 ms, which kernels never do
WORDS = ("auto", *ENGINES)


def choose_engine(plan: Plan, word: str = "auto", worth: int = WORTH_CALLING) -> Engine:
    """The engine that computes `plan` where `word` is asked for; numpy where that one cannot, and a refusal where
    neither can.

    `auto` goes by the plan alone (the compiled engine for more than `worth` operations), so that the same call gives
    the same bits whatever was called, loaded or kept before.
    """
    one_of("engine", word, WORDS)
    engine = ENGINES.get(word) or (NUMBA if work_of(plan) > worth else NUMPY)
    if not engine.refusal(plan):
        return engine
    if NUMPY.refusal(plan):
        raise RequestError(
            f"{plan.op}: no engine knows the reducer {plan.reducer.name!r}; add it to poolcli/engine/numpy first"
        )
    return NUMPY


def engine_notes(plan: Plan, word: str) -> tuple[str, ...]:
    """Why the engine that was asked for is not the one that computes `plan`."""
    reason = ENGINES[word].refusal(plan) if word in ENGINES else None
    return (f"computed by numpy: {reason}",) if reason else ()


def work_of(plan: Plan) -> int:
    """Element operations of the numpy engine: each axis in turn, last first, one operation for each tap. Modes and
    statistics are taken of all axes at once.
    """
    if plan.reducer.votes or plan.reducer.statistic:
        return prod(plan.output_shape) * prod(axis.windows.longest for axis in plan.axes)
    shape, work = list(plan.input_shape), 0
    for axis in reversed(plan.axes):
        windows = axis.windows
        taps = len(windows.taps(range(windows.output))) if isinstance(windows, Sliding) else windows.longest
        shape[axis.position] = windows.output
        work += prod(shape) * taps
    return work


# What happens where no kernel can be built or loaded, because numba or llvmlite is missing, changed or broken: `auto`
# gives way to numpy and says so once; an engine that was asked for by name is refused.
Tell = Callable[[str], None]


class KernelError(RequestError):
    """No kernel can be built or loaded in this process; the numpy engine can compute the same."""


@contextmanager
def kernel_errors() -> Iterator[None]:
    """Turns whatever numba and llvmlite raise into a KernelError: what breaks in them is not foreseen here."""
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
    """Says in Python, once in a process, why numpy computes what `auto` would have given to numba."""
    if not _warned:
        _warned.append(reason)
        warnings.warn(f"poolcli computes with numpy: {reason}", RuntimeWarning, stacklevel=2)


def with_fallback(make: Callable[[], Pool], make_other: Callable[[], Pool], tell: Tell) -> Pool:
    """The function that `make` gives, or that of `make_other` from the moment that no kernel can be had, which `tell`
    is told with the reason. Kernels are built when an array comes, so that both may be found out.
    """
    found: list[Pool] = []

    def give_way(error: KernelError) -> Pool:
        tell(reason_of(error))
        found[:] = [make_other()]
        return found[0]

    try:
        found.append(make())
    except KernelError as error:
        return give_way(error)

    def pool(slab: NDArray[Any], out: NDArray[Any], threads: int | None) -> NDArray[Any] | None:
        try:
            return found[0](slab, out, threads)
        except KernelError as error:
            return give_way(error)(slab, out, threads)

    return pool


def reason_of(error: KernelError) -> str:
    """The message of the error without what it proposes."""
    return str(error).partition(";")[0]
