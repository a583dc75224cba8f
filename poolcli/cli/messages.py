"""What goes to standard error: errors with their remedies, words about what takes time, and the progress bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from poolcli.errors import PoolError
from poolcli.message_fields import for_cli, printable

if TYPE_CHECKING:
    from poolcli.pooling.outcome import Outcome

NAMED = 3  # files in a message about several
RED, CYAN, PLAIN = "\033[1;31m", "\033[36m", "\033[0m"
SOON = 0.5  # seconds before a bar appears
BETWEEN = 0.1  # seconds from one drawing to the next
LONGEST_NAME = 30  # characters of a path beside a bar

Step = Callable[["Outcome"], None]
Bytes = Callable[[int, int], None]


def complain(error: PoolError) -> None:
    """Writes the error, after whatever standard output holds."""
    _complain(error.cli_message)


def complain_of_all(errors: Iterable[PoolError]) -> None:
    """Writes the errors of a run over several files: those that say the same of several files once."""
    alike: dict[str, tuple[str, int, list[str]]] = {}  # the first message, how many there are, and the first places
    for error in errors:
        same = error.message if error.place is None else error.bare
        first, count, places = alike.get(same, (error.message, 0, []))
        if error.place is not None:
            count, places = count + 1, [*places, error.place][:NAMED]
        alike[same] = first, count, places
    for bare, (first, count, places) in alike.items():
        more = f" and {count - NAMED} more" if count > NAMED else ""
        _complain(for_cli(first if count < 2 else f"{', '.join(places)}{more}: {bare}"))


def refuse(error: PoolError, arguments: Sequence[str]) -> None:
    """The error of a whole command: as `complain`, and where JSON is asked for as a document as well."""
    from poolcli.cli.program import find_command, made

    name = find_command(arguments[0]) if arguments else None
    error = error.for_fields([each.name for each in made(name).taken]) if name else error  # offers what the command has
    if "--json" in arguments:
        from poolcli.report.as_json import error_document, to_json

        print(to_json({"error": error_document(error)}), file=sys.stderr if "-" in arguments else sys.stdout)
    complain(error)


def say(text: str) -> None:
    """Writes a word about what takes time."""
    print(f"poolcli: {printable(text)}", file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(laid_out(text) if sys.stderr.isatty() else f"poolcli: {text}", file=sys.stderr)


def laid_out(text: str) -> str:
    """A message as a terminal shows it: what is wrong, the remedy on a line of its own, a caret where it points."""
    first, *pointed = text.split("\n")
    wrong, _, remedy = first.partition("; ")
    columns = columns_of(sys.stderr)
    coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    lines = _wrapped(f"poolcli: {wrong}", columns) + pointed
    if coloured:
        lines[0] = lines[0].replace("poolcli:", f"{RED}poolcli:{PLAIN}", 1)
    remedies = _wrapped(f"  {remedy}", columns) if remedy else []
    return "\n".join(lines + [f"{CYAN}{line}{PLAIN}" if coloured else line for line in remedies])


def columns_of(stream: TextIO) -> int:
    """How wide the terminal behind a stream is."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 80


def _wrapped(text: str, columns: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


@contextmanager
def progress(first: str, total: int, quiet: bool) -> Iterator[tuple[Step, Bytes]]:
    """Two callables: one more of `total` inputs has ended; so many of so many bytes of the only one are done.

    They draw a bar where standard error is a terminal that can redraw a line.
    """
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield (lambda outcome: None), (lambda done, whole: None)
        return
    bar = _Bar(first, total)
    try:
        yield bar.step, bar.bytes
    finally:
        if bar.shown is not None:
            bar.shown.stop()


class _Bar:
    """A bar of Rich that appears after a while, drawn by this thread alone: workers are forked beside no other."""

    def __init__(self, first: str, total: int) -> None:
        self.shown: Any = None
        self._name, self._total, self._done, self._failed = first, total, 0, 0
        self._start, self._drawn = time.monotonic(), 0.0

    def step(self, outcome: Outcome) -> None:
        self._name = outcome.job.source.path
        self._done += 1
        self._failed += outcome.error is not None
        if self._total > 1:
            self._draw(self._done, self._total)

    def bytes(self, done: int, total: int) -> None:
        if self._total == 1:
            self._draw(done, total)

    def _draw(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._start < SOON or now - self._drawn < BETWEEN:
            return
        self._drawn = now
        if self.shown is None:
            self.shown = self._made()
            self.shown.add_task("", total=total)
        failed = f"{self._failed} failed" if self._failed else ""
        rate, name = f"{done / (now - self._start):.3g}/s", printable(self._name)
        name = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"  # the end tells files apart
        self.shown.update(self.shown.task_ids[0], completed=done, name=name, failed=failed, rate=rate)
        self.shown.start()
        self.shown.refresh()

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
