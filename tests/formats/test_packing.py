"""Scale, offset and sign of stored numbers: kept where results stand for what they did, else changed and said."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr

from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
X = np.random.default_rng(6).integers(-90, 90, (4, 6)).astype(np.int16)
SCALE, OFFSET = -0.5, 273.0
OPERATORS: dict[str, Any] = {
    "avg": np.mean, "median": np.median, "std": np.std, "sum": np.sum, "max": np.min,
    "lp": lambda x, axis: np.sqrt((x**2).sum(axis)),
}  # fmt: skip
FLOAT = ("--dtype", "float64")


def results(op: str, offset: float) -> Any:
    """Of what the numbers stand for, as the maximum of numbers with a negative scale is the least of that."""
    meant = (X * SCALE + offset).reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(2, 3, 4)
    return OPERATORS[op](meant, axis=-1)


@pytest.mark.parametrize("offset", [0.0, OFFSET])
@pytest.mark.parametrize("op", OPERATORS)
def test_results_stand_for_what_the_numbers_did(op: str, offset: float, cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["x"] = X
        file["x"].attrs.update(scale_factor=[SCALE], add_offset=offset, valid_range=[-90, 90], actual_range=[0, 1])
    items = "".join(
        f'<Item name="{role.upper()}" sample="0" role="{role}">{value}</Item>'
        for role, value in {"scale": SCALE, "offset": offset, "unittype": "°C &lt;"}.items()
    )
    text = f'<GDALMetadata>{items}<Item name="STATISTICS_MEAN" sample="0">3</Item></GDALMetadata>'.encode()
    tifffile.imwrite("x.tif", X, metadata=None, extratags=[(42112, 2, len(text), text, True)])
    size = ("-k", "2", "-s", "2", "-q", "--overwrite", *(FLOAT if op in ("avg", "median", "lp") else ()))
    assert cli(op, "x.h5", "-o", "y.h5", "--layout", "HW", *size).err == ""
    notes = cli(op, "x.h5", "-o", "z.h5", "--layout", "HW", *size, "--json").json["notes"]
    with h5py.File("y.h5") as file:
        found = dict(file["x"].attrs)
        read = file["x"][()] * found.get("scale_factor", 1) + found.get("add_offset", 0)
    lost = op in ("sum", "lp") and offset
    wanted = results(op, 0) / SCALE if lost else results(op, offset)
    np.testing.assert_allclose(np.abs(read) if lost else read, np.abs(wanted) if lost else wanted, rtol=1e-6)
    is_bounded = op in ("avg", "median", "max")
    assert ("valid_range" in found, "actual_range" in found) == (is_bounded, False)
    assert any("scale_factor is negative" in note for note in notes) == (op == "max")
    left = next(note for note in notes if note.startswith(f"left out, because they do not hold for {op} pooling"))
    assert ("add_offset" in left) == (bool(offset) and not is_bounded)

    assert cli(op, "x.tif", "-o", "y.tif", *size).err == ""
    notes = cli(op, "x.tif", "-o", "z.tif", *size, "--json").json["notes"]
    with tifffile.TiffFile("y.tif") as file:
        about, array = file.pages.first.tags[42112].value, file.asarray()
    assert 'role="unittype">°C &lt;</Item>' in about
    said = {role: float(about.partition(f'role="{role}">')[2].partition("<")[0] or default)
            for role, default in {"scale": 1, "offset": 0}.items()}  # fmt: skip
    np.testing.assert_allclose(array * said["scale"] + said["offset"], read, rtol=1e-6)
    assert (f"GDAL's offset (it does not hold for {op} pooling)" in str(notes)) == (bool(offset) and not is_bounded)
    assert any(note.startswith("not kept: GDAL's STATISTICS_MEAN") for note in notes)


def test_odd_scales_cost_nothing_but_themselves(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["x"] = X
        file["x"].attrs.update(scale_factor="a half", add_offset=[1.0, 2.0], title="x")
    items = '<Item sample="0" role="scale">wide</Item><Item sample="x" role="scale">2</Item><Item'
    tifffile.imwrite("x.tif", X, metadata=None, extratags=[(42112, 2, len(items), items.encode(), True)])
    for op in ("max", "sum", "std"):
        for name, layout in (("h5", ["--layout", "HW"]), ("tif", [])):
            result = cli(op, f"x.{name}", "-o", f"y.{name}", "-k", "2", *layout, "-q", "--overwrite")
            assert (result.code, result.err) == (0, "")
        with h5py.File("y.h5") as file:
            assert ("scale_factor" in file["x"].attrs, file["x"].attrs["title"]) == (op == "max", "x")


NAMES = ("npy", "npz", "safetensors", "png", "h5", "zarr", "tif")
KEEP = ("-k", "1", "--overwrite", "--layout", "HW")


def not_kept(cli: Cli, op: str, source: str, name: str, *more: str) -> list[str]:
    notes = cli(op, source, "-o", f"y.{name}", *KEEP, "--json", *more).json["notes"]
    return [note.removeprefix("not kept: ") for note in notes if note.startswith("not kept: the numbers")]


@pytest.mark.parametrize("name", NAMES)
def test_a_scale_and_offset_that_are_not_kept_are_said(name: str, cli: Cli) -> None:
    with h5py.File("x.nc", "w") as file:
        file["x"] = X.astype(np.uint16)
        file["x"].attrs.update(scale_factor=np.array([0.01], np.float32), add_offset=-273.15)
    text = (
        b'<GDALMetadata><Item sample="0" role="scale">0.5</Item><Item sample="0" role="offset">7</Item></GDALMetadata>'
    )
    tifffile.imwrite("x.tif", X.astype(np.uint16), metadata=None, extratags=[(42112, 2, len(text), text, True)])
    if name == "png":
        notes = cli("avg", "x.nc", "-o", "z.png", *KEEP, "--json", "--dtype", "float32", "--rescale").json["notes"]
        assert "not kept: before rescaling, the numbers stand for stored * 0.01 - 273.15" in notes
    lost = [] if name in ("h5", "zarr") else ["the numbers stand for stored * 0.01 - 273.15"]
    assert not_kept(cli, "avg", "x.nc", name) == lost
    assert not_kept(cli, "avg", "x.tif", name) == ([] if name == "tif" else ["the numbers stand for stored * 0.5 + 7"])


def test_what_is_said_holds_for_the_result(cli: Cli) -> None:
    with h5py.File("x.nc", "w") as file:
        file["x"] = X
        file["x"].attrs.update(scale_factor=-0.5, add_offset=7)
    assert not_kept(cli, "std", "x.nc", "npy") == ["the numbers stand for stored * 0.5"]
    of_input = "the numbers of the input stand for stored * -0.5 + 7, which does not hold for sum pooling"
    assert not_kept(cli, "sum", "x.nc", "npy") == [of_input]
    with h5py.File("x.nc", "a") as file:
        file["x"].attrs.update(scale_factor=1, add_offset=7)
    assert not_kept(cli, "max", "x.nc", "npy") == ["the numbers stand for stored + 7"]
    with h5py.File("x.nc", "a") as file:
        file["x"].attrs.update(scale_factor=1.0, add_offset=0)
    assert not_kept(cli, "max", "x.nc", "npy") == []


def test_bands_of_different_scales_are_named(cli: Cli) -> None:
    items = "".join(f'<Item sample="{i}" role="scale">{scale}</Item>' for i, scale in enumerate((2, 0.5, 2)))
    tifffile.imwrite(
        "x.tif", np.zeros((4, 6, 3), np.uint8), photometric="rgb", metadata=None,
        extratags=[(42112, 2, len(items), items.encode(), True)],
    )  # fmt: skip
    said = ["the numbers stand for stored * 2 (bands 1, 3); the numbers stand for stored * 0.5 (band 2)"]
    assert not_kept(cli, "avg", "x.tif", "npy", "--layout", "HWC") == said


STANDS_FOR = np.array([[[[10, 20, 200, 220], [30, 40, 240, 255], [0, 2, 250, 250], [2, 4, 255, 255]]]], "uint8")
MEANS = np.array([[25, 220], [2, 250]], "uint8")  # of all but 255, which is missing
ATTRIBUTES: dict[str, Any] = {"_Unsigned": "true", "_FillValue": np.int8(-1), "valid_range": np.array([0, -2], "int8")}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [1, 2])
def test_hdf5_numbers_are_pooled_as_what_they_stand_for(order: str, size: int, cli: Cli) -> None:
    signed = STANDS_FOR.view("int8").astype(f"{order}i{size}")
    with h5py.File("x.nc", "w") as file:
        made = file.create_dataset("v", data=signed, chunks=(1, 1, 2, 4), fillvalue=-1)
        made.attrs.update(ATTRIBUTES | {"_Unsigned": np.bytes_("true") if size == 2 else "true"})
    result = cli("avg", "x.nc:/v", "-o", "y.nc", "-k", "2", "-s", "2")
    assert (result.code, f"read as uint{8 * size}, as its attribute _Unsigned says" in result.out) == (0, True)
    high = 2 ** (8 * size) - 256
    with h5py.File("y.nc") as file:
        found = file["v"]
        assert (found.dtype, found.attrs.get("_Unsigned"), found.fillvalue) == (f"u{size}", None, high + 255)
        assert found.attrs["_FillValue"] == high + 255
        assert found.attrs["valid_range"].tolist() == [0, high + 254]
        np.testing.assert_array_equal(found[0, 0], MEANS.astype(int) + high * (MEANS > 127))


def test_an_array_that_is_copied_holds_what_its_numbers_stand_for(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["a"] = STANDS_FOR
        file.create_dataset("u", data=np.arange(-5, 5, dtype="int8")).attrs["_Unsigned"] = "true"
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--all")
    assert (result.code, "read as uint8, as its attribute _Unsigned says" in result.out) == (0, True)
    with h5py.File("y.h5") as file:
        np.testing.assert_array_equal(file["u"][:], np.arange(-5, 5, dtype="int8").view("uint8"), strict=True)


def test_numbers_of_zarr_are_too_and_false_says_nothing(cli: Cli) -> None:
    for name, said in (("x", "true"), ("z", "false")):
        store = zarr.create_array(f"{name}.zarr", shape=STANDS_FOR.shape, dtype="int8", fill_value=-1, zarr_format=2)
        store[:] = STANDS_FOR.view("int8")
        store.attrs.update({"_Unsigned": said, "missing_value": -1, "_ARRAY_DIMENSIONS": ["n", "c", "y", "x"]})
    assert cli("avg", "x.zarr", "-o", "y.zarr", "-k", "2", "-s", "2", "-q").code == 0
    found: Any = zarr.open_array("y.zarr")
    assert (found.dtype, found.attrs["_FillValue"], found.attrs["missing_value"]) == ("uint8", 255, 255)
    np.testing.assert_array_equal(found[0, 0], MEANS)
    assert cli("avg", "z.zarr", "-o", "s.zarr", "-k", "2", "-s", "2", "-q").code == 0
    assert zarr.open_array("s.zarr").dtype == "int8"
