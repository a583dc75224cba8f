"""A limit to how long a library may compute on a file: one that runs in a circle of a damaged file hears nobody.

Neither a signal handler of Python nor a thread of it is heard while a library computes. So the system ends the process,
by SIGVTALRM; only those of poolcli's own are ended so, whose parent says what became of them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

LEAST = 60.0  # seconds of computing
RATE = 2**18  # bytes for which there is another one: a hundredth of what the slowest filters do

_may_be_ended = False


def allow_cpu_limit() -> None:
    """Says that this process is one that another waits for, and that it may end."""
    global _may_be_ended
    _may_be_ended = True


@contextmanager
def limit_cpu_time(size: int) -> Iterator[None]:
    """Ends the process where what is done inside computes far longer than so many bytes can take."""
    if not (_may_be_ended and hasattr(signal, "setitimer")):
        yield
        return
    before = signal.setitimer(signal.ITIMER_VIRTUAL, LEAST + size / RATE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *before)
