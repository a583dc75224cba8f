"""Files of the formats under another name or in a wrapping: elder ones, MATLAB, gzip."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
HALVED = X.reshape(1, 1, 4, 2, 4, 2).mean((3, 5))
HALVE = ("-k", "2", "-s", "2", "-q")


ELDER = {
    "x.nc": (
        b"CDF\x01",
        "one of classic netCDF; convert it with nccopy -k nc4 x.nc x_nc4.nc, or in Python "
        "(pip install xarray scipy h5netcdf) with "
        "xarray.open_dataset('x.nc').to_netcdf('x_nc4.nc', engine='h5netcdf')",
    ),
    "x.mat": (
        b"MATLAB 5.0 MAT-file",
        "a MATLAB v5 file, and only v7.3 is supported; save it with: save('x_v73.mat', '-v7.3')",
    ),
}


@pytest.mark.parametrize("name", ELDER)
def test_elder_files_of_the_same_name_are_refused_with_what_converts_them(name: str, cli: Cli) -> None:
    start, said = ELDER[name]
    Path(name).write_bytes(start + bytes(128))
    result = cli("avg", name, "-o", "y.nc", *HALVE)
    assert (result.code, result.err) == (1, f"poolcli: {name}: is not an HDF5 file, but {said}\n")


def test_a_matlab_file_is_read_behind_its_own_header(cli: Cli) -> None:
    with h5py.File("x.mat", "w", userblock_size=512) as file:
        file["volume"] = X
        file["volume"].attrs["MATLAB_class"] = np.bytes_(b"single")
    with open("x.mat", "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
    result = cli("avg", "x.mat:volume", "-o", "y.h5", *HALVE, "--json")
    assert (result.code, result.json["notes"][-1]) == (0, "MATLAB has the axes in the opposite order")
    with h5py.File("y.h5") as file:
        np.testing.assert_array_equal(file["volume"][...], HALVED)
    assert cli("avg", "x.mat", "-o", "y.mat", *HALVE).code == 2


def packed(data: bytes) -> None:
    Path("x.npy.gz").write_bytes(gzip.compress(data))


def saved() -> bytes:
    np.save("x.npy", X)
    return Path("x.npy").read_bytes()


def test_a_npy_that_is_packed_is_read(cli: Cli) -> None:
    packed(saved())
    assert json.loads(cli("info", "x.npy.gz", "--json").out)["format"] == "npy.gz"
    assert cli("avg", "x.npy.gz", "-o", "y.npy", *HALVE).code == 0
    np.testing.assert_array_equal(np.load("y.npy"), HALVED)


def test_in_a_folder_its_whole_suffix_is_replaced(cli: Cli) -> None:
    packed(saved())
    Path("in").mkdir()
    Path("x.npy.gz").rename("in/x.npy.gz")
    for name, more in (("x.npy", ()), ("x.npz", ("--format", "npz"))):
        assert cli("avg", "in", "-o", f"out {name}/", *more, *HALVE).code == 0
        assert [path.name for path in Path(f"out {name}").glob("[!.]*")] == [name]


HEAD = b"\x93NUMPY\x01\x00"
BOMB = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 16384, 16384), }"
DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut": (lambda data: gzip.compress(data)[:-20], "is not a whole gzip file (...)"),
    "of a wrong checksum": (lambda data: gzip.compress(data)[:-8] + bytes(8), "is not a whole gzip file (...)"),
    "of a wrong checksum, beyond the array": (lambda data: gzip.compress(data + bytes(2**21))[:-8] + bytes(8),
        "is not a whole gzip file (...)"),
    "no array": (lambda data: gzip.compress(b"words"), "is not a .npy file (...)"),
    "a bomb": (lambda data: gzip.compress(HEAD + struct.pack("<H", len(BOMB)) + BOMB + bytes(2**20)),
        "expands from ..."),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_one_that_is_damaged_is_one_line(name: str, cli: Cli) -> None:
    make, message = DAMAGED[name]
    Path("x.npy.gz").write_bytes(make(saved()))
    result = cli("avg", "x.npy.gz", "-o", "y.npy", *HALVE)
    start = f"poolcli: x.npy.gz: {message}".partition("...")[0].rstrip(")")
    assert (result.code, result.err[: len(start)], result.err.count("\n")) == (1, start, 1)
    assert not Path("y.npy").exists()
