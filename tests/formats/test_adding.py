"""`-o file.h5:/name` adds a dataset to an HDF5 file that exists: all of it or nothing, and the rest stays as it was."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from poolcli.errors import FileError, RequestError
from poolcli.formats import FORMATS, WriteOptions, write
from poolcli.formats.hdf5.write import open_copy
from poolcli.system.subprocesses import start
from tests.conftest import Cli

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
HALVES = X.reshape(1, 1, 4, 2, 4, 2).mean((3, 5))
HALVE = ("-k", "2", "-s", "2")
IN_USE = "a.h5:/pooled exists; use --overwrite or --resume, or another --output"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`x.npy`, and `a.h5` with a dataset, its scale, a group with a dataset, and a link to another file."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("x", data=X, compression="gzip", chunks=(1, 1, 4, 8)).attrs["units"] = "K"
        file["lat"] = np.arange(8.0)
        file["lat"].make_scale("lat")
        file["x"].dims[2].attach_scale(file["lat"])
        file["g/y"] = np.ones(3)
        file["far"] = h5py.ExternalLink("other.h5", "/secret")
        file["soft"] = h5py.SoftLink("/x")
        file.attrs["title"] = "ours"
    with h5py.File("other.h5", "w") as file:
        file["secret/of"] = np.zeros(3)


def names() -> list[str]:
    return sorted(os.listdir())


def held(path: str = "a.h5") -> dict[str, Any]:
    """Every dataset that a hard link leads to."""
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, each: found.update({name: each[...].tolist()}) if hasattr(each, "shape") else None)
    return found


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "in parts"])
def test_a_dataset_is_added_and_the_rest_stays(streamed: bool, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    if streamed:
        monkeypatch.setitem(FORMATS, "hdf5", replace(FORMATS["hdf5"], streams_from=0))
    before = held()
    result = cli("avg", "a.h5:/x", "-o", "a.h5:/g/pooled", *HALVE, *(("--max-memory", "2K") if streamed else ()))
    assert result.code == 0, result.err
    assert "float32  a.h5:/g/pooled" in result.out
    assert held() == before | {"g/pooled": HALVES.tolist()}
    with h5py.File("a.h5") as file:
        made = file["g/pooled"]
        assert (made.attrs["units"], made.compression, file.attrs["title"]) == ("K", "gzip", "ours")
        assert file.get("far", getlink=True).filename == "other.h5"
        assert file["x"].dims[2][0].name == "/lat"
    assert names() == ["a.h5", "other.h5", "x.npy"]


def test_scales_of_the_file_that_have_the_same_values_are_attached(cli: Cli) -> None:
    assert cli("max", "a.h5:/x", "-o", "a.h5:/wide", "-k", "1,2", "-s", "1,2", "-q").code == 0
    with h5py.File("a.h5") as file:
        assert file["wide"].dims[2][0].name == "/lat"


def test_positions_are_added_to_another_file(cli: Cli) -> None:
    shutil.copyfile("other.h5", "b.h5")
    assert cli("max", "x.npy", "-o", "new.h5:/a/b", "--indices", "b.h5:/at", *HALVE, "-q").code == 0
    assert held("new.h5").keys() == {"a/b"}
    assert held("b.h5").keys() == {"secret/of", "at"}


def test_a_dataset_is_replaced_with_overwrite_alone(cli: Cli) -> None:
    assert cli("avg", "x.npy", "-o", "a.h5:/pooled", *HALVE, "-q").code == 0
    data = Path("a.h5").read_bytes()
    refused = cli("avg", "x.npy", "-o", "a.h5:/pooled", "-k", "8")
    assert (refused.code, refused.err) == (2, f"poolcli: {IN_USE}\n")
    assert Path("a.h5").read_bytes() == data
    assert cli("avg", "x.npy", "-o", "a.h5:/pooled", "-k", "8", "--overwrite", "-q").code == 0
    assert held()["pooled"] == [[[[31.5]]]]


NO_ROOM = "is a group or a link, which a dataset cannot replace; choose another name"
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "the input itself": (("a.h5:/x", "-o", "a.h5:x"), "a.h5: output a.h5:x is the input; name another dataset"),
    "a group": (("x.npy", "-o", "a.h5:/g"), f"x.npy: a.h5:/g: {NO_ROOM}"),
    "a soft link": (("x.npy", "-o", "a.h5:/soft"), f"x.npy: a.h5:/soft: {NO_ROOM}"),
    "a link to another file": (("x.npy", "-o", "a.h5:/far"), f"x.npy: a.h5:/far: {NO_ROOM}"),
    "below a link to another file": (
        ("x.npy", "-o", "a.h5:/far/z"),
        "x.npy: a.h5:/far/z: leads through something that is not a group; choose another name",
    ),
    "below a dataset": (
        ("x.npy", "-o", "a.h5:/x/z"),
        "x.npy: a.h5:/x/z: leads through something that is not a group; choose another name",
    ),
    "no name": (("x.npy", "-o", "a.h5:/"), "a.h5:/: names no array in a.h5"),
    "several inputs": (
        ("x.npy", "a.h5:/x", "-o", "a.h5:/z"),
        "an array in a file takes the result of one input, and there are several; name a folder",
    ),
    "several arrays": (
        ("a.h5", "--all", "-o", "b.h5:/z"),
        "a.h5: b.h5:/z: several arrays keep their names; name the file alone: b.h5",
    ),
    "both in one file": (
        ("x.npy", "-o", "a.h5:/z", "--indices", "a.h5:/at"),
        "--output and --indices are both a.h5; name another file for one",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_added_leaves_the_file_as_it_was(arguments: tuple[str, ...], message: str, cli: Cli) -> None:
    data = Path("a.h5").read_bytes()
    result = cli("max", *arguments, *HALVE, "--overwrite")
    assert (result.code > 0, result.err) == (True, f"poolcli: {message}\n")
    assert (Path("a.h5").read_bytes(), names()) == (data, ["a.h5", "other.h5", "x.npy"])


def test_other_formats_take_no_more_arrays_and_what_is_added_is_not_resumed(cli: Cli) -> None:
    np.savez("a.npz", x=X)
    result = cli("avg", "x.npy", "-o", "a.npz:z", *HALVE)
    said = "poolcli: a.npz:z: a.npz exists, and arrays can be added to .h5 .hdf5 .nc files only\n"
    assert (result.code, result.err) == (2, said)
    result = cli("avg", "x.npy", "-o", "a.h5:z", *HALVE, "--resume")
    assert (result.code, result.err) == (
        2,
        "poolcli: --resume continues files; what is added to a file cannot be continued\n",
    )


def test_a_dataset_that_appeared_meanwhile_is_not_replaced() -> None:
    with pytest.raises(RequestError, match=r"^a\.h5:/x exists; use overwrite or another name$"):
        write("a.h5", HALVES, "NCHW", key="/x", options=WriteOptions(append=True))
    assert held()["x"] == X.tolist()


def kill() -> None:
    with open_copy("a.h5", 100) as file:
        file["z"] = np.zeros(1000)
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_leaves_the_old_file_and_the_next_one_removes_its_rest(cli: Cli) -> None:
    data = Path("a.h5").read_bytes()
    process = start(kill)
    process.join()
    assert (process.exitcode, Path("a.h5").read_bytes(), len(names())) == (-signal.SIGKILL, data, 4)
    assert cli("avg", "x.npy", "-o", "a.h5:/pooled", *HALVE, "-q").code == 0
    assert names() == ["a.h5", "other.h5", "x.npy"]


def fail_in_between() -> None:
    with open_copy("a.h5", 100) as file:
        file["z"] = np.zeros(1000)
        raise OSError(122, "Disk quota exceeded")


def change_in_between() -> None:
    with open_copy("a.h5", 100) as file:
        file["z"] = np.zeros(1000)
        with h5py.File("a.h5", "r+") as other:
            other["new"] = 1


def on_a_full_disk() -> None:
    with open_copy("a.h5", 2**62):
        pass


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (fail_in_between, "a.h5: HDF5 cannot read or write it: [Errno 122] Disk quota exceeded"),
        (change_in_between, "a.h5: changed while a dataset was added; run again when nothing writes to it"),
        (on_a_full_disk, "a.h5: no space left on device: a copy with the new array needs 4 EiB, "),
    ],
    ids=["an error", "a change by another", "a full disk"],
)
def test_what_goes_wrong_in_between_leaves_nothing(act: Callable[[], None], message: str) -> None:
    with pytest.raises(FileError) as caught:
        act()
    assert str(caught.value).startswith(message)
    assert names() == ["a.h5", "other.h5", "x.npy"]
    assert "z" not in held()
