"""Excludes missing elements (nodata) from their windows: sums and divisors do not count them, and none of them wins.

The chosen engine pools everything. Windows with missing elements are then pooled again by numpy: as zeros in a sum, and
without a part in comparisons, modes and statistics. So the bits depend neither on the engine nor on how the output is
cut. A window without valid elements, or with fewer than the plan's `min_count`, gives `nodata` and the index -1.
A valid result that readers would take for `nodata` becomes the nearest number that they keep, as GDAL has it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan, nan, prod
from typing import Any

import numpy as np

from poolcli.arguments import Missing
from poolcli.dtypes import lookup, numpy_dtype
from poolcli.engine.call import Array
from poolcli.engine.choose import Pool
from poolcli.engine.numpy.reduce import axis_steps, reduce, winners_with_positions
from poolcli.engine.numpy.statistics import statistic_of
from poolcli.engine.numpy.sums import add, divisors, mean_of, power_mean_of, storable
from poolcli.plan import Plan
from poolcli.plan.plan import Region, parts_of
from poolcli.windows import Cells, slices

Moved = Callable[[Array], None]  # is given which valid results were moved away from the nodata value
GDAL_ULPS = 10  # more than its tolerance of 4 relative epsilons of float32 or float64
PART_BYTES = 2**21  # of input and output that are pooled again at once


def without_missing(region: Region, pool: Pool, mask: Array | None = None, moved: Moved | None = None) -> Pool:
    """The function that pools as `pool` does, without missing elements: the plan's, and those where `mask` is True."""
    nodata, dtype = nodata_of(region.plan), numpy_dtype(region.plan.output_dtype)
    computes = not region.plan.reducer.picks and not region.plan.reducer.votes
    has_value = computes and region.plan.missing and not isnan(nodata) and dtype.kind != "b"
    neighbour = kept_neighbour(nodata, dtype) if has_value else None

    def missing_in(slab: Array, place: tuple[slice, ...]) -> Array:
        found = _are_missing(slab, region.plan.missing)
        return found if mask is None else found | mask[place]

    def pool_valid(x: Array, out: Array, threads: int | None) -> Array | None:
        # A sum that is too large is refused, so that missing elements must not be added.
        data = np.where(missing_in(x, ()), x.dtype.type(0), x) if region.plan.reducer.is_sum else x
        positions, found = pool(data, out, threads), None
        for part in parts_of(region, PART_BYTES):
            inside = slices(part.reads, region.reads)
            slab = x[inside]
            missing = missing_in(slab, inside)
            place = slices(part.outputs, region.outputs)
            is_valid: Array | bool = True
            if region.plan.min_count is not None or missing.any():
                at = None if positions is None else positions[place]
                is_valid = ~_pool_again(part, slab, missing, out[place], at)
            if neighbour is not None:
                is_taken = _reads_as(out[place], nodata, neighbour) & is_valid
                if is_taken.any():
                    found = np.zeros(out.shape, np.bool_) if found is None else found
                    found[place] = is_taken
                    out[place][is_taken] = neighbour
        if found is not None and moved is not None:
            moved(found)
        return positions

    return pool_valid


def kept_neighbour(nodata: float, dtype: np.dtype[Any]) -> Any:
    """The value nearest to `nodata` that readers keep: nearer to 0, and 1 or the smallest normal number for 0."""
    if dtype.kind in "iu":
        return 1 if nodata == 0 else int(nodata) + (1 if nodata < 0 else -1)
    value = dtype.type(nodata)
    if value == 0:
        return dtype.type(np.finfo(dtype if dtype.kind == "f" else np.float32).tiny)
    for _ in range(GDAL_ULPS if dtype.itemsize >= 4 and isfinite(nodata) else 1):
        value = np.nextafter(value, dtype.type(0))
    return value


def _reads_as(values: Array, nodata: float, neighbour: Any) -> Array:
    """Which values readers take for `nodata`: floats that are nearer to it than its neighbour, too."""
    if values.dtype.kind in "iu" or not isfinite(nodata):
        return np.asarray(values == values.dtype.type(nodata))
    with np.errstate(all="ignore"):
        least, most = sorted((float(neighbour), 2 * float(values.dtype.type(nodata)) - float(neighbour)))
        return np.asarray((values > least) & (values < most))


def _pool_again(part: Region, slab: Array, missing: Array, out: Array, at: Array | None) -> Array:
    """Pool the windows with `missing` elements into `out`, and their positions into `at`; returns which are nodata."""
    plan, reducer = part.plan, part.plan.reducer
    valid, lost = _counts(part, missing)
    again = lost > 0
    with np.errstate(all="ignore"):
        if reducer.better is not None:
            found, positions = winners_with_positions(part, reducer.better)(slab, missing)
            if at is not None:
                at[again] = positions[again]
        elif reducer.statistic:
            found = statistic_of(part, missing)(slab)
        else:
            is_fixed = plan.divisor_override is not None or not reducer.divides
            divisor = divisors(part) - (0 if is_fixed else lost)
            mean = mean_of if reducer.power is None else power_mean_of
            found = mean(part, divisor)(np.where(missing, slab.dtype.type(0), slab))
        out[again] = storable(found, out.dtype)[again]
    is_nodata = _are_nodata(plan, valid, lost)
    out[is_nodata] = nodata_of(part.plan)
    if at is not None:
        at[is_nodata] = -1
    return is_nodata


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


def nodata_of(plan: Plan) -> float:
    """The result of windows without enough valid elements."""
    if plan.nodata is not None:
        return plan.nodata
    return nan if lookup(plan.output_dtype).kind == "float" or not plan.missing else plan.missing[0]


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
