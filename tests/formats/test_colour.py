"""Transparency and light: what a mean of colours is."""

from __future__ import annotations

from statistics import multimode
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli import AvgPool
from poolcli.engine import call_of
from poolcli.pooling.colour import pool_colours
from poolcli.pooling.outcome import Colour
from tests.conftest import Cli
from tests.formats.pictures import HALVE, halved, pixels

pytestmark = pytest.mark.usefixtures("here")


def test_a_transparent_pixel_does_not_bleed(cli: Cli) -> None:
    x = np.zeros((2, 4, 4), np.uint8)
    x[:, :2] = [[[255, 0, 0, 0], [10, 20, 30, 255]], [[255, 0, 0, 0], [20, 20, 31, 255]]]
    x[:, 2:] = [[[200, 100, 50, 128], [100, 0, 50, 64]], [[0, 0, 0, 0], [0, 0, 0, 0]]]
    Image.fromarray(x).save("x.png")
    result = cli("avg", "x.png", "-o", "y.png", *HALVE)
    assert "note     colours are weighted with alpha\n" in result.out
    y = np.asarray(Image.open("y.png"))
    expected = [[15, 20, 30, 128], [round((200 * 128 + 100 * 64) / 192), round(100 * 128 / 192), 50, 48]]
    assert y.tolist() == [expected]  # 30.5 goes to the even 30, an alpha of 127.5 to 128


@pytest.mark.parametrize("layout", ["HWD", "CHW", "HCW"])
def test_alpha_is_a_number_like_others_where_the_layout_has_no_channels_there(layout: str, cli: Cli) -> None:
    x = pixels(4, 6, 4)
    Image.fromarray(x).save("x.png")
    one = ("-k", "1", "-s", "1")
    result = cli("avg", "x.png", "-o", "y.npy", *one, "--layout", layout, "--output-layout", layout)
    assert (result.code, "weighted" in result.out) == (0, False)
    np.testing.assert_array_equal(np.load("y.npy"), x)
    moved = f"the axes of the file are HWC, and --layout reads them as {layout}"
    assert (moved in result.out) is (layout != "HWD")  # which names the last axis alone otherwise
    result = cli("avg", "x.png", "-o", "z.npy", *one, "--layout", layout, "--linear-light")
    assert (result.code, result.err) == (
        2,
        "poolcli: x.png: --linear-light is for averages of grey, RGB and RGBA images, in their own type and layout; "
        f"this is avg of mode RGBA and layout {layout} to uint8; leave it out\n",
    )


@pytest.mark.parametrize("layout", ["HWC", "WHC", "hwc"])
def test_colours_are_weighted_wherever_the_channels_are_named(layout: str, cli: Cli) -> None:
    x = pixels(4, 6, 4)
    Image.fromarray(x).save("x.png")
    assert "weighted" in cli("avg", "x.png", "-o", "y.npy", *HALVE, "--layout", layout).out
    assert cli("avg", "x.png", "-o", "w.npy", *HALVE, "-q").code == 0
    y = np.load("y.npy")
    np.testing.assert_array_equal(y.swapaxes(2, 3) if layout == "WHC" else y, np.load("w.npy"))


def test_an_opaque_picture_with_alpha_is_averaged_as_without(cli: Cli) -> None:
    x = pixels(8, 6, 4)
    x[..., 3] = 255
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "--json").json["notes"] == []
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), halved(x))


def test_weights_agree_with_a_slow_loop_also_across_parts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.pooling.colour.TILE_BYTES", 4096)
    x = pixels(40, 30, 4)
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", "-k", "3", "-s", "2", "-p", "1", "-q").code == 0
    y = np.asarray(Image.open("y.png")).astype(int)
    for i, j in np.ndindex(20, 15):
        window = x[max(0, 2 * i - 1) : 2 * i + 2, max(0, 2 * j - 1) : 2 * j + 2].reshape(-1, 4).astype(int).tolist()
        weight = sum(a for *_, a in window)
        expected = [round(sum(p[c] * p[3] for p in window) / weight) for c in range(3)]
        assert y[i, j].tolist() == [*expected, round(weight / len(window))]


def test_the_maximum_is_taken_channel_by_channel(cli: Cli) -> None:
    x = pixels(4, 4, 4)
    Image.fromarray(x).save("x.png")
    assert cli("max", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), x.reshape(2, 2, 2, 2, 4).max((1, 3)))


