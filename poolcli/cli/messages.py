"""What the commands print: results on standard output; errors, notices and the progress bar on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO

from poolcli.errors import PoolError
from poolcli.message_fields import for_cli, printable

if TYPE_CHECKING:
    from poolcli.cli.options import Report
    from poolcli.pooling.outcome import Outcome

FILES_NAMED = 3  # in a message about several
RED, CYAN, RESET = "\033[1;31m", "\033[36m", "\033[0m"
BAR_DELAY, BAR_INTERVAL = 0.5, 0.1  # seconds before a bar appears, and from one update to the next
NAME_WIDTH = 30  # characters of a path beside a bar

STREAMED = ("-o -", "--output -", "--indices -")  # options that take standard output for the result

Step = Callable[["Outcome"], None]
Bytes = Callable[[int, int], None]


def answer(document: Callable[[], Any], view: Callable[[], Any], report: Report, short: str = "") -> None:
    """Prints the result of a command: a JSON document, a view, or with --quiet the text `short`."""
    if report.json:
        from poolcli.report.as_json import to_json

        print(to_json(document()))
    elif not report.quiet:
        from poolcli.report.console import show

        show(view(), sys.stdout)
    elif short:
        print(short)


def report_error(error: PoolError, arguments: Sequence[str]) -> None:
    """Prints the error of a command, with --json also as a document."""
    from poolcli.cli.program import field_names, find_command

    name = find_command(arguments[0]) if arguments else None
    if name:  # hints about options that the command lacks are dropped
        error = error.for_fields(field_names(name))
    if "--json" in arguments:
        from poolcli.report.as_json import error_document, to_json

        streamed = any(f"{flag} {value}" in STREAMED for flag, value in pairwise(arguments))
        print(to_json({"error": error_document(error)}), file=sys.stderr if streamed else sys.stdout)
    print_error(error)


def print_error(error: PoolError) -> None:
    """Prints an error."""
    _print_message(error.cli_message)


def print_errors(errors: Iterable[PoolError]) -> None:
    """Prints the errors of a run over several files; the same message about several files once, with their names."""
    groups: dict[str, list[PoolError]] = {}
    for error in errors:
        groups.setdefault(error.message if error.place is None else error.bare, []).append(error)
    for bare, group in groups.items():
        places = [str(error.place) for error in group]
        more = f" and {len(places) - FILES_NAMED} more" if len(places) > FILES_NAMED else ""
        several = len(group) > 1 and group[0].place is not None
        _print_message(for_cli(f"{', '.join(places[:FILES_NAMED])}{more}: {bare}" if several else group[0].message))


def print_notice(text: str) -> None:
    """Prints a notice, such as that kernels are being compiled."""
    print(f"poolcli: {printable(text)}", file=sys.stderr, flush=True)


def _print_message(text: str) -> None:
    sys.stdout.flush()  # so that the message comes after the output before it
    print(format_for_terminal(text) if sys.stderr.isatty() else f"poolcli: {text}", file=sys.stderr)


def format_for_terminal(text: str) -> str:
    """The message wrapped and coloured, with the remedy on a line of its own."""
    import textwrap

    wrong, _, remedy = text.partition("; ")
    wrap = textwrap.TextWrapper(
        terminal_width(sys.stderr), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines, remedies = wrap.wrap(f"poolcli: {wrong}"), wrap.wrap(f"  {remedy}") if remedy else []
    if not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        lines[0] = lines[0].replace("poolcli:", f"{RED}poolcli:{RESET}", 1)
        remedies = [f"{CYAN}{line}{RESET}" for line in remedies]
    return "\n".join(lines + remedies)


def terminal_width(stream: TextIO) -> int:
    """The columns of the terminal behind a stream; 80 if they are not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


@contextmanager
def progress(first: str, total: int, quiet: bool) -> Iterator[tuple[Step, Bytes]]:
    """Two callbacks that draw a progress bar on a terminal: one for each input that is done, and one for the bytes of a
    single input that are done and their total.
    """
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield (lambda outcome: None), (lambda done, whole: None)
        return
    bar = _Bar(first, total)
    try:
        bar.begin()
        yield bar.step, bar.bytes
    finally:
        bar.stop()


class _Bar:
    """A progress bar of Rich that appears after BAR_DELAY, or at once for several inputs and for a large one.

    It is drawn by this thread, without Rich's refresh thread, because workers may be forked at any time.
    """

    def __init__(self, first: str, total: int) -> None:
        self.shown: Any = None
        self._name, self._total, self._done, self._failed = first, total, 0, 0
        self._start, self._drawn = time.monotonic(), 0.0

    def begin(self) -> None:
        if self._total > 1:
            self._draw(0, self._total, str)

    def stop(self) -> None:
        if self.shown is not None:
            self.shown.stop()

    def step(self, outcome: Outcome) -> None:
        self._name = outcome.job.source.path
        self._done += 1
        self._failed += outcome.error is not None
        if self._total > 1:
            self._draw(self._done, self._total, lambda rate: f"{rate:.3g}")
        else:
            self.stop()  # before the report

    def bytes(self, done: int, total: int) -> None:
        from poolcli.formats.checks import human_bytes

        if self._total == 1:
            self._draw(done, total, lambda rate: human_bytes(int(rate)))

    def _draw(self, done: int, total: int, unit: Callable[[float], str]) -> None:
        now = time.monotonic()
        if done and (now - self._start < BAR_DELAY or now - self._drawn < BAR_INTERVAL):
            return
        self._drawn = now
        if self.shown is None:
            self.shown = self._new_bar()
            self.shown.add_task("", total=total)
        failed, speed = (
            f"{self._failed} failed" if self._failed else "",
            f"{unit(done / (now - self._start))}/s" if done else "",
        )
        name = printable(self._name)
        name = name if len(name) <= NAME_WIDTH else f"...{name[3 - NAME_WIDTH :]}"  # the end distinguishes files
        self.shown.update(self.shown.task_ids[0], completed=done, name=name, failed=failed, speed=speed)
        self.shown.start()
        self.shown.refresh()

    def _new_bar(self) -> Any:
        from rich import progress as rich

        from poolcli.report.console import console

        columns = (
            rich.BarColumn(bar_width=20),
            rich.MofNCompleteColumn() if self._total > 1 else rich.DownloadColumn(binary_units=True),
            rich.TextColumn("{task.fields[speed]}"),
            rich.TextColumn("{task.fields[failed]}", style="bold red"),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[name]}", markup=False),
        )
        return rich.Progress(*columns, console=console(sys.stderr), transient=True, auto_refresh=False)
