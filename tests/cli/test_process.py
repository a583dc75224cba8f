"""The program as a process: what it loads, how it stops, and what it does when its streams fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

POOLCLI = [sys.executable, "-m", "poolcli"]
LOADED = (
    "import sys; from poolcli.core.lazy import HEAVY; "
    "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', *HEAVY}))"
)


def loaded_by(*arguments: str) -> list[str]:
    """The heavy packages that a fresh process has loaded after running poolcli with these arguments."""
    code = f"from poolcli.cli.app import run; run({list(arguments)!r}); {LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    return names


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"], ["avg", "--help"], ["--version"], ["shape", "avg", "1,3,32,32", "-k", "2"],
        ["shape", "avg", "1,3,32,32", "-k", "2", "--explain", "--windows", "--compare", "--to", "pytorch"],
        ["shape", "avg", "1,3,32,32", "--solve", "16"], ["shape", "max", "1,1,9", "-k", "2", "--picture", "p.svg"],
        ["check", "m.xml"], ["check", "--help"],
    ],
)  # fmt: skip
def test_help_typed_shapes_and_models_load_no_array_library(arguments: list[str], folder: Path) -> None:
    Path("m.xml").write_text("<net><layers/></net>")
    assert loaded_by(*arguments) == []


def test_the_version_is_told_before_the_program_is_loaded() -> None:
    code = "import sys; from poolcli.cli.app import run; run(sys.argv[1:]); print('typer' in sys.modules)"
    for arguments, loaded in (["--version"], "False"), (["cache", "--help"], "True"):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == loaded


def test_the_check_of_loaded_libraries_sees_numpy_when_an_array_is_pooled(folder: Path) -> None:
    assert loaded_by("avg", "x.npy", "-o", "y.npy", "-k", "2") == ["numpy"]


def test_the_header_of_a_file_is_enough_for_shape(folder: Path) -> None:
    assert "numba" not in loaded_by("shape", "avg", "x.npy", "-k", "2")


def test_one_file_goes_in_on_stdin_and_comes_out_on_stdout(folder: Path) -> None:
    data = Path("x.npy").read_bytes()
    done = subprocess.run([*POOLCLI, "max", "-", "-o", "-", "-k", "2", "-s", "2"], input=data, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    Path("y.npy").write_bytes(done.stdout)
    expected = np.load("x.npy").reshape(1, 2, 3, 2, 4, 2).max((3, 5))
    np.testing.assert_array_equal(np.load("y.npy"), expected)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "ended")]
)
def test_a_signal_while_waiting_for_input_ends_with_its_code_and_leaves_nothing(
    folder: Path, number: signal.Signals, code: int, word: str
) -> None:
    before = sorted(os.listdir())
    with subprocess.Popen(
        [*POOLCLI, "avg", "-", "-o", "y.npy", "-k", "2"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(1.5)
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (code, f"poolcli: {word}\n")
    assert sorted(os.listdir()) == before


def test_a_reader_that_goes_away_causes_no_message(folder: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m poolcli shape avg 1,1,9 -k 2 | true",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_a_full_standard_output_is_one_line_and_exit_code_1(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*POOLCLI, "shape", "avg", "1,1,9", "-k", "2"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "poolcli: standard output: No space left on device\n")


def test_the_traceback_is_shown_with_debug_only(folder: Path) -> None:
    plain = subprocess.run([*POOLCLI, "shape", "avg", "1,1,9", "-k", "99"], capture_output=True, text=True)
    debug = subprocess.run([*POOLCLI, "shape", "avg", "1,1,9", "-k", "99", "--debug"], capture_output=True, text=True)
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr
    assert plain.stderr.removeprefix("poolcli: ") in debug.stderr
