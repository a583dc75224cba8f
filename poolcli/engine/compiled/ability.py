"""What the numba engine can do, known without loading it."""

from __future__ import annotations

import operator
import os
import sys
from math import prod

from poolcli.plan import Plan
from poolcli.plan.attributes import is_known

READ = frozenset(
    ["name", "noun", "result", "better", "nothing", "divides", "power", "signed", "votes", "adds"]
)  # fields of a reducer
COMPARED = (operator.gt, operator.lt)
LARGEST_DIVISOR = 2**31
LARGEST_POWER = 6  # of numbers of at most 32 bits (and of integers), it keeps float64 between 2**-900 and 2**1000


def refusal(plan: Plan) -> str | None:
    """Why the numba engine cannot compute this plan; None where it can."""
    if len(plan.axes) > 3:
        return f"numba computes up to 3 spatial axes, these are {len(plan.axes)}"
    reducer = plan.reducer
    if reducer.divides and largest_divisor(plan) >= LARGEST_DIVISOR:
        return f"numba divides by numbers below 2**31, here are some up to {largest_divisor(plan)}"
    if reducer.power is not None and (reducer.power > LARGEST_POWER or plan.dtype == "float64"):
        return f"numba adds powers up to {LARGEST_POWER} of numbers of up to 32 bits"
    adds_alone = reducer.adds and reducer.power is None and not reducer.divides
    if not is_known(reducer, READ) or adds_alone or reducer.better not in (None, *COMPARED):
        return f"numba has no {reducer.noun}"
    return None


def largest_divisor(plan: Plan) -> int:
    """The largest number that a sum may be divided by."""
    return max(prod(windows.longest for windows in plan.windows), abs(plan.divisor_override or 0))


def is_switched_off() -> bool:
    """Whether the user of numba wants nothing to be compiled."""
    config = getattr(sys.modules.get("numba"), "config", None)  # None also while another thread imports numba
    if config is not None:
        return bool(config.DISABLE_JIT)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
