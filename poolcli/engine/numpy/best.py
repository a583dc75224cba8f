"""The element of every window that wins, and where it lies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.numpy.reduce import Combine, Joined, Parts, along, gathered, reduce, steps_of
from poolcli.engine.rounding import Array
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

Better = Callable[[Any, Any], Any]  # whether the first wins over the second


def best_of(region: Region, better: Better) -> Callable[..., tuple[Array, NDArray[np.int64]]]:
    """What makes of an array the winners and their positions inside its plane; what loses against everything and -1
    for a window of nothing. A second array says which elements cannot win.
    """
    plan, steps = region.plan, steps_of(region)
    shape, rank = region.input_shape, len(region.outputs)
    nothing, dtype = lookup(plan.dtype).ends[plan.reducer.nothing], compared_as(plan.dtype)

    def best(x: Array, gone: Array | None = None) -> tuple[Array, NDArray[np.int64]]:
        x = x.astype(dtype, copy=False)
        plane: Array = np.zeros((1,) * rank, np.int64)
        for axis in plan.axes:
            size = shape[axis.position]
            plane = plane * size + along(np.arange(size), axis.position, rank)
        take = _take_better(better, signs=dtype.kind == "f" and _has_negative_zeros(x))
        where = np.broadcast_to(plane, x.shape) if gone is None else np.where(gone, -1, plane)
        values, positions = reduce(steps, (x, where), take, (nothing, -1))
        return values, positions

    return best


def winners_of(region: Region, better: Better) -> Joined:
    """What makes of an array the winners alone, by numpy's own maximum or minimum; where zeros of both signs compete,
    of which numpy may take either, with their positions, which takes ten times as long.
    """
    best, own = best_of(region, better), {operator.gt: np.maximum, operator.lt: np.minimum}.get(better)
    if own is None:
        return lambda x: best(x)[0]
    plan, steps = region.plan, steps_of(region)
    nothing, dtype = lookup(plan.dtype).ends[plan.reducer.nothing], compared_as(plan.dtype)
    few, has_signs = gathered(region, dtype, own, nothing), dtype.kind == "f"

    def keep_better(target: Parts, source: Parts) -> None:
        own(target[0], source[0], out=target[0])

    def winners(x: Array) -> Array:
        found = few(x) if few else reduce(steps, (x.astype(dtype, copy=False),), keep_better, (nothing,))[0]
        return best(x)[0] if has_signs and not found.all() and _has_negative_zeros(x) else found

    return winners


def compared_as(dtype: str) -> np.dtype[Any]:
    """The type in which numbers of a type are compared: of bfloat16 one that is exact, and has numpy's comparisons."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _has_negative_zeros(x: Array) -> bool:
    return bool((np.signbit(x) & (x == 0)).any())


def _take_better(better: Better, signs: bool) -> Combine:
    """Keeps the first of the best values; the first NaN is better than every number.

    Zeros of both signs are equal, so the first of them gives the position, but (with `signs`) the value is the better
    of the two (IEEE 754-2019, maximum and minimum).
    """

    def combine(target: Parts, source: Parts) -> None:
        (value, value_at), (other, other_at) = target, source
        wins = better(other, value)
        if other.dtype.kind == "f":
            wins |= np.isnan(other) & ~np.isnan(value)
        take = (other_at >= 0) & ((value_at < 0) | wins)
        if signs:
            sign = (other == value) & better(np.copysign(1, other), np.copysign(1, value))
            np.copyto(value, other, where=sign & (other_at >= 0))
        np.copyto(value, other, where=take)
        np.copyto(value_at, other_at, where=take)

    return combine
