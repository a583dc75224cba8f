"""Exceptions that nobody thought of, out of a decoder: each is the failure of its file, wherever the job runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.formats import FORMATS
from tests.cli.folders import counts
from tests.conftest import Cli
from tests.formats import toy
from tests.formats.arrays import write

HALVE = ("-k", "2", "-s", "2")
X = np.ones((1, 1, 4, 4), np.float32)


class LockedError(Exception):
    """An exception that no pipe takes, and that cannot say what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = open(os.devnull)  # noqa: SIM115

    def __str__(self) -> str:
        raise ValueError


def deep(depth: int = 0) -> int:
    return deep(depth + 1) + 1


def raises(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


ODD: dict[str, tuple[Callable[[], object], str]] = {
    "division": (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
    "recursion": (deep, "RecursionError: maximum recursion depth exceeded"),
    "of two lines": (raises(KeyError("a\nb")), "KeyError: 'a\\nb'"),
    "that cannot be sent": (lambda: raises(LockedError())(), "LockedError"),
    "that ends loops": (raises(StopIteration()), "StopIteration"),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with `in`: two arrays and, between them, one in a format whose library has a bug."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FORMATS, "toy", toy.ROW)
    os.mkdir("in")
    np.save("in/a.npy", X)
    write("in/b.toy", X, "NCHW")
    np.save("in/c.npy", X)


def line(path: str, what: str) -> str:
    return f"poolcli: {path}: failed (unexpected {what}; --debug shows the traceback)\n"


@pytest.mark.parametrize(("name", "jobs"), [*((name, "1") for name in ODD), (next(iter(ODD)), "2")])
@pytest.mark.workers
def test_the_rest_of_the_folder_is_done(name: str, jobs: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    call, what = ODD[name]
    monkeypatch.setattr(toy._Folder, "read", lambda *_: call())
    result = cli("avg", "in", "-o", "out/", *HALVE, "--jobs", jobs)
    assert (result.code, counts(result), result.err) == (1, "2 done, 0 skipped, 1 failed", line("in/b.toy", what))
    assert sorted(os.listdir("out")) == [".poolcli.jsonl", "a.npy", "c.npy"]


@contextmanager
def broken(*_: object) -> Iterator[Any]:
    yield 1 // 0


PLACES: dict[str, tuple[str, Any]] = {
    "opening": ("open_array", broken),
    "reading the header": ("_header", lambda *_: 1 // 0),
    "preparing the output": ("open_writer", broken),
}
DIVIDED = line("in/b.toy", "ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.parametrize("name", PLACES)
def test_one_file_is_one_line(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, *PLACES[name])
    result = cli("avg", "in/b.toy", "-o", "out.toy", *HALVE)
    assert (result.code, result.out, result.err) == (1, "", DIVIDED)
    error = cli("avg", "in/b.toy", "-o", "out.toy", *HALVE, "--json").json["error"]
    assert (error["kind"], f"poolcli: {error['message']}\n") == ("unexpected", DIVIDED)
    assert os.listdir() == ["in"]


def test_looking_into_a_file_is_one_line_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "_header", lambda *_: 1 // 0)
    result = cli("info", "in/b.toy", "in/a.npy")
    assert (result.code, result.err) == (1, DIVIDED)
    assert result.out.startswith("in/a.npy: npy\n")


def test_a_library_in_a_process_of_its_own_may_raise_anything(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.formats.hdf5.open_container", lambda *_: deep())
    Path("x.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    result = cli("info", "x.h5")
    assert (result.code, result.err) == (1, line("x.h5", "RecursionError: maximum recursion depth exceeded"))
