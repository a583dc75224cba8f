"""The main job: files in, pooled files out, checked against plain numpy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image

from tests.conftest import SAMPLES, Cli


def pooled(x: np.ndarray, k: int = 2) -> np.ndarray:
    """Averages of k x k blocks over the last two axes, in float64."""
    *outer, h, w = x.shape
    return np.asarray(x.astype(np.float64).reshape(*outer, h // k, k, w // k, k).mean((-3, -1)))


def test_a_photograph_is_halved_to_the_rounded_mean_of_each_2_by_2_block(cli: Cli, folder: Path) -> None:
    result = cli("avg", SAMPLES / "astronaut.png", "-o", "half.png", "-k", "2", "-s", "2")
    assert (result.code, result.err) == (0, "")
    pixels = np.asarray(Image.open(SAMPLES / "astronaut.png")).transpose(2, 0, 1)
    expected = np.rint(pooled(pixels)).astype(np.uint8).transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(Image.open("half.png")), expected)


def test_a_tensor_file_is_pooled_with_indices_into_the_whole_input(cli: Cli, folder: Path) -> None:
    result = cli("max", SAMPLES / "features.npy", "-o", "y.npy", "-k", "2", "-s", "2", "--indices", "at.npy")
    assert (result.code, result.err) == (0, "")
    x = np.load(SAMPLES / "features.npy")
    np.testing.assert_array_equal(np.load("y.npy"), x.reshape(1, 4, 14, 2, 14, 2).max((3, 5)))
    np.testing.assert_array_equal(x.ravel()[np.load("at.npy")], np.load("y.npy"))


def test_a_volume_in_hdf5_is_pooled_into_hdf5_under_its_own_name(cli: Cli, folder: Path) -> None:
    result = cli("adaptive-avg", SAMPLES / "volume.h5", "-o", "small.h5", "--output-size", "4,8,8")
    assert (result.code, result.err) == (0, "")
    with h5py.File(SAMPLES / "volume.h5") as file:
        x = file["volume"][...].astype(np.float64)
    expected = np.rint(x.reshape(1, 1, 4, 4, 8, 4, 8, 4).mean((3, 5, 7)))
    with h5py.File("small.h5") as file:
        np.testing.assert_array_equal(file["volume"][...], expected.astype(np.uint8))


def test_a_stack_in_a_tiff_becomes_pages_by_its_layout(cli: Cli, folder: Path) -> None:
    np.save("stack.npy", np.arange(20 * 4 * 6, dtype=np.float32).reshape(20, 4, 6))
    pool = "avg", "stack.npy", "-o", "y.tif", "-k", "2,2", "-s", "2,2", "--json"
    assert cli(*pool).json["notes"] == ["C=20 are samples of one page; --layout NHW makes pages of them"]
    assert cli(*pool, "--layout", "NHW", "--overwrite").json["notes"] == []
    with tifffile.TiffFile("y.tif") as file:
        assert [page.shape for page in file.pages] == [(2, 3)] * 20
    np.save("y.npy", np.load("stack.npy")[:, ::2, ::2])
    assert cli("identify", "stack.npy", "y.npy").out.startswith("layout CHW, so add --layout CHW to the options")


def test_arrays_that_differ_by_rounding_are_equal_with_a_tolerance(cli: Cli, folder: Path) -> None:
    for name, values in (("a", [1, 2]), ("b", [1, 2 + 1e-6]), ("c", [1, 3])):
        np.save(f"{name}.npy", np.array(values, np.float32))
    assert "equal    with --atol 1.0e-06" in cli("compare", "a.npy", "b.npy").out
    assert cli("compare", "a.npy", "b.npy", "--atol", "1.0e-06").code == 0
    assert "--atol" not in cli("compare", "a.npy", "c.npy").out


def test_an_image_becomes_nchw_in_a_tensor_file(cli: Cli, folder: Path) -> None:
    notes = cli("avg", "photo.png", "-o", "y.npy", "-k", "2", "-s", "2", "--dtype", "float32", "--json").json["notes"]
    assert notes == ["images become NCHW in tensors; --output-layout HWC keeps the axes"]
    pixels = np.asarray(Image.open("photo.png")).transpose(2, 0, 1)[None]
    np.testing.assert_array_equal(np.load("y.npy"), pooled(pixels).astype(np.float32))
    to_png = ("min", "photo.png", "-o", "y.png", "-k", "2", "-s", "2", "--indices", "at.npy", "--axis", "2", "--json")
    assert cli(*to_png).json["notes"] == notes
    assert cli(*to_png, "--output-layout", "HWC", "--overwrite").json["notes"] == []
    assert np.load("at.npy").shape == (3, 4, 3)


def test_an_axis_without_indices_is_noted(cli: Cli, folder: Path) -> None:
    result = cli("max", "x.npy", "-o", "y.npy", "-k", "2", "-s", "2", "--axis", "2", "--json")
    assert result.json["notes"] == ["--axis is about --indices; --layout says which axes are pooled"]


def test_the_report_says_that_the_default_divisor_is_not_that_of_pytorch(cli: Cli) -> None:
    typed, said = ("shape", "avg", "1,3,9,9", "-k", "3", "-s", "2"), "(exclude_pad); PyTorch counts padding by default"
    shown = {more: cli(*typed, *more.split(), columns=99).out for more in ("-p 1", "-p 0", "-p 1 --exclude-pad")}
    assert [more for more, text in shown.items() if said in text] == ["-p 1"]


def test_a_tensor_becomes_an_image_where_the_image_can_hold_it(cli: Cli, folder: Path) -> None:
    np.save("u8.npy", np.arange(3 * 4 * 4, dtype=np.uint8).reshape(1, 3, 4, 4))
    assert cli("max", "u8.npy", "-o", "y.png", "-k", "2", "-s", "2").code == 0
    expected = np.load("u8.npy").reshape(3, 2, 2, 2, 2).max((2, 4)).transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), expected)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_both_engines_and_any_thread_count_write_the_same_bytes(cli: Cli, folder: Path, engine: str) -> None:
    cli("avg", "x.npy", "-o", "auto.npy", "-k", "3", "-s", "2", "-p", "1")
    assert cli("avg", "x.npy", "-o", "y.npy", "-k", "3", "-s", "2", "-p", "1", "--engine", engine, "-j", "1").code == 0
    assert Path("y.npy").read_bytes() == Path("auto.npy").read_bytes()


def test_layouts_are_followed_and_turned(cli: Cli, folder: Path) -> None:
    x = np.load("x.npy")
    np.save("nhwc.npy", x.transpose(0, 2, 3, 1))
    options = ("-k", "2", "-s", "2")
    assert cli("avg", "nhwc.npy", "-o", "a.npy", "--layout", "NHWC", *options).code == 0
    assert cli("avg", "nhwc.npy", "-o", "b.npy", "--layout", "nhwc", "--output-layout", "NCHW", *options).code == 0
    np.testing.assert_array_equal(np.load("a.npy").transpose(0, 3, 1, 2), pooled(x).astype(np.float32))
    np.testing.assert_array_equal(np.load("b.npy"), pooled(x).astype(np.float32))
    assert cli("adaptive-avg", "x.npy", "-o", "c.h5", "--output-layout", "NC", "--output-size", "1").code == 0
    with h5py.File("c.h5") as file:
        np.testing.assert_allclose(file["data"][()], x.mean((2, 3)), rtol=1e-6)


def test_a_glob_takes_what_it_matches_and_format_changes_the_suffix(cli: Cli, folder: Path) -> None:
    result = cli("max", "pho*.png", "./photo.png", "-o", "out/", "--format", "npy", "-k", "2", "-s", "2")
    assert (result.code, "note  ignored: ./photo.png (named twice)\n" in result.out) == (0, True)
    assert sorted(os.listdir("out")) == [".poolcli.jsonl", "photo.npy"]


OUTPUT_REFUSALS = {
    "output is a link to the input": (["x.npy", "-o", "link.npy", "--overwrite"],
        "output link.npy is the input x.npy; name another file or folder"),
    "two inputs to one name": (["photo.png", "photo.bmp", "-o", "out/", "--format", "npy"],
        "photo.png, photo.bmp: more than one input would be written to out/photo.npy; "
        "pool them into different folders or rename one"),
    "names that differ by case only": (["photo.png", "PHOTO.png", "-o", "out/"],
        "photo.png, PHOTO.png: more than one input would be written to out/photo.png; "
        "pool them into different folders or rename one"),
    "stdin into a folder": (["-", "-o", "out/"],
        "--output out/ is a folder, and stdin has no name to keep; name a file"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), OUTPUT_REFUSALS.values(), ids=OUTPUT_REFUSALS)
def test_outputs_that_cannot_be_are_refused_before_any_work(
    cli: Cli, folder: Path, arguments: list[str], message: str
) -> None:
    Path("link.npy").symlink_to("x.npy")
    for name in ("photo.bmp", "PHOTO.png"):
        Image.open("photo.png").save(name)
    before = {p: p.read_bytes() for p in folder.iterdir()}
    result = cli("avg", *arguments, "-k", "2")
    assert (result.code, result.out, result.err) == (2, "", f"poolcli: {message}\n")
    assert {p: p.read_bytes() for p in folder.iterdir()} == before


def test_overwrite_replaces(cli: Cli, folder: Path) -> None:
    Path("y.npy").write_bytes(b"old")
    assert cli("avg", "x.npy", "-o", "y.npy", "-k", "2", "--overwrite").code == 0
    assert np.load("y.npy").shape == (1, 2, 5, 7)


def test_a_dry_run_plans_everything_and_writes_nothing(cli: Cli, folder: Path) -> None:
    before = sorted(os.listdir())
    assert "dry run: nothing was written" in cli("avg", "x.npy", "-k", "2", "-n").out
    result = cli("avg", "x.npy", "photo.png", "-o", "out/", "-k", "2", "-n")
    assert result.code == 0
    assert "H=5 W=7" in result.out
    assert sorted(os.listdir()) == before


def test_json_is_one_document_with_the_keys_of_schema_1(cli: Cli, folder: Path) -> None:
    result = cli("max", "x.npy", "-o", "y.npy", "-k", "3", "-s", "2", "-p", "1", "--indices", "at.npy", "--json")
    document = json.loads(result.out)
    seconds = document.pop("seconds")
    assert list(seconds) == ["load", "read", "compile", "compute", "write"]
    assert document == {
        "schema_version": 1,
        "op": "max",
        "like": "openvino",
        "attributes": {
            "kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1],
            "auto_pad": "explicit", "rounding_type": "floor", "axis": 0, "index_element_type": "i64",
        },
        "input": {"path": "x.npy", "dataset": None, "shape": [1, 2, 6, 8], "dtype": "float32", "layout": "NCHW"},
        "output": {"path": "y.npy", "shape": [1, 2, 3, 4], "dtype": "float32", "layout": "NCHW"},
        "axes": [
            {
                "name": name, "input": n, "output": out, "kernel": 3, "stride": 2, "dilation": 1, "pad_begin": 1,
                "pad_end": 1, "unused": 0, "empty_windows": 0, "formula": f"({n}+1+1-3)//2 + 1 = {out}",
            }
            for name, n, out in (("H", 6, 3), ("W", 8, 4))
        ],
        "indices": {"path": "at.npy", "dtype": "int64"},
        "notes": [],
        "engine": "numpy",
        "threads": 1,
        "error": None,
    }  # fmt: skip


def test_json_of_several_inputs_is_one_line_each_with_failures_in_their_place(cli: Cli, folder: Path) -> None:
    result = cli("avg", "x.npy", "bad.npy", "photo.png", "-o", "out/", "-k", "2", "--json")
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 1
    assert [d["input"]["path"] for d in documents] == ["x.npy", "bad.npy", "photo.png"]
    assert [d["error"] and d["error"]["kind"] for d in documents] == [None, "file", None]


def test_quiet_prints_nothing_and_verbose_prints_each_report(cli: Cli, folder: Path) -> None:
    assert cli("avg", "x.npy", "-o", "y.npy", "-k", "2", "-q").out == ""
    result = cli("avg", "x.npy", "photo.png", "-o", "out/", "-k", "2", "-v")
    assert result.out.count("avg pooling, as OpenVINO") == 2


def test_names_with_markup_and_control_characters_are_shown_as_data(cli: Cli, folder: Path) -> None:
    name = "[red]\x1b[31m\n.npy"
    os.rename("x.npy", name)
    result = cli("avg", name, "-o", "y.npy", "-k", "2")
    assert result.code == 0
    assert "[red]\\x1b[31m\\x0a.npy" in result.out.replace("\n", "")
    assert "\x1b" not in result.out
    os.unlink("y.npy")
    assert cli("avg", name, "-o", "y.npy", "-k", "9").err.startswith("poolcli: [red]\\x1b[31m")


def test_info_lists_what_a_file_holds(cli: Cli, folder: Path) -> None:
    np.savez("two.npz", a=np.zeros((1, 1, 4)), b=np.zeros((2, 3), np.uint8))
    result = cli("info", "two.npz", "x.npy", "--json")
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert [[(a["dataset"], a["shape"], a["dtype"]) for a in d["arrays"]] for d in documents] == [
        [("a", [1, 1, 4], "float64"), ("b", [2, 3], "uint8")],
        [(None, [1, 2, 6, 8], "float32")],
    ]
    assert cli("info", "bad.npy").code == 1


def words(text: str) -> str:
    """The text without line breaks and columns."""
    return " ".join(text.split())


POOLED_TYPES = "poolcli pools bool, integers and floats of 16, 32 or 64 bits"
NOT_POOLED = {
    "x.h5:/pairs": f"holds structured or opaque values; {POOLED_TYPES}; in numpy, take x['NAME'] if it has fields",
    "x.h5:/far": "is a link to the file other.h5; --allow-external follows it",
    "x.h5:/near": "is a link that leads nowhere",
    "x.h5:/text": f"holds text; {POOLED_TYPES}",
    "x.npz:text": f"holds str128; {POOLED_TYPES}",
    "x.npz:objects": "holds Python objects (pickle), which poolcli never loads; store numbers instead",
}


@pytest.mark.parametrize("name", NOT_POOLED)
@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside an array"])
def test_info_says_why_an_array_cannot_be_pooled(name: str, others: bool, cli: Cli, folder: Path) -> None:
    file, _, key = name.partition(":")
    values = {
        "/pairs": np.zeros(3, [("a", "f4")]), "/far": h5py.ExternalLink("other.h5", "/x"),
        "/near": h5py.SoftLink("/nothing"), "/text": "text", "text": np.array(["text"]), "objects": np.array([None]),
    }  # fmt: skip
    arrays = {key: values[key]} | ({"x": np.ones((1, 1, 4))} if others else {})
    if file == "x.npz":
        np.savez(file, **arrays)
    else:
        with h5py.File(file, "w") as stream:
            for each, value in arrays.items():
                stream[each] = value
    shown = f"{name}.npy" if file == "x.npz" else name
    table = (
        f": {'npz' if file == 'x.npz' else 'hdf5'} array shape dtype {'x' if file == 'x.npz' else '/x'} 1,1,4 float64"
    )
    listed = table if others else ": holds no array that can be pooled"
    assert words(cli("info", file).out) == f"{file}{listed} note {shown}: {NOT_POOLED[name]}"
    assert cli("info", file, "--json").json["left_out"] == [f"{shown}: {NOT_POOLED[name]}"]
    assert cli("info", name).err == cli("avg", name, "-k", "2", "-n").err == f"poolcli: {shown}: {NOT_POOLED[name]}\n"


@pytest.mark.parametrize(
    ("array", "why"),
    [(np.zeros(3, "c8"), f"holds complex64; {POOLED_TYPES}"), (np.array(1.0), "holds a single number")],
)
def test_info_says_why_a_store_that_is_an_array_cannot_be_pooled(
    array: NDArray[np.generic], why: str, cli: Cli, folder: Path
) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array("x.zarr", data=array)
    assert words(cli("info", "x.zarr").out).startswith(f"x.zarr: holds no array that can be pooled note x.zarr: {why}")
