"""Outputs that cannot be: a full disk, places that are taken or forbidden; one clear line, and nothing is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.bad_files import X, image
from tests.cli.folders import poolcli
from tests.profiles import slow

FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
sys.dont_write_bytecode = True  # Python would take half a module of its own for a whole one
from poolcli.__main__ import main
main()
"""


@pytest.mark.parametrize("suffix", ["npy", "h5", slow("png"), slow("npz"), slow("tiff"), slow("jpg")])
def test_a_disk_that_is_full_costs_the_output_and_a_line(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if suffix in ("npy", "npz", "h5"):
        np.save("x.npy", np.random.default_rng(0).random((1, 1, 128, 128)))
        source = "x.npy"
    else:
        Path("x.png").write_bytes(image("PNG", size=(200, 150)))
        source = "x.png"
    before = Path(source).read_bytes()
    command = [sys.executable, "-c", FULL, "avg", source, "-o", f"y.{suffix}", "-k", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert result.stderr == f"poolcli: {source}: y.{suffix}: File too large\n"
    assert os.listdir() == [source]
    assert Path(source).read_bytes() == before


PLACES: dict[str, tuple[Callable[[], object], list[str], int, str]] = {
    "the output's folder is a file": (
        lambda: Path("file").touch(), ["-o", "file/y.npy"], 1,
        "x.npy: {here}/file: is a file, and a folder is needed there",
    ),
    "the output is the input through a hard link": (
        lambda: os.link("x.npy", "hard.npy"), ["-o", "hard.npy", "--overwrite"], 2,
        "output hard.npy is the input x.npy; name another file or folder",
    ),
    "the output is a folder that is there": (lambda: os.mkdir("y.npy"), ["-o", "y.npy"], 0, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_outputs_that_cannot_be_are_one_clear_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, arguments, code, message = PLACES[name]
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    np.save("x.npy", X)
    prepare()
    before = Path("x.npy").read_bytes()
    done = poolcli(folder, "avg", "x.npy", "-k", "2", "-q", *arguments)
    assert (done.code, done.out) == (code, b"")
    assert done.err == (f"poolcli: {message}\n".format(here=folder) if message else "")
    assert Path("x.npy").read_bytes() == before
