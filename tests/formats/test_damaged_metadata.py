"""What a picture says beside its pixels may be damaged or odd: the picture is pooled all the same, and that is said."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import IFDRational, ImageFileDirectory_v2

from tests.conftest import Cli

HALVE = ("-k", "2", "-s", "2", "--overwrite")
X = np.full((8, 6, 3), 130, np.uint8)  # an even colour, which JPEG keeps
RESOLUTION = (282, 283)
EXIF_DAMAGED = "EXIF data not kept: damaged in the input"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exif(value: object, kind: int, orientation: int = 1) -> bytes:
    """EXIF data whose resolution has another value, or another type, than the standard says."""
    directory = ImageFileDirectory_v2()
    for tag in RESOLUTION:
        directory.tagtype[tag] = kind
        directory[tag] = value
    directory.tagtype[274] = 3
    directory[274] = orientation
    return b"Exif\0\0II*\0\x08\0\0\0" + directory.tobytes(8)


def big_tiff() -> str:
    tifffile.imwrite("x.tif", X, bigtiff=True, photometric="rgb", resolution=(72, 72))
    return "x.tif"


def with_exif(data: bytes, suffix: str = "jpg") -> str:
    Image.fromarray(X).save(f"x.{suffix}", exif=data)
    return f"x.{suffix}"


def with_density(unit: int, dots: int) -> str:
    stream = io.BytesIO()
    Image.fromarray(X).save(stream, "JPEG", dpi=(72, 72))
    data = bytearray(stream.getvalue())
    place = data.index(b"JFIF\0") + 7
    data[place : place + 5] = struct.pack(">BHH", unit, dots, dots)
    Path("x.jpg").write_bytes(data)
    return "x.jpg"


def with_tag(tag: int) -> str:
    """A TIFF that holds numbers where bytes belong."""
    tifffile.imwrite("x.tif", X, photometric="rgb", extratags=[(tag, "I", 1, 2**31, True)])
    return "x.tif"


CASES: dict[str, tuple[Callable[[], str], str | None]] = {
    "BigTIFF with a resolution": (big_tiff, None),
    "a denominator of 0": (lambda: with_exif(exif(IFDRational(72, 0), 5)), None),
    "0 / 0": (lambda: with_exif(exif(IFDRational(0, 0), 5)), None),
    "0 / 0 in a PNG": (lambda: with_exif(exif(IFDRational(0, 0), 5), "png"), None),
    "0 / 0 in a WebP": (lambda: with_exif(exif(IFDRational(0, 0), 5), "webp"), None),
    "text for a resolution": (lambda: with_exif(exif("abc", 2)), EXIF_DAMAGED),
    "text for a resolution, and turned": (lambda: with_exif(exif("abc", 2, 6)), EXIF_DAMAGED),
    "no dots to the inch": (lambda: with_density(1, 0), "resolution not kept: damaged in the input"),
    "an unknown unit": (lambda: with_density(9, 72), None),
    "a number for an ICC profile": (lambda: with_tag(34675), "ICC profile not kept: damaged in the input"),
    "a number for XMP data": (lambda: with_tag(700), "XMP data not kept: damaged in the input"),
}


@pytest.mark.parametrize("suffix", ["jpg", "tif", "png", "npy"])
@pytest.mark.parametrize("name", CASES)
def test_the_picture_is_pooled_all_the_same(name: str, suffix: str, cli: Cli) -> None:
    make, note = CASES[name]
    path = make()
    result = cli("avg", path, "-o", f"y.{suffix}", *HALVE, columns=200)
    assert (result.code, result.err) == (0, "")
    y = np.load("y.npy")[0].transpose(1, 2, 0) if suffix == "npy" else np.asarray(Image.open(f"y.{suffix}"))
    assert y.shape == ((3, 4, 3) if "turned" in name else (4, 3, 3))
    assert abs(y.astype(int) - 130).max() <= 3
    if note and suffix != "npy":
        assert note in result.out


def test_the_resolution_of_a_bigtiff_is_halved(cli: Cli) -> None:
    assert cli("avg", big_tiff(), "-o", "y.jpg", *HALVE, "-q").code == 0
    with Image.open("y.jpg") as made:
        assert made.info["dpi"] == (36, 36)
        assert [float(made.getexif()[tag]) for tag in RESOLUTION] == [36.0, 36.0]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_ever_where_its_exif_data_is_damaged(orientation: int, cli: Cli) -> None:
    x = np.random.default_rng(0).integers(0, 256, (8, 6, 3), np.uint8)
    for name, value, kind in (("good", IFDRational(72, 1), 5), ("bad", "abc", 2)):
        Image.fromarray(x).save(f"{name}.png", exif=exif(value, kind, orientation))
        assert cli("avg", f"{name}.png", "-o", f"{name}-y.npy", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(np.load("bad-y.npy"), np.load("good-y.npy"))


def test_what_pillow_refuses_to_write_beside_the_pixels_is_left_out(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    save = Image.Image.save

    def refusing(self: Image.Image, *arguments: object, **options: object) -> None:
        if "exif" in options:
            raise struct.error("argument out of range")
        save(self, *arguments, **options)  # type: ignore[arg-type]

    path = with_exif(exif(IFDRational(72, 1), 5))
    monkeypatch.setattr(Image.Image, "save", refusing)
    result = cli("avg", path, "-o", "y.png", *HALVE)
    assert (result.code, "note     metadata not kept: damaged in the input\n" in result.out) == (0, True)


# What Pillow keeps by these names beside the texts of a PNG.
NAMES = (
    "comment", "default_image", "dpi", "duration", "exif", "gamma", "icc_profile", "loop", "photoshop", "srgb", "xmp",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_text_of_any_name_is_nothing_but_a_text(name: str, cli: Cli) -> None:
    words = PngInfo()
    words.add_text(name, "72")
    Image.fromarray(X).save("x.png", pnginfo=words)
    result = cli("avg", "x.png", "-o", "y.png", *HALVE)
    assert (result.code, result.err, "note" in result.out) == (0, "", False)
    with Image.open("y.png") as made:
        assert (list(made.info), made.text) == ([name], {name: "72"})  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["bbox", "interlace", "transparency"])
def test_a_text_by_which_pillow_would_read_other_pixels_is_refused(name: str, cli: Cli) -> None:
    words = PngInfo()
    words.add_text(name, "72")
    Image.fromarray(X).save("x.png", pnginfo=words)
    said = f"poolcli: x.png: holds a text of the name {name}, by which Pillow reads other pixels; remove that\n"
    result = cli("avg", "x.png", "-o", "y.png", *HALVE)
    assert (result.code, result.err) == (1, said)
    assert not Path("y.png").exists()
