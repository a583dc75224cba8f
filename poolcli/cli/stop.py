"""SIGINT and SIGTERM end the program through one exception, so that temporary files are removed on the way out."""

from __future__ import annotations

import signal
from types import FrameType

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended"}


class Stopped(BaseException):
    """The user or the system asked the program to stop; not an Exception, so that nothing swallows it."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def install_handlers() -> None:
    """SIGINT ends with 130, SIGTERM with 143; a second signal of the kind ends at once."""
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(128 + number, WORDS[signal.Signals(number)])
