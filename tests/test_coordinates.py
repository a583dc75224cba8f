"""Coordinates and bounds of windows, by hand and by a slow loop over real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poolcli.coordinates import are_longitudes, means, outer_bounds
from poolcli.windows import AxisWindows, Bins, Sliding, cells

EDGES = np.array([0.0, 1, 3, 6, 10, 15])  # of five cells, each longer than the one before


def halves(size: int, kernel: int = 2, stride: int = 2, dilation: int = 1, pad: int = 0, output: int = 0) -> Sliding:
    output = output or (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    return Sliding(size, output, kernel, stride, dilation, pad, pad)


@pytest.mark.parametrize("down", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("turned", [False, True], ids=["low first", "high first"])
@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        (halves(5), [(0, 3), (3, 10)]),
        (halves(5, 3, 1), [(0, 6), (1, 10), (3, 15)]),
        (halves(5, 2, 1, dilation=3), [(0, 10), (1, 15)]),
        (halves(5, 3, 2, pad=1), [(0, 3), (1, 10), (6, 15)]),
        (Bins(5, 2), [(0, 6), (3, 15)]),
        (cells(5, 2), [(0, 4.5), (4.5, 15)]),
        (cells(5, 3), [(0, 1 + 2 * 2 / 3), (1 + 2 * 2 / 3, 6 + 4 / 3), (6 + 4 / 3, 15)]),
    ],
    ids=["halves", "overlapping", "dilated", "padded", "adaptive", "area", "area of thirds"],
)
def test_bounds_are_the_outer_ones_of_the_cells_of_each_window(
    windows: AxisWindows, wanted: list[Any], turned: bool, down: bool
) -> None:
    bounds, expected = np.stack([EDGES[:-1], EDGES[1:]], 1), np.array(wanted, float)
    if down:
        bounds, expected = -bounds[:, ::-1], -expected[:, ::-1]
    if turned:
        bounds, expected = bounds[:, ::-1], expected[:, ::-1]
    found = outer_bounds(bounds, {0: windows})
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["<i4", ">f4", "<i8"])
def test_bounds_keep_their_type_where_cells_are_whole(kind: str) -> None:
    found = outer_bounds(np.array([[0, 1], [1, 3]], kind), {0: halves(2)})
    assert found is not None
    assert (found.dtype, found.tolist()) == (np.dtype(kind), [[0, 3]])


@pytest.mark.parametrize(
    ("values", "kernel", "wanted"),
    [
        ([358, 359, 0, 1, 2, 3], 3, [359, 2]),
        ([359, 0, 1], 3, [0]),
        ([179, -179, -177, -175], 2, [-180, -176]),
        ([1, 0, 359, 358], 2, [0.5, 358.5]),
        ([350, 360, 370, 380], 2, [355, 375]),
        (list(range(0, 360, 10)), 36, [175]),
        ([0, 120, 240], 3, [120]),
    ],
)
def test_means_of_longitudes_are_taken_the_short_way_round(values: list[float], kernel: int, wanted: list[Any]) -> None:
    windows = {0: halves(len(values), kernel, kernel)}
    assert means(np.array(values, float), windows, around=True).tolist() == wanted
    bounds = np.array(values)[:, None] + np.array([-0.5, 0.5])
    found = outer_bounds(bounds % 360, windows, np.array(wanted))
    assert found is not None
    np.testing.assert_allclose(found.mean(1), wanted)


def test_times_have_means_and_missing_ones_count_in_none() -> None:
    times = np.array(["2020-01-01", "2020-01-03", "NaT", "2020-01-07T00:00:00.000000001", "NaT", "NaT"], "M8[ns]")
    wanted = np.array(["2020-01-02", "2020-01-07T00:00:00.000000001", "NaT"], "M8[ns]")
    np.testing.assert_array_equal(means(times, {0: halves(6)}), wanted)
    assert means(np.array([1, -9, 4, 6]), {0: halves(4)}, missing=(-9,)).tolist() == [1, 5]


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("around", [False, True])
def test_quadrilaterals_keep_the_corners_of_the_outermost_cells(shift: int, step: int, around: bool) -> None:
    y, x = np.mgrid[:7, :9].astype(float)
    edge = (350 + 3 * x + y / 2) % 360 if around else 3 * x + y / 2  # of 6 x 8 cells
    corners = [((0, 0), (0, 1), (1, 1), (1, 0))[(shift + step * i) % 4] for i in range(4)]
    bounds = np.stack([edge[b : b + 6, a : a + 8] for b, a in corners], -1)
    found = outer_bounds(bounds, {0: halves(6, 3, 3), 1: halves(8)}, np.zeros((2, 4)) if around else None)
    wanted = np.stack([edge[3 * b :: 3, 2 * a :: 2][:2, :4] for b, a in corners], -1)
    np.testing.assert_array_equal(found, wanted)


def test_bounds_that_cannot_be_told_are_none() -> None:
    apart = np.arange(4 * 6 * 4.0).reshape(4, 6, 4)  # cells that share no vertices
    assert outer_bounds(apart, {0: halves(4), 1: halves(6)}) is None
    assert outer_bounds(apart, {0: cells(4, 3), 1: halves(6)}) is None
    assert outer_bounds(np.zeros((4, 3)), {0: halves(4)}) is None


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"units": "degrees_east"}, True), ({"units": b"degreeE"}, True), ({"units": "degree_E"}, True),
        ({"units": "degrees_north"}, False), ({"units": "degrees", "standard_name": "grid_longitude"}, True),
        ({"units": "degrees"}, False), ({}, False),
    ],
)  # fmt: skip
def test_what_says_that_numbers_are_longitudes(attributes: dict[str, Any], wanted: bool) -> None:
    assert are_longitudes(attributes) is wanted


def test_coordinates_beyond_all_measure_are_no_error_where_numpy_raises_them() -> None:
    values = np.array([1e308, 1e308, -1e308, 1e308, 5e-324, 3.0])
    with np.errstate(all="raise"):
        assert means(values, {0: halves(6)}).tolist() == [np.inf, 0, 1.5]
