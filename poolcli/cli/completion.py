"""What a shell may put in the place of an unfinished word: names of arrays in files. File names are the shell's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import typer

# Names without a character that a shell would interpret: what completes a word may be evaluated by the shell.
_PLAIN = re.compile(r"[\w/.@%+=,-]+")


def complete_inputs(ctx: typer.Context, incomplete: str) -> list[str]:
    """`FILE:ARRAY` for each array of the file whose name and colon are typed; nothing leaves the word to the shell."""
    placed = ctx.params.get("inputs") or [value for value in ctx.params.values() if isinstance(value, str)]
    words = [*placed, incomplete]
    if ":" in words[-2:]:  # bash makes words of their own of colons
        at = len(words) - 1 - words[::-1].index(":")
        return [key for key in _keys(words[at - 1]) if at and key.startswith(incomplete.removeprefix(":"))]
    path, colon, _ = incomplete.rpartition(":")
    found = (f"{path}:{key}" for key in _keys(path)) if colon else ()
    return [word for word in found if word.startswith(incomplete) and _PLAIN.fullmatch(word.replace(":", ""))]


def complete_arrays(ctx: typer.Context, incomplete: str) -> list[str]:
    """The arrays in the inputs that the line names already."""
    paths = ctx.params.get("inputs") or [ctx.params.get("source") or ctx.params.get("shape") or ""]
    return [key for path in paths for key in _keys(path) if key.startswith(incomplete)]


def _keys(path: str) -> Iterator[str]:
    """The names of the arrays in a file; none where it cannot be read."""
    if not os.path.exists(path):
        return
    from functools import partial

    from poolcli.errors import PoolError
    from poolcli.formats import list_arrays
    from poolcli.formats.recognise import in_subprocess_if_fragile

    try:
        headers = in_subprocess_if_fragile(path, partial(list_arrays, path))
    except PoolError:
        return
    yield from (header.key for header in headers if header.key and _PLAIN.fullmatch(header.key))
