"""Files without a header are read as they are said to be, and not beyond their end."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.conftest import Cli

HALVE = ("-k", "2", "-s", "2")
X = np.arange(96).reshape(1, 2, 6, 8)
HALVES = X.reshape(1, 2, 3, 2, 4, 2).max((3, 5))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.bin").write_bytes(X.astype("<i2").tobytes())


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("uint8", "u1"),
        ("int16", "<i2"),
        (">f4", ">f4"),
        ("f8", "<f8"),
        (">u2", ">u2"),
        ("bfloat16", "bfloat16"),
        ("u8", "u1"),
        ("<u8", "<u8"),
        ("fp16", "<f2"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--max-memory", "200K")], ids=["whole", "limited"])
def test_an_array_is_read_as_it_is_said_to_be(kind: str, stored: str, more: tuple[str, ...], cli: Cli) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16) if stored == "bfloat16" else np.dtype(stored)
    Path("x.bin").write_bytes(X.astype(dtype).tobytes())
    result = cli(
        "max", "x.bin", "-o", "y.npy", "--raw", f"1,2x6,8,{kind}", "--dtype", "float64", *HALVE, "--json", *more
    )
    assert result.code == 0, result.err
    assert result.json["notes"] == []
    np.testing.assert_array_equal(np.load("y.npy"), HALVES)


def test_what_lies_behind_the_array_is_passed_over_and_said(cli: Cli) -> None:
    result = cli("max", "x.bin", "-o", "y.npy", "--raw", "1,1,6,8,int16", *HALVE, "--json")
    assert result.json["notes"][0] == "96 B after the array are ignored"
    np.testing.assert_array_equal(np.load("y.npy"), HALVES[:, :1])


REFUSED: dict[str, tuple[str, int, str]] = {
    "no type": ("1,2,6,8", 2, "--raw is '1,2,6,8'; write a shape and a type, such as 1,3,64,64,uint8"),
    "no shape": ("int16", 2, "--raw is 'int16'; write a shape and a type, such as 1,3,64,64,uint8"),
    "a negative length": ("1,-2,6,8,int16", 2, "--raw is '1,-2,6,8,int16'; write a shape and a type, such as"),
    "an unknown type": ("1,2,6,8,int17", 2, "dtype int17 is not supported; use one of"),
    "more than there is": ("1,2,6,9,int16", 1, "x.bin: --raw says 216 B of data, but the file holds 192 B"),
    "a shape beyond 64 bits": (f"1,{2**40},{2**40},int16", 1, "x.bin: --raw says more than 1,000,000 PiB of data"),
}


@pytest.mark.parametrize(("raw", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(raw: str, code: int, message: str, cli: Cli) -> None:
    result = cli("max", "x.bin", "-o", "y.npy", "--raw", raw, *HALVE)
    assert (result.code, result.err.startswith(f"poolcli: {message}")) == (code, True), result.err
    assert sorted(os.listdir()) == ["x.bin"]


def test_a_pipe_is_not_waited_for(cli: Cli) -> None:
    os.mkfifo("pipe")
    result = cli("max", "pipe", "-o", "y.npy", "--raw", "1,1,2,2,uint8", *HALVE)
    assert (result.code, result.err) == (1, "poolcli: pipe: is not a regular file\n")


def test_it_is_one_array_of_a_file(cli: Cli) -> None:
    result = cli("max", "x.bin", "-o", "y.npz", "--raw", "1,1,2,2,uint8", "--all", *HALVE)
    assert (result.code, result.err) == (2, "poolcli: --raw and --all contradict each other; give one\n")


def test_a_file_that_says_itself_what_it_holds_is_not_taken_for_numbers(cli: Cli) -> None:
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.uint8))
    result = cli("max", "x.npy", "-o", "y.npy", "--raw", "1,1,8,8,uint8", *HALVE)
    said = "is npy, and has a header of its own; --raw would read the header as data; leave it out"
    assert (result.code, result.err) == (1, f"poolcli: x.npy: {said}\n")
    Path("x.npy").rename("x.bin")  # of which the name says nothing: two bytes may be those of a header by chance
    assert cli("max", "x.bin", "-o", "y.npy", "--raw", "1,1,8,8,uint8", *HALVE).code == 0


def test_raw_is_proposed_for_what_is_no_text(cli: Cli) -> None:
    Path("table.csv").write_bytes(b"a,b\n1,2\n3,4\n")
    Path("numbers.bin").write_bytes(np.arange(64, dtype=np.float32).tobytes())
    assert "--raw" not in cli("avg", "table.csv", "-o", "y.npy", "-k", "2").err
    assert "--raw 1,3,64,64,uint8" in cli("avg", "numbers.bin", "-o", "y.npy", "-k", "2").err
