"""What C libraries write to standard error on their own, caught."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

MOST_BYTES = 10_000  # that are read of what was written

# Files for what is caught, empty ones, kept for the next time: a new one takes as long as opening a picture.
_spare: list[IO[bytes]] = []
if hasattr(os, "register_at_fork"):  # what two processes write into one file would be mixed
    os.register_at_fork(after_in_child=_spare.clear)


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """A list that holds, at the end, the lines that native code wrote to file descriptor 2 meanwhile."""
    lines: list[str] = []
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield lines
        return
    caught = _spare.pop() if _spare else tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # kept
    os.dup2(caught.fileno(), 2)
    try:
        yield lines
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        if caught.seek(0, os.SEEK_CUR):
            caught.seek(0)
            lines += caught.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
            caught.seek(0)
            caught.truncate()
        _spare.append(caught)
