"""Files that hold several arrays: chosen by name, several at once, or all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import h5py
import numpy as np
import pytest
import zarr

from poolcli.errors import RequestError
from poolcli.formats import NamedArray, Spec, WriteOptions, output_format
from tests.conftest import Cli

A = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
B = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
HALVE = ("-k", "2", "-s", "2")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", a=A, b=B, names=np.array(["text"]))
    with h5py.File("x.h5", "w") as file:
        file["deep/a"] = A
        file.create_dataset("b", data=B, chunks=(1, 1, 4, 2), compression="gzip", shuffle=True, fletcher32=True)
        file["lat"], file["lon"] = np.array([0.0, 1.0, 4.0, 5.0]), np.array([10.0, 20.0, 30.0, 40.0])
        for i, name in ((2, "lat"), (3, "lon")):
            file[name].make_scale(name)
            file["b"].dims[i].attach_scale(file[name])
            file["b"].dims[i].label = name
        file["b"].attrs["units"] = "K"


def mean(x: np.ndarray) -> np.ndarray:
    n = x.shape[2] // 2
    return np.asarray(x[0, 0].reshape(n, 2, n, 2).astype(float).mean((1, 3)))


def test_all_arrays_of_an_npz_go_into_one_npz(cli: Cli) -> None:
    result = cli("avg", "x.npz", "-o", "y.npz", *HALVE, "--all")
    assert result.code == 0
    assert result.out.splitlines()[:4] == [
        "x.npz to y.npz",
        "array  type     shape            output shape",
        "a      float32  N=1 C=1 H=8 W=8  N=1 C=1 H=4 W=4",
        "b      uint8    N=1 C=1 H=4 W=4  N=1 C=1 H=2 W=2",
    ]
    made = np.load("y.npz")
    assert sorted(made) == ["a", "b"]
    np.testing.assert_array_equal(made["a"][0, 0], mean(A))
    np.testing.assert_array_equal(made["b"][0, 0], np.rint(mean(B)))


def test_several_by_name_and_their_indices(cli: Cli) -> None:
    result = cli(
        "max", "x.h5", "-o", "y.h5", "--indices", "at.npz", *HALVE, "--dataset", "b", "--dataset", "/deep/a", "--json"
    )
    assert result.code == 0
    with h5py.File("y.h5") as made:
        np.testing.assert_array_equal(made["deep/a"][0, 0], A[0, 0, 1::2, 1::2])
        np.testing.assert_array_equal(made["b"][0, 0], B[0, 0, 1::2, 1::2])
    assert np.load("at.npz")["b"].ravel().tolist() == [5, 7, 13, 15]
    assert [line.count('"dataset"') for line in result.out.splitlines()] == [1, 1]


def test_storage_attributes_and_scales_of_a_dataset_are_carried_over(cli: Cli) -> None:
    assert cli("avg", "x.h5:/b", "-o", "y.h5", "-k", "2", "-s", "2,1", "-q").code == 0
    with h5py.File("y.h5") as made:
        b = made["b"]
        assert (b.shape, b.chunks, b.compression, b.shuffle, b.fletcher32) == ((1, 1, 2, 3), (1, 1, 2, 2), "gzip", 1, 1)
        assert b.attrs["units"] == "K"
        assert [dimension.label for dimension in b.dims] == ["", "", "lat", "lon"]
        assert b.dims[2]["lat"][...].tolist() == [0.5, 4.5]
        assert b.dims[3]["lon"][...].tolist() == [15.0, 25.0, 35.0]


@pytest.mark.parametrize("text", ["in/*.h5:/deep/a", "in:/deep/a", "in/:/deep/a"])
def test_an_array_is_named_behind_a_glob_and_a_folder(text: str, cli: Cli) -> None:
    Path("in").mkdir()
    Path("x.h5").rename("in/x.h5")
    assert cli("max", text, "-o", "out", *HALVE, "-q").err == ""
    with h5py.File("out/x.h5") as made:
        np.testing.assert_array_equal(made["deep/a"][0, 0], A[0, 0, 1::2, 1::2])
    assert cli("max", "in/*:deep/a", "-o", "y/", *HALVE).err.endswith("; name the array with --dataset deep/a\n")


def test_one_array_that_cannot_be_pooled_fails_its_file_by_name(cli: Cli) -> None:
    np.savez("short.npz", a=A, small=np.zeros((1, 1, 1, 4)))
    result = cli("avg", "short.npz", "-o", "y.npz", *HALVE, "--all")
    assert result.code == 2
    assert result.err.startswith("poolcli: short.npz:small: axis H is 1 long, kernel 2 without padding leaves no ")
    assert not Path("y.npz").exists()


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_what_cannot_be_pooled_for_its_axes_is_copied_and_said(suffix: str, cli: Cli) -> None:
    labels, table = np.array([3, 1, 2], np.int64), np.arange(6.0).reshape(2, 3)
    (save_npz if suffix == "npz" else save_h5)(f"x.{suffix}", a=A, labels=labels, table=table, number=np.array(0.1))
    under = "" if suffix == "npz" else "/grp/"
    result = cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE, "--all", "--json")
    said = f"{under}labels (3 int64), {under}table (2,3 float64), {under}number (float64)"
    assert (result.code, result.json["notes"][-1]) == (0, f"copied unpooled, because of their axes: {said}")
    made = np.load("y.npz") if suffix == "npz" else h5py.File("y.h5")
    with made:
        assert made[f"{under}a"].shape == (1, 1, 4, 4)
        np.testing.assert_array_equal(made[f"{under}labels"][...], labels)
        np.testing.assert_array_equal(made[f"{under}table"][...], table)
        assert (made[f"{under}number"].shape, made[f"{under}number"][()]) == ((), 0.1)
    assert f"{under}number; --all" in cli("avg", f"x.{suffix}", "-o", "y.npy", *HALVE).out
    assert cli("avg", f"x.{suffix}", "-o", "y.zarr", *HALVE, "--all", "-q").err == ""
    stored: Any = zarr.open("y.zarr")
    assert [stored[f"{under}{name}"][...].tolist() for name in ("labels", "number")] == [[3, 1, 2], 0.1]


def test_where_no_array_can_be_pooled_nothing_is_copied(cli: Cli) -> None:
    np.savez("short.npz", labels=np.zeros(()))
    result = cli("avg", "short.npz", "-o", "y.npz", *HALVE, "--all")
    assert result.code == 2
    assert result.err.startswith("poolcli: short.npz: holds no array that can be pooled")
    assert not Path("y.npz").exists()


def test_two_arrays_never_become_one(cli: Cli) -> None:
    save_npz("names.npz", **{"a/b": A, "a_b": A + 1, "a": A + 2})
    assert cli("avg", "names.npz", "-o", "y.npz", *HALVE, "--all", "-q").code == 0
    made = np.load("y.npz")
    assert sorted(made) == ["a", "a/b", "a_b"]
    for i, name in enumerate(("a/b", "a_b", "a")):
        np.testing.assert_array_equal(made[name][0, 0], mean(A + i))
    with ZipFile("x.npz") as x, ZipFile("same.npz", "w") as archive:
        for name, member in (("q", "a.npy"), ("q.npy", "b.npy")):
            archive.writestr(name, x.read(member))
    for name, shape in (("q", (1, 1, 4, 4)), ("q.npy", (1, 1, 2, 2))):
        assert cli("avg", f"same.npz:{name}", "-o", f"{name}.npy", *HALVE, "-q").code == 0
        assert np.load(f"{name}.npy").shape == shape


def test_arrays_whose_names_cannot_be_kept_apart_are_refused() -> None:
    named = [NamedArray(Spec(A.shape, "float32", "NCHW", key), A) for key in (None, "arr_0")]
    with pytest.raises(RequestError, match=r"^y\.npz: two arrays would both be called arr_0; "):
        output_format("y.npz").functions.write("y.npz", named, WriteOptions())
    assert not Path("y.npz").exists()


def save_npz(path: str, **arrays: np.ndarray) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's stubs take every name for an option


def save_h5(path: str, **arrays: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[f"grp/{name}"] = array


@pytest.mark.parametrize("save", [save_npz, save_h5])
def test_the_one_array_that_can_be_pooled_is_taken_by_itself(save: Callable[..., None], cli: Cli) -> None:
    path = "one.npz" if save is save_npz else "one.h5"
    save(path, a=A, labels=np.arange(3), meta=np.zeros((2, 6)))
    assert cli("avg", path, "-o", "y.npy", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy")[0, 0], mean(A))
    assert cli("avg", path, "-o", "z.npy", *HALVE, "--layout", "HW", "-q").code == 0
    assert np.load("z.npy").shape == (1, 3)
    result = cli("avg", path, "-o", "w.npy", *HALVE, "--layout", "NHWCD")
    assert (result.code, "holds 3 arrays: " in result.err) == (2, True)


def test_the_array_that_is_proposed_can_be_pooled(cli: Cli) -> None:
    save_npz("two.npz", a=np.zeros(3), b=B, c=A)
    assert "choose one: two.npz:b or --dataset b, or all of them" in cli("avg", "two.npz", "-o", "y.npy", *HALVE).err


def test_arrays_beside_the_only_one_with_axes_to_pool_are_named(cli: Cli) -> None:
    save_npz("one.npz", a=np.zeros(3), b=B)
    note = "left out: a; --all (and --overwrite) takes all arrays"
    assert note in cli("avg", "one.npz", "-o", "y.npy", *HALVE).out
    assert "left out" not in cli("avg", "one.npz:b", "-o", "z.npy", *HALVE).out


def test_a_note_on_one_array_names_it(cli: Cli) -> None:
    save_npz("two.npz", a=A, b=B.astype(np.uint8))
    note = "averages are rounded to uint8; --dtype float32 (and --overwrite) keeps fractions"
    assert f"note  b: {note}\n" in cli("avg", "two.npz", "-o", "y.npz", "--all", *HALVE, columns=120).out


@pytest.mark.parametrize(("suffix", "keeps"), [("npy", True), ("tif", True), ("png", False)])
def test_a_type_with_fractions_is_proposed_where_the_output_holds_it(suffix: str, keeps: bool, cli: Cli) -> None:
    np.save("one.npy", A.astype(np.uint8))
    assert ("--dtype float32" in cli("avg", "one.npy", "-o", f"y.{suffix}", *HALVE).out) == keeps


@pytest.mark.parametrize("source", ["x.npz", "x.h5"])
def test_what_is_neither_pooled_nor_copied_is_named(source: str, cli: Cli) -> None:
    names = ["names"]
    if source == "x.h5":
        with h5py.File("x.h5", "r+") as file:
            file["names"], file["soft"] = "text", h5py.SoftLink("/b")
        names = ["/names", "/soft"]
    result = cli("avg", source, "-o", f"y{source[1:]}", *HALVE, "--all", "--json")
    said = f"left out, because they are not numeric arrays: {', '.join(names)}"
    notes = [json.loads(line)["notes"] for line in result.out.splitlines()]
    assert (result.code, [said in each for each in notes]) == (0, [True, True])
    result = cli("avg", source, "-o", f"z{source[1:]}", *HALVE, "--dataset", "b", "--dataset", "b", "--json")
    assert "left out" not in result.out
