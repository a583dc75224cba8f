"""The numpy engine, written to be read beside the specification; `prepare` returns the function that pools a region.

Accumulators: integers are summed exactly, float16 and float32 in float64, and float64 in pairs of float64 that carry
the rounding error of every addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from poolcli.engine.numpy.reduce import ArrayFunction, Better, winners, winners_with_positions
from poolcli.engine.numpy.statistics import statistic_of
from poolcli.engine.numpy.sums import mean_of, power_mean_of
from poolcli.engine.rounding import Array, storable
from poolcli.errors import RequestError
from poolcli.plan.plan import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

_without_warnings = np.errstate(all="ignore")  # as a decorator it takes half the time of a block


def prepare(region: Region, indices: bool) -> Pool:
    """The function that pools the region."""
    reducer = region.plan.reducer
    if reducer.better is not None:
        return _pick(region, reducer.better, indices)
    if reducer.votes or reducer.statistic:
        return statistic_of(region)
    if not reducer.adds:
        raise RequestError(f"the numpy engine does not know the reducer {reducer.name!r}")
    return _values(mean_of(region) if reducer.power is None else power_mean_of(region))


def _pick(region: Region, better: Better, indices: bool) -> Pool:
    if not indices:
        return _values(winners(region, better))
    best = winners_with_positions(region, better)

    @_without_warnings
    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64]:
        values, positions = best(x)
        out[...] = storable(values, out.dtype)
        return positions

    return pool


def _values(of: ArrayFunction) -> Pool:
    @_without_warnings
    def pool(x: Array, out: Array, threads: int | None) -> None:
        out[...] = storable(of(x), out.dtype)

    return pool
