"""The list of what was done: one that is not ours is left alone, and its lines may hold anything."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolcli.errors import FileError, RequestError
from poolcli.formats import Source
from poolcli.pooling.outcome import Job
from poolcli.runs import Manifest
from tests.cli.folders import HALVE, MANIFEST, counts, outputs
from tests.conftest import Cli

NOT_OURS: dict[str, tuple[Callable[[], object], int, str]] = {
    "a link": (lambda: os.symlink("../precious", f"out/{MANIFEST}"), 1, "Too many levels of symbolic links"),
    "a pipe": (lambda: os.mkfifo(f"out/{MANIFEST}"), 1, "No such device or address"),
    "a folder": (lambda: os.mkdir(f"out/{MANIFEST}"), 1, "Is a directory"),
    "somebody's file": (
        lambda: Path(f"out/{MANIFEST}").write_text("my notes\n"),
        2,
        "is not a manifest of poolcli; move it, or name another --output",
    ),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_manifest_that_is_not_our_own_is_neither_followed_nor_replaced(name: str, cli: Cli, many: Path) -> None:
    make, code, message = NOT_OURS[name]
    Path("out").mkdir()
    Path("precious").write_text("precious")
    make()
    for more in ((), ("--resume",), ("--overwrite",)):
        result = cli("avg", "in", "-o", "out/", *HALVE, *more)
        assert (result.code, result.err) == (code, f"poolcli: out/{MANIFEST}: {message}\n")
    assert os.listdir("out") == [MANIFEST]
    assert Path("precious").read_text() == "precious"
    if name == "somebody's file":
        assert Path(f"out/{MANIFEST}").read_text() == "my notes\n"


RECORD: dict[str, Any] = {
    "output": 5, "indices": None, "input": 5, "input_size": "x", "input_mtime_ns": None,
    "options": {}, "output_hash": 5, "indices_hash": 5,
}  # fmt: skip


LIES = [
    *(
        json.dumps(lie).encode()
        for lie in (RECORD, RECORD | {"output": "00.npy"}, [1], 5, {"output": "x", "indices": 5})
    ),
    b'{"output": 5, "indices": null}',
    b'{"output": ' + b"[" * 100_000,
    b'{"output": "00.npy", "indices": null, "options": 7}',
    b'{"output": "' + b"x" * 3_000_000 + b'"}',
    b"{",
    b'{"output": "../in/00.npy\\u0000", "indices": null}',
    b'{"output": "03.npy", "ind',
    b"\xff\xfe",
]


@pytest.mark.parametrize("last", range(len(LIES)))
def test_lines_of_a_manifest_may_hold_anything(last: int, cli: Cli, many: Path) -> None:
    """Each is the last, which is torn, once."""
    assert cli("avg", "in", "-o", "out/", *HALVE, "-q").code == 0
    clean = outputs("out")
    with open(f"out/{MANIFEST}", "ab") as manifest:
        manifest.write(b"\n".join(LIES[last + 1 :] + LIES[: last + 1]))
    assert cli("avg", "in", "-o", "out/", *HALVE, "--resume", "-q").code == 0
    assert outputs("out") == clean


def test_lines_that_say_more_are_read_as_well(cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    lines = Path(f"out/{MANIFEST}").read_text().splitlines()
    more = (json.dumps(json.loads(line) | {"input_hash": "of elder versions"}) for line in lines)
    Path(f"out/{MANIFEST}").write_text("".join(f"{line}\n" for line in more))
    assert counts(cli("avg", "in", "-o", "out/", *HALVE, "--resume")) == "0 done, 10 skipped, 0 failed, 1 ignored"


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(RequestError, match="is not a manifest of poolcli"):
        Manifest(str(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 23


def test_a_line_that_the_disk_takes_in_part_is_an_error(tmp_path: Path) -> None:
    import resource

    manifest = Manifest(str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with manifest.locked():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5, before[1]))  # the file cannot grow beyond 5 bytes
        try:
            with pytest.raises(FileError, match="No space left on device"):
                manifest.begin([Job(Source("x.npy"), str(tmp_path / "y.npy"))])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_output_that_is_gone_is_listed_no_longer(cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    os.unlink("out/03.npy")
    os.unlink("in/03.npy")
    assert cli("avg", "in", "-o", "out/", *HALVE, "--resume").code == 0
    listed = [json.loads(line)["output"] for line in Path(f"out/{MANIFEST}").read_text().splitlines()]
    assert listed == sorted(name for name in os.listdir("out") if name != MANIFEST)
