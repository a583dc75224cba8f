"""What files call missing leaves its windows: attributes of HDF5 and Zarr, tags of TIFF, and what outputs say of it."""

from __future__ import annotations

import base64
import math
import re
import struct
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr

from tests.conftest import Cli

NAN = math.nan

pytestmark = pytest.mark.usefixtures("here")

LEFT_OUT = "are missing and excluded; windows without valid elements give "


@pytest.fixture
def tide() -> None:
    """`tide.h5` with a fill value, another missing value and one that its type does not have, and `tide.npy`."""
    x = np.array([[[[1, -99, 3, -99], [-99, 5, -99, -98]]]], "int16")
    np.save("tide.npy", x)
    with h5py.File("tide.h5", "w") as file:
        file["level"] = x
        file["level"].attrs["_FillValue"] = np.int16(-99)
        file["level"].attrs["missing_value"] = np.array([-98.0, 1e20])


def pooled(cli: Cli, source: str, *arguments: str) -> tuple[list[Any], list[str]]:
    result = cli("avg", source, "-o", "y.npy", "-k", "2", "-s", "2", "--json", "--overwrite", *arguments)
    assert result.code == 0, result.err
    return np.load("y.npy").ravel().tolist(), [
        note for note in result.json["notes"] if re.search("(are|means) missing|nodata", note)
    ]


COUNTED = "the file's nodata value ({}) is pooled like any other number"
NOT_KEPT = "not kept: that {0} means missing; pool the result with --missing {0}"
AGAIN = f"elements equal to -99 {LEFT_OUT}-99 again"
TWO = ("tide.npy", "--missing", "-99", "--missing", "5", "--dtype", "float32")


@pytest.mark.parametrize(
    ("words", "values", "notes"),
    [
        (("tide.h5",), [3, 3], [f"elements equal to -99 and -98 {LEFT_OUT}-99 again", NOT_KEPT.format(-99)]),
        (("tide.h5", "--missing", "none"), [-48, -73], [COUNTED.format("-99, -98.0")]),
        (("tide.h5", "--missing", "-99"), [3, -48], [AGAIN, COUNTED.format("-98.0")]),
        (TWO, [1, -47.5], [f"elements equal to -99 and 5 {LEFT_OUT}nan"]),
    ],
    ids=["of the file", "none", "another", "of any array"],
)
def test_missing_numbers_are_those_of_the_file_or_the_option(
    words: tuple[str, ...], values: list[float], notes: list[str], cli: Cli, tide: None
) -> None:
    assert pooled(cli, *words) == (values, notes)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_what_xarray_calls_missing_in_a_zarr_store_does_not_vote(version: Any, dtype: str, cli: Cli) -> None:
    array: Any = zarr.create_array("x.zarr", shape=(1, 1, 1, 4), dtype=dtype, zarr_format=version)
    array[...] = [[[[1, 9, 9, 9]]]]
    nine = base64.standard_b64encode(struct.pack("<d", 9)).decode()  # as xarray writes floats
    array.attrs["_FillValue"] = nine if dtype == "float32" else 9
    result = cli("max", "x.zarr", "-o", "y.npy", "-k", "1,2", "-s", "1,2", "--json")
    assert result.code == 0, result.err
    np.testing.assert_array_equal(np.load("y.npy").ravel(), [1, NAN if dtype == "float32" else 9])
    assert any(note.startswith("elements equal to 9 are missing") for note in result.json["notes"])


