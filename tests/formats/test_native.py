"""What C libraries write to standard error is caught where it was written, and nowhere else."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

from poolcli.formats.image.pillow import captured_stderr
from poolcli.system.subprocesses import CONTEXT, start


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


def test_a_process_that_is_forked_catches_its_own() -> None:
    with captured_stderr():
        pass  # from here on there is a file for what is caught, which a fork shares
    here, there = CONTEXT.Pipe()
    process = start(_say, there)
    with captured_stderr() as said:
        os.write(2, b"parent\n")
        here.send("now")
        found = here.recv()
    process.join()
    assert (said, found) == (["parent"], ["child"])


def _say(pipe: Connection) -> None:
    pipe.recv()
    with captured_stderr() as said:
        os.write(2, b"child\n")
    pipe.send(said)
