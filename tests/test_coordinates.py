"""Means of coordinates over the windows of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poolcli.array_interop import window_means
from poolcli.windows import AxisWindows, Bins, Sliding, cells

HALVES = Sliding(6, 3, 2, 2, 1, 0, 0)


@pytest.mark.parametrize(
    ("values", "windows", "wanted"),
    [
        ([0, 1, 3, 6, 10], Sliding(5, 2, 2, 2, 1, 0, 0), [0.5, 4.5]),
        ([0, 1, 3, 6, 10], Sliding(5, 2, 2, 1, 3, 0, 0), [3, 5.5]),
        ([0, 1, 3, 6, 10], Sliding(5, 3, 3, 2, 1, 1, 1), [0.5, 10 / 3, 8]),
        ([0, 1, 3, 6, 10], Bins(5, 2), [4 / 3, 19 / 3]),
        ([0, 1, 3, 6, 10], cells(5, 2), [2.5 / 2.5, 17.5 / 2.5]),
        ([1e308, 1e308, -1e308, 1e308, 5e-324, 3], HALVES, [np.inf, 0, 1.5]),
        ([1, np.nan, np.inf, 4, np.nan, np.nan], HALVES, [1, 4, np.nan]),
    ],
    ids=["halves", "dilated", "padded", "adaptive", "area", "beyond all measure", "not finite"],
)
def test_coordinates_become_the_means_of_their_windows(values: list[Any], windows: AxisWindows, wanted: Any) -> None:
    with np.errstate(all="raise"):
        np.testing.assert_allclose(window_means(np.array(values), windows), wanted, rtol=1e-15)


def test_missing_coordinates_are_excluded() -> None:
    assert window_means(np.array([1, -9, 4, 6, -9, -9]), HALVES, missing=(-9,)).tolist() == [1, 5, -9]
    assert window_means(np.array([-9, -9, -9, -9, -9, -9]), HALVES, missing=(-9,)).tolist() == [-9, -9, -9]


def test_times_have_means() -> None:
    times = np.array(["2020-01-01", "2020-01-03", "NaT", "2020-01-07T00:00:00.000000001", "NaT", "NaT"], "M8[ns]")
    wanted = np.array(["2020-01-02", "2020-01-07T00:00:00.000000001", "NaT"], "M8[ns]")
    np.testing.assert_array_equal(window_means(times, HALVES), wanted)
