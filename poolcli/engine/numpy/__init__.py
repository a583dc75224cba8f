"""The numpy engine, written to be read beside the specification; `prepare` returns the function that pools a region.

Accumulators: integers are summed exactly, float16 and float32 in float64, and float64 in pairs of float64 that carry
the rounding error of every addition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.call import Array
from poolcli.engine.choose import Pool
from poolcli.engine.numpy.reduce import winners, winners_with_positions
from poolcli.engine.numpy.statistics import statistic_of
from poolcli.engine.numpy.sums import mean_of, power_mean_of, storable
from poolcli.plan.plan import Region


def prepare(region: Region, indices: bool) -> Pool:
    """The function that pools the region."""
    reducer = region.plan.reducer
    compute: Any  # of an array
    if reducer.better is not None:
        compute = (winners_with_positions if indices else winners)(region, reducer.better)
    elif reducer.statistic:
        compute = statistic_of(region)
    else:
        compute = (mean_of if reducer.power is None else power_mean_of)(region)

    @np.errstate(all="ignore")  # as a decorator it takes half the time of a block
    def pool(x: Array, out: Array, threads: int | None) -> Array | None:
        values, positions = compute(x) if indices else (compute(x), None)
        out[...] = storable(values, out.dtype)
        return positions

    return pool
