"""The engine that computes a plan: the one asked for, and under `auto` the compiled one where it saves time."""

from __future__ import annotations

from math import prod

from poolcli.arguments import one_of
from poolcli.engine.table import ENGINES, NUMBA, NUMPY, Engine
from poolcli.errors import RequestError
from poolcli.plan import Plan
from poolcli.windows import Sliding

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
            f"{plan.op}: no engine knows the reducer {plan.reducer.name!r}; teach it to poolcli/engine/numpy first"
        )
    return NUMPY


def engine_notes(plan: Plan, word: str) -> tuple[str, ...]:
    """Why the engine that was asked for is not the one that computes `plan`."""
    reason = ENGINES[word].refusal(plan) if word in ENGINES else None
    return (f"computed by numpy: {reason}",) if reason else ()


def work_of(plan: Plan) -> int:
    """Element operations of the numpy engine: each axis in turn, last first, one operation for each tap. Modes are
    taken of all axes at once.
    """
    if plan.reducer.votes:
        return prod(plan.output_shape) * prod(axis.windows.longest for axis in plan.axes)
    shape, work = list(plan.input_shape), 0
    for axis in reversed(plan.axes):
        windows = axis.windows
        taps = len(windows.taps(range(windows.output))) if isinstance(windows, Sliding) else windows.longest
        shape[axis.position] = windows.output
        work += prod(shape) * taps
    return work
