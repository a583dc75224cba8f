"""The choice of `auto`: numpy where starting numba would cost more than the work."""

from __future__ import annotations

import sys
from math import prod

from poolcli.core.windows import Sliding
from poolcli.plan import Plan

# Measured on 2 cores: importing numba and loading a cached kernel takes 350 ms, in which numpy does 18 (float64
# averages) to 100 (float32 averages) million of these operations. Once started, a call costs 0.3 ms more than
# numpy's, which numpy needs for 0.2 to 0.3 million.
WORTH_STARTING = 30_000_000
WORTH_CALLING = 300_000
WORTH_STARTING_ONCE = 3_000_000  # where at least ten such files share the start


def choose_engine(plan: Plan, many: bool = False) -> str:
    """`numba` or `numpy`, from the plan and whether numba is loaded already; for `many` from the plan alone, so that
    the same file gives the same bits whichever files went before it.
    """
    if many:
        least = WORTH_STARTING_ONCE
    else:
        least = WORTH_CALLING if "poolcli.engine.compiled.pool" in sys.modules else WORTH_STARTING
    return "numba" if work_of(plan) > least else "numpy"


def work_of(plan: Plan) -> int:
    """Element operations of the numpy engine: each axis in turn, last first, one operation for each tap."""
    shape, work = list(plan.input_shape), 0
    for axis in reversed(plan.axes):
        windows = axis.windows
        taps = len(windows.taps(range(windows.output))) if isinstance(windows, Sliding) else windows.lengths[1]
        shape[axis.position] = windows.output
        work += prod(shape) * taps
    return work
