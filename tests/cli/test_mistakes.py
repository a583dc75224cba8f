"""Mistakes that people make, each with its whole answer: in `mistakes.txt` each command is followed by what is said.

What grows with the tables stands in capitals between angle brackets. A number in brackets is the exit code, 2 without.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

from poolcli.cli.commands import BY_NAME
from poolcli.core.nearest import listed
from poolcli.formats.table import FORMATS, suffixes_of
from tests.conftest import Cli

SUFFIXES = suffixes_of(lambda row: row.writes)
GROWING = {
    "<COMMANDS>": listed(BY_NAME, "and"),
    "<SUFFIXES>": ", ".join(SUFFIXES),
    "<BARE SUFFIXES>": ", ".join(suffix.lstrip(".") for suffix in SUFFIXES),
    "<FORMATS>": ", ".join(row.name for row in FORMATS.values() if row.reads),
}
TEXT = (Path(__file__).parent / "mistakes.txt").read_text()
FOUND = re.findall(r"^\$ poolcli (.*?)(?: \[(\d)\])?\n(.+?)\n(?=\$|#|\n|\Z)", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(folder: Path) -> None:
    """The working folder with files of several arrays, a folder of three, an empty one and an output that exists."""
    with h5py.File("volume.h5", "w") as file:
        file["features"] = np.zeros((1, 2, 6, 8), np.float32)
        file["weights"] = np.zeros((1, 2, 3, 3), np.float32)
    np.savez("two.npz", first=np.zeros((1, 1, 4)), second=np.zeros((1, 1, 4)))
    for name in ("in", "empty"):
        Path(name).mkdir()
    for name in "abc":
        np.save(f"in/{name}.npy", np.zeros((1, 2, 6, 8), np.float32))
    Path("args").write_text("-k 2 'unfinished")
    Path("m.onnx").write_bytes(b"no model")
    for name in ("done.npy", "a b.npy"):
        Path(name).touch()


def test_there_are_many() -> None:
    assert len({command for command, _, _ in FOUND}) == TEXT.count("\n$ poolcli") >= 300


@pytest.mark.parametrize(("command", "code", "message"), FOUND, ids=[found[0] for found in FOUND])
def test_a_mistake_is_answered_with_what_to_type_instead(
    cli: Cli, place: None, command: str, code: str, message: str
) -> None:
    for name, words in GROWING.items():
        message = message.replace(name, words)
    result = cli(*shlex.split(command))
    assert (result.err, result.out, result.code) == (message + "\n", "", int(code or 2))


@pytest.mark.parametrize(
    "command", ["shpe --json", "avg x.npy --kernal 2 --json", "shape avg 1,3,4 -k 9 --json", "merge x --json"]
)
def test_with_json_a_refusal_is_a_document_too(cli: Cli, folder: Path, command: str) -> None:
    result = cli(*command.split())
    assert result.err == f"poolcli: {result.json['error']['message']}\n"
    assert result.json["schema_version"] == 1
