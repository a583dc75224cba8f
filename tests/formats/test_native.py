"""What C libraries write to standard error is caught where it was written, and nowhere else."""

from __future__ import annotations

import os

from poolcli.formats.image.pillow import captured_stderr


def test_what_is_caught_is_caught_once() -> None:
    found = []
    for text in (b"one\ntwo\n", b"", b"three\n"):
        with captured_stderr() as said:
            os.write(2, text)
        found.append(said)
    assert found == [["one", "two"], [], ["three"]]


def test_two_that_catch_at_once_catch_each_their_own() -> None:
    with captured_stderr() as outer:
        os.write(2, b"before\n")
        with captured_stderr() as inner:
            os.write(2, b"inside\n")
        os.write(2, b"after\n")
    assert (outer, inner) == (["before", "after"], ["inside"])
