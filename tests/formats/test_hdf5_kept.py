"""What an HDF5 file holds beside its values is kept, or a note says that it is not."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from poolcli.formats import Source, read_header
from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
X = np.arange(2 * 3 * 8 * 6, dtype=np.float32).reshape(2, 3, 8, 6)
HALVE = ("-k", "2", "-s", "2")


def notes_of(cli: Cli, *arguments: str) -> list[str]:
    """The notes of a run that must succeed, those on the geometry left out."""
    result = cli("avg", "x.h5:/g/a", "-o", "y.h5", *HALVE, "--json", *arguments)
    assert result.code == 0, result.err
    return [note for note in result.json["notes"] if "axes" not in note]


def test_attributes_of_the_dataset_of_its_groups_and_of_the_root(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X
        file.attrs["title"], file["g"].attrs["station"], file["g/a"].attrs["units"] = "air", [1, 2], "K"
        file["g/a"].attrs["table"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
    assert notes_of(cli) == []
    with h5py.File("y.h5") as file:
        assert (file.attrs["title"], file["g"].attrs["station"].tolist()) == ("air", [1, 2])
        assert (file["g/a"].attrs["units"], file["g/a"].attrs["table"].tolist()) == ("K", [(1, 2.5)])


def test_references_are_left_out_by_name(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X
        file.attrs["start"] = file["g"].ref
        file["g/a"].attrs["parts"] = np.array([file["g"].ref], h5py.ref_dtype)
    said = "left out, because they are references or cannot be read: the attributes /g/a@parts, /@start"
    assert notes_of(cli) == [said]


def test_fill_value_and_chunks(cli: Cli) -> None:
    options = {"chunks": (1, 3, 4, 6), "fillvalue": -9}
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("g/a", data=X, **options)
    assert notes_of(cli) == []
    with h5py.File("y.h5") as file:
        a = file["g/a"]
        assert (a.shape, a.chunks, a.fillvalue) == ((2, 3, 4, 3), (1, 3, 4, 3), -9)


def test_a_fill_value_that_the_type_lacks(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("g/a", data=X, fillvalue=2**20)
    said = ["stored without the fill value 1048576.0, which float16 does not have"]
    assert notes_of(cli, "--dtype", "float16") == said


def test_what_is_there_for_each_axis_goes_with_it_into_another_layout(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        a = file.create_dataset("g/a", data=X)
        file["lat"] = np.arange(8.0)
        file["lat"].make_scale("lat")
        a.dims[2].attach_scale(file["lat"])
        a.dims[3].label = "lon"
    assert notes_of(cli, "--layout", "NCHW", "--output-layout", "HNWC") == []
    assert read_header(Source("x.h5")).layout is None  # as two axes have no names
    with h5py.File("y.h5") as file:
        a = file["g/a"]
        assert a.shape == (4, 2, 3, 3)
        assert a.dims[0]["lat"][...].tolist() == [0.5, 2.5, 4.5, 6.5]
        assert [axis.label for axis in a.dims] == ["", "", "lon", ""]


def test_attributes_of_scales(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"], file["lat"] = X, np.arange(8, dtype=np.int16)
        file["lat"].make_scale("latitude")
        file["lat"].attrs["units"], file["lat"].attrs["_FillValue"] = "degrees_north", np.int16(-1)
        file["g/a"].dims[2].attach_scale(file["lat"])
    assert notes_of(cli) == []
    with h5py.File("y.h5") as file:
        assert file["g/a"].dims[2].keys() == ["latitude"]
        assert (file["lat"].attrs["units"], file["lat"].attrs["_FillValue"].dtype) == ("degrees_north", np.float64)


@pytest.mark.parametrize("number", [np.float32(-9999), np.longdouble(-9999)])
@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_missing_values_are_kept_in_the_type_of_the_result(name: str, number: Any, cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X
        file["g/a"].attrs[name] = number
    said = "elements equal to -9999 are missing and excluded; windows without valid elements give -9999 again"
    assert notes_of(cli, "--dtype", "float64") == [said]
    with h5py.File("y.h5") as file:
        assert file["g/a"].attrs[name].dtype == np.float64


@pytest.mark.parametrize(
    ("dtype", "value"), [("int16", np.float64(np.nan)), ("uint8", np.int8(-1)), ("float32", np.float64(-1.7e308))]
)
def test_missing_values_that_no_element_can_be_stay_as_they_are(dtype: str, value: Any, cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X.astype(dtype)
        file["g/a"].attrs["_FillValue"] = value
    assert notes_of(cli, "--dtype", dtype) == []
    with h5py.File("y.h5") as file:
        np.testing.assert_equal(file["g/a"].attrs["_FillValue"], value)


def test_attributes_that_tell_sizes_are_named(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X
        file["g/a"].attrs["voxel_size"], file["g/a"].attrs["element_size_um"] = [1, 2], [3, 4]
        file["g/a"].attrs["size_of_crew"] = 7
    assert notes_of(cli) == ["copied unchanged, update what describes the resolution: element_size_um, voxel_size"]


def test_names_that_are_not_utf8(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_group(b"g\xff").create_dataset(b"a\xfe", data=X)
        file[b"g\xff"].attrs["units"] = "K"
        file.create_dataset("b", data=X)
    assert cli("info", "x.h5").out.splitlines()[2:] == [
        "/b            2,3,8,6  float32",
        r"/g\xff/a\xfe  2,3,8,6  float32",
    ]
    for arguments in (["x.h5:/g\udcff/a\udcfe", "-o", "y.h5"], ["x.h5", "--all", "-o", "z.h5"]):
        assert cli("avg", *arguments, *HALVE, "-q").code == 0
        with h5py.File(arguments[-1]) as file:
            assert (file[b"g\xff"][b"a\xfe"].shape, file[b"g\xff"].attrs["units"]) == ((2, 3, 4, 3), "K")


@pytest.mark.heavy
def test_filters_other_than_those_of_hdf5_become_gzip(cli: Cli) -> None:
    import hdf5plugin as plugin

    with h5py.File("x.h5", "w") as file:
        file.create_dataset("g/a", data=X, chunks=(1, 3, 8, 6), **plugin.Zstd(clevel=5))
    (note,) = notes_of(cli)
    assert note == "stored with gzip instead of the filter HDF5 zstd filter"
    with h5py.File("y.h5") as y:
        assert (y["g/a"].chunks, y["g/a"].compression) == ((1, 3, 4, 3), "gzip")
        np.testing.assert_array_equal(y["g/a"][...], X.reshape(2, 3, 4, 2, 3, 2).mean((3, 5)))


@pytest.mark.parametrize(
    "options",
    [{"compression": "lzf", "shuffle": True}, {"compression": "gzip", "compression_opts": 7, "fletcher32": True}],
)
def test_filters_of_hdf5_are_kept(options: dict[str, Any], cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("g/a", data=X, chunks=(1, 3, 8, 6), **options)
    assert notes_of(cli) == []
    with h5py.File("y.h5") as y:
        assert {name: getattr(y["g/a"], name) for name in options} == options


def test_a_streamed_output_says_the_same(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from poolcli.formats import FORMATS

    monkeypatch.setitem(FORMATS, "hdf5", replace(FORMATS["hdf5"], streams_from=0))
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("g/a", data=X, chunks=(1, 3, 8, 6), scaleoffset=1)
    assert notes_of(cli, "--max-memory", "2K", "--debug") == ["stored with gzip instead of the filter scaleoffset"]


def test_missing_values_that_are_no_numbers_are_said(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = X
        file["g/a"].attrs["missing_value"] = "n/a"
    assert notes_of(cli) == ["the file's nodata value (missing_value) is not a number and is ignored"]


def test_a_variable_that_another_refers_to_is_listed_by_info_but_not_taken_with_all(cli: Cli) -> None:
    for path in ("x.nc", "x.zarr"):
        file: Any = h5py.File(path, "w") if path == "x.nc" else zarr.open_group(path, mode="w")
        for name, shape in (("t", (1, 1, 8, 6)), ("aux", (8, 6))):
            (file.create_array if path == "x.zarr" else file.create_dataset)(name, data=np.zeros(shape))
        file["t"].attrs["coordinates"] = "aux missing"
        if path == "x.nc":
            file.close()
        assert [each["dataset"] for each in cli("info", path, "--json").json["arrays"]] == ["/t", "/aux"]
        assert cli("avg", path, "-o", "y.h5", "-k", "2", "--all", "--overwrite", "-q").code == 0
        with h5py.File("y.h5") as made:
            assert sorted(made) == ["t"]
