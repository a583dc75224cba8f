"""Signed numbers that netCDF's attribute `_Unsigned` declares to be unsigned."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
STANDS_FOR = np.array([[[[10, 20, 200, 220], [30, 40, 240, 255], [0, 2, 250, 250], [2, 4, 255, 255]]]], "uint8")
MEANS = np.array([[25, 220], [2, 250]], "uint8")  # of all but 255, which is missing
ATTRIBUTES: dict[str, Any] = {"_Unsigned": "true", "_FillValue": np.int8(-1), "valid_range": np.array([0, -2], "int8")}

HALVE = ("-k", "2", "-s", "2")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [1, 2])
def test_hdf5_numbers_are_pooled_as_what_they_stand_for(order: str, size: int, cli: Cli) -> None:
    signed = STANDS_FOR.view("int8").astype(f"{order}i{size}")
    with h5py.File("x.nc", "w") as file:
        made = file.create_dataset("v", data=signed, chunks=(1, 1, 2, 4), fillvalue=-1)
        made.attrs.update(ATTRIBUTES | {"_Unsigned": np.bytes_("true") if size == 2 else "true"})
    result = cli("avg", "x.nc:/v", "-o", "y.nc", *HALVE)
    assert (result.code, f"read as uint{8 * size}, as its attribute _Unsigned says" in result.out) == (0, True)
    high = 2 ** (8 * size) - 256
    with h5py.File("y.nc") as file:
        found = file["v"]
        assert (found.dtype, found.attrs.get("_Unsigned"), found.fillvalue) == (f"u{size}", None, high + 255)
        assert found.attrs["_FillValue"] == high + 255
        assert found.attrs["valid_range"].tolist() == [0, high + 254]
        np.testing.assert_array_equal(found[0, 0], MEANS.astype(int) + high * (MEANS > 127))


def test_numbers_of_zarr_are_too_and_false_says_nothing(cli: Cli) -> None:
    for name, said in (("x", "true"), ("z", "false")):
        store = zarr.create_array(f"{name}.zarr", shape=STANDS_FOR.shape, dtype="int8", fill_value=-1, zarr_format=2)
        store[:] = STANDS_FOR.view("int8")
        store.attrs.update({"_Unsigned": said, "missing_value": -1, "_ARRAY_DIMENSIONS": ["n", "c", "y", "x"]})
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "-q").code == 0
    found: Any = zarr.open_array("y.zarr")
    assert (found.dtype, found.attrs["_FillValue"], found.attrs["missing_value"]) == ("uint8", 255, 255)
    np.testing.assert_array_equal(found[0, 0], MEANS)
    assert cli("avg", "z.zarr", "-o", "s.zarr", *HALVE, "-q").code == 0
    assert zarr.open_array("s.zarr").dtype == "int8"