@pytest.mark.parametrize(
    ("stored", "dtype", "fill", "number", "held"),
    [
        ("float64", "float32", -1.7976931348623157e308, "-1.79769313e+308", False),
        ("float32", "float16", 9.969209968386869e36, "9.96920997e+36", False),
        ("float64", "float32", 3.4028235677973366e38, "3.40282357e+38", False),
        ("float64", "float32", 3.4028235677973362e38, "3.40282357e+38", True),
        ("float32", "float16", 65519.0, "65519", True),
        ("float64", "float32", -np.inf, "-inf", True),
    ],
)
def test_a_type_in_which_the_nodata_value_of_the_file_is_infinite_is_refused(
    stored: str, dtype: str, fill: float, number: str, held: bool, cli: Cli,
) -> None:  # fmt: skip
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.array([[[fill, fill, 1, 3]]], stored)
        file["x"].attrs["_FillValue"] = np.array(fill, stored)
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--dtype", dtype, "-q")
    if held:
        with h5py.File("y.h5") as file:
            assert (result.err, file["x"][0, 0].tolist()) == ("", [file["x"].attrs["_FillValue"], 2])
        return
    with h5py.File("x.h5", "a") as file:  # a number that is infinite in the attributes alone
        file["x"].attrs.update(missing_value=np.array([fill, 7], stored))
        file.copy("x", "z")
        file["z"].attrs["_FillValue"] = np.array(-9, stored)
    assert cli("avg", "x.h5:/z", "-o", "z.h5", "-k", "2", "-s", "2", "--dtype", dtype, "-q").err == ""
    assert (result.code, result.err) == (
        2,
        f"poolcli: x.h5: --dtype {dtype} cannot hold the nodata value of the file, {number}; use --dtype {stored}, "
        "or write .npy, in which windows of missing values become nan\n",
    )
    np.testing.assert_equal(pooled(cli, "x.h5:/x", "--dtype", dtype)[0], [NAN, 2])


def test_a_number_is_the_same_in_any_type(cli: Cli, tide: None) -> None:
    with h5py.File("tide.h5", "a") as file:
        file["level"].attrs["missing_value"] = np.array([-99.0])
        file["tenths"] = file["level"][()].astype("float32") / np.float32(10)
        file["tenths"].attrs["_FillValue"] = np.float32(-9.9)
    assert pooled(cli, "tide.h5:/level")[1] == [AGAIN, NOT_KEPT.format(-99)]
    assert pooled(cli, "tide.h5:/tenths", "--missing", "-9.9")[1] == [f"elements equal to -9.9 {LEFT_OUT}nan"]


def test_the_index_of_a_missing_maximum_is_told(cli: Cli, tide: None) -> None:
    result = cli("max", "tide.npy", "-k", "2", "-n", "--missing", "-99")
    assert AGAIN in " ".join(result.out.split())
    assert "index -1" not in result.out
    result = cli("max", "tide.npy", "-k", "2", "-n", "--missing", "-99", "--indices", "w.npy", columns=120)
    assert "flat position over N,C,H,W; -1 of windows without a valid element" in result.out


LOST = np.array([[-9999, -9999, 3, 5], [-9999, -9999, 4, -9999]], "float32")
SAID = f"elements equal to -9999 {LEFT_OUT}"


@pytest.fixture
def lost() -> None:
    """`x.h5` with a fill value of floats."""
    with h5py.File("x.h5", "w") as file:
        file["a"] = LOST
        file["a"].attrs["_FillValue"] = np.float32(-9999)


@pytest.mark.parametrize("more", [(), ("--dtype", "float64"), ("--all",)], ids=" ".join)
def test_what_hdf5_attributes_call_missing_stays_so(more: tuple[str, ...], cli: Cli, lost: None) -> None:
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "HW", "--json", *more)
    assert (result.code, result.json["notes"][0]) == (0, SAID + "-9999 again")
    with h5py.File("y.h5") as file:
        assert file["a"].attrs["_FillValue"] == -9999
        assert file["a"][()].tolist() == [[-9999, 4]]


def test_the_number_is_the_one_of_the_attribute_whatever_is_missing(cli: Cli, lost: None) -> None:
    more = ("--missing", "3", "--missing", "5", "--missing", "4", "--missing", "-9999")
    assert cli("max", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "HW", *more).code == 0
    with h5py.File("y.h5") as file:
        assert file["a"][()].tolist() == [[-9999, -9999]]


