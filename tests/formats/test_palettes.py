"""Images with a palette: classes vote by their indices, and outputs that can hold the palette keep it."""

from __future__ import annotations

from statistics import multimode
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
# The second class has the smallest colour, so that ties by colour and by index differ.
COLOURS = [200, 0, 0, 0, 0, 9, 0, 200, 0, 9, 9, 200]
X = np.random.default_rng(4).integers(0, 4, (8, 12), "uint8")
SIZE = ("-k", "2", "-s", "2")
HOLD = ("png", "gif", "tif", "bmp")


def save(name: str, **more: Any) -> None:
    picture = Image.fromarray(X)
    picture.putpalette(COLOURS)
    picture.save(name, **more)


def votes(missing: int = 99) -> Any:
    """The index of each window that is most frequent, of equally frequent ones the smallest."""
    windows = X.reshape(4, 2, 6, 2).transpose(0, 2, 1, 3).reshape(24, 4).tolist()
    voters = ([each for each in window if each != missing] or [missing] for window in windows)
    return np.array([min(multimode(each)) for each in voters]).reshape(4, 6)


@pytest.mark.parametrize("target", HOLD)
@pytest.mark.parametrize("source", HOLD)
def test_indices_vote_and_the_palette_is_kept(source: str, target: str, cli: Cli) -> None:
    save(f"x.{source}")
    notes = cli("mode", f"x.{source}", "-o", f"y.{target}", *SIZE, "--json").json["notes"]
    assert notes[0] == "the indices of the palette vote"
    with Image.open(f"y.{target}") as made:
        assert made.mode == "P"
        found, palette = np.asarray(made), made.getpalette()
    np.testing.assert_array_equal(found, votes())
    assert palette is not None
    assert palette[:12] == COLOURS
    if target == "tif":
        with tifffile.TiffFile("y.tif") as file:
            page: Any = file.pages.first
            assert page.photometric.name == "PALETTE"
            np.testing.assert_array_equal(page.colormap.T[:4].reshape(-1) >> 8, COLOURS)
            np.testing.assert_array_equal(page.asarray(), votes())


@pytest.mark.parametrize("source", HOLD)
def test_tensors_and_pyramids_get_the_indices(source: str, cli: Cli) -> None:
    save(f"x.{source}")
    assert cli("mode", f"x.{source}", "-o", "y.npy", *SIZE).code == 0
    np.testing.assert_array_equal(np.load("y.npy"), votes()[None, None])
    assert cli("pyramid", f"x.{source}", "-o", "y.ome.zarr", "--op", "mode", "--levels", "2").code == 0
    level: Any = zarr.open("y.ome.zarr/1", mode="r")
    np.testing.assert_array_equal(level[...].reshape(4, 6), votes())


@pytest.mark.parametrize("op", ["max", "avg"])
def test_other_operators_pool_colours(op: str, cli: Cli) -> None:
    save("x.png")
    assert cli(op, "x.png", "-o", "y.npy", *SIZE).code == 0
    assert np.load("y.npy").shape == (1, 3, 4, 6)
    note = "palette expanded to RGB; if its colours are classes, use poolcli mode"
    assert cli(op, "x.png", "-o", "y.png", *SIZE, "--json").json["notes"] == [note]


@pytest.mark.parametrize(("transparent", "name", "lost"), [
    (1, "y.png", False), (1, "y.gif", False), (1, "y.tif", True),
    (b"\x00\x80\xff", "y.png", False), (b"\x00\x80\xff", "y.gif", True),
])  # fmt: skip
def test_transparent_colours_stay_or_are_said(transparent: Any, name: str, lost: bool, cli: Cli) -> None:
    save("x.png", transparency=transparent)
    notes = cli("mode", "x.png", "-o", name, *SIZE, "--json").json["notes"]
    assert ("not kept: transparency of the palette" in notes) == lost
    with Image.open(name) as made:
        assert made.info.get("transparency") == (None if lost else transparent)
        np.testing.assert_array_equal(np.asarray(made), votes())


def test_another_type_is_no_index(cli: Cli) -> None:
    save("x.png")
    notes = cli("mode", "x.png", "-o", "y.tif", "--dtype", "float32", *SIZE, "--json").json["notes"]
    assert "not kept: palette (the output holds no indices of it)" in notes
    np.testing.assert_array_equal(tifffile.imread("y.tif"), votes())


@pytest.mark.parametrize("grey", [False, True], ids=["palette", "table of GDAL beside grey"])
def test_sixteen_bits_of_a_palette_are_kept_and_missing_indices_do_not_vote(grey: bool, cli: Cli) -> None:
    table = np.random.default_rng(1).integers(0, 65536, (3, 256), "uint16")
    colours: Any = {} if grey else {"photometric": "palette", "colormap": table}
    more = [(320, 3, 768, table.reshape(-1).tolist(), True)] if grey else []
    tifffile.imwrite("x.tif", X, **colours, extratags=[(42113, 2, 2, b"0", True), *more], metadata=None)
    notes = cli("max", "x.tif", "-o", "z.tif", *SIZE, "--json").json["notes"]
    assert ("not kept: palette (the output holds no indices of it)" in notes) == grey
    assert cli("mode", "x.tif", "-o", "y.tif", *SIZE).code == 0
    with tifffile.TiffFile("y.tif") as file:
        page = file.pages.first
        np.testing.assert_array_equal(page.colormap, table)
        np.testing.assert_array_equal(page.asarray(), votes(0))


def test_a_layout_of_colours_asks_for_colours(cli: Cli) -> None:
    save("x.png")
    for layout, channels in (("HWC", 3), ("HW", 1)):
        assert cli("mode", "x.png", "-o", "y.npy", "--layout", layout, *SIZE, "--overwrite").code == 0
        assert np.load("y.npy").size == 24 * channels


def test_frames_are_pooled_by_their_colours(cli: Cli) -> None:
    """Each may have a palette of its own."""
    frames = [Image.fromarray(np.full((4, 4), index, np.uint8)) for index in (1, 2)]
    for frame in frames:
        frame.putpalette(COLOURS)
    frames[0].save("x.gif", save_all=True, append_images=frames[1:])
    assert cli("mode", "x.gif", "-o", "y.npy", *SIZE).code == 0
    assert np.load("y.npy").shape[:2] == (2, 4)
