"""SIGINT and SIGTERM end the program through one exception, so that temporary files are removed on the way out.

A library may swallow the exception in a callback, so the signal is stored as well, and long work calls `check_stopped`
from time to time. Python's own report of the swallowed exception is suppressed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False  # importing typing would take as long as all else before the handlers stand
if TYPE_CHECKING:
    from types import FrameType

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended"}
AT_ONCE = 1.0  # seconds in which a repeated signal counts as the first: terminals signal groups and processes

_heard: tuple[int, float] | None = None  # the first signal and its time


class Stopped(BaseException):
    """The user or the system asked the program to stop; not an Exception, so that nothing swallows it."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def install_handlers() -> None:
    """SIGINT ends the program with 130, SIGTERM with 143; a second signal after `AT_ONCE` ends it immediately."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _report


def remove_handlers() -> None:
    """Restores the default handlers; signals are ignored if the process is ending because of one."""
    global _heard
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL if _heard is None else signal.SIG_IGN)
    _heard = None
    sys.unraisablehook = sys.__unraisablehook__


def check_stopped() -> None:
    """Raises Stopped if a signal has arrived."""
    if _heard is not None:
        number = _heard[0]
        raise Stopped(128 + number, SIGNALS[signal.Signals(number)])


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Delays SIGINT and SIGTERM to the end of the block, for steps that must not be interrupted halfway."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(number: int, frame: FrameType | None) -> None:
    global _heard
    if _heard is None:
        _heard = number, time.monotonic()
        check_stopped()
    elif time.monotonic() - _heard[1] > AT_ONCE:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _report(swallowed: sys.UnraisableHookArgs) -> None:
    if not isinstance(swallowed.exc_value, Stopped):
        sys.__unraisablehook__(swallowed)
