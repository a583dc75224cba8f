"""What C libraries write to standard error on their own, caught."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_messages() -> Iterator[list[str]]:
    """A list that holds, at the end, the lines that native code wrote to file descriptor 2 meanwhile."""
    lines: list[str] = []
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield lines
        return
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            lines += caught.read(10_000).decode("utf-8", "replace").splitlines()
