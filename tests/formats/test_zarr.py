"""Zarr stores: chosen and kept, held against what zarr-python itself reads and writes."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

from poolcli.formats import Source, open_array
from tests.conftest import Cli
from tests.formats.stores import HALVE, KEPT, X, document, group, halved, made, whole

pytestmark = pytest.mark.usefixtures("here")


def test_one_array_is_taken_by_its_path_or_by_itself(cli: Cli) -> None:
    made("x.zarr", key="a/b", dimension_names=("z", "y", "x"))
    for name in ("x.zarr", "x.zarr:/a/b", "x.zarr:a/b", "x.zarr/a/b"):
        assert cli("avg", name, "-o", "y.npy", *HALVE, "--overwrite", "-q").err == ""
        np.testing.assert_array_equal(np.load("y.npy"), halved())


def test_several_arrays_are_listed_and_all_are_pooled_under_their_names(cli: Cli) -> None:
    made("x.zarr", key="a/b", dimension_names=("z", "y", "x"))
    made("x.zarr", X[:, :, :8], key="c", dimension_names=("z", "y", "x"), zarr_format=3)
    zarr.open_group("x.zarr").create_array("text", shape=(2,), dtype=str)
    result = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE)
    assert (result.code, result.err) == (
        2,
        "poolcli: x.zarr: holds 2 arrays: /c (9,10,8 uint8), /a/b (9,10,11 uint8); choose one: x.zarr:/c or "
        "--dataset /c, or all of them: --all --output all.zarr\n",
    )
    assert cli("avg", "x.zarr:/d", "-o", "y.zarr", *HALVE).err == (
        "poolcli: x.zarr: has no array '/d'; it holds /c (9,10,8 uint8), /a/b (9,10,11 uint8)\n"
    )
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--all", "-q").err == ""
    np.testing.assert_array_equal(group("y.zarr")["a/b"][:], halved())
    np.testing.assert_array_equal(group("y.zarr")["c"][:], halved(X[:, :, :8]))


def test_a_store_in_a_folder_is_one_input_and_its_chunks_are_none(cli: Cli) -> None:
    made("in/deep/x.zarr", X[:8, :, :10], dimension_names=("z", "y", "x"))
    np.save("in/a.npy", X[None, None, :8, :, :10])
    result = cli("avg", "in", "-r", "-o", "out/", *HALVE)
    assert (result.code, result.out.splitlines()[0], result.err) == (0, "2 done, 0 skipped, 0 failed", "")
    np.testing.assert_array_equal(whole("out/deep/x.zarr"), halved(X[:8, :, :10]))
    assert cli("avg", "in", "-r", "-o", "out/", *HALVE, "--resume").out == "0 done, 2 skipped, 0 failed\n"


@pytest.mark.parametrize(
    ("shape", "options", "chunks"),
    [
        ((8, 2048, 7, 7), ("adaptive-avg", "--output-size", "1"), (8, 2048, 1, 1)),  # not 16,384 files
        ((8, 300, 64, 64), ("max", "-k", "1"), (1, 256, 64, 64)),
        ((2, 1026, 1026), ("max", "-k", "1,1"), (1, 1024, 1024)),
    ],
)
def test_small_planes_share_a_chunk(
    shape: tuple[int, ...], options: tuple[str, ...], chunks: tuple[int, ...], cli: Cli
) -> None:
    np.save("x.npy", np.zeros(shape, np.uint8))
    assert cli(options[0], "x.npy", "-o", "y.zarr", *options[1:], "-q").code == 0
    assert zarr.open_array("y.zarr", mode="r").chunks == chunks


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (("t", "c", "z", "y", "x"), "NCDHW"),
        (("c", "y", "x"), "CHW"),
        (("time", "lat", "lon"), "NHW"),
        (("Y", "X"), "HW"),
        (("y", "bands", "x"), "HCW"),
        (("c", "z", "channel"), None),
        (("t", "c"), None),
        ((None, "y", "x"), None),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_names_of_dimensions_decide_the_layout_where_all_are_known(
    names: Any, layout: str | None, version: int
) -> None:
    x = np.zeros((2,) * len(names), np.float32)
    how = {"dimension_names": names} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": list(names)}}
    made("x.zarr", x, chunks=x.shape, zarr_format=version, **how)
    with open_array(Source("x.zarr")) as file:
        assert file.header.layout == layout


@pytest.mark.parametrize("form", ["0.4", "0.5"])
def test_the_axes_of_ome_zarr_decide_the_layout_and_its_levels_are_not_copied(form: str, cli: Cli) -> None:
    scales = [{"axes": [{"name": name} for name in "zyx"], "datasets": [{"path": "0"}]}]
    attributes = {"multiscales": scales} if form == "0.4" else {"ome": {"version": "0.5", "multiscales": scales}}
    version = 2 if form == "0.4" else 3
    how: Any = {"zarr_format": version, "attributes": attributes | {"of": "mine"}}
    zarr.open_group("x.zarr", mode="w", **how)
    made("x.zarr", key="0", zarr_format=version)
    result = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--json")
    assert result.json["input"]["layout"] == "DHW"
    word = "multiscales" if form == "0.4" else "ome"
    assert f"left out, because it describes several arrays: {word} of /" in result.json["notes"]
    assert dict(zarr.open_group("y.zarr").attrs) == {"of": "mine"}


def stored(array: Any) -> tuple[Any, ...]:
    """How zarr-python says that an array is stored."""
    fill = array.fill_value.item()
    return array.metadata.zarr_format, array.chunks, array.shards, array.filters, array.compressors, fill


@pytest.mark.parametrize("how", [how for how in KEPT if how.startswith("v3") and "other" not in how])
def test_how_an_array_is_stored_is_kept(how: str, cli: Cli) -> None:
    before = made("x.zarr", **KEPT[how])
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "-q").err == ""
    after = zarr.open_array("y.zarr", mode="r")
    assert stored(after) == stored(before)
    np.testing.assert_array_equal(after[:], halved())
    old, new = document("x.zarr/zarr.json"), document("y.zarr/zarr.json")
    for changed in ("shape", "dimension_names", "storage_transformers"):
        assert new.pop(changed, None) != 0
        old.pop(changed, None)
    assert new == old


@pytest.mark.parametrize(
    ("compressor", "expected"),
    [
        (numcodecs.Blosc(clevel=2), BloscCodec(typesize=1, clevel=2, cname="lz4", shuffle="shuffle", blocksize=0)),
        (numcodecs.GZip(3), GzipCodec(level=3)), (numcodecs.Zstd(4), ZstdCodec(level=4, checksum=False)),
        (numcodecs.LZ4(), ZstdCodec(level=0, checksum=False)),
    ],
)  # fmt: skip
def test_an_array_of_zarr_2_becomes_one_of_zarr_3(compressor: Any, expected: Any, cli: Cli) -> None:
    made("x.zarr", zarr_format=2, chunks=(2, 3, 4), compressors=compressor, fill_value=3)
    found = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "--json").json
    assert stored(zarr.open_array("y.zarr", mode="r")) == (3, (2, 3, 4), None, (), (expected,), 3)
    assert ("not kept: the codec lz4" in found["notes"]) == isinstance(compressor, numcodecs.LZ4)
    np.testing.assert_array_equal(whole("y.zarr"), halved())


@pytest.mark.parametrize(("dtype", "fill"), [("float32", 0), ("uint8", 0), ("bool", False)])
def test_the_fill_value_of_a_new_array_is_a_number_unless_it_holds_bools(dtype: str, fill: object, cli: Cli) -> None:
    np.save("x.npy", np.ones((4, 4, 4), dtype))
    assert cli("max", "x.npy", "-o", "y.zarr", *HALVE, "-q").code == 0
    found = document("y.zarr/zarr.json")["fill_value"]  # other readers of Zarr take no false for a number
    assert (found, isinstance(found, bool)) == (fill, isinstance(fill, bool))


def test_a_transposed_array_is_read_and_stored_in_its_own_order(cli: Cli) -> None:
    made("x.zarr", filters=[TransposeCodec(order=(2, 0, 1))], serializer=BytesCodec())
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "-q").err == ""
    np.testing.assert_array_equal(whole("y.zarr"), halved())


def test_what_would_round_the_result_or_does_not_fit_its_type_is_left_out_and_said(cli: Cli) -> None:
    x = X.astype(np.float32)
    filters = [numcodecs.BitRound(3), numcodecs.Delta("f4")]
    made("x.zarr", x, zarr_format=2, filters=filters, fill_value=np.nan)
    result = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "--dtype", "float64", "--json")
    assert result.json["notes"][-1] == "not kept: the codec bitround, the codec delta"
    assert np.isnan(group("y.zarr").fill_value)
    made("d.zarr", x.astype(np.float64), fill_value=-1e300)
    result = cli("avg", "d.zarr", "-o", "z.zarr", *HALVE, "--layout", "DHW", "--dtype", "float32", "--json")
    assert result.json["notes"][-1] == "not kept: the fill value -1e+300, which float32 does not have"


def test_attributes_groups_names_and_the_values_along_axes_are_kept(cli: Cli) -> None:
    root = zarr.open_group("x.zarr", mode="w", attributes={"title": "air", "parts": [1, {"a": None}]})
    root.create_group("g", attributes={"station": 5})
    made("x.zarr", key="g/t", dimension_names=("z", "y", "x"), attributes={"units": "K", "nested": {"a": [1.5]}})
    for name, length in (("z", 9), ("x", 11)):
        made("x.zarr", np.arange(length) * 2.0, key=f"g/{name}", chunks=(100,), attributes={"units": "m"})
    assert cli("avg", "x.zarr:/g/t", "-o", "y.zarr", *HALVE, "-q").err == ""
    y = group("y.zarr")
    assert dict(y.attrs) == {"title": "air", "parts": [1, {"a": None}]}
    assert (dict(y["g"].attrs), dict(y["g/t"].attrs)) == ({"station": 5}, {"units": "K", "nested": {"a": [1.5]}})
    assert y["g/t"].metadata.dimension_names == ("z", "y", "x")
    np.testing.assert_array_equal(y["g/z"][:], [1.0, 5.0, 9.0, 13.0])
    np.testing.assert_array_equal(y["g/x"][:], [1.0, 5.0, 9.0, 13.0, 17.0])
    assert sorted(name for name, _ in y["g"].members()) == ["t", "x", "z"]


def test_an_hdf5_file_and_a_store_become_each_other(cli: Cli) -> None:
    made("x.zarr", key="g/t", dimension_names=("z", "y", "x"), attributes={"units": "K"})
    made("x.zarr", np.arange(11.0), key="g/x", chunks=(11,))
    assert cli("avg", "x.zarr:/g/t", "-o", "y.h5", *HALVE, "-q").err == ""
    assert cli("max", "y.h5:/g/t", "-o", "z.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    z = group("z.zarr")["g"]
    np.testing.assert_array_equal(z["t"][:], halved())
    assert (z["t"].metadata.dimension_names, dict(z["t"].attrs)) == (("z", "y", "x"), {"units": "K"})
    np.testing.assert_array_equal(z["x"][:], [0.5, 2.5, 4.5, 6.5, 8.5])


@pytest.mark.parametrize(("output", "name"), [("y.zarr", ""), ("y.h5", "data"), ("y.npz", "arr_0")])
@pytest.mark.parametrize("how", [{}, {"zarr_format": 2, "filters": numcodecs.Fletcher32()}], ids=["v3", "v2"])
def test_all_arrays_of_a_store_that_is_an_array_are_that_one(
    how: dict[str, Any], output: str, name: str, cli: Cli
) -> None:
    made("x.zarr", X, **how)
    assert cli("avg", "x.zarr", "-o", output, "--all", *HALVE, "-q").err == ""
    assert cli("avg", "x.zarr", "-o", "one.npy", *HALVE, "-q").err == ""
    assert cli("compare", f"{output}:/{name}" if name else output, "one.npy").code == 0
