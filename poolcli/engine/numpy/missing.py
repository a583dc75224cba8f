"""Elements that are missing leave their windows: neither the sum nor the divisor counts them, and none of them wins.

Everything is pooled by the engine that was chosen, and the windows that hold missing elements once more, as the numpy
engine does it, with zeros in a sum, no position in a comparison, no vote and no part in a statistic: no bit depends on
the engine or the cut.
Where no element is left of those that a window has, or fewer than the plan's `min_count`, the result is the plan's
`nodata`, and the index -1.
"""

from __future__ import annotations

from math import isfinite, isnan, nan, prod
from typing import TYPE_CHECKING

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.call import in_slab, slices
from poolcli.engine.numpy.best import best_of
from poolcli.engine.numpy.reduce import reduce, steps_of
from poolcli.engine.numpy.statistics import statistic_of
from poolcli.engine.numpy.sums import add, divisors, mean_of, power_mean_of
from poolcli.engine.rounding import Array, storable
from poolcli.nodata import Missing
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region, parts_of
from poolcli.windows import Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

PART = 2**21  # bytes of input and output that are pooled again at once


def without_missing(region: Region, pool: Pool, hidden: Array | None = None) -> Pool:
    """What pools as `pool` does, of the elements that are there: those of the slab that are `hidden` are not."""

    def gone_of(slab: Array, place: tuple[slice, ...]) -> Array:
        found = _are_missing(slab, region.plan.missing)
        return found if hidden is None else found | hidden[place]

    def pool_present(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        taken = x
        if region.plan.reducer.is_sum:  # which is refused where it is too large
            taken = np.where(gone_of(x, ()), x.dtype.type(0), x)
        positions = pool(taken, out, threads)
        for part in parts_of(region, PART):
            inside = slices(part.reads, region.reads)
            slab = x[inside]
            gone = gone_of(slab, inside)
            if region.plan.min_count is not None or gone.any():
                place = slices(part.outputs, region.outputs)
                at = None if positions is None else positions[place]
                _pool_again(part, slab, gone, out[place], at, region.reads)
        return positions

    return pool_present


def _pool_again(
    part: Region, slab: Array, gone: Array, out: Array, at: NDArray[np.int64] | None, reads: Ranges
) -> None:
    """Pools the windows that hold what is `gone` into `out`, and their positions, in a slab that `reads`, into `at`."""
    plan, reducer = part.plan, part.plan.reducer
    present, lost = _counts(part, gone)
    again = lost > 0
    with np.errstate(all="ignore"):
        if reducer.better is not None:
            found, positions = best_of(part, reducer.better)(slab, gone)
            if at is not None:
                at[again] = in_slab(positions, plan, part.reads, reads)[again]
        elif reducer.votes or reducer.statistic:
            found = np.empty_like(out)
            statistic_of(part, gone)(slab, found, None)
        else:
            fixed = plan.divisor_override is not None or not reducer.divides
            left = divisors(part) - (0 if fixed else lost)
            mean = mean_of if reducer.power is None else power_mean_of
            found = mean(part, left)(np.where(gone, slab.dtype.type(0), slab))
        out[again] = storable(found, out.dtype)[again]
    few = _are_few(plan, present, lost)
    out[few] = _nothing(part)
    if at is not None:
        at[few] = -1


def are_hidden(region: Region, hidden: Array) -> Array:
    """Which windows of a region are missing themselves, where these elements of what it reads are missing."""
    found = np.empty(region.output_shape, np.bool_)
    for part in parts_of(region, PART):
        counts = _counts(part, hidden[slices(part.reads, region.reads)])
        found[slices(part.outputs, region.outputs)] = _are_few(part.plan, *counts)
    return found


def _counts(part: Region, gone: Array) -> tuple[Array, ...]:
    """How many elements of each window are there, and how many are not."""
    return reduce(steps_of(part), ((~gone).astype(np.int64), gone.astype(np.int64)), add)


def _are_few(plan: Plan, present: Array, lost: Array) -> Array:
    """Which windows are missing themselves, by how many of their elements are there and how many are not: by their
    parts where elements count in part.
    """
    least = plan.min_count
    if least is None:
        return np.asarray((present == 0) & (lost > 0))
    if isinstance(least, int):
        return np.asarray(present < least * prod(w.parts[1] for w in plan.windows if isinstance(w, Cells)))
    return np.asarray(present * 100 < float(least[:-1]) * (present + lost))


def _nothing(part: Region) -> float:
    """What a window gives that is missing itself."""
    if part.plan.nodata is not None:
        return part.plan.nodata
    return nan if lookup(part.plan.output_dtype).kind == "float" else part.plan.missing[0]


def _are_missing(x: Array, missing: Missing) -> Array:
    """Which elements are equal to one of the numbers, each as the nearest that the type of `x` has."""
    found = np.zeros(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        for number in missing:
            if isnan(number):
                found |= np.isnan(x)
                continue
            stored = np.asarray(number).astype(x.dtype)
            if np.isfinite(stored) == isfinite(number):  # beyond the type, which has no element so large
                found |= x == stored
    return found
