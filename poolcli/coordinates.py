"""Coordinates of pooled axes: means of coordinates over windows, also of longitudes, and bounds of cells (CF)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import AxisWindows, Cells

TURN = 360.0  # degrees
LONGITUDES, ROTATED_NAMES = re.compile(r"degrees?_?e(ast)?", re.IGNORECASE), ("longitude", "grid_longitude")


def are_longitudes(attributes: Mapping[str, Any]) -> bool:
    """Whether CF attributes say that coordinates are longitudes, which wrap around."""
    units, name = (
        value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for value in (attributes.get("units"), attributes.get("standard_name"))
    )
    return LONGITUDES.fullmatch(units) is not None or (name in ROTATED_NAMES and units in ("degrees", "degree"))


def means(
    values: Array, windows: Mapping[int, AxisWindows], around: bool = False, missing: Sequence[float] = ()
) -> Array:
    """The means of numbers or times over windows, as float64 or times; missing where a window has no valid value.

    Longitudes (`around`) are averaged across the wrap, and results are in the range of the values: 0 to 360,
    -180 to 180, or from their minimum on.
    """
    with np.errstate(all="ignore"):  # odd numbers in files, such as 1e308
        return _means(values, windows, around, missing)


def _means(values: Array, windows: Mapping[int, AxisWindows], around: bool, missing: Sequence[float]) -> Array:
    is_time = values.dtype.kind in "mM"
    there = ~np.isnat(values) if is_time else np.isfinite(values) & ~np.isin(values, missing)
    known = values[there]
    nothing: Any = np.array("NaT", values.dtype) if is_time else missing[0] if missing else np.nan
    if not known.size:
        return np.full([windows[i].output if i in windows else n for i, n in enumerate(values.shape)], nothing)
    begin = known.min() if is_time else 0
    sums, counts = np.where(there, (values - begin).astype(np.float64), 0), there.astype(np.float64)
    for axis, each in windows.items():
        sums, counts = _window_sums(axis, each, sums, counts, around)
    found = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    if is_time:
        since = found.round().astype(np.int64).astype((known[:1] - begin).dtype)
        return np.asarray(np.where(counts > 0, begin + since, nothing))
    if around:
        low, high = float(known.min()), float(known.max())
        start = next((each for each in (0, -TURN / 2) if each <= low and high <= each + TURN), low)
        beyond = (found > start + TURN) if high >= start + TURN else (found >= start + TURN)
        found = np.where((found < start) | beyond, (found - start) % TURN + start, found)
    return np.asarray(np.where(counts > 0, found, nothing))


def _window_sums(axis: int, windows: AxisWindows, sums: Array, counts: Array, around: bool) -> tuple[Array, Array]:
    """Sums and counts of the windows of an axis; neighbouring angles are taken to be at most half a turn apart."""
    sums, counts = np.moveaxis(sums, axis, 0), np.moveaxis(counts, axis, 0)
    if around:
        mean = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        places = np.arange(len(mean)).reshape(-1, *[1] * (mean.ndim - 1))
        last = np.maximum.accumulate(np.where(counts > 0, places, 0), 0)  # the last valid one up to each place
        sums = sums - counts * _whole_turns(np.take_along_axis(mean, last, 0))
    out = np.empty((2, windows.output, *sums.shape[1:]))
    for o in range(windows.output):
        span = windows.span(o)
        parts = [each[span.start : span.stop : span.step] for each in (sums, counts)]
        weights = [windows.weight(o, i) for i in span] if isinstance(windows, Cells) else None
        out[:, o] = [each.sum(0) if weights is None else np.tensordot(weights, each, 1) for each in parts]
    return np.moveaxis(out[0], 0, axis), np.moveaxis(out[1], 0, axis)


def _whole_turns(angles: Array) -> Array:
    """The whole turns, in degrees, between each angle along the first axis and the first one."""
    return TURN * np.cumsum(np.round(np.diff(angles, axis=0, prepend=angles[:1]) / TURN), axis=0)


def outer_bounds(values: Array, windows: Mapping[int, AxisWindows], middles: Array | None = None) -> Array | None:
    """The bounds of the union of the cells that each window reads: intervals of one axis, or quadrilaterals of two.

    Vertices are along the last axis and keep their order. For longitudes, `middles` are the means of the windows, which
    the results enclose. None if the bounds of results are not known.
    """
    if values.ndim == 2 and values.shape[1] == 2 and windows.keys() == {0}:
        return _interval_bounds(values, windows[0], middles)
    if values.ndim == 3 and values.shape[2] == 4 and not any(isinstance(each, Cells) for each in windows.values()):
        return _corner_bounds(values, windows, middles is not None)
    return None


def _interval_bounds(values: Array, windows: AxisWindows, middles: Array | None) -> Array:
    """The hull of the intervals of each window; of an element that counts in part, that part of its interval."""
    ends = values.astype(np.float64) if middles is not None or isinstance(windows, Cells) else values
    if middles is not None:
        ends = ends - _whole_turns(ends[:, :1])
        width = ends[:, 1] - ends[:, 0]
        forth = 1 if (width > 0).sum() * 2 >= len(width) else -1
        ends[:, 1] += np.where((abs(width) > TURN / 2) & (width * forth < 0), forth * TURN, 0)
    low, high = ends.min(1), ends.max(1)
    near, far = (low, high) if low[-1] >= low[0] else (high, low)  # in the direction of the axis
    backwards = (ends[:, 0] > ends[:, 1]).sum() * 2 > len(ends)
    out = np.empty((windows.output, 2), ends.dtype)
    for o in range(windows.output):
        span = windows.span(o)
        some = slice(span.start, span.stop, span.step)
        first, last = near[some], far[some]
        if isinstance(windows, Cells):
            begin, end = windows.cut(o)
            first, last = first.copy(), last.copy()
            width = far[some] - near[some]
            first[0] += begin * width[0]
            last[-1] -= end * width[-1]
        out[o] = min(first.min(), last.min()), max(first.max(), last.max())
    if middles is not None:
        out += TURN * np.round((middles[:, None] - out.mean(1, keepdims=True)) / TURN)
    out = out[:, ::-1] if backwards else out
    return out.astype(values.dtype) if values.dtype.kind == "f" else out


def _corner_bounds(values: Array, windows: Mapping[int, AxisWindows], around: bool) -> Array | None:
    """Each corner is that of the outermost cell there; None if the order of vertices cannot be told from neighbours."""
    most = 1e-6 * float(np.max(np.abs(values), initial=1.0, where=np.isfinite(values)))

    def same(a: Array, b: Array) -> bool:
        apart = a.astype(np.float64) - b
        return not (np.abs(apart - TURN * np.round(apart / TURN) if around else apart) > most).any()

    ends = [
        [[each.span(o)[place] for o in range(each.output)] if each else list(range(length)) for place in (0, -1)]
        for each, length in ((windows.get(i), length) for i, length in enumerate(values.shape[:2]))
    ]
    found: list[Array] = []
    for shift, step in product(range(4), (1, -1)):
        order = [((0, 0), (0, 1), (1, 1), (1, 0))[(shift + step * i) % 4] for i in range(4)]
        at = {corner: values[..., i] for i, corner in enumerate(order)}  # keys: whether at the end of each axis
        if all(same(at[1, b][:-1], at[0, b][1:]) and same(at[b, 1][:, :-1], at[b, 0][:, 1:]) for b in (0, 1)):
            outer = [values[np.ix_(ends[0][y], ends[1][x], [i])] for i, (y, x) in enumerate(order)]
            found.append(np.concatenate(outer, -1))
    return found[0] if found and all(same(found[0], each) for each in found) else None
