"""Excludes missing elements (nodata) from their windows: sums and divisors do not count them, and none of them wins.

The chosen engine pools everything. Windows with missing elements are then pooled again by numpy: as zeros in a sum, and
without a part in comparisons, modes and statistics. So the bits depend neither on the engine nor on how the output is
cut. A window without valid elements, or with fewer than the plan's `min_count`, gives `nodata` and the index -1.
"""

from __future__ import annotations

from math import isfinite, isnan, nan, prod
from typing import TYPE_CHECKING

import numpy as np

from poolcli.arguments import Missing
from poolcli.dtypes import lookup
from poolcli.engine.call import slices
from poolcli.engine.numpy.reduce import axis_steps, reduce, winners_with_positions
from poolcli.engine.numpy.statistics import statistic_of
from poolcli.engine.numpy.sums import add, divisors, mean_of, power_mean_of
from poolcli.engine.rounding import Array, storable
from poolcli.plan import Plan
from poolcli.plan.plan import Region, parts_of
from poolcli.windows import Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

PART_BYTES = 2**21  # of input and output that are pooled again at once


def without_missing(region: Region, pool: Pool, mask: Array | None = None) -> Pool:
    """The function that pools as `pool` does, without missing elements: the plan's, and those where `mask` is True."""

    def missing_in(slab: Array, place: tuple[slice, ...]) -> Array:
        found = _are_missing(slab, region.plan.missing)
        return found if mask is None else found | mask[place]

    def pool_valid(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        # A sum that is too large is refused, so that missing elements must not be added.
        data = np.where(missing_in(x, ()), x.dtype.type(0), x) if region.plan.reducer.is_sum else x
        positions = pool(data, out, threads)
        for part in parts_of(region, PART_BYTES):
            inside = slices(part.reads, region.reads)
            slab = x[inside]
            missing = missing_in(slab, inside)
            if region.plan.min_count is not None or missing.any():
                place = slices(part.outputs, region.outputs)
                at = None if positions is None else positions[place]
                _pool_again(part, slab, missing, out[place], at)
        return positions

    return pool_valid


def _pool_again(part: Region, slab: Array, missing: Array, out: Array, at: NDArray[np.int64] | None) -> None:
    """Pool the windows with `missing` elements into `out`, and their positions into `at`."""
    plan, reducer = part.plan, part.plan.reducer
    valid, lost = _counts(part, missing)
    again = lost > 0
    with np.errstate(all="ignore"):
        if reducer.better is not None:
            found, positions = winners_with_positions(part, reducer.better)(slab, missing)
            if at is not None:
                at[again] = positions[again]
        elif reducer.votes or reducer.statistic:
            found = statistic_of(part, missing)(slab)
        else:
            is_fixed = plan.divisor_override is not None or not reducer.divides
            divisor = divisors(part) - (0 if is_fixed else lost)
            mean = mean_of if reducer.power is None else power_mean_of
            found = mean(part, divisor)(np.where(missing, slab.dtype.type(0), slab))
        out[again] = storable(found, out.dtype)[again]
    is_nodata = _are_nodata(plan, valid, lost)
    out[is_nodata] = _nodata_result(part)
    if at is not None:
        at[is_nodata] = -1


def masked_windows(region: Region, mask: Array) -> Array:
    """Which outputs of a region are nodata, if the elements where `mask` is True are missing."""
    found = np.empty(region.output_shape, np.bool_)
    for part in parts_of(region, PART_BYTES):
        counts = _counts(part, mask[slices(part.reads, region.reads)])
        found[slices(part.outputs, region.outputs)] = _are_nodata(part.plan, *counts)
    return found


def _counts(part: Region, missing: Array) -> tuple[Array, ...]:
    """The number of valid and of missing elements of each window; the sums of their weights if they have weights."""
    return reduce(axis_steps(part), ((~missing).astype(np.int64), missing.astype(np.int64)), add)


def _are_nodata(plan: Plan, valid: Array, lost: Array) -> Array:
    """Which outputs are nodata, from the numbers of valid and missing elements of their windows."""
    least = plan.min_count
    if least is None:
        return np.asarray((valid == 0) & (lost > 0))
    if isinstance(least, int):
        return np.asarray(valid < least * prod(w.parts[1] for w in plan.windows if isinstance(w, Cells)))
    return np.asarray(valid * 100 < float(least[:-1]) * (valid + lost))


def _nodata_result(part: Region) -> float:
    if part.plan.nodata is not None:
        return part.plan.nodata
    return nan if lookup(part.plan.output_dtype).kind == "float" else part.plan.missing[0]


def _are_missing(x: Array, missing: Missing) -> Array:
    """Which elements equal one of the numbers, each rounded to the type of `x`."""
    found = np.zeros(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        for number in missing:
            if isnan(number):
                found |= np.isnan(x)
                continue
            stored = np.asarray(number).astype(x.dtype)
            if np.isfinite(stored) == isfinite(number):  # else the number exceeds the type, and no element equals it
                found |= x == stored
    return found
