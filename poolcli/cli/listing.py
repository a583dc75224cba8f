"""The names of the arrays in a file, for a shell that waits for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from poolcli.errors import PoolError

Listing = Callable[[str], list[str]]


def keys_in(file: str) -> list[str]:
    """The keys of the arrays in a file; of what cannot be read, none."""
    from poolcli.formats import list_arrays, parse_source
    from poolcli.formats.isolated import in_subprocess_if_fragile

    path = parse_source(file).path
    try:
        return [header.key for header in in_subprocess_if_fragile(path, partial(list_arrays, path)) if header.key]
    except PoolError:
        return []


def begun(file: str) -> Listing:
    """As `keys_in`; that of `file` is begun at once in another process, since the library may take longer to load than
    everything else that is to be known of the line."""
    if sys.platform != "linux" or not os.path.isfile(file):
        return keys_in
    from poolcli.system.subprocesses import run_in_subprocess

    found = run_in_subprocess(file, partial(keys_in, file))

    def listed(asked: str) -> list[str]:
        if asked != file:
            return keys_in(asked)
        try:
            return found()
        except PoolError:
            return []

    return listed
