"""HEIC pictures, through their extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

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


def test_of_a_heic_of_more_bits_8_are_read(cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
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
