"""`--preview`: what a job read and what it wrote, seen side by side."""

from __future__ import annotations

import os
import sys

from poolcli.cli.requests.pool import PoolRequest
from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.formats.atomic import is_device
from poolcli.job.outcome import Outcome, Settings

TERMINAL, TEXT = "terminal", "text"
TALLEST = 24  # lines, of a terminal that is not known to be taller
SMALLEST, FOUR, NINE = 20, 24, 60  # columns: of a preview at all, and of that with four and with nine channels


def check_preview(request: PoolRequest, several: bool) -> None:
    """Refuses a preview of what is not there to be seen, or would stand between other output."""
    wanted = request.preview
    if wanted is None:
        return
    name = field("preview")
    if several:
        raise RequestError(f"{name} shows one input, and these are several; name one, or leave {name} out")
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


def show_preview(request: PoolRequest, settings: Settings, outcome: Outcome) -> None:
    """Prints the preview of a job that ran where it will be seen, or writes it."""
    wanted = request.preview
    if wanted is None or outcome.error:
        return
    from poolcli.explain.preview import as_png, preview_of
    from poolcli.report.console import console, show

    if wanted not in (TERMINAL, TEXT):
        preview = preview_of(outcome, settings.read_options, 9)
        if preview:
            from poolcli.formats.atomic import byte_stream

            with byte_stream(wanted, request.overwrite) as stream:
                stream.write(as_png(preview))
        return
    screen = console(sys.stdout)
    if wanted == TERMINAL and not screen.is_terminal:
        return
    from poolcli.report.preview import preview_view

    tiles = 9 if screen.width >= NINE else 4 if screen.width >= FOUR else 1
    preview = preview_of(outcome, settings.read_options, tiles)
    if preview:
        lines = max(4, (screen.height if screen.is_terminal else TALLEST) - 4)
        colour = screen.color_system is not None and not screen.no_color
        blocks = "utf" in (sys.stdout.encoding or "").lower()
        if not request.quiet:
            print()
        show(preview_view(preview, max(SMALLEST, screen.width), lines, colour, blocks), sys.stdout)
