"""What the tests say about poolcli's processes does not depend on what started pytest."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys

import pytest

from tests.processes import hear_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_children_hear_signals_though_pytest_was_started_deaf(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        hear_signals()
        code = f"import signal; print(signal.getsignal({number:d}) is signal.SIG_IGN)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    finally:
        signal.signal(number, before)
    assert child.stdout == "False\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="poolcli forks on Linux only")
def test_a_fork_that_crashes_prints_no_fatal_error_into_a_green_run() -> None:
    child = os.fork()
    if not child:
        os._exit(faulthandler.is_enabled())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
