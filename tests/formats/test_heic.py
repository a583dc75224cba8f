"""HEIC pictures, through their extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolcli.formats import Source, read
from tests.conftest import Cli
from tests.formats.pictures import HALVE


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_heic_is_read_upright(orientation: int, cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
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


@pytest.mark.parametrize("mode", ["RGB;16", "RGBA;16", "I;16"])
def test_all_bits_of_a_heic_are_read_and_written_as_png(mode: str, cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
    y, x = np.mgrid[:64, :96]
    tens = np.stack([y * 10, x * 10, (x + y) * 5, np.full_like(x, 1023)][: {"I;16": 1}.get(mode, len(mode) - 3)], -1)
    pixels = (tens << 6).astype(np.uint16)
    heif.encode(mode, (96, 64), pixels.tobytes(), "x.heic", quality=-1, chroma=444)
    Path("in").mkdir()
    Path("x.heic").rename("in/x.heic")
    Image.new("RGB", (4, 4)).save("in/a.bmp")
    result = cli("avg", "in", "-o", "out/", *HALVE)
    assert (result.code, result.out.splitlines()[0]) == (0, "2 done, 0 skipped, 0 failed")
    decoded = read(Source("out/x.png")).array.reshape(32, 48, -1)
    wanted = tens.reshape(32, 2, 48, 2, -1).mean((1, 3)) * 65535 / 1023
    assert decoded.dtype == np.uint16
    assert np.abs(decoded - wanted).max() <= 3 * 65535 / 1023  # libheif converts between RGB and YCbCr


def test_a_heic_is_refused_without_its_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    Path("x.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    result = cli("avg", "x.heic", "-o", "y.npy", *HALVE)
    assert (result.code, result.err) == (
        1,
        "poolcli: x.heic: reading HEIC images needs pillow_heif: pip install pillow-heif\n",
    )
