"""Roots of sums of powers, within float64 wherever the result is: sums that leave its range are taken of ratios."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from poolcli.engine.numpy.reduce import Array, Combine, Parts, reduce, steps_of
from poolcli.engine.numpy.sums import add, divisors, float_sums, is_wide
from poolcli.plan.region import Region

# What float64 loses of a term below its range is nothing beside a sum of LEAST, and a sum up to MOST has lost nothing
# above it.
LEAST, MOST = 2.0**-900, 2.0**1000
NORMAL = 2.0**-1022  # a term below it has lost digits, or is 0


def power_mean_of(region: Region, divisor: Array | None = None) -> Callable[[Array], Array]:
    """What makes of an array the root of the sum of powers of every window.

    A window whose terms leave the range is computed once more from its own elements: those of others change nothing.
    Where the reducer divides, it is by `divisor`, or by that of the plan where none is given.
    """
    reducer, steps, wide = region.plan.reducer, steps_of(region), is_wide(region.plan)
    power = reducer.power or 1

    def power_mean(x: Array) -> Array:
        x = x.astype(np.float64)
        terms = _raised(x if reducer.signed else abs(x), power)
        sums = float_sums(steps, terms, wide)
        total = np.where(np.isfinite(sums[0]), sum(sums[1:], sums[0]), sums[0])
        found = _root(_counted(region, total, divisor), power)
        lost, vanishing = ~(abs(total) <= MOST), (abs(terms) < NORMAL) & (x != 0)
        if vanishing.any():
            (some,) = reduce(steps, (vanishing.astype(np.float64),), add)
            lost |= (abs(total) < LEAST) & (some > 0)
        if not lost.any():
            return found
        unit = np.sign(x) ** power if reducer.signed else np.ones_like(x)
        largest, ratios = reduce(steps, (abs(x), unit), _add_ratios(power))
        lost &= (abs(total) >= LEAST) | (_raised(largest, power) < LEAST) | np.isnan(total)
        return np.where(lost, largest * _root(_counted(region, ratios, divisor), power), found)

    return power_mean


def _raised(x: Array, power: float) -> Array:
    if power == 1:
        return x
    return x * x if power == 2 else x**power


def _root(total: Array, power: float) -> Array:
    if power in (1, 2):
        return total if power == 1 else np.sqrt(total)
    near = total ** (1 / power)  # of an exponent that is rounded: a large total makes many digits of that
    better = near - near * (near**power / total - 1) / power  # a step of Newton's
    return np.where(np.isfinite(better), better, near)


def _counted(region: Region, total: Array, divisor: Array | None) -> Array:
    """The sum itself, or where the reducer divides, its average over the window times the whole kernel."""
    if not region.plan.reducer.divides:
        return total
    kernel = prod(windows.longest for windows in region.plan.windows)
    divisor = divisors(region) if divisor is None else divisor
    return np.asarray(total / divisor.astype(np.float64) * kernel)


def _add_ratios(power: float) -> Combine:
    """Adds pairs (largest size, sum of the powers of every size's ratio to it)."""

    def ratio(size: Array, largest: Array) -> Array:
        return np.asarray(np.where(size == largest, 1.0, size / largest) ** power)

    def combine(target: Parts, source: Parts) -> None:
        (largest, total), (size, addend) = target, source
        new = np.maximum(largest, size)
        total *= ratio(largest, new)
        total += addend * ratio(size, new)
        largest[...] = new

    return combine
