"""The numpy engine: what the plan's reducer says, computed to be read beside the specification.

Integers are summed exactly; float16 and float32 in float64; float64 in pairs of float64 that carry the rounding error
of every addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from poolcli.engine.numpy.best import best
from poolcli.engine.numpy.powers import power_mean
from poolcli.engine.numpy.reduce import Array
from poolcli.engine.numpy.sums import mean
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pool(region: Region, x: Array, out: Array, *, indices: bool, threads: int) -> NDArray[np.int64] | None:
    """Writes the pooled values to `out`; returns positions inside the plane of `x` (-1: none) when asked."""
    reducer = region.plan.reducer
    with np.errstate(all="ignore"):
        if reducer.better is not None:
            values, positions = best(region, x, reducer.better)
            out[...] = values
            return positions if indices else None
        out[...] = mean(region, x) if reducer.power is None else power_mean(region, x)
        return None
