"""A hook of MkDocs: writes the reference of the command line as Typer documents the commands."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.cli import get_docs_for_click

from poolcli.cli.program import COMMANDS, made

EXAMPLES = re.compile(r"^Examples:\n((?:poolcli .*\n)+)", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Appends every command to the page."""
    if page.file.src_uri != "reference/command-line.md":
        return markdown
    return "\n".join((markdown, *map(_documented, COMMANDS)))


def _documented(name: str) -> str:
    command = made(name)
    context = typer.Context(command, info_name=name)
    text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="poolcli", indent=1)
    return EXAMPLES.sub(r"**Examples**:\n\n```console\n\1```\n", text)