def test_a_format_that_names_no_number_has_nan(cli: Cli, lost: None) -> None:
    assert pooled(cli, "x.h5", "--layout", "HW")[1] == [SAID + "nan", NOT_KEPT.format("nan")]
    np.testing.assert_array_equal(np.load("y.npy"), [[NAN, 4]])
    assert cli("avg", "x.h5", "-o", "y.tif", "-k", "2", "-s", "2", "--layout", "HW", "--json").json["notes"] == [
        SAID + "nan"
    ]


@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("target", [".tif", ".h5", ".zarr"])
@pytest.mark.parametrize("source", [".tif", ".h5", ".zarr"])
def test_what_is_missing_stays_missing_from_format_to_format(source: str, target: str, dtype: str, cli: Cli) -> None:
    np.save("x.npy", LOST.astype(dtype))
    copy = ("-k", "1", "-q", "--layout", "HW", "--output-layout", "HW", "-o")
    assert cli("max", "x.npy", *copy, f"a{source}", "--missing=-9999").err == ""
    assert cli("max", f"a{source}", *copy, f"b{target}").err == ""
    if target == ".tif":
        with tifffile.TiffFile("b.tif") as file:
            np.testing.assert_equal(file.pages.first.nodata, NAN if dtype == "float32" else -9999)
    assert cli("avg", f"b{target}", "-k", "2", "-s", "2", *copy[2:], "y.npy").err == ""
    np.testing.assert_array_equal(np.load("y.npy"), [[NAN if dtype == "float32" else -9999, 4]])
    if target == ".zarr":
        assert cli("pyramid", f"a{source}", "-o", "p.zarr", "--levels", "2", "-q").err == ""
        assert cli("avg", "p.zarr:/1", "-k", "1", *copy[2:], "z.npy").err == ""
        np.testing.assert_array_equal(np.load("z.npy").ravel(), np.load("y.npy").ravel())


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_every_page_of_a_tiff_names_its_nodata_value(compression: str | None, cli: Cli) -> None:
    tags = [(42113, "s", 0, "-9999", False)]
    pages = np.stack([LOST, LOST])
    tifffile.imwrite("x.tif", pages, photometric="minisblack", compression=compression, metadata=None, extratags=tags)
    assert cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", "2").code == 0
    with tifffile.TiffFile("y.tif") as file:
        found: list[Any] = list(file.pages)
        assert [(page.nodata, page.asarray().tolist()) for page in found] == [(-9999, [[-9999, 4]])] * 2


def test_a_turned_tiff_keeps_its_nodata_value(cli: Cli) -> None:
    tags = [(42113, "s", 0, "-9999", True), (274, "H", 1, 3, True)]
    tifffile.imwrite("x.tif", LOST, metadata=None, extratags=tags)
    assert cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", "2").code == 0
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert (page.nodata, page.asarray().tolist()) == (-9999, [[4, -9999]])


def of_xarray(path: str, version: int, dtype: str = "float32") -> Any:
    """A store that xarray writes: `a`, which lacks a corner, without and with a fill value, and coordinates from 0."""
    import xarray

    values = np.where(LOST == -9999, NAN, LOST)[None]
    counts = (("time", "y", "x"), np.zeros((1, 2, 4), "int16"))
    times = np.array(["2000-01-01"], "M8[ns]")
    found = xarray.Dataset(
        {"a": (("time", "y", "x"), values), "counts": counts},
        {"time": times, "x": ("x", np.arange(4))},
    )
    encoding = {"a": {"_FillValue": -9999, "dtype": dtype}}
    found.to_zarr(path, zarr_format=version, consolidated=False, encoding=encoding)
    return xarray


