"""PNGs: pixels whose checksums are wrong, EXIF data behind them, and frames of animations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from poolcli.errors import FileError
from poolcli.formats import ReadOptions, Source, read

NOISE = np.random.default_rng(5)
HALVE = ("-k", "2", "-s", "2", "-q")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("flip", [True, False], ids=["changed", "cut short"])
def test_pixels_that_are_damaged_are_refused(flip: bool) -> None:
    """Pillow reads the first without a word."""
    Image.fromarray(NOISE.integers(0, 256, (32, 32, 3), np.uint8)).save("x.png")
    data = bytearray(Path("x.png").read_bytes())
    at = data.index(b"IDAT") + 4
    if flip:
        data[at + 1000] ^= 1
    Path("x.png").write_bytes(data if flip else data[: at + 1000])
    said = "is damaged: a chunk of its pixels has a wrong checksum" if flip else "the image cannot be read or written"
    with pytest.raises(FileError, match=rf"^x\.png: {said}"):
        read(Source("x.png"))


@pytest.mark.parametrize("blend", [0, 1])
def test_frames_of_an_animation_are_those_of_pillow(blend: int) -> None:
    frames = [Image.fromarray(NOISE.integers(0, 256, (8, 8, 4), np.uint8)) for _ in range(3)]
    frames[0].save("x.png", save_all=True, append_images=frames[1:], blend=blend)
    with Image.open("x.png") as image:
        expected = np.stack([np.asarray(frame.convert("RGBA")) for frame in ImageSequence.Iterator(image)])
    np.testing.assert_array_equal(read(Source("x.png")).array, expected)
    np.testing.assert_array_equal(read(Source("x.png"), ReadOptions(pages="3")).array, expected[2])