def test_linear_light_makes_a_checkerboard_as_bright_as_it_looks(cli: Cli) -> None:
    x = np.zeros((4, 4), np.uint8)
    x[::2, ::2] = x[1::2, 1::2] = 255
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    assert np.asarray(Image.open("y.png")).tolist() == [[128, 128], [128, 128]]
    result = cli("avg", "x.png", "-o", "z.png", *HALVE, "--linear-light")
    assert "note     averaged in linear light (sRGB curve)\n" in result.out
    assert np.asarray(Image.open("z.png")).tolist() == [[188, 188], [188, 188]]  # sRGB of one half is 187.5


@pytest.mark.parametrize("value", [0, 1, 10, 11, 128, 254, 255])
def test_linear_light_keeps_an_even_colour(value: int, cli: Cli) -> None:
    Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "--linear-light", "-q").code == 0
    assert (np.asarray(Image.open("y.png")) == value).all()


def averaged(x: np.ndarray[Any, Any], kernel: int) -> Any:
    """The averages of a picture of uint8 or uint16 with alpha, weighted with it."""
    plan = AvgPool(kernel, strides=kernel).plan(x.shape, x.dtype.name, layout="HWC")
    return pool_colours(lambda region, slab: call_of(region)(slab)[0], plan, x, Colour(weighted=True))


def test_a_pixel_that_is_hardly_there_keeps_its_colour() -> None:
    x = np.zeros((2, 2, 4), np.uint8)
    x[0, 1] = 200, 100, 50, 1  # the mean of alpha is 1/4, and 0 when it is rounded
    assert averaged(x, 2).tolist() == [[[200, 100, 50, 0]]]


def test_a_weighted_colour_just_above_a_half_is_rounded_up() -> None:
    x = np.zeros((2, 2, 4), np.uint16)
    x[..., 3] = [[65535, 65535], [65535, 65534]]
    x[0, :, :3] = 1  # two of almost four equal weights: 131070 / 262139
    assert averaged(x, 2).tolist() == [[[1, 1, 1, 65535]]]


@pytest.mark.compiles
def test_weighted_colours_half_way_go_to_the_even_number_at_every_weight() -> None:
    x = np.zeros((255, 3, 255, 3, 4), np.uint8)
    values, alphas = np.arange(255)[:, None, None], np.arange(1, 256)[None, :, None]
    x[:, 0, :, 0, :3], x[:, 1, :, 2, :3] = values, values + 1
    x[:, 0, :, 0, 3:] = x[:, 1, :, 2, 3:] = alphas
    y = averaged(x.reshape(765, 765, 4), 3)[..., :3]
    np.testing.assert_array_equal(y, np.broadcast_to(values + values % 2, y.shape))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA"])
def test_a_mode_of_colours_is_a_pixel_of_its_window(mode: str, cli: Cli) -> None:
    x = np.random.default_rng(5).integers(0, 2, (8, 12, {"RGB": 3, "RGBA": 4, "LA": 2}[mode]), "uint8") * 255
    Image.fromarray(x).save("p.png")
    result = cli("mode", "p.png", "-o", "y.npy", "-k", "3", "-s", "2", "--json")
    assert (result.code, "whole pixels vote" in result.json["notes"]) == (0, True)
    for (row, column), _ in np.ndenumerate(np.empty((3, 5))):
        window = [tuple(pixel) for pixel in x[2 * row :, 2 * column :][:3, :3].reshape(-1, x.shape[-1]).tolist()]
        expected = min(multimode(window))
        assert tuple(np.load("y.npy")[0, :, row, column][: len(expected)].tolist()) == expected


def test_deep_pixels_vote_whole_in_a_wider_type(cli: Cli) -> None:
    first, other = [65535, 1, 2, 65535], [65535, 1, 3, 0]
    tifffile.imwrite("x.tif", np.array([[first, other], [other, first]], "uint16"), photometric="rgb", extrasamples=[2])
    result = cli("mode", "x.tif", "-o", "y.npy", "-k", "2", "--dtype", "int64")
    assert result.code == 0, result.err
    assert (np.load("y.npy").ravel().tolist(), np.load("y.npy").dtype) == (first, np.int64)