@pytest.mark.heavy
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("dtype", "more"), [("float32", ()), ("int16", ("--dtype", "float32")), ("int16", ())])
def test_xarray_finds_the_same_missing_in_a_zarr_store(
    version: int, dtype: str, more: tuple[str, ...], cli: Cli
) -> None:
    xarray = of_xarray("x.zarr", version, dtype)
    how = ("-k", "2", "-s", "2", "--layout", "CHW")
    assert cli("avg", "x.zarr:/a", "-o", "y.zarr", *how, *more).code == 0
    with xarray.open_zarr("y.zarr", consolidated=False) as found:
        assert found.a.encoding["_FillValue"] == -9999
        np.testing.assert_array_equal(found.a, [[[NAN, 4]]])
        assert found.time.values.tolist() == np.array(["2000-01-01"], "M8[ns]").tolist()
        assert found.x.values.tolist() == [0.5, 2.5]
    assert cli("avg", "x.zarr:/counts", "-o", "z.zarr", *how).code == 0
    with xarray.open_zarr("z.zarr", consolidated=False) as found:
        assert found.counts.values.tolist() == [[[0, 0]]]


@pytest.mark.heavy
def test_what_xarray_calls_missing_in_zarr_2_becomes_an_attribute_of_hdf5(cli: Cli) -> None:
    xarray = of_xarray("x.zarr", 2)
    assert cli("avg", "x.zarr:/a", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "CHW").code == 0
    with h5py.File("y.h5") as file:
        assert (file["a"].attrs["_FillValue"], file["a"][()].tolist()) == (-9999, [[[-9999, 4]]])
    assert cli("avg", "y.h5", "-o", "z.zarr", "-k", "1", "--layout", "CHW").code == 0
    with xarray.open_zarr("z.zarr", consolidated=False) as found:
        np.testing.assert_array_equal(found.a, [[[NAN, 4]]])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "said", "kept"),
    [
        ("uint8", NAN, NAN), ("uint8", 300, 300), ("uint8", 4.0, 4), ("uint8", 10**400, 10**400),
        ("float32", 10**400, 10**400),
        ("float32", 1e300, base64.standard_b64encode(struct.pack("<d", 1e300)).decode()),  # as xarray writes it
    ],
)  # fmt: skip
def test_what_no_element_can_be_is_no_fill_value_of_zarr(
    version: Any, dtype: str, said: float, kept: object, cli: Cli
) -> None:
    array: Any = zarr.create_array(
        "x.zarr", shape=(2, 4), dtype=dtype, zarr_format=version, fill_value=None if version == 2 else 0
    )
    array[...] = 4
    array.attrs.update({"_FillValue": said, "_ARRAY_DIMENSIONS": ["y", "x"]})
    result = cli("max", "x.zarr", "-o", "y.zarr", "-k", "2", "-s", "2", "--layout", "HW")
    assert result.code == 0, result.err
    found: Any = zarr.open_array("y.zarr", mode="r")
    assert (found[:].tolist(), found.fill_value) == ([[4, 4]], 0)
    np.testing.assert_equal(found.attrs.get("_FillValue"), kept)


def test_the_fill_value_of_a_level_of_a_pyramid_counts(cli: Cli) -> None:
    scales = [{"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": "0"}]}]
    group: Any = zarr.open_group("x.zarr", mode="w", zarr_format=2, attributes={"multiscales": scales})
    array: Any = group.create_array("0", shape=(2, 4), dtype="u1", attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    array[:] = [[0, 0, 4, 8], [0, 0, 0, 8]]
    assert cli("avg", "x.zarr:/0", "-o", "y.zarr", "-k", "2", "-s", "2").code == 0
    array = zarr.open_group("y.zarr", mode="r")["0"]
    assert (array[:].tolist(), array.fill_value, array.metadata.dimension_names) == ([[0, 5]], 0, ("y", "x"))
    assert cli("avg", "y.zarr:/0", "-o", "z.npy", "-k", "1,2").code == 0
    assert np.load("z.npy").tolist() == [[2]]


def test_levels_of_a_pyramid_keep_the_nodata_value_of_the_first(cli: Cli, lost: None) -> None:
    assert cli("pyramid", "x.h5", "-o", "y.zarr", "--layout", "HW", "--levels", "2").code == 0
    group: Any = zarr.open_group("y.zarr", mode="r")
    assert group["1"][:].tolist() == [[-9999, 4]]
