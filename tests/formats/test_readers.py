"""Images that Pillow refuses, or reads with fewer bits, and other readers do not."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli.formats import Source, read
from poolcli.formats.image.codecs import open_bit_fields
from poolcli.formats.recognise import format_by_magic
from poolcli.formats.table import FORMATS
from tests.conftest import Cli

RNG = np.random.default_rng(3)
KEEP = ("-k", "1", "--overwrite")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("suffix", "bits"), [("avif", 10), ("avif", 12), ("jp2", 12), ("j2k", 9)])
def test_more_than_8_bits_are_scaled_to_16(suffix: str, bits: int, channels: int, cli: Cli) -> None:
    x = RNG.integers(0, 1 << bits, (16, 24, channels)[: 2 + (channels > 1)], "uint16")
    if suffix == "avif":
        data = imagecodecs.avif_encode(x, bitspersample=bits, level=100)
    else:
        data = imagecodecs.jpeg2k_encode(x, bitspersample=bits, level=0, codecformat=suffix)
    Path(f"x.{suffix}").write_bytes(data)
    stored = (imagecodecs.avif_decode if suffix == "avif" else imagecodecs.jpeg2k_decode)(data)
    result = cli("avg", f"x.{suffix}", "-o", "y.tif", *KEEP, "--json")
    made = tifffile.imread("y.tif")
    assert result.code == 0, result.err
    if (channels, suffix) not in ((1, "jp2"), (1, "j2k")):  # grey JPEG 2000 is read by Pillow, which shifts
        assert f"{bits} bits a sample, scaled to 16" in result.json["notes"]
        exact = (stored.astype("u8") * 65535 * 2 + (1 << bits) - 1) // (2 * ((1 << bits) - 1))
        colours = made if channels < 4 else made[exact[..., 3] > 0]
        np.testing.assert_array_equal(colours, exact if channels < 4 else exact[exact[..., 3] > 0])


def test_the_first_of_several_images_of_more_than_8_bits_is_read(cli: Cli) -> None:
    x = RNG.integers(0, 1 << 10, (3, 16, 24, 3), "uint16")
    Path("x.avif").write_bytes(imagecodecs.avif_encode(x, bitspersample=10, level=100))
    assert "page 1 of 3 is read" in cli("avg", "x.avif", "-o", "y.tif", *KEEP, "--json").json["notes"]
    first = imagecodecs.avif_decode(Path("x.avif").read_bytes())[0].astype("u8")
    np.testing.assert_array_equal(tifffile.imread("y.tif"), (first * 65535 * 2 + 1023) // 2046)


@pytest.mark.parametrize("most", [65535, 4095, 300])
def test_all_bits_of_a_ppm_in_colour_are_read(most: int, cli: Cli) -> None:
    x = RNG.integers(0, most + 1, (16, 24, 3))
    data = b"P6 # a comment\n24 16 %d\n" % most + x.astype(">u2").tobytes()
    Path("x.ppm").write_bytes(data)
    result = cli("avg", "x.ppm", "-o", "y.tif", *KEEP, "--json")
    assert result.json["notes"] == ([f"numbers up to {most} scaled to 16 bits"] if most < 65535 else [])
    np.testing.assert_array_equal(tifffile.imread("y.tif"), (x * 65535 * 2 + most) // (2 * most))
    Path("x.ppm").write_bytes(data[:-1])
    result = cli("avg", "x.ppm", "-o", "y.tif", *KEEP)
    assert (result.code, result.err) == (1, "poolcli: x.ppm: is damaged: 2,303 B cannot hold its 24 x 16 pixels\n")


@pytest.mark.parametrize("name", ["x.avif", "x.avifs", "x.data"])
def test_an_avif_is_recognized_by_any_first_box(name: str, cli: Cli) -> None:
    x = RNG.integers(0, 256, (3, 16, 24, 3), "uint8")
    Image.fromarray(x[0]).save("x.png", "AVIF", save_all=True, append_images=[Image.fromarray(each) for each in x[1:]])
    data = Path("x.png").read_bytes()
    assert data[4:12] == b"ftypavis"
    Path(name).write_bytes(data)
    assert cli("avg", name, "-o", "y.npy", *KEEP).code == 0
    assert np.load("y.npy").shape == (3, 3, 16, 24)


@pytest.mark.parametrize("length", [28, 132, 256])
def test_an_avif_is_recognized_by_a_first_box_of_any_length(length: int) -> None:
    """The box lists all brands with which the file is compatible."""
    assert format_by_magic(length.to_bytes(4, "big") + b"ftypavif") is FORMATS["avif"]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_jpeg_whose_further_images_are_cut_off_is_read(kept: int, cli: Cli) -> None:
    x = RNG.integers(0, 256, (16, 24, 3), "uint8")
    Image.fromarray(x).save("x.jpg", "MPO", save_all=True, append_images=[Image.fromarray(x)] * 2)
    data = Path("x.jpg").read_bytes()
    second = data.index(b"\xff\xd8\xff", 2)
    Path("x.jpg").write_bytes(data[: second + kept])
    first = np.asarray(Image.open(io.BytesIO(data[:second])).convert("RGB"))
    result = cli("avg", "x.jpg", "-o", "y.npy", *KEEP, "--json")
    assert "images after the first cannot be found, and are not read" in result.json["notes"]
    np.testing.assert_array_equal(np.load("y.npy")[0].transpose(1, 2, 0), first)


def bit_fields(bits: int, masks: tuple[int, ...], stored: Any, upwards: bool = True) -> Any:
    """A BMP of bit fields, with a header that has a mask of alpha if there are four."""
    height, width = stored.shape
    data, size = stored.tobytes(), 40 if len(masks) == 3 else 108
    head = struct.pack("<IiiHHIIiiII", size, width, height if upwards else -height, 1, bits, 3, len(data), 0, 0, 0, 0)
    head += struct.pack(f"<{len(masks)}I", *masks) + bytes(52 if len(masks) > 3 else 0)
    start = 14 + len(head)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + head + data


@pytest.mark.parametrize(
    ("bits", "masks"),
    [(16, (0xF800, 0x7E0, 0x1F)), (16, (0x7C00, 0x3E0, 0x1F)), (32, (0xFF0000, 0xFF00, 0xFF)),
     (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000))],
)  # fmt: skip
@pytest.mark.parametrize("upwards", [True, False])
def test_bit_fields_are_those_of_pillow_where_it_reads_them(bits: int, masks: tuple[int, ...], upwards: bool) -> None:
    stored = RNG.integers(0, 1 << bits, (4, 8), f"uint{bits}")
    Path("x.bmp").write_bytes(bit_fields(bits, masks, stored, upwards))
    with open("x.bmp", "rb") as stream, Image.open("x.bmp") as expected:
        found, notes = open_bit_fields("x.bmp", stream, 1000, None)
        off = np.abs(np.asarray(found).astype(int) - np.asarray(expected)).max()
        assert (found.mode, notes, off <= 1) == (expected.mode, [], True)  # Pillow rounds some down


def test_bit_fields_of_other_places_and_widths_are_read(cli: Cli) -> None:
    stored = np.array([[0x0F00, 0x00F0], [0x000F, 0x0148]], "uint16")
    Path("x.bmp").write_bytes(bit_fields(16, (0xF00, 0xF0, 0xF), stored))
    assert cli("avg", "x.bmp", "-o", "y.png", *KEEP, "-q").code == 0
    assert np.asarray(Image.open("y.png")).tolist() == [[[0, 0, 255], [17, 68, 136]], [[255, 0, 0], [0, 255, 0]]]
    Path("x.bmp").write_bytes(bit_fields(32, (0x3FF00000, 0xFFC00, 0x3FF), np.full((2, 3), 512 << 10, "uint32")))
    assert "10 bits a channel rounded to 8" in cli("avg", "x.bmp", "-o", "y.png", *KEEP, "--json").json["notes"]
    assert read(Source("y.png")).array[0, 0].tolist() == [0, 128, 0]
    Path("x.bmp").write_bytes(Path("x.bmp").read_bytes()[:-1])
    said = "poolcli: x.bmp: is damaged: 89 B cannot hold its 3 x 2 pixels of 32 bits\n"
    assert (cli("avg", "x.bmp", "-o", "y.png", *KEEP).err) == said


def tiff_of_lists() -> Any:
    """A TIFF of 16 bits a channel that has two numbers of samples."""
    tifffile.imwrite(stream := io.BytesIO(), np.zeros((4, 4, 3), "uint16"), photometric="rgb", metadata=None)
    return stream.getvalue().replace(struct.pack("<HHI", 277, 3, 1), struct.pack("<HHI", 277, 3, 2))


@pytest.mark.parametrize(("name", "data"), [("x.ppm", b"P6 1x 4 255\n" + bytes(99)), ("x.tif", tiff_of_lists())])
def test_no_message_has_words_of_python(name: str, data: bytes, cli: Cli) -> None:
    Path(name).write_bytes(data)
    said = f"poolcli: {name}: the image cannot be read or written: its data is damaged\n"
    assert (cli("avg", name, "-o", "y.npy", *KEEP).err) == said


def test_damaged_exif_data_costs_no_image(cli: Cli) -> None:
    exif = Image.Exif()
    exif[315] = "an artist"
    Image.fromarray(np.zeros((4, 4, 3), "uint8")).save("x.jpg", exif=exif)
    Path("x.jpg").write_bytes(Path("x.jpg").read_bytes().replace(b"Exif\0\0MM", b"Exif\0\0xx"))
    result = cli("avg", "x.jpg", "-o", "y.jpg", *KEEP, "--json")
    assert "EXIF data not kept: damaged in the input" in result.json["notes"]
    with Image.open("y.jpg") as made:
        assert "dpi" not in made.info
