"""Compiles every kernel that the usual types need, so that no later run waits."""

from __future__ import annotations

import numpy as np

from poolcli.engine import run
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan import make_plan
from poolcli.plan.attributes import Attributes

DTYPES = ("uint8", "uint16", "float32", "float64")
SHAPE = (1, 1, 12, 12)
PROBLEMS: tuple[Attributes, ...] = (
    *(AvgPool((k, k), (s, s)) for k, s in ((3, 1), (2, 2), (7, 1))),
    *(MaxPool((k, k), (s, s)) for k, s in ((3, 1), (2, 2), (7, 1))),
    AdaptiveAvgPool((5, 5)),
    AdaptiveMaxPool((5, 5)),
)


def warm() -> None:
    """Runs each kernel once on a tiny array of each type; what is in the cache already is only loaded."""
    for dtype in DTYPES:
        x = np.ones(SHAPE, dtype)
        for op in PROBLEMS:
            plan = make_plan(op, x.shape, dtype)
            run(plan, x, engine="numba")
            if op.reducer.picks:
                run(plan, x, engine="numba", indices=True)
