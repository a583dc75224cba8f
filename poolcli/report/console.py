"""The one way to print reports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from poolcli.message_fields import escaped

UNWRAPPED = 20_000  # columns, more than any line has


class _Console(Console):
    """Prints no control character of a text, whoever made it, beside line breaks."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        if isinstance(renderable, str):
            return super().render(_escaped(renderable), options)
        if isinstance(renderable, Text) and _escaped(renderable.plain) != renderable.plain:
            renderable = Text(_escaped(renderable.plain), renderable.style)
        return super().render(renderable, options)


def _escaped(text: str) -> str:
    return text if text.isprintable() else "\n".join(map(escaped, text.split("\n")))


def console(stream: TextIO) -> Console:
    """A Rich console that prints data as data: no markup, no highlighting, no emoji.

    What goes to no terminal is not wrapped, unless COLUMNS says where.
    """
    width = None if stream.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def show(view: RenderableType, stream: TextIO) -> None:
    """Prints `view` without the spaces with which tables fill their lines."""
    printer = console(stream)
    with printer.capture() as captured:
        printer.print(view, crop=False)
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
