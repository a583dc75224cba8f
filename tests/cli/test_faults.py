"""The catalogue of faults: what goes wrong, the whole message, the exit code, and that nothing else is touched.

Every row runs as a process of its own. Beside its message it must hold that there is no traceback and no death by a
signal, at most three lines on standard error, no output and no temporary file, the input as it was, and no more
memory than a run that has nothing to refuse and 64 MB.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from tests.cli.bad_files import CUT, FILES, POOL, X, hdf5, npy, zipped
from tests.cli.folders import poolcli
from tests.conftest import Cli
from tests.processes import fresh
from tests.profiles import slow

ALLOWANCE = 64 * 1024  # KiB


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Peak memory of runs that have something to do, of each family of formats."""
    folder = tmp_path_factory.mktemp("idle") / "work"
    folder.mkdir()
    np.save(folder / "x.npy", X)
    Image.new("RGB", (8, 8)).save(folder / "x.png")
    with h5py.File(folder / "x.h5", "w") as file:
        file["a"] = X
    return max(poolcli(folder, "avg", f"x.{s}", "-o", f"{s}.npy", "-k", "2", "-q").peak for s in ("npy", "png", "h5"))


# What is packed here from 256 MiB.
LARGE = ("npz: a bomb", "hdf5: a chunk that unpacks to more than it says", "more than 256 MiB, each less")


@pytest.mark.parametrize("name", [slow(name) if name in LARGE else name for name in FILES])
def test_a_bad_file_is_one_clear_line(name: str, idle: int, work: Path) -> None:
    path, make, code, message = FILES[name]
    data = make()
    Path(path).write_bytes(data)
    done = poolcli(work, "avg", path, *POOL)
    said = done.err
    expected = f"poolcli: {message}\n"
    if message.endswith("..."):  # then a library goes on in its own words
        expected = expected[:-4] + said[len(expected) - 4 :]
    assert (done.code, done.out, said) == (code, b"", expected)
    assert len(said.splitlines()) <= 3
    assert "Traceback" not in said
    assert Path(path).read_bytes() == data
    assert os.listdir() == [path]
    assert done.peak < idle + ALLOWANCE


BOMB = "when it is read, which may be a decompression bomb; to allow it, use --max-memory"
TOGETHER: dict[str, tuple[str, Callable[[], bytes], tuple[str, ...], str]] = {
    "more than 256 MiB, each less": ("x.npz",
        lambda: zipped({f"{i}.npy": npy("(1, 1, 4096, 4096)", bytes(2**26)) for i in range(5)}), (),
        f"x.npz: expands from 319 KiB to 320 MiB {BOMB}"),
    "more than the limit": ("x.npz",
        lambda: zipped({f"{i}.npy": npy("(1, 1, 1024, 1024)", bytes(2**22)) for i in range(5)}),
        ("--max-memory", "16M"), "x.npz: its 5 arrays need 25 MiB of memory together, but the limit is 16 MiB; raise "
        "--max-memory or take fewer with --dataset"),
    "more than 256 MiB of fill values": ("x.h5",
        lambda: hdf5(**{name: {"shape": (1, 2**13, 2**13), "dtype": "u2", "chunks": (1, 64, 64)} for name in "abc"}),
        (), f"x.h5: expands from 1.9 KiB to 384 MiB {BOMB}"),
}  # fmt: skip


@pytest.mark.parametrize("name", [slow(name) if name in LARGE else name for name in TOGETHER])
def test_arrays_that_are_too_large_together_are_refused(name: str, idle: int, work: Path) -> None:
    path, make, arguments, message = TOGETHER[name]
    Path(path).write_bytes(make())
    done = poolcli(work, "avg", path, "-o", f"y.{path}", "-k", "2", "-s", "2", "--all", *arguments)
    assert (done.code, done.err) == (1, f"poolcli: {message}\n")
    assert os.listdir() == [path]
    assert done.peak < idle + ALLOWANCE


GIVE = "give a .npy file: poolcli avg - ... < x.npy, or the name of the file"
STREAMS = {
    "no array": (b"", f"-: is not a .npy file (its first bytes are not those of one); {GIVE}"),
    "an image": (b"\x89PNG\r\n\x1a\n" + bytes(99), f"-: is a .png file; {GIVE}"),
    "more than the limit": (npy("(1, 1, 1024, 65536)"), "-: needs 352 MiB of memory, but the limit is 100 MiB; ..."),
    "nothing, of a shape that cannot be": (npy("(0, 1, 4611686018427387904, 4)"), "-: claims 64 EiB, ..."),
    "a header of 4 GiB": (b"\x93NUMPY\x02\x00" + b"\xff" * 4, f"-: {CUT}"),
    "less than it claims": (npy("(1, 1, 1024, 1024)", bytes(24)), "-: its header claims 4 MiB of data, ..."),
}


@pytest.mark.parametrize("name", [name if name.startswith("more than") else slow(name) for name in STREAMS])
def test_a_stream_is_read_no_further_than_it_is_worth(name: str, idle: int, work: Path) -> None:
    """What comes first is looked at first: an endless stream that begins with no header that is good ends at once."""
    head, message = STREAMS[name]
    (work.parent / "head").write_bytes(head)
    more = [] if name == "less than it claims" else ["/dev/zero"]
    with subprocess.Popen(["cat", "../head", *more], cwd=work, stdout=subprocess.PIPE) as stream:
        arguments = ["avg", "-", "-o", "y.npy", "-k", "2", "-s", "2", "--max-memory", "100M"]
        done = fresh(work, *arguments, timeout=60, stdin=stream.stdout)
        stream.kill()
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("poolcli: " + message.removesuffix("..."))
    assert os.listdir() == []
    assert done.peak < 100 * 1024 + ALLOWANCE


def test_a_message_names_its_file_once(cli: Cli, folder: Path) -> None:
    Path("x.npy").rename("a")
    large = "axis H is 6 long, kernel 200 without padding leaves no window; use --kernel 6 or --pads 97"
    assert cli("avg", "a", "-o", "y.npy", "-k", "200").err == f"poolcli: a: {large}\n"
    gone = cli("avg", "no\udcff.npy", "-o", "y.npy", "-k", "2")
    assert gone.err == "poolcli: no\\xff.npy: No such file or directory\n"
