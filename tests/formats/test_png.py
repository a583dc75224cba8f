"""PNGs have the pixels that other programs make of them, and are read back equal by them."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile, PngInfo

from poolcli.errors import FileError
from poolcli.formats import Source, read
from poolcli.formats.image import codecs
from poolcli.system.lazy_imports import installed
from tests.conftest import Cli

NOISE = np.random.default_rng(5)
HALVE = ("-k", "2", "-s", "2", "-q")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_other_programs_read_what_was_written(channels: int) -> None:
    x = NOISE.integers(0, 256, (37, 21, channels), np.uint8)
    data = codecs.encode_png("x.png", x, {"dpi": (300, 300)})
    with Image.open(io.BytesIO(data)) as made:
        np.testing.assert_array_equal(np.asarray(made).reshape(x.shape), x)
        assert made.info["dpi"] == pytest.approx((300, 300), abs=0.01)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_pixels_are_those_of_pillow(mode: str) -> None:
    rgba = Image.fromarray(NOISE.integers(0, 256, (19, 23, 4), np.uint8))
    image = (rgba.convert("RGB") if mode == "P" else rgba).convert(mode)
    image.save("x.png")
    as_colours = {"P": "RGB", "1": "L"}.get(mode, mode)
    with Image.open("x.png") as stored:
        assert (codecs.decode(stored, as_colours, "x.png") is None) == (mode in ("P", "1"))
    np.testing.assert_array_equal(read(Source("x.png")).array, np.asarray(image.convert(as_colours)))


def test_a_transparent_colour_and_further_pages_are_left_to_pillow() -> None:
    one, other = (Image.fromarray(NOISE.integers(0, 256, (8, 8, 3), np.uint8)) for _ in range(2))
    one.save("colour.png", transparency=one.getpixel((0, 0)))
    one.save("pages.png", save_all=True, append_images=[other])
    assert read(Source("colour.png")).array[0, 0, 3] == 0
    np.testing.assert_array_equal(read(Source("pages.png")).array, np.stack([np.asarray(one), np.asarray(other)]))


def test_what_lies_behind_the_pixels_is_read_and_they_are_decoded_once(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, sizes, load = PngInfo(), [], PngImageFile.load

    def counted(image: PngImageFile) -> object:
        sizes.append(image.size)
        return load(image)

    words.add_text("Author", "somebody")
    words.add(b"tEXt", b"Title\0behind", after_idat=True)
    Image.fromarray(NOISE.integers(0, 256, (8, 8, 3), np.uint8)).save("x.png", pnginfo=words)
    monkeypatch.setattr(PngImageFile, "load", counted)
    assert cli("avg", "x.png", "-o", "y.png", *HALVE).code == 0
    assert sizes == [(1, 1)]
    with Image.open("y.png") as made:
        assert made.text == {"Author": "somebody", "Title": "behind"}  # type: ignore[attr-defined]


def test_one_whose_pixels_are_cut_short_is_refused_in_the_words_of_pillow() -> None:
    data = codecs.encode_png("x.png", NOISE.integers(0, 256, (32, 32, 3), np.uint8), {})
    ((at, end),) = ((at, end) for kind, at, end in codecs.png_chunks(io.BytesIO(data)) if kind == b"IDAT")
    less = b"IDAT" + data[at + 8 : end - 2000]
    pieces = data[:at], (len(less) - 4).to_bytes(4), less, crc32(less).to_bytes(4), data[end:]
    Path("x.png").write_bytes(b"".join(pieces))
    with pytest.raises(FileError, match=r"^x\.png: the image cannot be read or written: image file is truncated"):
        read(Source("x.png"))


def test_without_imagecodecs_pillow_reads_and_writes(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    x = NOISE.integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(x).save("x.png")
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    installed.cache_clear()
    assert cli("max", "x.png", "-o", "y.png", *HALVE).code == 0
    installed.cache_clear()
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), x.reshape(4, 2, 4, 2, 3).max((1, 3)))
