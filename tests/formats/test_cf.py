"""What CF conventions put beside a field follows it, as xarray reads the result."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
import zarr

from tests.conftest import Cli

Y, X = np.mgrid[:6, :8].astype(float)
CORNERS = ((-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5))
TRANSFORM = "345.0 30.0 0.0 90.0 0.0 -20.0"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def dataset(time: int = 4) -> Any:
    """Two fields with bounds of all axes, and coordinates of several axes, one of which nothing pools."""
    lat, lon, day = 80 - 20.0 * np.arange(6), (30.0 * np.arange(8) + 170) % 360 - 180, np.arange(time) + 0.5
    curved = {"units": "degrees_east", "bounds": "lon2_bnds"}
    fields = {
        "t": (("time", "lat", "lon"), np.arange(time * 48.0).reshape(time, 6, 8), {"grid_mapping": "crs"}),
        "u": (("lat", "lon"), Y + X, {"grid_mapping": "crs"}),
        "crs": ((), 0, {"grid_mapping_name": "latitude_longitude", "GeoTransform": TRANSFORM}),
        "lat_bnds": (("lat", "bnds"), lat[:, None] + [10.0, -10]),
        "lon_bnds": (("lon", "bnds"), (lon[:, None] + [-15.0, 15] + 180) % 360 - 180),
        "day_bnds": (("time", "bnds"), day[:, None] + [-0.5, 0.5]),
        "lon2_bnds": (("lat", "lon", "nv"), np.stack([(340 + 3 * (X + b) + Y + a) % 360 for a, b in CORNERS], -1)),
    }
    places = {
        "time": ("time", day, {"units": "days since 2000-01-01", "bounds": "day_bnds", "calendar": "standard"}),
        "lat": ("lat", lat, {"units": "degrees_north", "bounds": "lat_bnds"}),
        "lon": ("lon", lon, {"units": "degrees_east", "bounds": "lon_bnds"}),
        "lat2": (("lat", "lon"), 2 * Y + X / 8, {"units": "degrees_north"}),
        "lon2": (("lat", "lon"), (340 + 3 * X + Y) % 360, curved),
        "height": ((), 2.0, {"units": "m"}), "word": ((), np.array("abc", object)),
        "name": ("lon", np.array([*"abcdefgh"], object)),
    }  # fmt: skip
    found = xarray.Dataset(fields, coords=places)
    found["t"].encoding["coordinates"] = "lat2 lon2 height word name"
    found["u"].encoding["coordinates"] = "lat2 lon2"
    return found


@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # is no part of the specification of v3
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("every", [True, False], ids=["all arrays", "one array"])
def test_a_pooled_store_has_the_pooled_coordinates(version: int, every: bool, cli: Cli) -> None:
    x = dataset()
    x.to_zarr("x.zarr", zarr_format=version, consolidated=True)
    result = cli(
        "avg", *(["x.zarr", "--all"] if every else ["x.zarr:t"]), "-o", "y.zarr", "-k", "2", "-s", "2", "--json"
    )
    assert result.code == 0, result.err
    assert "very long, no numbers, or a window has none of them: the coordinates /name" in result.out
    y = xarray.open_zarr("y.zarr", consolidated=True, decode_coords="all", decode_times=False)
    fields = {name: x[name] for name in (("t", "u") if every else ("t",))}
    assert {*y.data_vars} == {*fields}
    for name, field in fields.items():
        wanted = field.drop_vars("name").coarsen(lat=2, lon=2).mean().values
        np.testing.assert_allclose(y[name], wanted)
        assert y[name].dims == field.dims
    np.testing.assert_array_equal(y["lat"], [70, 30, -10])
    np.testing.assert_array_equal(y["lon"], [5, 65, 125, -175])
    np.testing.assert_array_equal(y["lat_bnds"], [[90, 50], [50, 10], [10, -30]])
    np.testing.assert_array_equal(y["lon_bnds"], [[-25, 35], [35, 95], [95, 155], [-205, -145]])
    np.testing.assert_array_equal(y["day_bnds"], x["day_bnds"])
    np.testing.assert_allclose(y["lat2"], x["lat2"].drop_vars("name").coarsen(lat=2, lon=2).mean())
    edges = [[(340 + 3 * (a + 2 * k) + b + 2 * j) % 360 for b, a in ((0, 0), (0, 2), (2, 2), (2, 0))]
             for j in range(3) for k in range(4)]  # fmt: skip
    np.testing.assert_allclose((y["lon2_bnds"].values.reshape(12, 4) + 2) % 360, np.array(edges))
    assert (y["height"].item(), y["word"].item()) == (2.0, "abc")
    assert y["crs"].attrs["GeoTransform"] == "345.0 60.0 0.0 90.0 0.0 -40.0"
    assert y["crs"].attrs["grid_mapping_name"] == "latitude_longitude"


def test_a_transformation_without_six_numbers_is_left_out_and_said(cli: Cli) -> None:
    x = dataset()
    x["crs"].attrs["GeoTransform"] = "0 1"
    x.to_zarr("x.zarr", consolidated=False)
    result = cli("avg", "x.zarr:t", "-o", "y.zarr", "-k", "2", "-s", "2", "--json")
    said = "left out, because it does not have six numbers: the attribute /crs@GeoTransform"
    assert (result.code, said in result.json["notes"]) == (0, True)
    assert "GeoTransform" not in zarr.open_group("y.zarr")["crs"].attrs


def test_coordinates_of_a_group_are_found_above_it(cli: Cli) -> None:
    x = dataset()
    x[["lat", "lon"]].reset_coords(drop=True).to_zarr("x.zarr", consolidated=False)
    x["u"].drop_vars(list(x["u"].coords)).to_dataset().to_zarr("x.zarr", group="deep/er", consolidated=False)
    assert cli("avg", "x.zarr", "-o", "y.zarr", "-k", "2", "-s", "2", "-q").err == ""
    y = xarray.open_zarr("y.zarr", consolidated=False)
    np.testing.assert_array_equal(y["lat"], [70, 30, -10])
    assert xarray.open_zarr("y.zarr", group="deep/er", consolidated=False)["u"].dims == ("lat", "lon")


def test_a_netcdf_file_and_a_store_have_the_same_coordinates(cli: Cli) -> None:
    with h5py.File("x.nc", "w") as file:
        file["t"], file["n"] = np.arange(48.0).reshape(6, 8), np.zeros(2)
        for axis, (name, start) in enumerate({"lat": 0.0, "lon": 357.0}.items()):
            file[name] = (start + np.arange(file["t"].shape[axis])) % 360
            file[name].make_scale(name)
            file["t"].dims[axis].attach_scale(file[name])
        file["n"].make_scale("This is a netCDF dimension but not a netCDF variable.         2")
        file["lon"].attrs["units"], file["lon"].attrs["bounds"] = "degrees_east", "lon_bnds"
        file["lon_bnds"] = ((356.5 + np.arange(8))[:, None] + [0, 1]) % 360
        file["lon_bnds"].dims[0].attach_scale(file["lon"])
        file["lon_bnds"].dims[1].attach_scale(file["n"])
    for name in ("y.nc", "y.zarr"):
        assert cli("avg", "x.nc", "-o", name, "-k", "2,4", "-s", "2,4", "--layout", "HW", "-q").err == ""
    with h5py.File("y.nc") as file:
        assert (file["lon"][:].tolist(), file["lat"][:].tolist()) == ([358.5, 2.5], [0.5, 2.5, 4.5])
        assert file["lon_bnds"][:].tolist() == [[356.5, 360.5], [0.5, 4.5]]
        assert [next(iter(axis.values())).name for axis in file["lon_bnds"].dims] == ["/lon", "/n"]
    y = xarray.open_zarr("y.zarr", consolidated=False, decode_coords="all")
    assert (y["t"].dims, y["lon_bnds"].dims, sorted(y.coords)) == (
        ("lat", "lon"), ("lon", "n"), ["lat", "lon", "lon_bnds"],
    )  # fmt: skip
    assert y["lon_bnds"].values.tolist() == [[356.5, 360.5], [0.5, 4.5]]


def test_unlimited_dimensions_of_a_netcdf_file_stay_unlimited(cli: Cli) -> None:
    """The netCDF library finds them by their scales; one without values has the length 0."""
    only = "This is a netCDF dimension but not a netCDF variable."
    with h5py.File("x.nc", "w") as file:
        file.create_dataset("t", data=np.arange(288.0).reshape(2, 3, 6, 8), maxshape=(None, None, 6, 8))
        file.create_dataset("run", (0,), ">f4", maxshape=(None,)).make_scale(f"{only}         0")
        file.create_dataset("time", data=np.arange(3.0), maxshape=(None,)).make_scale("time")
        file.create_dataset("time_bnds", data=np.arange(3.0)[:, None] + [0, 1], maxshape=(None, 2))
        file["time"].attrs["bounds"] = "time_bnds"
        file["time_bnds"].dims[0].attach_scale(file["time"])
        for name, n in (("lat", 6), ("lon", 8)):
            file[name] = np.arange(n)
            file[name].make_scale(name)
        for axis, name in enumerate(("run", "time", "lat", "lon")):
            file["t"].dims[axis].attach_scale(file[name])
    assert cli("avg", "x.nc:/t", "-o", "y.nc", "-k", "2", "-s", "2", "-q").err == ""
    with h5py.File("y.nc") as file:
        assert [next(iter(axis.values())).name for axis in file["t"].dims] == ["/run", "/time", "/lat", "/lon"]
        assert {name: each.maxshape for name, each in file.items()} == {
            "t": (None, None, 3, 4), "run": (None,), "time": (None,), "time_bnds": (None, 2), "nv2": (2,),
            "lat": (3,), "lon": (4,),
        }  # fmt: skip
        assert (file["run"].shape, file["run"].attrs["NAME"].decode()) == ((2,), f"{only}         2")


def test_texts_beside_a_field_of_an_hdf5_file_are_kept_along_axes_that_are_not_pooled(cli: Cli) -> None:
    with h5py.File("x.nc", "w") as file:
        file["t"] = np.arange(96.0).reshape(2, 6, 8)
        file["station"] = np.array(["Ålesund", "b"], object)
        file["n"] = np.zeros(4, ">f4")
        file["n"].make_scale("This is a netCDF dimension but not a netCDF variable.         4")
        file["station"].make_scale()
        file["t"].dims[0].attach_scale(file["station"])
        for axis, name in ((1, "y"), (2, "x")):
            file[name] = np.arange(file["t"].shape[axis])
            file[name].make_scale()
            file["t"].dims[axis].attach_scale(file[name])
        file["code"] = np.array([[*"ab\0\0"], [*"cdef"]], "S1")
        file["code"].dims[0].attach_scale(file["station"])
        file["code"].dims[1].attach_scale(file["n"])
        file["code"].attrs["_Encoding"] = "utf-8"
        file["row"] = np.array([*"abcdef"], object)
        file["row"].dims[0].attach_scale(file["y"])
        file["realm"] = "océan"
        file["t"].attrs["coordinates"], file["t"].attrs["_FillValue"] = "code row realm", np.array([-9.0])
        file["u"] = file["t"][()]
        for axis, name in enumerate(("station", "y", "x")):
            file["u"].dims[axis].attach_scale(file[name])
    assert cli("avg", "x.nc", "--all", "-o", "all.nc", "-k", "2", "--layout", "NHW", "-q").err == ""
    with h5py.File("all.nc") as file:
        assert [file[name].dims[0][0].name for name in ("t", "u")] == ["/station"] * 2
    for name in ("y.nc", "y.zarr"):
        result = cli("avg", "x.nc:/t", "-o", name, "-k", "2", "-s", "2", "--layout", "NHW", "--json")
        assert "no numbers, or a window has none of them: the coordinates /row" in result.out, result.err
        assert result.out.count("left out") == 1
    y = xarray.open_zarr("y.zarr", consolidated=False)
    assert y["t"].encoding["_FillValue"] == -9
    assert (y["t"].dims, sorted(y.coords)) == (("station", "y", "x"), ["code", "realm", "station", "x", "y"])
    with h5py.File("y.nc") as file:
        for name, wanted in (("station", ["Ålesund", "b"]), ("code", ["ab", "cdef"]), ("realm", "océan")):
            assert np.asarray(file[name].asstr()[()]).tolist() == wanted
            assert y[name].values.astype(object).tolist() == wanted
            assert "_Encoding" not in file[name].attrs
        assert [next(iter(axis.values())).name for axis in file["code"].dims] == ["/station"]
    shutil.rmtree("y.zarr/x")
    assert cli("avg", "y.zarr", "-o", "z.nc", "-k", "1", "-q").code == 0
    with h5py.File("z.nc") as file:
        assert [each.name for axis in file["t"].dims for each in axis.values()] == ["/station", "/y", "/x"]
        assert file["station"].asstr()[()].tolist() == ["Ålesund", "b"]
