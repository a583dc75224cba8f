"""Compiles every kernel that the usual types need, so that no later run waits."""

from __future__ import annotations

import numpy as np

from poolcli.attributes import AvgAttributes, MaxAttributes
from poolcli.engine import run
from poolcli.plan import make_plan

DTYPES = ("uint8", "uint16", "int32", "int64", "float16", "float32", "float64")


def warm() -> None:
    """Runs each kernel once on a tiny array of each type; what is in the cache already is only loaded."""
    for dtype in DTYPES:
        x = np.ones((1, 1, 2, 2), dtype)
        run(make_plan(AvgAttributes(2), x.shape, dtype), x, engine="numba")
        if np.dtype(dtype).kind != "f":
            run(make_plan(AvgAttributes(2), x.shape, dtype, output_dtype="float32"), x, engine="numba")
        for indices in (False, True):
            run(make_plan(MaxAttributes(2), x.shape, dtype), x, engine="numba", indices=indices)
