"""What the processes that tests start begin with, whatever started pytest itself."""

from __future__ import annotations

import faulthandler
import os
import signal


def hear_signals() -> None:
    """Makes SIGINT and SIGTERM heard here, and so in every child: `nohup pytest &` hands them down ignored."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_configure() -> None:
    hear_signals()
    if hasattr(os, "register_at_fork"):  # poolcli forks where a library may crash, and says itself that it did
        os.register_at_fork(after_in_child=faulthandler.disable)
