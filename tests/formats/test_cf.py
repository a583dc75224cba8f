"""Coordinates of the axes of a field are pooled with it, as xarray and the netCDF library read them."""

from __future__ import annotations

import shutil
from typing import Any

import h5py
import numpy as np
import pytest

from tests.conftest import Cli

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("here")]
xarray = pytest.importorskip("xarray", reason="needs the dependency group heavy")

NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
HALVE = ("-k", "2", "-s", "2")


def dataset() -> Any:
    """A field with coordinates of its axes, and with bounds, a grid mapping, and others that attributes name."""
    lat, lon = 80 - 20.0 * np.arange(6), 30.0 * np.arange(8)
    fields = {
        "t": (("time", "lat", "lon"), np.arange(192.0).reshape(4, 6, 8), {"grid_mapping": "crs"}),
        "crs": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
        "lat_bnds": (("lat", "bnds"), lat[:, None] + [10.0, -10]),
    }
    places = {
        "time": ("time", np.arange(4) + 0.5, {"units": "days since 2000-01-01", "calendar": "standard"}),
        "lat": ("lat", lat, {"units": "degrees_north", "bounds": "lat_bnds"}),
        "lon": ("lon", lon, {"units": "degrees_east"}),
        "lat2": (("lat", "lon"), np.ones((6, 8))),
        "height": ((), 2.0, {"units": "m"}),
        "month": ("time", [1, 1, 2, 2], {"units": "1"}),
        "area": ("lat", [1.0, 3, 5, 7, 9, 11]),
    }  # fmt: skip
    found = xarray.Dataset(fields, coords=places)
    found["t"].encoding["coordinates"] = "lat2 height month area"
    return found


def netcdf(path: str, found: Any) -> None:
    """Writes a dataset of xarray as a netCDF file, of HDF5 with dimension scales."""
    with h5py.File(path, "w") as file:
        for name, variable in found.variables.items():
            file[name] = variable.values
            file[name].attrs.update(variable.attrs)
        file["t"].attrs["coordinates"] = np.bytes_(found["t"].encoding["coordinates"])
        file["bnds"] = np.zeros(2, ">f4")
        file["bnds"].make_scale(f"{NOT_A_VARIABLE}         2")
        for name in found.dims:
            if name in found.coords:
                file[name].make_scale(name)
        for name, variable in found.variables.items():
            for axis, dimension in zip(file[name].dims, variable.dims, strict=True):
                if name != dimension:
                    axis.attach_scale(file[dimension])


@pytest.mark.parametrize("more", [(), ("--layout", "NHW")], ids=["named", "--layout"])
@pytest.mark.parametrize("name", ["x.nc", "x.zarr"])
def test_an_array_of_the_same_spatial_axes_is_pooled_with_a_larger_one(
    name: str, more: tuple[str, ...], cli: Cli
) -> None:
    x = dataset()[["t"]].drop_vars(["lat2", "height", "month", "area"])
    x["height"] = x["t"][0].drop_vars("time")
    x["t"].encoding["coordinates"] = ""
    if name == "x.nc":
        netcdf(name, x)
    else:
        x.to_zarr(name, zarr_format=3, consolidated=False)
    assert cli("avg", name, "--all", "-o", "y.zarr", *HALVE, *more).code == 0
    y = xarray.open_zarr("y.zarr", consolidated=False, decode_times=False)
    np.testing.assert_array_equal(y["height"], y["t"][0])
    assert (y["height"].dims, y["height"].shape, {*y["height"].coords}) == (("lat", "lon"), (3, 4), {"lat", "lon"})


@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # is no part of the specification of v3
@pytest.mark.parametrize("every", [True, False], ids=["all arrays", "one array"])
@pytest.mark.parametrize("name", ["x.nc", "v2.zarr", "v3.zarr"])
def test_coordinates_of_axes_are_pooled_and_other_variables_left_out(name: str, every: bool, cli: Cli) -> None:
    x = dataset()
    if name == "x.nc":
        netcdf(name, x)
    else:
        x.to_zarr(name, zarr_format=int(name[1]), consolidated=True)
    both = cli("avg", name, "--dataset", "/t", "--dataset", "lat2", "-o", "y.zarr", *HALVE)
    why = f"{name}: lat2 describes others, as coordinates do; pool it alone: {name}:lat2"
    assert (both.code, both.err) == (2, f"poolcli: {why}\n")
    listed = [line.split() for line in cli("info", name).out.splitlines()]
    assert (["/t", "N=4", "H=6", "W=8", "float64"] in listed, "/lat2" in [line[0] for line in listed]) == (True, True)
    for target in ("y.zarr", "y.nc"):
        result = cli("avg", name, *["--all"][: int(every)], "-o", target, *HALVE, "--layout", "NHW", "--json")
        gone = "/crs, /lat2, /height, /month, /area, /lat_bnds"
        said = f"left out: the variables {gone}, and the attributes that refer to them"
        assert (result.code, [note for note in result.json["notes"] if "left out" in note]) == (0, [said]), result.out
    y = xarray.open_zarr("y.zarr", consolidated=False, decode_coords="all", decode_times=False)
    assert ({*y.data_vars}, y["t"].dims) == ({"t"}, ("time", "lat", "lon"))
    assert {*y.coords} == {"time", "lat", "lon"}
    wanted = x["t"].values.reshape(4, 3, 2, 4, 2).mean((2, 4))
    np.testing.assert_array_equal(y["t"], wanted)
    assert (y["lat"].values.tolist(), y["lat"].attrs) == ([70, 30, -10], {"units": "degrees_north"})
    assert y["lon"].values.tolist() == [15, 75, 135, 195]
    assert (y["time"].values.tolist(), y["time"].attrs) == ([0.5, 1.5, 2.5, 3.5], x["time"].attrs)
    with h5py.File("y.nc") as file:
        assert (sorted(file), "coordinates" in file["t"].attrs) == (["lat", "lon", "t", "time"], False)
        assert [axis[0].name for axis in file["t"].dims] == ["/time", "/lat", "/lon"]
        np.testing.assert_array_equal(file["t"], wanted)
        assert (file["lat"][:].tolist(), dict(file["lat"].attrs)["units"]) == ([70, 30, -10], "degrees_north")
        assert "grid_mapping" not in file["t"].attrs


