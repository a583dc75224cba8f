"""What an unfinished word may become: values of options, files by their suffix, arrays in a file.

Formats are imported where a file is looked for: whoever waits for the value of an option need not wait for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from poolcli.cli.listing import Listing, keys_in
from poolcli.cli.options import Argument, Option
from poolcli.cli.parameters import Parameter


def completions(parameter: Parameter, files: Sequence[str], unfinished: str, listing: Listing = keys_in) -> list[str]:
    """What the word of a parameter may become; `files` are the inputs that the line names already.

    What a line of text cannot hold is left out.
    """
    if parameter.row.words:
        return [word for word in parameter.row.words if word.startswith(unfinished.lower())]
    found = _PATHS.get(parameter.row.path)
    return [word for word in found(files, unfinished, listing) if word.isprintable()] if found else []


def placed_in(taken: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """The words that a line has at the places of arguments, by their names; None where there is none yet."""
    valued = {
        flag for each in taken if isinstance(each.row, Option) and not each.is_flag for flag in each.row.all_flags
    }
    placed = [word for i, word in enumerate(words) if word[:1] != "-" and (i == 0 or words[i - 1] not in valued)]
    arguments = [each for each in taken if isinstance(each.row, Argument)]
    return {each.name: placed[i:] if each.many else next(iter(placed[i:]), None) for i, each in enumerate(arguments)}


def _inputs(files: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    path, colon, _ = unfinished.rpartition(":")
    if colon and os.path.exists(path):
        yield from (f"{path}:{key}" for key in listing(path) if f"{path}:{key}".startswith(unfinished))
        return
    from poolcli.formats.table import suffixes_of

    yield from _named(unfinished, suffixes_of(lambda row: row.reads))


def _outputs(files: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    from poolcli.formats.table import suffixes_of

    return _named(unfinished, suffixes_of(lambda row: row.writes))


def _models(files: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    from poolcli.formats.recognise import MODELS

    return _named(unfinished, MODELS)


def _any(files: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    return _named(unfinished, ("",))


def _arrays(files: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    return (key for file in files for key in listing(file) if key.startswith(unfinished))


def _named(unfinished: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Files of these suffixes that begin so, and folders, which end in /."""
    folder, start = os.path.split(unfinished)
    try:
        with os.scandir(folder or ".") as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            path = os.path.join(folder, entry.name)
            if entry.is_dir():
                yield path + "/"
            elif entry.name.lower().endswith(suffixes):
                yield path


_PATHS = {"input": _inputs, "output": _outputs, "model": _models, "any": _any, "array": _arrays}
