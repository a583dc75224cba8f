"""Images that Pillow refuses, or reads with fewer bits, and other readers do not."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

from poolcli.formats.table import FORMATS, format_by_magic
from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
RNG = np.random.default_rng(3)
KEEP = ("-k", "1", "--overwrite")


@pytest.mark.parametrize("most", [65535, 4095, 300])
def test_all_bits_of_a_ppm_in_colour_are_read(most: int, cli: Cli) -> None:
    x = RNG.integers(0, most + 1, (16, 24, 3))
    data = b"P6 # a comment\n24 16 %d\n" % most + x.astype(">u2").tobytes()
    Path("x.ppm").write_bytes(data)
    result = cli("avg", "x.ppm", "-o", "y.tif", *KEEP, "--json")
    said = [f"numbers up to {most} scaled to 16 bits: stored * 65535 / {most}"] if most < 65535 else []
    assert result.json["notes"] == [*said, "averages are rounded to uint16; --dtype float32 keeps fractions"]
    np.testing.assert_array_equal(tifffile.imread("y.tif"), (x * 65535 * 2 + most) // (2 * most))
    Path("x.ppm").write_bytes(data[:-1])
    result = cli("avg", "x.ppm", "-o", "y.tif", *KEEP)
    assert (result.code, result.err) == (1, "poolcli: x.ppm: is damaged: 2,303 B cannot hold its pixels\n")


def of_pnm(kind: str, most: int) -> tuple[bytes, Any]:
    """A PGM or PPM of that maximum, and its numbers."""
    shape = (7, 300, 3) if kind in ("P3", "P6") else (7, 300)
    x = RNG.integers(0, most + 1, shape)
    x.reshape(-1)[: most + 1] = np.arange(most + 1)[: x.size]
    text = " ".join(map(str, x.reshape(-1))).encode()
    data = x.astype("u1" if most < 256 else ">u2").tobytes() if kind in ("P5", "P6") else text
    return b"%s\n# a comment\n300 7\n%d\n" % (kind.encode(), most) + data, x


PNM = [(kind, most) for kind in ("P2", "P5", "P6") for most in (1, 100, 254, 255, 1023, 65534, 65535)]


@pytest.mark.parametrize(("kind", "most"), [*PNM, ("P3", 1), ("P3", 254)])
def test_tensors_get_the_stored_numbers_and_images_the_full_scale(kind: str, most: int, cli: Cli) -> None:
    data, x = of_pnm(kind, most)
    Path("x.pnm").write_bytes(data)
    full = 255 if most < 256 else 65535
    *notes, _ = cli("max", "x.pnm", "-o", "y.npy", *KEEP, "--json").json["notes"]
    np.testing.assert_array_equal(np.load("y.npy"), (x if x.ndim == 3 else x[..., None]).transpose(2, 0, 1)[None])
    assert notes == ([] if most == full else [f"not kept: the numbers stand for stored / {most}"])
    notes = cli("max", "x.pnm", "-o", "y.tif", *KEEP, "--json").json["notes"]
    scaled = tifffile.imread("y.tif")
    np.testing.assert_allclose(scaled, x * (full / most), atol=0.5 + 1e-9)
    said = f"numbers up to {most} scaled to {8 if full == 255 else 16} bits: stored * {full} / {most}"
    assert notes == ([] if most == full else [said])
    if kind != "P6" or most < 256:  # of more, Pillow keeps 8 bits
        np.testing.assert_array_equal(scaled, np.asarray(Image.open("x.pnm")))


def test_a_maximum_holds_for_what_reads_it_again(cli: Cli) -> None:
    Path("x.pgm").write_bytes(of_pnm("P5", 100)[0])
    for name in ("y.h5", "y.pgm"):
        assert cli("max", "x.pgm", "-o", name, "-k", "2", "-s", "2").code == 0
        assert "max" in cli("identify", "x.pgm", name, "--op", "max").out
    assert cli("pyramid", "x.pgm", "-o", "y.ome.zarr", "--levels", "1").code == 0
    level: Any = zarr.open("y.ome.zarr/0", mode="r")
    assert level[...].max() == 100


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


def tiff_of_lists() -> Any:
    """A TIFF of 16 bits a channel that has two numbers of samples."""
    tifffile.imwrite(stream := io.BytesIO(), np.zeros((4, 4, 3), "uint16"), photometric="rgb", metadata=None)
    return stream.getvalue().replace(struct.pack("<HHI", 277, 3, 1), struct.pack("<HHI", 277, 3, 2))


@pytest.mark.parametrize(("name", "data"), [("x.ppm", b"P6 1x 4 255\n" + bytes(99)), ("x.tif", tiff_of_lists())])
def test_no_message_has_words_of_python(name: str, data: bytes, cli: Cli) -> None:
    Path(name).write_bytes(data)
    said = f"poolcli: {name}: the image cannot be read: its data is damaged\n"
    assert cli("avg", name, "-o", "y.npy", *KEEP).err == said


def test_damaged_exif_data_costs_no_image(cli: Cli) -> None:
    exif = Image.Exif()
    exif[315] = "an artist"
    Image.fromarray(np.zeros((4, 4, 3), "uint8")).save("x.jpg", exif=exif)
    Path("x.jpg").write_bytes(Path("x.jpg").read_bytes().replace(b"Exif\0\0MM", b"Exif\0\0xx"))
    result = cli("avg", "x.jpg", "-o", "y.jpg", *KEEP, "--json")
    assert "not kept: EXIF data (damaged)" in result.json["notes"]
