"""Numbers that mean more than they say: alpha that is multiplied in, a transparent grey, bits, places on the earth."""

from __future__ import annotations

import struct
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli.formats import Source, read
from tests.conftest import Cli
from tests.formats.pictures import png, png_chunk, put_exif_behind_pixels

pytestmark = pytest.mark.usefixtures("here")
HALVE = ("-k", "2", "-s", "2", "--overwrite")
RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [2, 4])
def test_colours_that_alpha_is_multiplied_into_are_averaged_once(dtype: str, channels: int, cli: Cli) -> None:
    """The reference never divides: the mean of what is stored over the mean of alpha."""
    top = np.iinfo(dtype).max
    alpha = RNG.integers(top // 2, top, (6, 8, 1), dtype)
    stored = (RNG.random((6, 8, channels - 1)) * alpha).astype(dtype)
    x = np.concatenate([stored, alpha], -1)
    photometric: Any = "rgb" if channels == 4 else "minisblack"
    tifffile.imwrite("x.tif", x, photometric=photometric, planarconfig="contig", extrasamples=["assocalpha"])
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=120)
    assert "associated alpha: colours are divided by it" in result.out or "mode La read as LA" in result.out
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        y = page.asarray().astype(float)
        assert page.extrasamples == (2,)
    means = x.astype(float).reshape(3, 2, 4, 2, channels).mean((1, 3))
    assert abs(y[..., :-1] - means[..., :-1] / means[..., -1:] * top).max() <= 1.5
    assert abs(y[..., -1] - means[..., -1]).max() <= 0.5


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("extra", [("unspecified",), ("unspecified", "unassalpha")])
def test_a_band_that_is_not_said_to_be_alpha_is_a_band(dtype: str, extra: tuple[str, ...], cli: Cli) -> None:
    x = RNG.integers(0, np.iinfo(dtype).max, (6, 8, 3 + len(extra)), dtype)
    tifffile.imwrite("x.tif", x, photometric="rgb", planarconfig="contig", extrasamples=extra)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE)
    assert "weighted" not in result.out
    assert ("alpha is pooled as a band like others" in result.out) is (len(extra) > 1)
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert (page.photometric, tuple(page.extrasamples)) == (2, (0, 2)[: len(extra)])
        np.testing.assert_array_equal(
            page.asarray(), np.rint(x.astype(float).reshape(3, 2, 4, 2, -1).mean((1, 3))).astype(dtype)
        )
    assert cli("avg", "x.tif", "-o", "y.png", *HALVE).code == 2


TRANSPARENT: dict[str, tuple[int, int, bytes, bytes, Any]] = {
    "8 bits": (8, 0, b"\1\2\3\4", b"\0\2", [[1, 255], [2, 0], [3, 255], [4, 255]]),
    "16 bits": (16, 0, b"\0\1\2\3\0\3\0\4", b"\2\3", [[1, 65535], [515, 0], [3, 65535], [4, 65535]]),
    "colour": (8, 2, bytes(range(12)), b"\0\3\0\4\0\5",
        [[0, 1, 2, 255], [3, 4, 5, 0], [6, 7, 8, 255], [9, 10, 11, 255]]),
    "colour of 16 bits": (16, 2, struct.pack(">12H", *range(12)), b"\0\3\0\4\0\5",
        [[0, 1, 2, 65535], [3, 4, 5, 0], [6, 7, 8, 65535], [9, 10, 11, 65535]]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPARENT)
def test_the_transparent_colour_of_a_png_is_transparent(name: str) -> None:
    bits, colour, row, transparent, expected = TRANSPARENT[name]
    packed = zlib.compress(b"\0" + row)
    Path("x.png").write_bytes(png((4, 1), bits, colour, packed, png_chunk(b"tRNS", transparent)))
    tensor = read(Source("x.png"))
    assert tensor.array[0].tolist() == expected
    assert tensor.header.alpha


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["png of 16 bits", "png", "jpeg", "tiff", "tiff of 16 bits", "webp"])
def test_every_format_is_turned_upright_once(kind: str, orientation: int, cli: Cli) -> None:
    exif = Image.Exif()
    exif[274], exif[271] = orientation, "Maker"
    form, _, deep = kind.partition(" ")
    x = RNG.integers(0, 255, (6, 8, 3), "uint8").repeat(8, 0).repeat(8, 1)
    if deep:
        x = x.astype(np.uint16) * 257
    if kind == "png of 16 bits":
        Path("x.png").write_bytes(imagecodecs.png_encode(x))
        put_exif_behind_pixels(Path("x.png"), exif.tobytes())
    elif kind == "tiff of 16 bits":
        tifffile.imwrite("x.tiff", x, photometric="rgb", extratags=[(274, 3, 1, orientation, True)])
    else:
        options: dict[str, Any] = (
            {"lossless": True} if form == "webp" else {"quality": 100, "subsampling": 0} if form == "jpeg" else {}
        )
        Image.fromarray(x).save(f"x.{form}", exif=exif.tobytes(), **options)
    result = cli("avg", f"x.{form}", "-o", f"y.{form}", "-k", "1", "-s", "1")
    assert (f"EXIF orientation {orientation} applied" in result.out) is (orientation > 1)
    y = read(Source(f"y.{form}"))
    turned = {
        1: x, 2: x[:, ::-1], 3: x[::-1, ::-1], 4: x[::-1], 5: x.transpose(1, 0, 2), 6: np.rot90(x, -1),
        7: np.rot90(x, 2).transpose(1, 0, 2), 8: np.rot90(x),
    }[orientation]  # fmt: skip
    assert np.median(np.abs(y.array.astype(int) - turned)) <= (3 if form == "jpeg" else 0)
    with Image.open(f"y.{form}") if not (deep and form == "tiff") else nullcontext() as made:
        assert made is None or (made.getexif().get(274, 1), made.getexif()[271]) == (1, "Maker")
    assert not [note for note in y.header.notes if "orientation" in note]