def test_attributes_that_name_no_other_variable_stay(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["t"] = np.ones((4, 4))
        file["t"].attrs.update(bounds=[0, 1])
    result = cli("avg", "x.h5", "-o", "y.h5", *HALVE, "--layout", "HW", "--json")
    assert not any("left out" in note for note in result.json["notes"])
    with h5py.File("y.h5") as file:
        assert file["t"].attrs["bounds"].tolist() == [0, 1]


def test_coordinates_of_a_group_are_found_above_it(cli: Cli) -> None:
    x = dataset()
    x[["lat", "lon"]].reset_coords(drop=True).to_zarr("x.zarr", consolidated=False)
    field = x["t"][0].drop_vars(list(x["t"].coords), errors="ignore")
    field.to_dataset().to_zarr("x.zarr", group="deep/er", consolidated=False)
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "-q").err == ""
    y = xarray.open_zarr("y.zarr", consolidated=False)
    np.testing.assert_array_equal(y["lat"], [70, 30, -10])
    assert xarray.open_zarr("y.zarr", group="deep/er", consolidated=False)["t"].dims == ("lat", "lon")


@pytest.mark.parametrize("length", [6, 7], ids=["a window has none", "too long"])
def test_coordinates_without_means_are_left_out_and_said(length: int, cli: Cli, monkeypatch: Any) -> None:
    monkeypatch.setattr("poolcli.formats.cf.MAX_COORDINATES", 6)
    with h5py.File("x.h5", "w") as file:
        file["t"], file["lat"] = np.arange(8.0 * length).reshape(1, 1, length, 8), np.arange(float(length))
        file["lat"].make_scale("lat")
        file["t"].dims[2].attach_scale(file["lat"])
    size = ("-k", "1,2", "-s", "1,2", "-p", "1,0", "--op", "max")[: 6 if length == 6 else 4]
    result = cli("max", "x.h5:/t", "-o", "y.h5", *size, "--json")
    why = "because a window has none of them" if length == 6 else "because they are very long"
    assert f"left out, {why}: the coordinates /lat" in result.json["notes"]
    with h5py.File("y.h5") as file:
        assert sorted(file) == ["t"]


def test_texts_along_an_axis_are_kept_where_it_is_not_pooled(cli: Cli) -> None:
    with h5py.File("x.nc", "w") as file:
        file["t"], file["station"] = np.arange(96.0).reshape(2, 6, 8), np.array(["Ålesund", "b"], object)
        file["y"], file["x"] = np.arange(6), np.array([*"abcdefgh"], object)
        for axis, name in enumerate(("station", "y", "x")):
            file[name].make_scale()
            file["t"].dims[axis].attach_scale(file[name])
        file["t"].attrs["_FillValue"] = np.array([-9.0])
        file["u"] = file["t"][()]
        for axis, name in enumerate(("station", "y", "x")):
            file["u"].dims[axis].attach_scale(file[name])
    assert cli("avg", "x.nc", "--all", "-o", "all.nc", "-k", "2", "--layout", "NHW", "-q").err == ""
    with h5py.File("all.nc") as file:
        assert [file[name].dims[0][0].name for name in ("t", "u")] == ["/station"] * 2
    for name in ("y.nc", "y.zarr"):
        result = cli("avg", "x.nc:/t", "-o", name, *HALVE, "--layout", "NHW", "--json")
        assert "left out, because they are not numbers: the coordinates /x" in result.json["notes"]
    y = xarray.open_zarr("y.zarr", consolidated=False)
    assert y["t"].encoding["_FillValue"] == -9
    assert (y["t"].dims, sorted(y.coords)) == (("station", "y", "x"), ["station", "y"])
    assert y["station"].values.tolist() == ["Ålesund", "b"]
    with h5py.File("y.nc") as file:
        assert file["station"].asstr()[()].tolist() == ["Ålesund", "b"]
    shutil.rmtree("y.zarr/y")
    assert cli("avg", "y.zarr", "-o", "z.nc", "-k", "1", "-q").code == 0
    with h5py.File("z.nc") as file:
        assert [each.name for axis in file["t"].dims for each in axis.values()] == ["/station", "/y", "/x"]
        assert file["station"].asstr()[()].tolist() == ["Ålesund", "b"]
