"""What building and loading kernels costs those who wait for it: seconds, and a word that says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _say_nothing(text: str) -> None:
    """The library compiles in silence; the command line sets `announce` to something that prints."""


announce: Callable[[str], None] = _say_nothing

_spent: list[float] = []


@contextmanager
def timed() -> Iterator[None]:
    """Adds the time inside to what this process has spent on building and loading kernels."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _spent.append(time.perf_counter() - start)


def seconds_spent() -> float:
    """What this process has spent on building and loading kernels."""
    return sum(_spent)