def place(transformation: tuple[float, ...], i: float, j: float) -> tuple[float, float]:
    a, b, _, d, e, f, _, h = transformation[:8]
    return a * i + b * j + d, e * i + f * j + h


KEYS = {"areas": (1, 1, 0, 1, 1025, 0, 1, 1), "points": (1, 1, 0, 1, 1025, 0, 1, 2)}
WINDOWS = {"-k 2 -s 2": (2, 0.0), "-k 3 -s 2 -p 1": (2, -0.5), "-k 4 -s 2": (2, 1.0), "-k 3 -s 1": (1, 1.0)}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("raster", KEYS)
def test_pixels_stay_where_they_are_on_the_earth(raster: str, windows: str, deep: bool, cli: Cli) -> None:
    """The middle of an output pixel is where the middle of its window is."""
    step, start = WINDOWS[windows]
    geo = [
        (33550, 12, 3, (10.0, 20.0, 0.0), True), (33922, 12, 6, (2.0, 1.0, 0.0, 500.0, 900.0, 0.0), True),
        (34735, 3, 8, KEYS[raster], True), (34737, 2, None, "WGS 84|", True), (42113, 2, None, "-9999", True),
    ]  # fmt: skip
    tifffile.imwrite("x.tif", np.zeros((24, 32), np.uint16 if deep else np.uint8), metadata=None, extratags=geo)
    result = cli("avg", "x.tif", "-o", "y.tif", *windows.split())
    assert "not kept" not in result.out
    middle = 0.0 if raster == "points" else 0.5
    window = start + step / 2 + step * 3  # of the output pixel 3 along each axis, in the input's pixels
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        tags = page.tags
        i, j, _, x, y, _ = tags[33922].value
        across, down, _ = tags[33550].value
        assert (x + (3 + middle - i) * across, y - (3 + middle - j) * down) == pytest.approx(
            (500 + (window - 0.5 + middle - 2) * 10, 900 - (window - 0.5 + middle - 1) * 20)
        )
        assert (tags[34735].value, tags[34737].value, tags[42113].value) == (KEYS[raster], "WGS 84|", "-9999")


