"""Progress on standard error, where that is a terminal that can redraw a line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from poolcli.message_fields import printable
from poolcli.pooling.outcome import Outcome

SOON = 0.5  # seconds before a bar appears
BETWEEN = 0.1  # seconds from one drawing to the next
LONGEST_NAME = 30  # characters of a path beside a bar

Step = Callable[[Outcome], None]
Bytes = Callable[[int, int], None]


@contextmanager
def progress(first: str, total: int, quiet: bool) -> Iterator[tuple[Step, Bytes]]:
    """Two callables: one more of `total` inputs has ended; so many of so many bytes of the only one are done."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield (lambda outcome: None), (lambda done, whole: None)
        return
    bar = _Bar(first, total)
    try:
        yield bar.step, bar.bytes
    finally:
        bar.stop()


class _Bar:
    """Drawn by this thread alone: workers are forked beside no other."""

    def __init__(self, first: str, total: int) -> None:
        self._total, self._done, self._failed, self._start = total, 0, 0, time.monotonic()
        self._name = first
        self._drawn = 0.0
        self._bar: Any = None
        self._task: Any = None

    def step(self, outcome: Outcome) -> None:
        self._done += 1
        self._failed += outcome.error is not None
        self._name = outcome.job.source.path
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
        if now - self._start < SOON or now - self._drawn < BETWEEN:
            return
        self._drawn = now
        if self._bar is None:
            self._bar = self._made()
            self._task = self._bar.add_task("pooling", total=total, name="", failed="", rate="")
            self._bar.start()
        failed = f"{self._failed} failed" if self._failed else ""
        rate = f"{done / (now - self._start):.3g}/s"
        self._bar.update(self._task, completed=done, name=_short(self._name), failed=failed, rate=rate)
        self._bar.refresh()

    def _made(self) -> Any:
        from rich import progress as rich

        from poolcli.report.console import console

        several = (
            rich.MofNCompleteColumn(),
            rich.TextColumn("{task.fields[rate]}"),
            rich.TextColumn("{task.fields[failed]}", style="bold red"),
        )
        one = (rich.DownloadColumn(binary_units=True), rich.TransferSpeedColumn())
        columns = (
            rich.BarColumn(bar_width=20),
            *(several if self._total > 1 else one),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[name]}", markup=False),
        )
        return rich.Progress(*columns, console=console(sys.stderr), transient=True, auto_refresh=False)


def _short(path: str) -> str:
    """The end of a path, which tells files apart."""
    text = printable(path)
    return text if len(text) <= LONGEST_NAME else f"...{text[3 - LONGEST_NAME :]}"
