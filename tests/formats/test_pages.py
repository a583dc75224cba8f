"""Pictures of several pages or frames: which are read, what a GIF keeps of them, and that it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageSequence

from poolcli.formats import Source, read
from poolcli.formats.image.write import GIF_NOTE
from poolcli.formats.records import Metadata
from tests.conftest import Cli
from tests.formats.arrays import write
from tests.formats.pictures import HALVE, halved, pixels

pytestmark = pytest.mark.usefixtures("here")


def animation(name: str, frames: int = 3, mode: str = "RGB") -> list[Any]:
    pages = [pixels(4, 6, len(mode) if mode != "L" else 1) for _ in range(frames)]
    if mode == "RGBA":
        for page in pages:
            page[..., 3] = 255
    pictures = [Image.fromarray(page) for page in pages]
    options: dict[str, Any] = {} if name.endswith("tiff") else {"duration": [100, 200, 300][:frames]}
    if name.endswith("webp"):
        options["lossless"] = True
    pictures[0].save(name, save_all=True, append_images=pictures[1:], **options)
    return pages


@pytest.mark.parametrize("suffix", ["tiff", "png", "webp"])
def test_all_pages_are_pooled_and_kept(suffix: str, cli: Cli) -> None:
    pages = animation(f"x.{suffix}")
    assert cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        assert getattr(made, "n_frames", 1) == 3
        for i, page in enumerate(pages):
            made.seek(i)
            np.testing.assert_array_equal(np.asarray(made.convert("RGB")), halved(page))
            assert made.info.get("duration", 0) == (0 if suffix == "tiff" else (i + 1) * 100)


def test_pages_can_be_chosen(cli: Cli) -> None:
    pages = animation("x.tiff")
    assert cli("avg", "x.tiff", "-o", "two.npy", *HALVE, "--pages", "2-3", "-q").code == 0
    two = np.load("two.npy")
    assert two.shape == (2, 3, 2, 3)
    np.testing.assert_array_equal(two[1].transpose(1, 2, 0), halved(pages[2]))
    result = cli("avg", "x.tiff", "-o", "one.jpg", *HALVE, "--pages", "2")
    assert "page 2 of 3 is read" in result.out


def test_of_pages_of_different_sizes_the_first_of_the_largest_is_read(cli: Cli) -> None:
    small, large = Image.new("L", (4, 4)), Image.new("L", (8, 6), 3)
    small.save("x.tiff", save_all=True, append_images=[large, Image.new("L", (6, 8))])
    result = cli("avg", "x.tiff", "-o", "y.npy", *HALVE)
    assert "note     page 2 of 3 is read, the first of full size; --pages (and" in result.out
    np.testing.assert_array_equal(np.load("y.npy"), np.full((1, 1, 3, 4), 3))
    result = cli("avg", "x.tiff", "-o", "z.npy", *HALVE, "--pages", "all")
    assert (result.code, result.err) == (
        1,
        "poolcli: x.tiff: page 2 is 8 x 6 (MINISBLACK uint8), page 1 is 4 x 4 (MINISBLACK uint8); take pages of one "
        "size and kind with --pages 1\n",
    )
    assert cli("avg", "x.tiff", "-o", "z.npy", *HALVE, "--pages", "3", "-q").code == 0


FULL: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "COG": ("page 1 of 3", [{}, {"subfiletype": 1}, {"subfiletype": 1}]),
    "copy of the same size": ("page 1 of 2", [{}, {"subfiletype": 1, "same": True}]),
    "thumbnail first": ("page 2 of 2", [{"subfiletype": 1}, {}]),
    "pyramid without a word": ("page 1 of 3", [{}, {"half": True}, {"half": True}]),
    "other type": ("page 1 of 2", [{}, {"dtype": "uint16"}]),
    "a type that Pillow does not know": ("page 1 of 2", [{}, {"dtype": "float64"}]),
}


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("name", FULL)
def test_the_first_page_of_full_size_is_read_and_said(name: str, dtype: str, cli: Cli) -> None:
    said, pages = FULL[name]
    full = np.arange(48).reshape(6, 8)
    with tifffile.TiffWriter("x.tif") as file:
        for page in pages:
            kind = page.get("subfiletype", 0)
            small = (kind or "half" in page) and "same" not in page
            x = (np.zeros((3, 4)) if small else full + kind).astype(page.get("dtype", dtype))
            file.write(x, subfiletype=kind, metadata=None)
    result = cli("avg", "x.tif", "-o", "y.npy", "-k", "1")
    assert f"note     {said} is read, the first of full size; --pages (and" in result.out
    np.testing.assert_array_equal(np.load("y.npy")[0, 0], full)


def test_pages_whose_alpha_has_another_meaning_are_refused(cli: Cli) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        for kind in ("unassalpha", "assocalpha"):
            file.write(pixels(4, 6, 4), photometric="rgb", extrasamples=[kind], metadata=None)
    said = "poolcli: x.tif: page 2 has other samples; take one with --pages 1\n"
    assert cli("avg", "x.tif", "-o", "y.npy", *HALVE).err == said


def test_of_a_jpeg_with_further_views_the_first_is_read(cli: Cli) -> None:
    first, other = Image.new("RGB", (8, 8), (200, 200, 200)), Image.new("RGB", (4, 4))
    first.save("x.mpo", save_all=True, append_images=[other])
    result = cli("avg", "x.mpo", "-o", "y.jpg", *HALVE)
    assert "note     page 1 of 2 is read\n" in result.out
    with Image.open("y.jpg") as made:
        assert (made.format, made.size, made.getpixel((0, 0))) == ("JPEG", (4, 4), (200, 200, 200))


RNG = np.random.default_rng(3)
FEW = RNG.integers(0, 256, (40, 3), np.uint8)[RNG.integers(0, 40, (3, 6, 8))]  # three frames of 40 colours
MANY = RNG.integers(0, 256, (2, 40, 50, 3), np.uint8)


def held() -> tuple[Any, list[Any], object]:
    """Frames as RGBA, their durations, and the loop."""
    with Image.open("x.gif") as image:
        loop = image.info.get("loop")
        frames = [(np.array(f.convert("RGBA")), f.info.get("duration")) for f in ImageSequence.Iterator(image)]
    return np.stack([frame for frame, _ in frames]), [duration for _, duration in frames], loop


def with_alpha(colours: Any, alpha: Any) -> Any:
    return np.concatenate([colours, np.broadcast_to(alpha, (*colours.shape[:-1], 1)).astype(np.uint8)], -1)


def test_frames_of_few_colours_are_kept_to_the_last_bit() -> None:
    beside = Metadata(image={"duration": [50, 100, 200], "loop": 0})
    assert write("x.gif", FEW, "NHWC", metadata=beside) == (GIF_NOTE,)
    frames, durations, loop = held()
    np.testing.assert_array_equal(frames, with_alpha(FEW, 255))
    assert (durations, loop) == ([50, 100, 200], 0)


@pytest.mark.parametrize("colours", [FEW, FEW[:1]], ids=["frames", "one picture"])
def test_holes_stay_holes(colours: Any) -> None:
    pages = with_alpha(colours, 255 * RNG.integers(0, 2, (*colours.shape[:-1], 1)))
    assert write("x.gif", pages, "NHWC") == (GIF_NOTE,)
    expected = np.where(pages[..., 3:] > 0, pages, 0)
    frames = held()[0]
    np.testing.assert_array_equal(np.where(frames[..., 3:] > 0, frames, 0), expected)


def test_grey_is_kept_with_all_its_256_values() -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert write("x.gif", grey, "HW") == ()
    with Image.open("x.gif") as image:
        np.testing.assert_array_equal(np.array(image.convert("L")), grey)


def test_what_a_gif_cannot_hold_is_said_and_near() -> None:
    pages = with_alpha(MANY, RNG.integers(0, 256, (*MANY.shape[:-1], 1)))
    notes = write("x.gif", pages, "NHWC", metadata=Metadata(image={"duration": [33, 40]}))
    assert notes == (GIF_NOTE,)
    frames, durations, _ = held()
    assert durations == [30, 40]
    np.testing.assert_array_equal(frames[..., 3] > 0, pages[..., 3] > 127)
    seen = frames[..., 3] > 0
    assert abs(frames[..., :3].astype(int) - MANY)[seen].mean() < 20


@pytest.mark.parametrize("loop", [None, 0, 3])
def test_a_gif_becomes_a_gif(loop: int | None, cli: Cli) -> None:
    frames = [Image.fromarray(frame) for frame in FEW]
    more: Any = {} if loop is None else {"loop": loop}
    frames[0].save("in.gif", save_all=True, append_images=frames[1:], duration=[20, 40, 60], **more)
    result = cli("max", "in.gif", "-o", "x.gif", *HALVE)
    assert result.code == 0, result.err
    made, durations, found = held()
    assert (made.shape, durations, found) == ((3, 3, 4, 4), [20, 40, 60], loop)
    expected = read(Source("in.gif")).array.reshape(3, 3, 2, 4, 2, 4).max((2, 4))
    np.testing.assert_array_equal(made, expected)


def test_one_frame_of_several_has_no_duration_and_uneven_ones_are_said(cli: Cli) -> None:
    frames = [Image.fromarray(frame) for frame in FEW]
    frames[0].save("in.webp", save_all=True, append_images=frames[1:], duration=[15, 25, 40], lossless=True)
    deep = ("--layout", "DHWC", "-k", "3,1,1", "--output-layout", "HWC")
    assert cli("max", "in.webp", "-o", "x.gif", *deep, "-q").err == ""
    assert len(held()[1]) == 1
    assert GIF_NOTE in cli("max", "in.webp", "-o", "y.gif", *HALVE, columns=200).out
