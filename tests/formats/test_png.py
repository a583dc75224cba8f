"""PNGs have the pixels that other programs make of them, and are read back equal by them; each filter is met."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from PIL import Image

from poolcli.core.errors import FileError
from poolcli.formats import Source, read
from poolcli.formats.image import png, png_filters
from tests.conftest import Cli

NOISE = np.random.default_rng(5)
HALVE = ("-k", "2", "-s", "2", "-q")
ALONG = np.arange(40) * 3
SMOOTH = {  # and the filter that makes most of their bytes equal
    1: (ALONG + NOISE.integers(0, 256, (24, 1))).astype(np.uint8),
    2: (ALONG[:24, None] + NOISE.integers(0, 256, 40)).astype(np.uint8),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("number", range(len(png_filters.FILTERS)))
def test_each_filter_is_undone_by_other_programs(
    number: int, channels: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(png_filters, "_cost", lambda other, *rest: other != number)
    for height, width in ((37, 21), (1, 1)):
        x = NOISE.integers(0, np.iinfo(dtype).max, (height, width, channels), dtype, endpoint=True)
        data = png.encode("x.png", x, {})
        assert filter_of(data) == number
        np.testing.assert_array_equal(imagecodecs.png_decode(data).reshape(x.shape), x)
        if dtype == "uint8":
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))).reshape(x.shape), x)


@pytest.mark.parametrize("number", SMOOTH)
def test_the_filter_is_the_one_that_packs_best(number: int) -> None:
    data = png.encode("x.png", SMOOTH[number][..., None], {})
    assert filter_of(data) == number
    assert len(data) < len(imagecodecs.png_encode(SMOOTH[number]))


def filter_of(data: bytes) -> int:
    ((at, end),) = ((at, end) for kind, at, end in png.chunks(io.BytesIO(data)) if kind == b"IDAT")
    return int(imagecodecs.zlib_decode(data[at + 8 : end - 4])[0])


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_pixels_are_those_of_pillow(mode: str) -> None:
    rgba = Image.fromarray(NOISE.integers(0, 256, (19, 23, 4), np.uint8))
    image = (rgba.convert("RGB") if mode == "P" else rgba).convert(mode)
    image.save("x.png")
    as_colours = {"P": "RGB", "1": "L"}.get(mode, mode)
    with Image.open("x.png") as stored:
        assert (png.decoded(stored, as_colours, "x.png") is None) == (mode in ("P", "1"))
    np.testing.assert_array_equal(read(Source("x.png")).array, np.asarray(image.convert(as_colours)))


def test_a_transparent_colour_and_further_pages_are_left_to_pillow() -> None:
    one, other = (Image.fromarray(NOISE.integers(0, 256, (8, 8, 3), np.uint8)) for _ in range(2))
    one.save("colour.png", transparency=one.getpixel((0, 0)))
    one.save("pages.png", save_all=True, append_images=[other])
    assert read(Source("colour.png")).array[0, 0, 3] == 0
    np.testing.assert_array_equal(read(Source("pages.png")).array, np.stack([np.asarray(one), np.asarray(other)]))


def test_one_whose_pixels_are_cut_short_is_refused_in_the_words_of_pillow() -> None:
    data = png.encode("x.png", NOISE.integers(0, 256, (64, 64, 3), np.uint8), {})
    ((at, end),) = ((at, end) for kind, at, end in png.chunks(io.BytesIO(data)) if kind == b"IDAT")
    pieces = data[:at], png._chunk(b"IDAT", data[at + 8 : end - 2000]), data[end:]
    Path("x.png").write_bytes(b"".join(pieces))
    with pytest.raises(FileError, match=r"^x\.png: the image cannot be read or written: image file is truncated"):
        read(Source("x.png"))


@pytest.mark.parametrize("lacks", ["the package", "the memory"])
def test_else_pillow_reads_and_writes(lacks: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    x = NOISE.integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(x).save("x.png")
    if lacks == "the package":
        monkeypatch.setitem(sys.modules, "imagecodecs", None)
        png.is_there.cache_clear()
    else:
        monkeypatch.setattr(png, "MOST_BYTES", 4 * 4 * 3 - 1)
    assert cli("max", "x.png", "-o", "y.png", *HALVE).code == 0
    png.is_there.cache_clear()
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), x.reshape(4, 2, 4, 2, 3).max((1, 3)))
