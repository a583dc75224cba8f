"""Pictures as they are in the wild: every mode and depth, and what is said beside the pixels."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, TiffImagePlugin

from poolcli.system.lazy_imports import installed
from tests.conftest import Cli
from tests.formats.pictures import HALVE, NOISE, halved, pixels

pytestmark = pytest.mark.usefixtures("here")
SIGNS = np.array([0, 128, 128], np.uint8)


ROUND_TRIPS: dict[str, tuple[str, str, Any]] = {
    "L png": ("L", "png", pixels(8, 6, 1)),
    "RGB png": ("RGB", "png", pixels(8, 6)),
    "I;16 png": ("I;16", "png", pixels(8, 6, 1, "uint16")),
    "CMYK tiff": ("CMYK", "tiff", pixels(8, 6, 4)),
    "LAB tiff": ("LAB", "tiff", pixels(8, 6)),
    "I tiff": ("I", "tiff", NOISE.integers(-(2**31), 2**31, (8, 6)).astype(np.int32)),
    "I;16 tiff": ("I;16", "tiff", pixels(8, 6, 1, "uint16")),
    "I;16B tiff": ("I;16B", "tiff", pixels(8, 6, 1, "uint16")),
    "L bmp": ("L", "bmp", pixels(8, 6, 1)),
    "RGB webp": ("RGB", "webp", pixels(8, 6)),
    "RGB ppm": ("RGB", "ppm", pixels(8, 6)),
    "I;16 pgm": ("I;16", "pgm", pixels(8, 6, 1, "uint16")),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_picture_of_each_mode_is_halved_in_its_own_mode(name: str, cli: Cli) -> None:
    mode, suffix, x = ROUND_TRIPS[name]
    raw = x.astype(">u2") if mode == "I;16B" else x
    options: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    Image.frombytes(mode, (6, 8), raw.tobytes()).save(f"x.{suffix}", **options)
    assert cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        assert made.mode == {"I;16B": "I;16"}.get(mode, mode) or suffix == "pgm"
        y = np.asarray(made).reshape(4, 3, -1).squeeze()
    if mode == "LAB":  # a and b are signed
        np.testing.assert_array_equal(y ^ SIGNS, halved(x ^ SIGNS))
    else:
        np.testing.assert_array_equal(y, halved(x))


@pytest.mark.parametrize("suffix", ["png", "tiff"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_colour_of_16_bits_keeps_every_bit(suffix: str, channels: int, cli: Cli) -> None:
    x = pixels(8, 6, channels, "uint16")
    if channels != 3:
        x[..., -1] = 65535
    if suffix == "png":
        Path("x.png").write_bytes(imagecodecs.png_encode(x))
    else:
        extra = ("unassalpha",) if channels != 3 else ()
        tifffile.imwrite("x.tiff", x, photometric=1 if channels == 2 else 2, extrasamples=extra, compression="lzw")
    assert cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    made = imagecodecs.png_decode(Path("y.png").read_bytes()) if suffix == "png" else tifffile.imread("y.tiff")
    np.testing.assert_array_equal(made, halved(x))


def test_what_needs_imagecodecs_is_refused_without_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    x = pixels(4, 4, 3, "uint16")
    Path("x.png").write_bytes(imagecodecs.png_encode(x))
    tifffile.imwrite("x.tiff", x, photometric="rgb", compression="lzw")
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    installed.cache_clear()
    png = cli("avg", "x.png", "-o", "y.npy", *HALVE)
    said = "has colour of 16 bits a channel, of which Pillow keeps 8; install the extra images: pip install imagecodecs"
    assert (png.code, png.err) == (1, f"poolcli: x.png: {said}\n")
    python = [sys.executable, "-c", NO_IMAGECODECS]  # tifffile imports it once and for all
    tiff = subprocess.run([*python, "avg", "x.tiff", "-o", "y.npy", *HALVE], capture_output=True, text=True)
    said = "poolcli: x.tiff: COMPRESSION.LZW needs the extra images: pip install imagecodecs\n"
    assert (tiff.returncode, tiff.stderr) == (1, said)
    installed.cache_clear()


NO_IMAGECODECS = """
import sys
sys.modules["imagecodecs"] = None
from poolcli.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("compression", ["webp", "lerc", "zstd", "lzma", "packbits"])
def test_a_tiff_that_only_some_pillows_unpack_is_read(compression: str, cli: Cli) -> None:
    x = pixels(6, 8)
    lossless = {"lossless": True} if compression == "webp" else None
    tifffile.imwrite("x.tif", x, photometric="rgb", compression=compression, compressionargs=lossless)
    assert cli("max", "x.tif", "-o", "y.npy", "-k", "1", "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy")[0], x.transpose(2, 0, 1))


@cache  # the time of its making is in it
def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf/></x:xmpmeta>"


KEEPERS: dict[str, dict[str, Any]] = {
    "png": {"icc": True, "exif": True, "dpi": True},
    "jpg": {"icc": True, "exif": True, "dpi": True},
    "tiff": {"icc": True, "exif": True, "dpi": True},
    "webp": {"icc": True, "exif": True, "dpi": False},
    "bmp": {"icc": False, "exif": False, "dpi": True},
    "ppm": {"icc": False, "exif": False, "dpi": False},
}


SAID = {"exif": "EXIF data", "icc": "ICC profile", "dpi": "resolution"}


@pytest.mark.parametrize("suffix", KEEPERS)
def test_what_is_said_beside_the_pixels_is_kept_or_reported(suffix: str, cli: Cli) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x011A], exif[0x011B] = "Maker", TiffImagePlugin.IFDRational(300), 300.0
    exif.get_ifd(0x8769)[0xA002], exif.get_ifd(0x8769)[0xA003] = 6, 8
    source = Image.fromarray(pixels(8, 6))
    source.save("x.jpg", exif=exif.tobytes(), icc_profile=profile(), dpi=(300, 300), xmp=XMP, quality=95)
    result = cli("avg", "x.jpg", "-o", f"y.{suffix}", "-k", "2", "-s", "4,2", columns=200)
    assert result.code == 0
    kept = KEEPERS[suffix]
    with Image.open(f"y.{suffix}") as made:
        made.load()
        found = made.getexif()
        assert (made.info.get("icc_profile") == profile()) is kept["icc"]
        assert (found.get(0x010F) == "Maker") is kept["exif"]
        if kept["dpi"]:
            assert made.info["dpi"] == pytest.approx((150, 75), abs=0.6)
        if kept["exif"]:
            assert dict(found.get_ifd(0x8769)) == {}  # without the number of pixels
    lost = ["XMP data", *(word for key, word in SAID.items() if not kept[key])]
    assert f"not kept: {', '.join(lost)}\n" in result.out
