"""What the tests say about poolcli's processes does not depend on what started pytest."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from poolcli.system.signals import install_handlers
from poolcli.system.subprocesses import start
from tests.processes import forked, hear_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_children_hear_signals_though_pytest_was_started_deaf(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        hear_signals()
        code = f"import signal; print(signal.getsignal({number:d}) is signal.SIG_IGN)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    finally:
        signal.signal(number, before)
    assert child.stdout == "False\n"


def _say_whether_crashes_are_printed() -> None:
    sys.exit(faulthandler.is_enabled())


@pytest.mark.skipif(sys.platform != "linux", reason="where poolcli forks")
def test_a_fork_that_crashes_prints_no_fatal_error_into_a_green_run() -> None:
    child = start(_say_whether_crashes_are_printed)
    child.join()
    assert child.exitcode == 0


def _be_stopped_before_any_work() -> None:
    install_handlers()
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_process_that_is_stopped_in_its_first_instants_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    child = start(_be_stopped_before_any_work)
    child.join()
    assert (child.exitcode, *capfd.readouterr()) == (143, "", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="where poolcli forks")
def test_a_fork_of_poolcli_says_how_it_ended_and_what_it_took(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    np.save(folder / "x.npy", np.zeros((1, 1, 4096, 4096), np.float32))
    done = forked(folder, "avg", "x.npy", "-o", "y.npy", "-k", "2", "--resume", "--overwrite")
    assert (done.code, done.out, done.err) == (
        2,
        b"",
        "poolcli: --overwrite and --resume contradict each other; give one\n",
    )
    halve = ("-k", "2", "-s", "2", "-q", "--engine", "numpy", "--max-memory")
    small = forked(folder, "avg", "x.npy", "-o", "y.npy", *halve, "8M")
    large = forked(folder, "max", "x.npy", "-o", "z.npy", *halve, "1G")
    assert (small.code, large.code) == (0, 0)
    assert large.peak > small.peak + 12 * 1024  # of the 64 MB that are read
