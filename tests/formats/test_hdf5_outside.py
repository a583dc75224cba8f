"""HDF5 files whose data lies in other files, and what a damaged one costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from poolcli.cli import run
from tests.conftest import Cli

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
POOL = ("-o", "y.npy", "-k", "2", "-s", "2", "-q")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("source.h5", "w") as file:
        file["x"] = X


def virtual() -> None:
    layout = h5py.VirtualLayout(X.shape, "f4")
    layout[...] = h5py.VirtualSource("source.h5", "x", X.shape)
    with h5py.File("x.h5", "w") as file:
        file.create_virtual_dataset("x", layout)


def test_a_virtual_dataset_without_its_source_is_refused_even_then(cli: Cli) -> None:
    virtual()
    Path("source.h5").unlink()
    result = cli("avg", "x.h5:/x", *POOL, "--allow-external")
    assert (result.code, result.err) == (
        1,
        "poolcli: x.h5:/x: its source source.h5 is missing; HDF5 would return fill values without an error\n",
    )


def a_crash() -> None:
    """A chain of virtual datasets that ends in itself: reading it overflows the stack of the HDF5 library."""
    for name, other in (("x.h5", "z.h5"), ("z.h5", "x.h5")):
        layout = h5py.VirtualLayout((1, 1, 4, 4), "f4")
        layout[...] = h5py.VirtualSource(other, "x", (1, 1, 4, 4))
        with h5py.File(name, "w") as file:
            file.create_virtual_dataset("x", layout)


@pytest.mark.skipif(sys.platform != "linux", reason="where workers are forks")
def test_a_crash_of_the_library_costs_one_file_and_a_line(cli: Cli) -> None:
    a_crash()
    result = cli("avg", "x.h5:/x", *POOL, "--allow-external")
    assert result.code == 1
    assert result.err == (
        "poolcli: x.h5: the process that handled it was killed by SIGSEGV, twice; the file is damaged, or unpacks to "
        "far more than it says; try it stored with another compression\n"
    )
    result = cli("compare", "x.h5:/x", "x.h5:/x", "--allow-external")
    assert (result.code, result.err.partition(";")[0]) == (
        2,
        "poolcli: x.h5: the process that read it was killed by SIGSEGV",
    )


@pytest.mark.heavy
def test_a_missing_filter_is_named_with_the_package_that_has_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import hdf5plugin

    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=X.shape, compression=hdf5plugin.Zstd())
    assert run(["avg", "x.h5", *POOL]) == 0
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    result = cli("avg", "x.h5", *POOL, "--overwrite")
    assert result.code == 1
    assert re.fullmatch(
        r"poolcli: x\.h5:/x: needs the HDF5 filter 32015 \(.+\), which is not installed; "
        r"most filters come with hdf5plugin: pip install hdf5plugin\n",
        result.err,
    )


def test_a_file_that_another_program_writes_says_so(cli: Cli) -> None:
    hold = "import h5py, sys; f = h5py.File('source.h5', 'a'); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        result = cli("avg", "source.h5", *POOL)
        other.communicate()
    assert (result.code, result.err) == (
        1,
        "poolcli: source.h5: is open in another program; close it there first\n",
    )


def test_a_file_that_a_killed_program_was_writing_says_so(cli: Cli) -> None:
    lines = (
        "f = h5py.File('killed.h5', 'w', libver='latest')", "f.create_dataset('x', (1, 1, 8), maxshape=(None, 1, 8))",
        "f.swmr_mode = True", "os._exit(0)",
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", "import h5py, os; " + "; ".join(lines)], check=True)
    result = cli("avg", "killed.h5", *POOL)
    assert (result.code, result.err) == (
        1,
        "poolcli: killed.h5: is marked as open in a program that writes it; close it there or, if that was killed, "
        "run h5clear -s\n",
    )
