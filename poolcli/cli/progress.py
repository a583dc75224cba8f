"""Progress on standard error, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SOON = 0.5  # seconds before a bar appears

Step = Callable[[], None]
Bytes = Callable[[int, int], None]


@contextmanager
def progress(total: int, quiet: bool) -> Iterator[tuple[Step, Bytes]]:
    """Two callables: one more of `total` files is done; so many of so many bytes of the one file are done."""
    if quiet or not sys.stderr.isatty():
        yield (lambda: None), (lambda done, whole: None)
        return
    bar = _Bar(total)
    try:
        yield bar.step, bar.bytes
    finally:
        bar.stop()


class _Bar:
    """Drawn by this thread alone: workers are forked beside no other."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._drawn = 0.0
        self._bar: Any = None
        self._task: Any = None

    def step(self) -> None:
        self._done += 1
        if self._total > 1:
            self._draw(self._done, self._total)

    def bytes(self, done: int, total: int) -> None:
        if self._total == 1:
            self._draw(done, total)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _draw(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._start < SOON or now - self._drawn < 0.1:
            return
        self._drawn = now
        if self._bar is None:
            self._bar = self._made()
            self._task = self._bar.add_task("pooling", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)
        self._bar.refresh()

    def _made(self) -> Any:
        from rich import progress as rich

        from poolcli.report.console import console

        several = (rich.MofNCompleteColumn(),)
        one = (rich.DownloadColumn(binary_units=True), rich.TransferSpeedColumn())
        columns = (rich.TextColumn("pooling"), rich.BarColumn(), *(several if self._total > 1 else one))
        return rich.Progress(
            *columns, rich.TimeRemainingColumn(), console=console(sys.stderr), transient=True, auto_refresh=False
        )
