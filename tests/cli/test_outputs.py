"""Outputs that cannot be: a full disk, places that are taken or forbidden; one clear line, and nothing is touched."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.cli.bad_files import X, image, npy
from tests.cli.folders import poolcli
from tests.conftest import Cli
from tests.profiles import slow


@pytest.mark.parametrize("suffix", ["npy", "h5", slow("png"), slow("npz"), slow("tiff"), slow("jpg")])
def test_a_disk_that_is_full_costs_the_output_and_a_line(
    suffix: str, cli: Cli, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # half a module would be taken for a whole one
    if suffix in ("npy", "npz", "h5"):
        np.save("x.npy", np.random.default_rng(0).random((1, 1, 128, 128)))
        source = "x.npy"
    else:
        Path("x.png").write_bytes(image("PNG", size=(200, 150)))
        source = "x.png"
    before = Path(source).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
    try:
        result = cli("avg", source, "-o", f"y.{suffix}", "-k", "1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (result.code, result.err) == (1, f"poolcli: {source}: y.{suffix}: File too large\n")
    assert os.listdir() == [source]
    assert Path(source).read_bytes() == before


PLACES: dict[str, tuple[Callable[[], object], list[str], int, str]] = {
    "the output's folder is a file": (
        lambda: Path("file").touch(), ["-o", "file/y.npy"], 1,
        "x.npy: {here}/file: is a file, and a folder is needed there",
    ),
    "the output is a folder that is there": (lambda: os.mkdir("y.npy"), ["-o", "y.npy"], 0, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_outputs_that_cannot_be_are_one_clear_line(name: str, work: Path) -> None:
    prepare, arguments, code, message = PLACES[name]
    np.save("x.npy", X)
    prepare()
    before = Path("x.npy").read_bytes()
    done = poolcli(work, "avg", "x.npy", "-k", "2", "-q", *arguments)
    assert (done.code, done.out) == (code, b"")
    assert done.err == (f"poolcli: {message}\n".format(here=work) if message else "")
    assert Path("x.npy").read_bytes() == before


KIB = 2**10
REMEDY = "make it smaller, or use another --output"
HELD = "is held in memory, whose limit is 768 MiB; change --{}, or raise --max-memory"
# The free space in bytes, what is asked of a tensor of 2 channels of float32, and what is larger than the free space.
TOO_LARGE: dict[str, tuple[int, str, str]] = {
    "a tensor": (32 * KIB - 1, "adaptive-avg x.npy -o new/y.npy --output-size 64", "is 32 KiB, more than the 32 KiB"),
    "a dry run": (32 * KIB - 1, "adaptive-avg x.npy -o y.npy --output-size 64 -n", "is 32 KiB, more than the 32 KiB"),
    "with its indices": (
        64 * KIB, "adaptive-max x.npy -o y.npy --output-size 64 --indices at.npy", "is 96 KiB, more than the 64 KiB",
    ),
    "a format that compresses": (
        655, "adaptive-avg x.npy -o y.npz --output-size 64", "takes at least 656 B, more than the 655 B",
    ),
    "a format that may": (9999, "adaptive-avg x.npy -o y.h5 --output-size 64", "is 32 KiB, more than the 9.76 KiB"),
    "another that may": (9999, "adaptive-avg x.npy -o y.tif --output-size 64", "is 32 KiB, more than the 9.76 KiB"),
    "an input that it keeps": (
        655, "adaptive-avg x.h5 -o y.h5 --output-size 64", "takes at least 656 B, more than the 655 B",
    ),
    "more than a file can have": (
        2**36, "adaptive-avg x.npy -o y.npy --output-size 576460752", "is 2.31 EiB, more than the 64 GiB",
    ),
    "beyond memory": (
        2**40, "adaptive-max x.npy -o y.npz --output-size 20000", f"is 2.98 GiB and {HELD.format('output-size')}",
    ),
    "padded": (2**40, "sum x.npy -o y.tif -k 2 --pads-end 20050", f"is 3 GiB and {HELD.format('strides or --pads')}"),
    "a pyramid": (
        9, "pyramid x.npy -o y.ome.zarr --levels 2", "takes at least 10 B, more than the 9 B",
    ),
}  # fmt: skip


def with_free(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 2**40) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (total, total - free, free))


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_result_larger_than_the_free_space_is_refused(
    name: str, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, command, found = TOO_LARGE[name]
    with_free(monkeypatch, free)
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", data=np.load("x.npy"), compression="gzip")
    before = sorted(os.listdir())
    result = cli(*command.split())
    path = "at.npy" if "--indices" in command else command.split("-o ")[1].split()[0]
    why = "" if "memory" in found else f" that are free where {path} is written; {REMEDY}"
    line = f"poolcli: {command.split()[1]}: the result {found}{why}\n"
    assert (result.code, result.out, result.err) == (2, "", line)
    assert sorted(os.listdir()) == before


def test_a_header_that_claims_too_much_is_the_fault_of_the_input(
    cli: Cli, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(npy("(1, 1, 1048576, 1048576)"))))
    done = cli("avg", "-", "-o", "y.npy", "-k", "2")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("poolcli: -: needs 8 TiB of memory, but the limit is ")


@pytest.mark.parametrize(("kernel", "said"), [("9", "axis H is 4 long, kernel 9"), ("2", "y.npy exists; use --ov")])
def test_a_stream_is_judged_before_what_exists(
    kernel: str, said: str, cli: Cli, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(npy("(1, 1, 4, 4)", b"x" * 64))))
    Path("y.npy").touch()
    assert cli("avg", "-", "-o", "y.npy", "-k", kernel).err.startswith(f"poolcli: -: {said}")


@pytest.mark.parametrize(
    ("free", "total", "output"),
    [(32 * KIB, 2**40, "y.npy"), (656, 2**40, "y.npz"), (0, 0, "y.npy"), (0, 2**40, "-")],
    ids=["it just fits", "it fits if compressed", "a drive that does not say", "no file"],
)
def test_a_result_that_may_fit_is_written(
    free: int, total: int, output: str, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, free, total)
    result = cli("adaptive-avg", "x.npy", "-o", output, "--output-size", "64", "-n")
    assert (result.code, result.out.splitlines()[-1]) == (
        0, "dry run: nothing was written; the result would be 32 KiB",
    )  # fmt: skip
