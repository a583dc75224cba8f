"""Whatever goes wrong with a file, a message names only options that the command has which says it."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from poolcli.cli.line import HELP, own_flags
from poolcli.cli.program import COMMANDS, load_command
from poolcli.formats import checks
from poolcli.suggestions import ALIASES, FLAGS
from tests.cli.test_mistakes import FOUND
from tests.conftest import SAMPLES, Cli

OPTION = re.compile(r"(?<![\w/,-])--?[a-z][a-z-]*")
MODEL = SAMPLES / "backbone.xml"


def hdf5(name: str, **options: object) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_dataset(name, **options)


def several() -> None:
    for name in ("input", "output"):
        with h5py.File("x.h5", "a") as file:
            file[name] = np.zeros((1, 1, 4, 4), np.float32)


def virtual() -> None:
    layout = h5py.VirtualLayout((1, 1, 6, 8), "f4")
    layout[:] = h5py.VirtualSource("y.h5", "v", (1, 1, 6, 8))
    with h5py.File("x.h5", "w") as file:
        file.create_virtual_dataset("input", layout)


def zip_bomb() -> None:
    np.savez_compressed("x.npz", input=np.zeros((1, 1, 40, 40), np.float32))


def huge_picture() -> None:
    head = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + b"\0\0\0\0IDAT"
    Path("x.png").write_bytes(data)


def pages() -> None:
    Image.new("L", (8, 6)).save("x.tif", save_all=True, append_images=[Image.new("L", (8, 6), 1)])


FILES: dict[str, tuple[str, Callable[[], object]]] = {
    "several arrays": ("x.h5", several),
    "an array that is not there": ("x.h5:c", several),
    "a dataset made of others": ("x.h5", virtual),
    "data in another file": ("x.h5", lambda: hdf5("input", shape=(4, 4), dtype="f4", external="/etc/passwd")),
    "data that grows": (
        "x.h5", lambda: hdf5("input", shape=(1, 1, 40, 40), dtype="f4", chunks=(1, 1, 8, 8), compression=1)
    ),
    "a zip file that grows": ("x.npz", zip_bomb),
    "a huge picture": ("x.png", huge_picture),
    "several pages": ("x.tif", pages),
    "no array": ("x.bin", lambda: Path("x.bin").write_bytes(bytes(64))),
    "a model": ("x.xml", lambda: Path("x.xml").write_bytes(MODEL.read_bytes())),
    "two axes": ("a.npy", lambda: np.save("a.npy", np.zeros((4, 4), np.float32))),
    "truths": ("a.npy", lambda: np.save("a.npy", np.zeros((1, 1, 4, 4), bool))),
    "complex numbers": ("a.npy", lambda: np.save("a.npy", np.zeros((1, 1, 4, 4), complex))),
    "no elements": ("a.npy", lambda: np.save("a.npy", np.zeros((1, 1, 0, 4)))),
    "a folder": ("in", lambda: Path("in").mkdir()),
    "nothing": ("nowhere.npy", lambda: None),
}  # fmt: skip
LINES = (
    *(f"{op} {{}} -o out/y.npy -k 2 --engine numpy" for op in ("avg", "max")),
    "adaptive-avg {} -o out/y.npy --output-size 2 --engine numpy",
    "pyramid {} -o out.ome.zarr --engine numpy",
    "shape avg {} -k 2",
    "shape max {} --solve 4 -k 2",
    "compare {} x.npy",
    "compare x.npy {}",
    "identify {} x.npy",
    "identify x.npy {}",
    "info {}",
    "check {}",
    f"check {MODEL} --layer stem --run {{}}",
)  # fmt: skip


def unknown_options(command: str, message: str) -> set[str]:
    """The options in a message that the command does not have."""
    known = {*HELP, *own_flags(load_command(command).params), *(f"--{flag}" for flag in (*FLAGS, *ALIASES))}
    return set(OPTION.findall(message)) - known


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), FILES.values(), ids=FILES)
def test_every_command_answers_a_bad_file_in_one_line_with_options_of_its_own(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Callable[[], object]
) -> None:
    monkeypatch.setattr(checks, "FREE_EXPANSION", 100)
    monkeypatch.setattr(checks, "MAX_EXPANSION_RATIO", 5)
    make()
    for line in LINES:
        result = cli(*line.format(name).split())
        said = f"poolcli {line.format(name)}\n{result.err}"
        assert result.code in (0, 1, 2), said
        assert len(result.err.splitlines()) <= 1, said
        assert result.err or not result.code or result.out, said
        assert unknown_options(line.split()[0], result.err) == set(), said


@pytest.mark.parametrize("command", COMMANDS)
def test_messages_of_the_table_name_options_of_the_command_that_says_them(command: str) -> None:
    for typed, _, message in FOUND:
        if typed.split()[0] == command:
            remedy = message.partition("; ")[2]
            assert "poolcli" in remedy or unknown_options(command, remedy) == set(), f"{typed}\n{message}"
