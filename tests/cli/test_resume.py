"""Runs that go on: what is made anew, what is left, and the bytes at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.folders import HALVE, MANIFEST, counts, outputs, tree, wait_for
from tests.conftest import Cli
from tests.profiles import sized, slow


def test_resume_makes_what_is_missing_or_out_of_date_and_nothing_else(cli: Cli, many: Path) -> None:
    run = ("avg", "in", "-r", "-o", "out/", *HALVE, "--resume")
    assert counts(cli(*run)) == "12 done, 0 skipped, 0 failed"
    clean = tree("out")
    assert counts(cli(*run)) == "0 done, 12 skipped, 0 failed"
    Path("out/03.npy").unlink()
    Path("out/04.npy").write_bytes(b"damaged")
    whole = Path("out/07.npy").read_bytes()
    Path("out/07.npy").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    os.utime("in/05.npy", ns=(5, 5))  # the same content at another time
    assert counts(cli(*run)) == "4 done, 8 skipped, 0 failed"
    assert {name: h for name, h in tree("out").items() if name != MANIFEST} == {
        name: h for name, h in clean.items() if name != MANIFEST
    }
    np.save("in/06.npy", np.full((1, 1, 4, 4), 60, np.float32))
    assert counts(cli(*run)) == "1 done, 11 skipped, 0 failed"
    assert np.load("out/06.npy")[0, 0, 0, 0] == 60


def test_other_options_make_everything_anew(cli: Cli, many: Path) -> None:
    assert counts(cli("avg", "in", "-o", "out/", *HALVE)) == "10 done, 0 skipped, 0 failed, 1 ignored"
    assert (
        counts(cli("avg", "in", "-o", "out/", "-k", "4", "-s", "4", "--resume"))
        == "10 done, 0 skipped, 0 failed, 1 ignored"
    )
    assert np.load("out/03.npy").shape == (1, 1, 1, 1)


def test_threads_and_memory_are_no_other_options(cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    result = cli("avg", "in", "-o", "out/", *HALVE, "--resume", "--max-memory", "100M", "--jobs", "1")
    assert counts(result) == "0 done, 10 skipped, 0 failed, 1 ignored"


def test_resume_does_not_touch_what_no_run_has_made(cli: Cli, many: Path) -> None:
    Path("out").mkdir()
    Path("out/03.npy").write_bytes(b"precious")
    result = cli("avg", "in", "-o", "out/", *HALVE, "--resume")
    assert (result.code, result.err) == (
        2,
        "poolcli: out/03.npy exists and was made by no run that --resume could continue; "
        "use --overwrite, or another --output\n",
    )
    assert Path("out/03.npy").read_bytes() == b"precious"


SLOWLY = """
import sys, time
import poolcli.pooling.tiles as module
whole = module.pool_part
def slowly(*arguments):
    time.sleep(0.05)
    return whole(*arguments)
module.pool_part = slowly
sys.argv = ["poolcli", *sys.argv[1:]]
from poolcli.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "code"),
    [(signal.SIGINT, 130), slow(signal.SIGTERM, 143), slow(signal.SIGHUP, 129), slow(signal.SIGKILL, -9)],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(stop: signal.Signals, code: int, cli: Cli, many: Path) -> None:
    arguments = ("avg", "in", "-r", "-o", "out/", *HALVE)
    assert cli(*arguments).code == 0
    clean = outputs("out")
    for _ in range(sized(1, 3)):
        subprocess.run(["rm", "-rf", "out"], check=True)
        process = subprocess.Popen(
            [sys.executable, "-c", SLOWLY, *arguments, "--jobs", "2"], stderr=subprocess.PIPE, start_new_session=True
        )
        wait_for(lambda: Path(f"out/{MANIFEST}").is_file() and Path(f"out/{MANIFEST}").read_text().count("hash") > 8)
        if stop in (signal.SIGKILL, signal.SIGHUP):  # as a terminal that is closed sends it
            os.killpg(process.pid, stop)
        else:
            process.send_signal(stop)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code
        if code > 0:
            assert said in (b"poolcli: interrupted\n", b"poolcli: ended\n", b"poolcli: the terminal was closed\n")
            assert not [name for name in tree("out") if name.endswith(".part")]
        assert all(tree("out")[name] == clean[name] for name in tree("out") if name.endswith(".npy") and name[0] != ".")
        result = cli(*arguments, "--resume")
        assert result.code == 0
        assert counts(result) != "12 done, 0 skipped, 0 failed"
        assert {n: h for n, h in outputs("out").items() if not n.endswith(".part")} == clean


def test_a_single_file_that_is_up_to_date_is_skipped(cli: Cli, many: Path) -> None:
    for done in ("layout", "skipped"):
        assert done in cli("avg", "in/00.npy", "-o", "y.npy", *HALVE, "--resume").out
