"""GeoTIFF as GDAL reads it (rasterio): missing values, moved results, places on the ground, and GDAL's own averages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("here")]
rasterio = pytest.importorskip("rasterio", reason="needs the dependency group heavy")

HALVE = ("-k", "2", "-s", "2", "-q")
rng = np.random.default_rng(41)


def write(x: Any, nodata: float, **profile: Any) -> None:
    transform = rasterio.Affine(30, 0, 500_000, 0, -30, 4_600_000)
    shape = {"height": x.shape[0], "width": x.shape[1], "count": 1}
    with rasterio.open(
        "x.tif", "w", "GTiff", **shape, dtype=x.dtype, nodata=nodata, crs="EPSG:32633", transform=transform
    ) as file:
        file.write(x, 1)
        file.scales, file.offsets = (profile.get("scale", 1),), (profile.get("offset", 0),)


def read(name: str) -> Any:
    with rasterio.open(name) as file:
        return file.read(1, masked=True)


@pytest.mark.parametrize("op", ["avg", "max", "median", "min", "std"])
@pytest.mark.parametrize(
    ("dtype", "nodata", "span"),
    [("int16", 0, 3), ("uint8", 255, 3), ("uint16", 0, 2), ("int32", -9999, 3), ("float32", -9999, 3)],
)
def test_no_valid_result_is_masked_by_gdal(op: str, dtype: str, nodata: int, span: int, cli: Cli) -> None:
    least, most = (-10_000, 65_000) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = (nodata + rng.integers(-span, span + 1, (60, 80))).clip(least, most).astype(dtype)
    x[:8, :8] = nodata  # windows of nothing
    write(x, nodata)
    assert cli(op, "x.tif", "-o", "y.tif", *HALVE).code == 0
    windows = (x != nodata).reshape(30, 2, 40, 2)
    found = read("y.tif")
    np.testing.assert_array_equal(np.ma.getmaskarray(found), ~windows.any((1, 3)))


def test_scale_offset_place_and_nodata_are_those_of_the_pooled_field(cli: Cli) -> None:
    write(rng.integers(1, 900, (60, 80)).astype("int16"), -1, scale=0.1, offset=-5)
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE).code == 0
    with rasterio.open("x.tif") as before, rasterio.open("y.tif") as after:
        assert after.bounds == before.bounds
        assert after.res == (60, 60)
        assert (after.crs, after.nodata, after.scales, after.offsets) == (before.crs, -1, (0.1,), (-5,))


@pytest.mark.parametrize(("op", "how"), [("avg", "average"), ("max", "max"), ("min", "min")])
def test_windows_that_tile_are_gdals_resampling(op: str, how: str, cli: Cli) -> None:
    x = rng.integers(1, 50, (60, 80)).astype("float32")
    x[rng.random(x.shape) < 0.2] = -1
    write(x, -1)
    assert cli(op, "x.tif", "-o", "y.tif", "-k", "3,5", "-s", "3,5", "-q").code == 0
    with rasterio.open("x.tif") as file:
        grid = {"height": 20, "width": 16, "transform": file.transform @ file.transform.scale(5, 3)}
        with rasterio.vrt.WarpedVRT(file, resampling=rasterio.enums.Resampling[how], **grid) as warped:
            expected = warped.read(1, masked=True)
    found = read("y.tif")
    np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(expected))
    np.testing.assert_allclose(found.filled(), expected.filled(), rtol=2e-7)