def test_a_transformation_follows_the_windows_too(cli: Cli) -> None:
    matrix = (10.0, 1.0, 0.0, 500.0, 2.0, -20.0, 0.0, 900.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    tifffile.imwrite("x.tif", np.zeros((24, 32), np.uint8), metadata=None, extratags=[(34264, 12, 16, matrix, True)])
    assert cli("avg", "x.tif", "-o", "y.tif", "-k", "4", "-s", "2", "-q").code == 0
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert place(page.tags[34264].value, 3.5, 5.5) == pytest.approx(place(matrix, 8, 12))


def test_a_place_on_the_earth_that_cannot_be_kept_is_said(cli: Cli) -> None:
    for number, note in (((1.0, 2.0), "georeference (damaged)"), ((1.0, 2.0, 0.0), "georeference")):
        tags = [(33550, 12, len(number), number, True)]
        tifffile.imwrite("x.tif", np.zeros((6, 8), np.uint8), metadata=None, extratags=tags)
        result = cli("avg", "x.tif", "-o", "y.png", *HALVE)
        assert f"note     not kept: {note}\n" in result.out


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_a_picture_that_was_turned_has_no_place_on_the_earth(dtype: str, cli: Cli) -> None:
    tags = [(33550, 12, 3, (1.0, 2.0, 0.0), True), (274, 3, 1, 6, True)]
    tifffile.imwrite("x.tif", np.zeros((6, 8), dtype), metadata=None, extratags=tags)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE)
    assert "note     not kept: georeference (the image was rotated)\n" in result.out
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert 33550 not in page.tags


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_pixels_without_data_leave_their_windows(dtype: str, cli: Cli) -> None:
    tags = [(42113, 2, None, "9", True)]
    pixels = np.array([[1, 9, 9, 9], [9, 5, 9, 9]], dtype)
    tifffile.imwrite("x.tif", pixels, photometric="minisblack", metadata=None, extratags=tags)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--json")
    said = "elements equal to 9 are missing and excluded; windows without valid elements give 9 again"
    rounded = ["averages are rounded to int16; --dtype float32 keeps fractions"] if dtype == "int16" else []
    assert result.json["notes"] == [said, *rounded]
    np.testing.assert_array_equal(tifffile.imread("y.tif"), [[3, 9]])
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert page.nodata == 9
    result = cli("avg", "x.tif", "-o", "z.tif", *HALVE, "--json", "--missing", "none")
    assert result.json["notes"] == ["the file's nodata value (9) is pooled like any other number", *rounded]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_no_data_that_is_no_number_is_passed_over_with_a_note(dtype: str, cli: Cli) -> None:
    x = np.zeros((2, 6, 8), dtype)
    tifffile.imwrite("x.tif", x, photometric="minisblack", metadata=None, extratags=[(42113, 2, None, "a word", False)])
    notes = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--json").json["notes"]
    assert notes == ["the file's nodata value (GDAL_NODATA) is not a number and is ignored"]


NODATA: dict[str, tuple[str, str, float | None]] = {
    "NaN": ("float32", "nan", np.nan),
    "NaN with a sign": ("float32", "-nan", np.nan),
    "many digits": ("uint64", "18446744073709551615", 2**64 - 1),
    "up to a NUL": ("int16", "-9999\0of no use", -9999),
    "beyond the type": ("uint8", "300", None),
    "NaN of integers": ("uint8", "nan", None),
    "nothing": ("uint8", "", None),
}


@pytest.mark.parametrize("name", NODATA)
def test_no_data_is_a_number_that_a_pixel_can_be_or_passed_over(name: str, cli: Cli) -> None:
    dtype, said, number = NODATA[name]
    nothing = 0 if number is None else number
    x = np.array([[nothing, 1, nothing, nothing], [2, 3, nothing, nothing]], dtype)
    tifffile.imwrite("x.tif", x, metadata=None, extratags=[(42113, 2, None, said, True)])
    result = cli("max" if number is None else "avg", "x.tif", "-o", "y.tif", *HALVE, "--json")
    assert (result.code, bool(result.json["notes"])) == (0, number is not None)
    np.testing.assert_array_equal(tifffile.imread("y.tif"), np.array([[3 if number is None else 2, nothing]], dtype))


def test_no_data_is_pooled_where_colours_are_weighted(cli: Cli) -> None:
    tags = [(42113, 2, None, "9", True)]
    pixels = np.full((2, 2, 4), 9, np.uint8)
    tifffile.imwrite("x.tif", pixels, photometric="rgb", extrasamples=["unassalpha"], metadata=None, extratags=tags)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--json")
    assert result.json["notes"][0] == "the file's nodata value (9) is pooled like any other number"
    np.testing.assert_array_equal(tifffile.imread("y.tif"), [[[9, 9, 9, 9]]])
