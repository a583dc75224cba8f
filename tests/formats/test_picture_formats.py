"""What PNG, JPEG and HEIC need by themselves: damage that Pillow reads over, frames of animations, the extra."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from poolcli.errors import FileError
from poolcli.formats import ReadOptions, Source, read
from tests.conftest import Cli
from tests.formats.pictures import HALVE

pytestmark = pytest.mark.usefixtures("here")
RNG = np.random.default_rng(5)
NOISE = RNG.integers(0, 256, (37, 50, 3), np.uint8)
NO_HEIF = "the extra heic is not installed: pip install pillow-heif"
# 2048 x 1024 pixels of one grey, coded arithmetically by cjpeg.
ARITHMETIC = bytes.fromhex(
    "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d3c3933383740485c4e404457453738506d51575f62"
    "6768673e4d71797064785c656763ffc9000b080400080001011100ffcc000600101005ffda0008010100003f00ff003ffee750ffd9"
)


@pytest.mark.parametrize("flip", [True, False], ids=["changed", "cut short"])
def test_pixels_that_are_damaged_are_refused(flip: bool) -> None:
    """Pillow reads the first without a word."""
    Image.fromarray(RNG.integers(0, 256, (32, 32, 3), np.uint8)).save("x.png")
    data = bytearray(Path("x.png").read_bytes())
    at = data.index(b"IDAT") + 4
    if flip:
        data[at + 1000] ^= 1
    Path("x.png").write_bytes(data if flip else data[: at + 1000])
    said = "is damaged: a chunk of its pixels has a wrong checksum" if flip else "the image cannot be read"
    with pytest.raises(FileError, match=rf"^x\.png: {said}"):
        read(Source("x.png"))


@pytest.mark.parametrize("blend", [0, 1])
def test_frames_of_an_animation_are_those_of_pillow(blend: int) -> None:
    frames = [Image.fromarray(RNG.integers(0, 256, (8, 8, 4), np.uint8)) for _ in range(3)]
    frames[0].save("x.png", save_all=True, append_images=frames[1:], blend=blend)
    with Image.open("x.png") as image:
        expected = np.stack([np.asarray(frame.convert("RGBA")) for frame in ImageSequence.Iterator(image)])
    np.testing.assert_array_equal(read(Source("x.png")).array, expected)
    np.testing.assert_array_equal(read(Source("x.png"), ReadOptions(pages="3")).array, expected[2])


def saved() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(NOISE).save(stream, "JPEG")
    return stream.getvalue()


def test_one_that_was_cut_is_refused_though_a_preview_in_it_has_an_end() -> None:
    data = bytearray(saved())
    start = data.index(b"\xff\xdb")  # the first tables, before which a segment with a preview is put
    preview = saved()
    data[start:start] = b"\xff\xed" + (len(preview) + 2).to_bytes(2, "big") + preview
    Path("x.jpg").write_bytes(data[:-200])
    with pytest.raises(FileError, match=r"^x\.jpg: the image cannot be read: image file is truncated"):
        read(Source("x.jpg"))


def test_pixels_of_one_colour_are_read_however_few_bytes_they_take() -> None:
    Path("x.jpg").write_bytes(ARITHMETIC)
    np.testing.assert_array_equal(read(Source("x.jpg")).array, np.full((1024, 2048), 76, np.uint8))
    for options in ({}, {"progressive": True}, {"optimize": True, "progressive": True, "subsampling": 2}):
        Image.new("RGB", (2048, 1024), (9, 9, 9)).save("x.jpg", **options)
        np.testing.assert_array_equal(read(Source("x.jpg")).array, np.full((1024, 2048, 3), 9, np.uint8))


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_heic_is_read_upright(orientation: int, cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason=NO_HEIF)
    x = np.zeros((64, 96, 3), np.uint8)
    x[:32] = 200
    exif = Image.Exif()
    exif[274] = orientation
    pictures = heif.from_pillow(Image.fromarray(x))
    pictures.save("x.heic", quality=-1, exif=exif.tobytes())
    result = cli("avg", "x.heic", "-o", "y.npy", *HALVE)
    assert (result.code, result.err) == (0, "")
    y = np.load("y.npy")[0, 0].astype(int)
    expected = np.where(np.arange(32)[:, None] < 16, 200, 0).repeat(48, 1)
    assert np.median(abs(y - (np.rot90(expected, -1) if orientation == 6 else expected))) <= 3


def test_of_a_heic_of_more_bits_8_are_read(cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason=NO_HEIF)
    heif.encode("RGB;16", (96, 64), np.full((64, 96, 3), 40_000, np.uint16).tobytes(), "x.heic", quality=-1, chroma=444)
    result = cli("avg", "x.heic", "-o", "y.png", *HALVE)
    assert (result.code, "note     10 bits a channel, read as 8\n" in result.out) == (0, True)
    assert abs(np.asarray(Image.open("y.png")).astype(int) - 156).max() <= 1


def test_a_heic_is_refused_without_its_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    Path("x.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    result = cli("avg", "x.heic", "-o", "y.npy", *HALVE)
    assert (result.code, result.err) == (
        1,
        "poolcli: x.heic: reading HEIC images needs pillow_heif: pip install pillow-heif\n",
    )
