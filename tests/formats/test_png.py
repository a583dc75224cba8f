"""PNGs have the pixels that other programs make of them, and are read back equal by them."""

from __future__ import annotations

import io
import sys
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile, PngInfo

from poolcli.errors import FileError
from poolcli.formats import ReadOptions, Source, read
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


def over(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """One image over another, as the PNG specification has it, with fractions from 0 to 1."""
    a, b = above[..., -1:] / 255, below[..., -1:] / 255
    alpha = a + b * (1 - a)
    colours = (above[..., :-1] * a + below[..., :-1] * b * (1 - a)) / np.where(alpha > 0, alpha, 1)
    return np.concatenate([colours, alpha * 255], -1)


@pytest.mark.parametrize(  # Pillow writes palettes with the first disposal only
    ("mode", "disposal"), [("P", 0), *product(("RGBA", "LA"), (0, 1, 2))]
)
def test_frames_of_an_animation_are_blended_over_what_is_below(mode: str, disposal: int, cli: Cli) -> None:
    """Pillow, which makes the file, blends palettes by index, and gives too little alpha."""
    indices = NOISE.integers(0, 256, (3, 8, 8), np.uint8)
    colours = NOISE.integers(0, 256, (256, 4), np.uint8)
    colours[::2, 3] = 255
    pixels = colours[indices] if mode != "LA" else colours[indices][..., [0, 3]]
    options: dict[str, Any] = {"transparency": colours[:, 3].tobytes()} if mode == "P" else {}
    frames = [Image.fromarray(each, "P" if mode == "P" else None) for each in (indices if mode == "P" else pixels)]
    for frame in frames if mode == "P" else []:
        frame.putpalette(colours[:, :3].tobytes())
    frames[0].save("x.png", save_all=True, append_images=frames[1:], blend=1, disposal=disposal, **options)
    below, expected = np.zeros(pixels.shape[1:]), []
    for each in pixels:
        expected.append(np.rint(over(each, below)))
        below = {0: expected[-1], 1: np.zeros_like(below), 2: below}[disposal]
    with Image.open("x.png") as made:
        assert getattr(made, "n_frames", 1) == 3
    found = read(Source("x.png")).array.astype(int)
    seen = np.stack(expected)[..., -1:] > 0
    np.testing.assert_array_equal(found * seen, np.stack(expected).astype(int) * seen)
    single = read(Source("x.png"), ReadOptions(pages="3")).array.astype(int)
    np.testing.assert_array_equal(single, found[2])


def test_an_animation_with_a_frame_beyond_the_image_or_without_one_is_refused(cli: Cli) -> None:
    frames = [Image.fromarray(NOISE.integers(0, 256, (8, 8, 4), np.uint8)) for _ in range(3)]
    frames[0].save("x.png", save_all=True, append_images=frames[1:], blend=1)
    data = Path("x.png").read_bytes()
    last = data.rindex(b"fcTL")
    for start, content in ((last + 16, (5).to_bytes(4)), (last - 4, None)):
        changed = data[:start] + content + data[start + 4 :] if content else data[:start] + data[start + 38 :]
        fixed = bytearray(changed)
        if content:
            fixed[last + 30 : last + 34] = crc32(changed[last : last + 30]).to_bytes(4)
        Path("y.png").write_bytes(fixed)
        result = cli("avg", "y.png", "-o", "z.npy", *HALVE)
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert result.err.startswith("poolcli: y.png: ")
