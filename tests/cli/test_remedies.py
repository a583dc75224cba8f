"""Whatever goes wrong with a file, a message names only options that the command has which says it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from poolcli.cli.program import COMMANDS, load_command
from poolcli.cli.values import HELP, own_flags
from poolcli.suggestions import ALIASES, FLAGS
from tests.cli import bad_files
from tests.cli.test_mistakes import FOUND
from tests.conftest import SAMPLES, Cli

OPTION = re.compile(r"(?<![\w/,-])--?[a-z][a-z-]*")
MODEL = SAMPLES / "backbone.xml"


def several() -> None:
    for name in ("input", "output"):
        with h5py.File("x.h5", "a") as file:
            file[name] = np.zeros((1, 1, 4, 4), np.float32)


def virtual() -> None:
    layout = h5py.VirtualLayout((1, 1, 6, 8), "f4")
    layout[:] = h5py.VirtualSource("y.h5", "v", (1, 1, 6, 8))
    with h5py.File("x.h5", "w") as file:
        file.create_virtual_dataset("input", layout)


def pages() -> None:
    Image.new("L", (8, 6)).save("x.tif", save_all=True, append_images=[Image.new("L", (8, 6), 1)])


def of_the_catalogue(name: str) -> tuple[str, Callable[[], object]]:
    path, make, _, _ = bad_files.FILES[name]
    return path, lambda: Path(path).write_bytes(make())


CATALOGUE = (
    "hdf5: external storage", "hdf5: fill values by the terabyte", "image: PNG bomb", "npy: complex",
    "npy: an empty axis", "npz: members that are no arrays",
)  # fmt: skip
FILES: dict[str, tuple[str, Callable[[], object]]] = {name: of_the_catalogue(name) for name in CATALOGUE} | {
    "several arrays": ("x.h5", several),
    "an array that is not there": ("x.h5:c", several),
    "a dataset made of others": ("x.h5", virtual),
    "several pages": ("x.tif", pages),
    "no array": ("x.bin", lambda: Path("x.bin").write_bytes(bytes(64))),
    "a model": ("x.xml", lambda: Path("x.xml").write_bytes(MODEL.read_bytes())),
    "two axes": ("a.npy", lambda: np.save("a.npy", np.zeros((4, 4), np.float32))),
    "truths": ("a.npy", lambda: np.save("a.npy", np.zeros((1, 1, 4, 4), bool))),
    "a folder": ("in", lambda: Path("in").mkdir()),
    "nothing": ("nowhere.npy", lambda: None),
}


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
    cli: Cli, folder: Path, name: str, make: Callable[[], object]
) -> None:
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
            remedy = re.sub("unpack it: [^;]+", "", message.partition("; ")[2])  # by other programs
            assert "poolcli" in remedy or unknown_options(command, remedy) == set(), f"{typed}\n{message}"
