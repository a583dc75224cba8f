"""`--rescale`: floats into pictures, where that is asked for, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import Cli


def pixels(name: str) -> list[list[int]]:
    with Image.open(name) as image:
        return np.asarray(image).tolist()  # type: ignore[no-any-return]  # rows of numbers


@pytest.fixture
def line(folder: Path) -> str:
    """Averages of it by two are -1, 0, nan, inf, 3."""
    np.save("line.npy", np.array([[[-2, 0, -1, 1, np.nan, 0, np.inf, 0, 2, 4]]], np.float32))
    return "line.npy"


@pytest.mark.parametrize(
    ("typed", "row", "note"),
    [
        (["--rescale"], [0, 64, 0, 255, 255], "-1 to 3 became 0 to 255; 1 clipped; 1 NaN became 0"),
        (["--rescale", "-1,1"], [0, 128, 0, 255, 255], "-1 to 1 became 0 to 255; 2 clipped; 1 NaN became 0"),
        (["--rescale=0,1e1"], [0, 0, 0, 255, 76], "0 to 10 became 0 to 255; 2 clipped; 1 NaN became 0"),
    ],
)
def test_the_ends_become_black_and_white_and_the_report_says_so(
    typed: list[str], row: list[int], note: str, cli: Cli, line: str
) -> None:
    done = cli("avg", line, "-k", "1,2", "-s", "1,2", "--layout", "NHW", "-o", "o.png", *typed, columns=120)
    assert (done.code, done.err) == (0, "")
    assert pixels("o.png") == [row]
    assert f"note     rescaled: {note}\n" in done.out


def test_without_it_floats_are_refused_with_this_remedy(cli: Cli, folder: Path) -> None:
    np.save("rgb.npy", np.zeros((1, 3, 4, 4), np.float32))
    done = cli("max", "rgb.npy", "-k", "2", "-o", "o.png")
    assert (done.code, done.err) == (2, (
        "poolcli: rgb.npy: png cannot hold 3 channels of float32; "
        "use .tiff, .npy, .npz or .h5, or --rescale for 8 bits\n"
    ))  # fmt: skip
    np.save("ct.npy", np.zeros((1, 1, 4, 4), np.int16))
    assert cli("max", "ct.npy", "-k", "2", "-o", "o.png").err.endswith(
        "(x.astype('uint16')); for 8 bits to look at, --dtype float32 --rescale\n"
    )
    assert cli("max", "ct.npy", "-k", "2", "-o", "o.png", "--dtype", "float32", "--rescale").code == 0
    for channels in (4, 7):  # four would become colours and their transparency
        np.save("many.npy", np.zeros((1, channels, 4, 4), np.float32))
        assert cli("max", "many.npy", "-k", "2", "-o", "o.png").err == (
            f"poolcli: many.npy: png cannot hold {channels} channels of float32; use .tiff, .npy, .npz or .h5\n"
        )


def test_a_result_that_is_put_together_from_parts_is_rescaled_as_a_whole(cli: Cli, folder: Path) -> None:
    x = np.zeros((1, 1, 4096, 4096), np.float32)
    x[..., -1, -1] = 0.5
    np.save("large.npy", x)
    pool = ("max", "large.npy", "-k", "64", "-s", "64", "--rescale", "-q", "--engine", "numpy")
    assert cli(*pool, "-o", "parts.png", "--max-memory", "40M").code == 0
    assert [value for row in pixels("parts.png") for value in row] == [0] * (64 * 64 - 1) + [255]


def test_a_constant_is_black_and_indices_stay_what_they_are(cli: Cli, folder: Path) -> None:
    np.save("flat.npy", np.full((1, 1, 4, 4), 7.5))
    done = cli("max", "flat.npy", "-k", "2", "-s", "2", "-o", "o.png", "--indices", "i.npy", "--rescale", "-q")
    assert (done.code, done.err) == (0, "")
    assert pixels("o.png") == [[0, 0], [0, 0]]
    assert np.load("i.npy").tolist() == [[[[0, 2], [8, 10]]]]


def test_the_whole_range_of_a_type_and_signalling_nan_are_rescaled(cli: Cli, folder: Path) -> None:
    np.save("wide.npy", np.array([[[[-1.7e308, 0, 0.85e308, 1.7e308]]]]))
    np.save("signalling.npy", np.array([[[[0x7FA00000, 0, 0x3F800000, 0x3F000000]]]], np.uint32).view(np.float32))
    for name, row in (("wide", [0, 128, 191, 255]), ("signalling", [0, 0, 255, 128])):
        done = cli("max", f"{name}.npy", "-k", "1", "-o", f"{name}.png", "--rescale", "-q")
        assert (done.code, done.err) == (0, "")
        assert pixels(f"{name}.png") == [row]
