"""Valid results that equal the missing value of their output: they move to the nearest number that readers keep."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import poolcli
from tests.conftest import Cli
from tests.profiles import sized

pytestmark = pytest.mark.usefixtures("here")
X = np.array([[-3, 3, 5, 5, 0, 0], [-1, 1, 5, 5, 0, 0]], np.int16)  # averages 0, 5 and missing, where 0 is missing
MOVED = "1 valid result is 0, the missing value: written as 1, so that readers keep them"
HALVE = ("-k", "2", "-s", "2")


MOVING: tuple[tuple[Any, ...], ...] = (
    ("avg_pool", X, 0, [1, 5, 0]),
    ("median_pool", X, 0, [1, 5, 0]),
    ("std_pool", np.full((2, 4), 7, np.int16), 0, [0, 0]),  # floats, in which missing is nan
    ("sum_pool", np.array([[-5, 7, 6, 7], [5, 7, 1, 0]], np.int64), 7, [0, 6]),
    ("avg_pool", np.array([[250, 254, 1, 3], [255, 254, 255, 2]], np.uint8), 253, [252, 65]),
    ("avg_pool", np.array([[-9, -7], [-9, -7]], np.int8), -8, [-7]),
    ("avg_pool", np.array([[1, 3], [1, 3]], np.uint16), 2, [1]),
)
# Results move in the same way whatever computes them.
ON_ENGINES = [*((*row, "numpy") for row in MOVING), *((*row, "numba") for row in MOVING[: sized(1, len(MOVING))])]


@pytest.mark.parametrize(("name", "x", "missing", "expected", "engine"), ON_ENGINES)
def test_in_python_results_of_integers_move(name: str, x: Any, missing: int, expected: Any, engine: str) -> None:
    found = getattr(poolcli, name)(x, 2, strides=2, missing=missing, engine=engine)
    np.testing.assert_array_equal(found[0], expected)


def tiff(name: str, x: Any, nodata: str) -> None:
    tifffile.imwrite(name, x, extratags=[(42113, 2, 0, nodata, True)], metadata=None)


def test_results_in_geotiff_move_and_are_counted(cli: Cli) -> None:
    tiff("x.tif", X, "0")
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    assert MOVED in result.out
    np.testing.assert_array_equal(tifffile.imread("y.tif"), [[1, 5, 0]])


def test_floats_move_as_far_as_gdals_tolerance_reaches(cli: Cli) -> None:
    x = np.array([[-9998, -10000, -9998.999, -9999.001], [-10000, -9998, -9998.999, -9999.001]], np.float32)
    tiff("x.tif", x, "-9999")
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE, "-q").err == ""
    found = tifffile.imread("y.tif").astype(np.float64)
    tolerance = 2 * np.finfo(np.float32).eps * np.abs(found - 9999)  # of GDAL's ARE_REAL_EQUAL
    assert (np.abs(found + 9999) >= tolerance).all()
    assert (np.abs(found + 9999) < 0.02).all()


@pytest.mark.parametrize("name", ["y.h5", "y.zarr"])
def test_results_in_chunked_files_move_also_where_tiles_overlap(name: str, cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        made = file.create_dataset("v", data=np.tile(X, (20, 10)), chunks=(4, 6))
        made.attrs["_FillValue"] = np.int16(0)
    result = cli("avg", "x.h5:/v", "-o", name, *HALVE, "--max-memory", "20k", columns=200)
    assert MOVED.replace("1 valid result is", "200 valid results are") in result.out
    assert cli("info", name).code == 0
    assert cli("avg", "x.h5:/v", "-o", "y.npy", *HALVE, "-q").err == ""
    np.testing.assert_array_equal(np.load("y.npy"), np.tile([[1, 5, 0]], (20, 10)))
    assert cli("max", f"{name}:/v", "-o", "z.npy", "-k", "1", "-q").err == ""
    np.testing.assert_array_equal(np.load("z.npy"), np.load("y.npy"))
