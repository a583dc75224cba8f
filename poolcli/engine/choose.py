"""The engine that computes a plan: the one asked for, and under `auto` numpy where starting numba would cost more."""

from __future__ import annotations

from math import prod

from poolcli.core.values import one_of
from poolcli.core.windows import Sliding
from poolcli.engine.table import ENGINES, NUMBA, NUMPY, Engine
from poolcli.plan import Plan

# Measured on 2 cores: importing numba and loading a cached kernel takes 350 ms, in which numpy does 18 (float64
# averages) to 100 (float32 averages) million of these operations. Once started, a call costs 0.3 ms more than
# numpy's, which numpy needs for 0.2 to 0.3 million.
WORTH_STARTING = 30_000_000
WORTH_CALLING = 300_000
WORTH_STARTING_ONCE = 3_000_000  # where at least ten such files share the start
WORDS = ("auto", *ENGINES)


def choose_engine(plan: Plan, word: str = "auto", many: bool = False) -> Engine:
    """The engine that computes `plan` where `word` is asked for; numpy where that one cannot.

    `auto` goes by the plan and whether numba is loaded already; for `many` by the plan alone, so that the same file
    gives the same bits whichever files went before it.
    """
    one_of("engine", word, WORDS)
    engine = ENGINES.get(word) or (NUMBA if work_of(plan) > _least(many) else NUMPY)
    return NUMPY if engine.refusal(plan) else engine


def engine_notes(plan: Plan, word: str) -> tuple[str, ...]:
    """Why the engine that was asked for is not the one that computes `plan`."""
    reason = ENGINES[word].refusal(plan) if word in ENGINES else None
    return (f"computed by numpy: {reason}",) if reason else ()


def _least(many: bool) -> int:
    if many:
        return WORTH_STARTING_ONCE
    return WORTH_CALLING if NUMBA.is_loaded else WORTH_STARTING


def work_of(plan: Plan) -> int:
    """Element operations of the numpy engine: each axis in turn, last first, one operation for each tap."""
    shape, work = list(plan.input_shape), 0
    for axis in reversed(plan.axes):
        windows = axis.windows
        taps = len(windows.taps(range(windows.output))) if isinstance(windows, Sliding) else windows.longest
        shape[axis.position] = windows.output
        work += prod(shape) * taps
    return work
