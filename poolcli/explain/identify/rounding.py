"""Averages of integers that were rounded in another way than to the nearest, half to even."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolcli.engine import run
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")

EXACT = 2**53  # sums below it are exact in float64, and their quotients right to the last place


def otherwise_rounded(op: Attributes, plan: Plan, x: Array, y: Array) -> str | None:
    """How the averages that `plan` makes of `x` are rounded in `y`; None where they are none, or in no known way."""
    if not plan.reducer.divides or x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return None
    if float(np.abs(x.astype(np.float64)).sum()) >= EXACT:
        return None
    with np.errstate(all="ignore"):
        averages = run(make_plan(op, x.shape, x.dtype, layout=plan.layout, output_dtype="float64"), x, engine="numpy")[
            0
        ]
        ways = {
            "cut off toward zero": np.trunc(averages),
            "rounded down": np.floor(averages),
            "rounded up": np.ceil(averages),
            "rounded half up": np.floor(averages + 0.5),
            "rounded half away from zero": np.trunc(averages + np.copysign(0.5, averages)),
        }
    return next((word for word, rounded in ways.items() if np.array_equal(rounded, y)), None)
