"""Zarr stores: chosen, kept, read and written in regions, held against what zarr-python itself reads and writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import fsspec
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec

from poolcli import AvgPool, MaxPool
from poolcli.core.errors import PoolError
from poolcli.core.stop import Stopped
from poolcli.formats import ReadOptions, Source, Spec, WriteOptions, opened, read
from poolcli.formats.records import whole_region
from poolcli.formats.zarr.write import Writer, sink
from tests.conftest import Cli
from tests.formats.test_fuzz import mutated
from tests.profiles import sized

HALVE = ("-k", "2", "-s", "2")
X = np.random.default_rng(0).integers(0, 255, (9, 10, 11)).astype(np.uint8)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(path: str, x: Any = X, key: str | None = None, **how: Any) -> Any:
    """An array that zarr-python has written."""
    array = zarr.create_array(path, name=key, shape=x.shape, dtype=x.dtype, **{"chunks": (4, 4, 4), **how})
    array[:] = x
    return array


def halved(x: Any = X) -> Any:
    return AvgPool(2, 2)(x, layout="DHW")


def whole(path: str) -> Any:
    """The values of a store that is one array."""
    return zarr.open_array(path, mode="r")[:]


def group(path: str) -> Any:
    """A store as zarr-python opens it."""
    return zarr.open(path, mode="r")


def document(path: str) -> Any:
    return json.loads(Path(path).read_text())


# One array of several


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
        "--dataset /c, or take --all\n",
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
    assert (result.code, result.out, result.err) == (0, "2 done, 0 skipped, 0 failed\n", "")
    np.testing.assert_array_equal(whole("out/deep/x.zarr"), halved(X[:8, :, :10]))
    assert cli("avg", "in", "-r", "-o", "out/", *HALVE, "--resume").out == "0 done, 2 skipped, 0 failed\n"


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (("t", "c", "z", "y", "x"), "NCDHW"),
        (("c", "y", "x"), "CHW"),
        (("time", "lat", "lon"), "NHW"),
        (("Y", "X"), "HW"),
        (("y", "bands", "x"), None),
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
    with opened(Source("x.zarr")) as file:
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
    assert f"left out, for it is about several levels: {word} of /" in result.json["notes"]
    assert dict(zarr.open_group("y.zarr").attrs) == {"of": "mine"}


# What is kept


def stored(array: Any) -> tuple[Any, ...]:
    """How zarr-python says that an array is stored."""
    fill = array.fill_value.item()
    return array.metadata.zarr_format, array.chunks, array.shards, array.filters, array.compressors, fill


KEPT: dict[str, dict[str, Any]] = {
    "v3": {"chunks": (2, 3, 4)},
    "v3, without a compressor": {"compressors": None},
    "v3, gzip and a fill value": {"compressors": GzipCodec(level=3), "fill_value": 7},
    "v3, shards": {"chunks": (2, 2, 2), "shards": (4, 4, 4), "compressors": BloscCodec(typesize=1)},
    "v3, other names of chunks": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v2": {"zarr_format": 2, "compressors": numcodecs.Blosc(clevel=2)},
    "v2, filters": {"zarr_format": 2, "filters": [numcodecs.Delta("u1")], "fill_value": 3},
    "v2, folders of chunks": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
}


@pytest.mark.parametrize("how", KEPT)
def test_how_an_array_is_stored_is_kept(how: str, cli: Cli) -> None:
    before = made("x.zarr", **KEPT[how])
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "-q").err == ""
    after = zarr.open_array("y.zarr", mode="r")
    assert stored(after) == stored(before)
    np.testing.assert_array_equal(after[:], halved())
    name = ".zarray" if "v2" in how else "zarr.json"
    old, new = document(f"x.zarr/{name}"), document(f"y.zarr/{name}")
    for changed in ("shape", "dimension_names", "storage_transformers"):
        assert new.pop(changed, None) != 0
        old.pop(changed, None)
    assert new == old


def test_a_transposed_array_is_read_and_stored_in_its_own_order(cli: Cli) -> None:
    made("x.zarr", filters=[TransposeCodec(order=(2, 0, 1))], serializer=BytesCodec())
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "-q").err == ""
    np.testing.assert_array_equal(whole("y.zarr"), halved())


def test_what_would_round_the_result_or_does_not_fit_its_type_is_left_out_and_said(cli: Cli) -> None:
    x = X.astype(np.float32)
    filters = [numcodecs.BitRound(3), numcodecs.Delta("f4")]
    made("x.zarr", x, zarr_format=2, filters=filters, fill_value=np.nan)
    result = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "--dtype", "float64", "--json")
    assert result.json["notes"][-1] == "stored without the codec bitround, delta"
    assert np.isnan(group("y.zarr").fill_value)
    made("d.zarr", x.astype(np.float64), fill_value=-1e300)
    result = cli("avg", "d.zarr", "-o", "z.zarr", *HALVE, "--layout", "DHW", "--dtype", "float32", "--json")
    assert result.json["notes"][-1] == "stored without the fill value -1e+300, which float32 does not have"


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


# Chunks and shards


@pytest.mark.parametrize(
    ("options", "chunks", "shards"),
    [
        (["--chunks", "2"], (2, 2, 2), None),
        (["--chunks", "2,3,4"], (2, 3, 4), None),
        (["--chunks", "2", "--shards", "4,2,4"], (2, 2, 2), (4, 2, 4)),
        (["--chunks", "99", "--shards", "198"], (4, 5, 5), (4, 5, 5)),
        (["--shards", "4"], (4, 4, 4), (4, 4, 4)),
        ([], (4, 4, 4), None),
    ],
)
def test_chunks_and_shards_are_as_asked_for(options: list[str], chunks: Any, shards: Any, cli: Cli) -> None:
    made("x.zarr")
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", *options, "-q").err == ""
    y = zarr.open_array("y.zarr", mode="r")
    assert (y.chunks, y.shards) == (chunks, shards)
    np.testing.assert_array_equal(y[:], halved())


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        ("y.zarr", ["--chunks", "0"], "--chunks 0: must be at least 1"),
        ("y.zarr", ["--chunks", "2,2"], "--chunks 2,2: give 1 number, 3 (for the spatial axes of DHW) or 3"),
        ("y.zarr", ["--chunks", "4", "--shards", "6"], "--shards 6,6,6 are no multiples of the chunks (4,4,4)"),
        ("y.npy", ["--chunks", "4"], "--chunks is for .zarr outputs; y.npy is npy"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_chunks_that_cannot_be_are_refused_before_data_is_read(
    output: str, options: list[str], said: str, dry: bool, cli: Cli
) -> None:
    made("x.zarr")
    dry_run = ["--dry-run"] if dry else []
    result = cli("avg", "x.zarr", "-o", output, *HALVE, "--layout", "DHW", *options, *dry_run)
    assert (result.code, result.err) == (2, f"poolcli: x.zarr: {said}\n")


def test_a_region_that_would_cut_a_shard_is_refused(cli: Cli) -> None:
    spec, options = Spec((8, 8), "uint8", "HW"), WriteOptions(chunks=(2, 2), shards=(4, 4))
    with (
        pytest.raises(ValueError, match="a region 2:8 of 8 would cut shards of 4"),
        sink("y.zarr", spec, options) as put,
    ):
        put((range(4), range(2, 8)), np.zeros((4, 6), np.uint8))


# In regions


@pytest.mark.parametrize("how", ["v3, shards", pytest.param("v3", marks=pytest.mark.slow), "v2"])
@pytest.mark.parametrize(
    "options", [("-k", "2", "-s", "2"), ("-k", "3", "-s", "2", "-p", "1"), ("-k", "7"), ("-k", "5", "-s", "3")]
)
def test_regions_of_any_kernel_give_the_bits_of_the_whole(how: str, options: tuple[str, ...], cli: Cli) -> None:
    x = np.random.default_rng(1).normal(size=(1, 1, 20, 26, 30)).astype(np.float32)
    np.save("x.npy", x)
    assert cli("avg", "x.npy", "-o", "whole.npy", *options, "-q").err == ""
    kept = {name: value for name, value in KEPT[how].items() if name in ("zarr_format", "shards")}
    shards = {"shards": (1, 1, 8, 8, 16)} if "shards" in kept else {}
    made("x.zarr", x, chunks=(1, 1, 4, 8, 8), **(kept | shards))
    assert cli("avg", "x.zarr", "-o", "y.zarr", *options, "-q", "--max-memory", "120K").err == ""
    np.testing.assert_array_equal(whole("y.zarr"), np.load("whole.npy"))
    assert cli("avg", "x.zarr", "-o", "y.npy", *options, "-q", "--max-memory", "120K").err == ""
    np.testing.assert_array_equal(np.load("y.npy"), np.load("whole.npy"))
    result = cli("max", "x.zarr", "-o", "m.zarr", *options, "--indices", "i.zarr", "-q", "--max-memory", "300K")
    assert result.err == ""
    plan = MaxPool(int(options[1]), int(options[3]) if "-s" in options else 1, *((1, 1) if "-p" in options else ()))
    values, places = plan(x, return_indices=True)
    np.testing.assert_array_equal(whole("m.zarr"), values)
    np.testing.assert_array_equal(whole("i.zarr"), places)


def test_negative_zeros_are_kept_where_a_chunk_has_nothing_else(cli: Cli) -> None:
    made("x.zarr", np.full((4, 4, 4), -0.0, np.float32), config={"write_empty_chunks": True})
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    assert np.signbit(whole("y.zarr")).all()


def test_headers_are_all_that_is_read_of_a_plan(cli: Cli) -> None:
    made("x.zarr", key="a", dimension_names=("z", "y", "x"))
    for chunk in Path("x.zarr/a/c").rglob("?"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk at all")
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--dry-run", "-q").code == 0
    assert cli("shape", "avg", "x.zarr:/a", *HALVE, "-q").out == "4,5,5\n"
    assert cli("info", "x.zarr").out == "x.zarr: zarr\narray  shape          dtype\n/a     D=9 H=10 W=11  uint8\n"
    result = cli("avg", "x.zarr", "-o", "y.zarr", *HALVE)
    assert (result.code, result.err.startswith("poolcli: x.zarr:/a: Zarr cannot read or write it: ")) == (1, True)
    assert not Path("y.zarr").exists()


def test_a_run_that_was_stopped_goes_on_with_the_regions_that_are_missing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(2).integers(0, 255, (128, 256, 1024)).astype(np.uint8)
    made("x.zarr", x, chunks=(64, 64, 128), dimension_names=("z", "y", "x"))
    monkeypatch.setattr("poolcli.formats.continued.NOTE_EVERY", 0)
    run = ("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--resume", "-q", "--max-memory", "24M")
    written: list[Any] = []
    monkeypatch.setattr(Writer, "__call__", counting(written, stop_after=2))
    with pytest.raises(Stopped):
        cli(*run)
    assert not Path("y.zarr").exists()
    first = set(written[:2])
    written.clear()
    monkeypatch.setattr(Writer, "__call__", counting(written, stop_after=999))
    assert cli(*run).err == ""
    assert written
    assert not first & set(written)
    np.testing.assert_array_equal(whole("y.zarr"), halved(x))
    assert sorted(path.name for path in Path().iterdir()) == [".poolcli.jsonl", "x.zarr", "y.zarr"]


def counting(written: list[Any], stop_after: int) -> Callable[..., None]:
    """Writes regions as ever, and is stopped as by a signal when so many are there."""
    own = getattr(Writer.__call__, "own", Writer.__call__)

    def call(self: Writer, region: Any, array: Any) -> None:
        if len(written) >= stop_after:
            raise Stopped(130, "interrupted")
        own(self, region, array)
        written.append(region)

    call.own = own  # type: ignore[attr-defined]
    return call


# Damage and malice


def edited(**changes: Any) -> Callable[[], None]:
    def edit() -> None:
        found = document("x.zarr/zarr.json") | changes
        Path("x.zarr/zarr.json").write_text(json.dumps(found))

    return edit


def grid(*lengths: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": lengths}}


HOSTILE: dict[str, tuple[Callable[[], object], str]] = {
    "negative lengths": (edited(shape=[-9, 10, 11]), "Zarr cannot read or write it: "),
    "no lengths": (edited(shape=[]), "Zarr cannot read or write it: "),
    "more than there can be": (edited(shape=[2**40] * 3), "claims more than 1,000,000 PiB, which no array can have"),
    "chunks of nothing": (edited(chunk_grid=grid(0, 4, 4)), ""),
    "chunks beyond memory": (edited(chunk_grid=grid(2**20, 2**20, 4)), "one chunk (1048576,1048576,4) is 4 TiB, "),
    "an unknown codec": (edited(codecs=[{"name": "bytes"}, {"name": "nope"}]), "nope"),
    "complex numbers": (
        edited(
            data_type="complex64",
            fill_value=[0, 0],
            codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        ),
        "holds complex64; poolcli pools bool, ",
    ),
    "a fill value of another kind": (edited(fill_value="x"), "Zarr cannot read or write it: "),
    "no JSON": (lambda: Path("x.zarr/zarr.json").write_text("{"), "Zarr cannot read or write it: "),
    "JSON without end": (lambda: Path("x.zarr/zarr.json").write_text("[" * 10**5), "Zarr cannot read or write it: "),
    "nothing": (lambda: Path("x.zarr/zarr.json").unlink(), "holds no Zarr array or group"),
    "a link out of the store": (
        lambda: linked("/etc/hostname"),
        "is a link out of its store; --allow-external follows",
    ),
    "a pipe": (lambda: pipe(), "is not a regular file"),
    "a device": (lambda: linked("/dev/zero"), "is not a regular file"),
}


def first_chunk() -> Path:
    path = Path("x.zarr/c/0/0/0")
    path.unlink()
    return path


def linked(target: str) -> None:
    first_chunk().symlink_to(target)


def pipe() -> None:
    import os

    os.mkfifo(first_chunk())


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_store_is_one_line(how: str, cli: Cli) -> None:
    made("x.zarr")
    edit, said = HOSTILE[how]
    edit()
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW", "--max-memory", "1G")
    assert result.code == 1, result
    assert result.err.startswith("poolcli: x.zarr")
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not Path("y.npy").exists()


def test_links_inside_a_store_and_those_that_were_allowed_are_followed(cli: Cli) -> None:
    made("x.zarr")
    shutil.copy("x.zarr/c/0/0/0", "chunk")
    linked("../../../../chunk")
    run = ("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW", "-q", "--overwrite")
    assert cli(*run).code == 1
    assert cli(*run, "--allow-external").code == 0
    Path("x.zarr/c/0/0/0").unlink()
    Path("x.zarr/c/0/0/0").symlink_to("../1/0")
    assert cli(*run).code == 0


def test_a_fill_value_of_nan_stands_for_the_chunks_that_are_missing(cli: Cli) -> None:
    zarr.create_array("x.zarr", shape=(8, 8, 8), dtype="f4", chunks=(4, 4, 4), fill_value=np.nan)
    zarr.open_array("x.zarr")[:4, :4, :4] = 1
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", "-q").err == ""
    expected = np.full((4, 4, 4), np.nan, np.float32)
    expected[:2, :2, :2] = 1
    np.testing.assert_array_equal(whole("y.zarr"), expected)


def test_metadata_of_both_versions_is_read_as_zarr_python_reads_it() -> None:
    made("x.zarr")
    made("other.zarr", X[:5], zarr_format=2)
    shutil.copy("other.zarr/.zarray", "x.zarr/.zarray")
    assert read(Source("x.zarr")).array.shape == X.shape


# URLs


def test_a_store_in_memory_is_read_and_written_at_its_url(cli: Cli) -> None:
    made("memory://in/x.zarr", key="a", dimension_names=("z", "y", "x"))
    run = ("avg", "memory://in/x.zarr:/a", "-o", "memory://out/y.zarr", *HALVE, "-q")
    assert cli(*run).err == ""
    np.testing.assert_array_equal(group("memory://out/y.zarr")["a"][:], halved())
    assert cli(*run).err == (
        "poolcli: memory://out/y.zarr exists; use --overwrite, --skip-existing or --resume, or another --output\n"
    )
    assert cli(*run, "--overwrite").err == ""
    assert cli("info", "memory://out/y.zarr").out.splitlines()[-1] == "/a     D=4 H=5 W=5  uint8"
    assert cli("avg", "memory://in/x.zarr", "-o", "memory://in/x.zarr", *HALVE, "--overwrite").code == 2
    assert cli("info", "memory://nowhere.zarr").err == (
        "poolcli: memory://nowhere.zarr: holds no Zarr array or group\n"
    )


def test_a_write_to_a_url_that_fails_leaves_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    made("x.zarr", dimension_names=("z", "y", "x"))
    seen: list[bool] = []

    def fail(self: Any, region: Any, array: Any) -> None:
        self.sparse[:] = 5
        seen.append(system.exists("/failed/y.zarr/zarr.json"))
        raise OSError(28, "No space left on device")

    system = fsspec.filesystem("memory")
    monkeypatch.setattr(Writer, "__call__", fail)
    result = cli("avg", "x.zarr", "-o", "memory://failed/y.zarr", *HALVE)
    assert (result.code, "No space left" in result.err) == (1, True)
    assert (seen, system.find("/failed")) == ([False], [])


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", "c/0/0/0"])
@settings(max_examples=sized(20, 60))
@given(data=st.data())
def test_no_mutation_ends_in_anything_but_an_error_of_one_line(name: str, tmp_path_factory: Any, data: Any) -> None:
    path = str(tmp_path_factory.mktemp("store") / "x.zarr")
    made(path, X[:4, :4, :4], zarr_format=2 if name == ".zarray" else 3)
    Path(path, name).write_bytes(data.draw(mutated(Path(path, name).read_bytes())))
    try:
        with opened(Source(path), ReadOptions(limit=2**24)) as file:
            shape = file.header.shape
            if prod(shape) < 2**20:
                assert file.read(whole_region(shape)).shape == shape
            assert file.metadata.store["chunks"]
    except PoolError as error:
        assert str(error).startswith(path)
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://AKID:SECRET@bucket/x.zarr", "s3://...bucket/x.zarr"),
        ("https://host/x.zarr?token=SECRET", "https://host/x.zarr..."),
        ("zip://::https://me:SECRET@host/x.zarr.zip", "zip://::https://...host/x.zarr.zip"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("info", "URL"), ("info", "URL", "--json"), ("avg", "URL", "-o", "y.npy", "-k", "2"),
        ("avg", "URL:/0", "-o", "y.npy", "-k", "2"), ("avg", "x.npy", "-o", "URL", "-k", "2"),
        ("pyramid", "URL", "-o", "y.zarr"), ("pyramid", "x.npy", "-o", "URL"), ("merge", "URL"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_secret_in_a_url_is_refused_and_shown_nowhere(
    url: str, shown: str, words: tuple[str, ...], folder: Path, cli: Cli
) -> None:
    result = cli(*(word.replace("URL", url) for word in words))
    assert "SECRET" not in result.out + result.err
    said = (
        "what may be a secret must not stand in a URL, which reports and logs show; leave it to the environment and "
        "files in which the store's own tools look for it"
    )
    assert shown in result.err
    assert said in result.err


@pytest.mark.skipif(
    tuple(map(int, fsspec.__version__.split(".")[:2])) < (2026, 9),
    reason="fsspec before 2026.9 raises KeyError for what a zip file does not hold, which Zarr does not expect",
)
def test_a_store_in_a_zip_file_is_read_by_its_url(folder: Path, cli: Cli) -> None:
    store = zarr.storage.ZipStore("x.zarr.zip", mode="w")
    zarr.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="u1")[:] = np.arange(16).reshape(4, 4)
    store.close()
    result = cli("info", "x.zarr.zip")
    said = "poolcli: x.zarr.zip: a Zarr store in a .zip file is read by its URL, zip://::x.zarr.zip\n"
    assert (result.code, result.err) == (1, said)
    assert cli("max", "zip://::x.zarr.zip", "-o", "y.npy", "--layout", "HW", "-k", "2", "-s", "2").code == 0
    assert np.load("y.npy").tolist() == [[5, 7], [13, 15]]
