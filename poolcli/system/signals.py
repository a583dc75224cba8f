"""Handlers of SIGINT, SIGTERM and SIGHUP that raise an exception, so that temporary files are removed at the end.

A library may swallow the exception in a callback: the signal is stored as well, and long loops call `check_stopped`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended", signal.SIGHUP: "the terminal was closed"}
REPEAT_SECONDS = 1.0  # a signal repeated within this time is ignored: terminals and parents may both send one

_received: tuple[int, float] | None = None  # the first signal and its time


class Stopped(BaseException):
    """The program was asked to stop by a signal; `except Exception` lets it pass."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def install_handlers() -> None:
    """Makes these signals raise Stopped with exit code 130, 143 or 129; a later second signal kills the process."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _report_unraisable


def remove_handlers() -> None:
    """Restores the default handlers, or ignores further signals if the process ends because of one."""
    global _received
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL if _received is None else signal.SIG_IGN)
    _received = None
    sys.unraisablehook = sys.__unraisablehook__


def check_stopped() -> None:
    """Raises Stopped if a signal has arrived."""
    if _received is not None:
        number = _received[0]
        raise Stopped(128 + number, SIGNALS[signal.Signals(number)])


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Delays these signals to the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(number: int, frame: object) -> None:
    global _received
    if _received is None:
        _received = number, time.monotonic()
        check_stopped()
    elif time.monotonic() - _received[1] > REPEAT_SECONDS:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _report_unraisable(swallowed: sys.UnraisableHookArgs) -> None:
    if not isinstance(swallowed.exc_value, Stopped):
        sys.__unraisablehook__(swallowed)
