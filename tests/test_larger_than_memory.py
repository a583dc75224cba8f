"""Inputs larger than the memory that a process may have, as real files (sparse, so that they fill no disk)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.processes import fresh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space"),
]
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (768 * 2**20, 768 * 2**20))
sys.argv = ["poolcli", *sys.argv[1:]]
from poolcli.__main__ import main
main()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, which is empty."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def limited(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=False)


def sparse_npy(path: str, shape: tuple[int, ...], marks: dict[tuple[int, ...], float]) -> None:
    with open(path, "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
        start = stream.tell()
        stream.truncate(start + 4 * int(np.prod(shape, dtype=np.int64)))
        for place, value in marks.items():
            stream.seek(start + 4 * int(np.ravel_multi_index(place, shape)))
            stream.write(np.float32(value).tobytes())


def test_a_npy_larger_than_the_limit_is_pooled() -> None:
    shape = (1, 64, 2048, 2048)
    sparse_npy("x.npy", shape, {(0, 0, 0, 0): 64.0, (0, 63, 64, 130): 32.0, (0, 63, 2047, 2047): 16.0})
    result = limited("avg", "x.npy", "-o", "y.npy", "-k", "64", "-s", "64", "-q")
    assert (result.returncode, result.stderr) == (0, "")
    expected = np.zeros((1, 64, 32, 32), np.float32)
    expected[0, 0, 0, 0], expected[0, 63, 1, 2], expected[0, 63, 31, 31] = 64 / 4096, 32 / 4096, 16 / 4096
    np.testing.assert_array_equal(np.load("y.npy"), expected)


def test_one_plane_larger_than_the_limit_is_cut_along_its_rows() -> None:
    sparse_npy("x.npy", (1, 1, 16_000, 20_000), {(0, 0, 15_000, 3): 9.0})
    result = limited("max", "x.npy", "-o", "y.npy", "-k", "100", "-s", "100", "--indices", "at.npy", "-q")
    assert (result.returncode, result.stderr) == (0, "")
    values, places = np.load("y.npy"), np.load("at.npy")
    assert (values[0, 0, 150, 0], values.sum()) == (9.0, 9.0)
    assert places[0, 0, 150, 0] == 15_000 * 20_000 + 3
    assert places[0, 0, 159, 199] == 15_900 * 20_000 + 19_900


def test_an_hdf5_larger_than_the_limit_is_pooled_chunk_by_chunk() -> None:
    with h5py.File("x.h5", "w") as file:
        form: Any = {"chunks": (1, 1, 256, 512), "compression": "gzip", "fillvalue": 1.0}
        data = file.create_dataset("x", (100, 4, 1024, 512), "f4", **form)
        noise = np.random.default_rng(0).integers(2**20, size=(4, 4, 1024, 512)).astype("f4")
        data[::33] = noise  # what is between is never written
    assert os.path.getsize("x.h5") < 2**26
    result = limited("avg", "x.h5", "-o", "y.h5", "-k", "4", "-s", "4", "-q")
    assert (result.returncode, result.stderr) == (0, "")
    with h5py.File("y.h5") as file:
        y = file["x"]
        assert (y.shape, y.chunks, y.compression) == ((100, 4, 256, 128), (1, 1, 256, 128), "gzip")
        np.testing.assert_array_equal(y[::33], noise.reshape(4, 4, 256, 4, 128, 4).mean((3, 5)))
        assert (y[34:66] == 1).all()


@pytest.mark.parametrize("limit", ["200K", "1M", "1G"])
def test_the_limit_changes_no_bit(limit: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 200, 300)).astype(np.float32)
    np.save("x.npy", x)
    options = ["-k", "11", "-s", "2", "-p", "5", "--max-memory", limit, "-q"]
    assert limited("avg", "x.npy", "-o", "x-y.npy", *options).stderr == ""
    assert limited("avg", "x.npy", "-o", "whole.npy", *options[:-3], "-q").stderr == ""
    np.testing.assert_array_equal(np.load("x-y.npy"), np.load("whole.npy"))


def test_fortran_order_is_read_whole_or_refused() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 200, 300)).astype(np.float32)
    np.save("x.npy", x)
    np.save("fortran.npy", np.asfortranarray(x))
    for name in ("x", "fortran"):
        assert limited("avg", f"{name}.npy", "-o", f"{name}-y.npy", "-k", "3", "-q").stderr == ""
    np.testing.assert_array_equal(np.load("fortran-y.npy"), np.load("x-y.npy"))
    result = limited("avg", "fortran.npy", "-o", "z.npy", "-k", "3", "--max-memory", "1M")
    assert (result.returncode, result.stderr.startswith("poolcli: fortran.npy: needs 2.7")) == (1, True)


def test_what_must_be_held_whole_is_refused_before_it_is_read() -> None:
    np.savez_compressed("x.npz", x=np.zeros((1, 1, 2000, 2000), np.float32))
    command = ("avg", "x.npz", "-o", "y.npy", "-k", "2", "-s", "2", "-q", "--max-memory")
    result = limited(*command, "19M")
    assert result.returncode == 1
    assert result.stderr == (
        "poolcli: x.npz: needs 19.1 MiB of memory, but the limit is 19 MiB; raise --max-memory "
        "(one array of a .h5 or .zarr, or of a .npy file in C order, can be pooled in parts, this cannot)\n"
    )
    assert not Path("y.npy").exists()
    assert limited(*command, "20M").returncode == 0


def test_a_sparse_zarr_store_larger_than_the_limit_is_pooled_under_it(folder: Path) -> None:
    import zarr

    names = ("z", "y", "x")
    array = zarr.create_array("x.zarr", shape=(1000,) * 3, dtype="u1", chunks=(125,) * 3, dimension_names=names)
    array[0, 0, 0], array[624:626, 7, 949], array[999, 999, 999] = 255, 252, 250
    words = ("max", "x.zarr", "-o", "y.zarr", "-k", "25,25,25", "-s", "25", "--max-memory", "512M", "-q")
    run = fresh(folder, *words, timeout=None)
    assert (run.code, run.err, run.peak < 2**19) == (0, "", True)
    y: Any = zarr.open_array("y.zarr", mode="r")[:]
    places = {tuple(map(int, place)): int(y[tuple(place)]) for place in np.argwhere(y)}
    assert places == {(0, 0, 0): 255, (24, 0, 37): 252, (25, 0, 37): 252, (39, 39, 39): 250}
