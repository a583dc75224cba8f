"""`--preview`: what a job read and what it wrote, seen side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poolcli.errors import RequestError
from poolcli.formats.atomic import is_device
from poolcli.message_fields import field
from poolcli.pooling.outcome import Outcome, Settings

if TYPE_CHECKING:
    from rich.console import Console

    from poolcli.cli.pool import PoolOptions

TERMINAL, TEXT = "terminal", "text"
TALLEST = 24  # lines, of a terminal that is not known to be taller
MOST = 4  # inputs, of several
SMALLEST, FOUR, NINE = 20, 24, 60  # columns: of a preview at all, and of that with four and with nine channels


def check_preview(request: PoolOptions, several: bool) -> None:
    """Refuses a preview of what is not there to be seen, or would stand between other output."""
    wanted = request.preview
    if wanted is None:
        return
    name = field("preview")
    if several and wanted not in (TERMINAL, TEXT):
        raise RequestError(f"{field('preview', wanted)} is for one input, and these are several; write {name} alone")
    if request.dry_run:
        raise RequestError(f"{name} shows what was computed, and {field('dry_run')} computes nothing; give one of them")
    streams = [path for path in (*request.inputs, request.output) if path and (path == "-" or is_device(path))]
    if streams:
        raise RequestError(f"{name} reads input and output again, and {streams[0]} cannot be read twice; name files")
    if request.all or len(request.dataset) > 1:
        raise RequestError(f"{name} shows one array; name it with one {field('dataset')}")
    if wanted in (TERMINAL, TEXT):
        if request.json:
            raise RequestError(f"{name} would stand in the JSON; write it with {field('preview', 'seen.png')}")
        return
    if not wanted.lower().endswith(".png"):
        raise RequestError(f"{field('preview', wanted)}: use a file that ends in .png, text, or {name} alone")
    if os.path.lexists(wanted) and not request.overwrite:
        raise RequestError(f"{wanted} exists; use {field('overwrite')} to replace it")


def show_previews(request: PoolOptions, settings: Settings, outcomes: Sequence[Outcome], count: int) -> None:
    """Prints what jobs have read and written where it will be seen, or writes it; `count` jobs there were in all.

    Of several each stands under its name.
    """
    wanted = request.preview
    ran = [outcome for outcome in outcomes if outcome.error is None and outcome.engine]
    if wanted is None or not ran:
        return
    if wanted not in (TERMINAL, TEXT):
        _write(wanted, ran[0], settings, request.overwrite)
        return
    from poolcli.message_fields import printable
    from poolcli.report.console import console

    screen = console(sys.stdout)
    if wanted == TERMINAL and not screen.is_terminal:
        return
    for i, outcome in enumerate(ran):
        if i or (count == 1 and not request.quiet):
            print()
        if count > 1:
            print(printable(str(outcome.job.source)))
        _show(screen, outcome, settings)
    if count > len(outcomes):
        print(f"\nthe first {len(outcomes)} of {count} are shown")


def _write(path: str, outcome: Outcome, settings: Settings, overwrite: bool) -> None:
    from poolcli.explain.preview import as_png, preview_of

    preview = preview_of(outcome, settings.read_options, 9)
    if preview:
        from poolcli.formats.atomic import byte_stream

        with byte_stream(path, overwrite) as stream:
            stream.write(as_png(preview))


def _show(screen: Console, outcome: Outcome, settings: Settings) -> None:
    from poolcli.explain.preview import preview_of
    from poolcli.report.console import show
    from poolcli.report.preview import preview_view

    tiles = 9 if screen.width >= NINE else 4 if screen.width >= FOUR else 1
    preview = preview_of(outcome, settings.read_options, tiles)
    if preview:
        lines = max(4, (screen.height if screen.is_terminal else TALLEST) - 4)
        colour = screen.color_system is not None and not screen.no_color
        blocks = "utf" in (sys.stdout.encoding or "").lower()
        show(preview_view(preview, max(SMALLEST, screen.width), lines, colour, blocks), sys.stdout)
