"""Pictures of several pages or frames: which are read, and that it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.conftest import Cli
from tests.formats.pictures import HALVE, halved, pixels


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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


PAGE_REFUSALS = {
    "format of one picture": (
        ["-o", "y.jpg"],
        "a jpeg file holds one image, but the result has N=3; use .tiff, .png, .webp, .npy, .npz or .h5, or take one "
        "image with --pages 1",
    ),
    "page that is not there": (
        ["-o", "y.npy", "--pages", "4"],
        "has 3 pages, but --pages asks for 4; they count from 1 to 3",
    ),
    "no number": (
        ["-o", "y.npy", "--pages", "x"],
        "--pages is 'x'; write all, a page such as 1, or a range such as 2-5",
    ),
}


@pytest.mark.parametrize("name", PAGE_REFUSALS)
def test_pages_that_cannot_be_are_refused(name: str, cli: Cli) -> None:
    arguments, message = PAGE_REFUSALS[name]
    animation("x.tiff")
    result = cli("avg", "x.tiff", *HALVE, *arguments)
    assert (result.code, result.err) == (2, f"poolcli: x.tiff: {message}\n")


def test_of_pages_of_different_sizes_the_first_of_the_largest_is_read(cli: Cli) -> None:
    small, large = Image.new("L", (4, 4)), Image.new("L", (8, 6), 3)
    small.save("x.tiff", save_all=True, append_images=[large, Image.new("L", (6, 8))])
    result = cli("avg", "x.tiff", "-o", "y.npy", *HALVE)
    assert "note     page 2 of 3 is read, the first of full size; --pages takes others\n" in result.out
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
    assert f"note     {said} is read, the first of full size; --pages takes others\n" in result.out
    np.testing.assert_array_equal(np.load("y.npy")[0, 0], full)


def test_of_a_jpeg_with_further_views_the_first_is_read(cli: Cli) -> None:
    first, other = Image.new("RGB", (8, 8), (200, 200, 200)), Image.new("RGB", (4, 4))
    first.save("x.mpo", save_all=True, append_images=[other])
    result = cli("avg", "x.mpo", "-o", "y.jpg", *HALVE)
    assert "note     page 1 of 2 is read\n" in result.out
    with Image.open("y.jpg") as made:
        assert (made.format, made.size, made.getpixel((0, 0))) == ("JPEG", (4, 4), (200, 200, 200))
