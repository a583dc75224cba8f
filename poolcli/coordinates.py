"""Coordinates of a pooled axis: the means of coordinates over its windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import AxisWindows, Cells


def window_means(values: Array, windows: AxisWindows, missing: Sequence[float] = ()) -> Array:
    """The mean of the coordinates in each window, as float64 or times.

    `missing` values and those that are not finite are excluded; a window without others gives the first missing value,
    NaN or NaT.
    """
    with np.errstate(all="ignore"):  # odd numbers in files, such as 1e308
        is_time = values.dtype.kind in "mM"
        nothing: Any = np.array("NaT", values.dtype) if is_time else missing[0] if missing else np.nan
        valid = ~np.isnat(values) if is_time else np.isfinite(values) & ~np.isin(values, missing)
        if not valid.any():
            return np.full(windows.output, nothing)
        begin = values[valid].min() if is_time else 0
        numbers = np.where(valid, (values - begin).astype(np.float64), 0)
        sums, weights = np.zeros(windows.output), np.zeros(windows.output)
        for o in range(windows.output):
            span = windows.span(o)
            read = slice(span.start, span.stop, span.step)
            weight: Array = valid[read]
            if isinstance(windows, Cells):
                weight = weight * [windows.weight(o, i) for i in span]
            sums[o], weights[o] = (numbers[read] * weight).sum(), weight.sum()
        means = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
        if is_time:
            means = begin + means.round().astype(np.int64).astype((values[valid] - begin).dtype)
        return np.asarray(np.where(weights > 0, means, nothing))
