"""What the commands print: results on standard output; errors, notices and the progress bar on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from poolcli.errors import PoolError
from poolcli.message_fields import for_cli, printable

if TYPE_CHECKING:
    from poolcli.cli.options import Report

FILES_NAMED = 3  # in a message about several
BAR_INTERVAL = 0.2  # seconds from one update of a bar to the next
STREAMED = ("-o -", "--output -", "--indices -")  # options that take standard output for the result

Draw = Callable[[int, int], None]  # how much is done, and of how much
_bars: list[Any] = []  # consoles of progress bars


def answer(document: Callable[[], Any], view: Callable[[], Any], report: Report, short: str = "") -> None:
    """Prints the result of a command: a JSON document, a view, or with --quiet the text `short`."""
    if report.json:
        from poolcli.report.as_json import to_json

        print(to_json(document()))
    elif not report.quiet:
        from poolcli.report.outcome import show

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
    print_notice(error.cli_message)


def print_errors(errors: Iterable[PoolError]) -> None:
    """Prints the errors of a run over several files; the same message about several files once, with their names."""
    groups: dict[str, list[PoolError]] = {}
    for error in errors:
        groups.setdefault(error.message if error.place is None else error.bare, []).append(error)
    for bare, group in groups.items():
        places = [str(error.place) for error in group]
        more = f" and {len(places) - FILES_NAMED} more" if len(places) > FILES_NAMED else ""
        several = len(group) > 1 and group[0].place is not None
        print_notice(for_cli(f"{', '.join(places[:FILES_NAMED])}{more}: {bare}" if several else group[0].message))


def print_notice(text: str, style: str = "bold red") -> None:
    """Prints an error or a notice, such as that kernels are being compiled, on a terminal wrapped between words."""
    sys.stdout.flush()  # so that it comes after the output before it
    if not (_bars or sys.stderr.isatty()):
        print(f"poolcli: {printable(text)}", file=sys.stderr, flush=True)
        return
    from rich.text import Text

    from poolcli.report.outcome import console

    printer = _bars[-1] if _bars else console(sys.stderr)  # that of a bar erases it, and draws it again below
    printer.print(Text.assemble(("poolcli:", style), f" {printable(text)}"))


@contextmanager
def progress(several: int, quiet: bool) -> Iterator[Draw]:
    """A callback that draws a progress bar on a terminal, of several inputs or of the bytes of a single one."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done, total: None
        return
    from rich import progress as rich

    from poolcli.report.outcome import console

    count = rich.MofNCompleteColumn() if several > 1 else rich.DownloadColumn(binary_units=True)
    columns = (rich.BarColumn(bar_width=20), count, rich.TimeRemainingColumn())
    # Drawn by this thread, without Rich's refresh thread, because workers may be forked at any time.
    bar = rich.Progress(*columns, console=console(sys.stderr), transient=True, auto_refresh=False)
    task, drawn = bar.add_task("", total=several), time.monotonic()
    _bars.append(bar.console)

    def draw(done: int, total: int) -> None:
        nonlocal drawn
        if done == total:
            bar.stop()  # a report follows
        elif done == 0 or time.monotonic() - drawn > BAR_INTERVAL:
            drawn = time.monotonic()
            bar.update(task, completed=done, total=total)
            bar.start()
            bar.refresh()

    if several > 1:
        draw(0, several)
    try:
        yield draw
    finally:
        bar.stop()
        _bars.pop()
