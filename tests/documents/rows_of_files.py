"""Checks of docs/formats.md: each row is tried out on files."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli.formats import FORMATS
from poolcli.system.signals import Stopped, install_handlers, remove_handlers
from tests.documents.checks import Row, plain, row_of, table_of
from tests.documents.console import typed
from tests.documents.markdown import ROOT, Table

FILES = "docs/formats.md"


def pool(command: str, code: int = 0) -> str:
    """What the command says; it must end with this exit code."""
    shown, ended = typed(f"$ poolcli {command}")
    assert ended == code, shown
    return re.sub(r"\s+", " ", shown)


def picture(path: str, mode: str, values: Any, **saved: Any) -> None:
    """Writes a picture with these pixels."""
    image = Image.fromarray(np.asarray(values))
    (image if image.mode == mode else image.convert(mode)).save(path, **saved)


@table_of(FILES, "format")
def _formats(table: Table) -> None:
    assert [row[0] for row in table.rows] == list(FORMATS)
    for name, suffixes, reads, writes, in_parts in table.rows:
        row = FORMATS[name]
        assert plain(suffixes).split() == list(row.suffixes)
        assert (reads, writes) == ("yes", "yes" if row.writes else "no")
        assert in_parts == ("yes" if row.streams else "no")


@table_of(FILES, "guarantee")
def _guarantees(table: Table) -> None:
    named = [name for _, tests, _ in table.rows for name in plain(tests).split()]
    assert len(named) >= len(table.rows)
    for name in named:
        path, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text(), name


@row_of(FILES, "0", "1", "2")
def _exit_codes(row: Row) -> None:
    Path("bad.npy").write_bytes(b"nothing")
    inputs = {"0": "samples/features.npy -o y.npy -k 2", "1": "bad.npy -o y.npy -k 2", "2": "bad.npy -o y.npy"}
    pool(f"avg {inputs[row[0]]}", int(row[0]))


@row_of(FILES, "129", "130", "143")
def _stopped(row: Row) -> None:
    number = signal.Signals[row[1].split()[-1]]
    before = {each: signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    try:
        install_handlers()
        with pytest.raises(Stopped) as stop:
            signal.raise_signal(number)
    finally:
        remove_handlers()
        for each, handler in before.items():
            signal.signal(each, handler)
    assert stop.value.exit_code == int(row[0])


@row_of(FILES, "greyscale, RGB, CMYK, LAB; 16-bit, 32-bit and float greyscale")
def _own_modes(row: Row) -> None:
    whole = np.arange(16, dtype=np.uint8).reshape(4, 4)
    for mode in ("L", "RGB", "CMYK", "LAB", "I;16", "I", "F"):
        if mode == "LAB":
            Image.frombytes("LAB", (4, 4), bytes(48)).save("x.tif")
        else:
            dtype = {"I;16": np.uint16, "I": np.int32, "F": np.float32}.get(mode, np.uint8)
            picture("x.tif", mode, whole.astype(dtype))
        pool("avg x.tif -o y.tif -k 2 -s 2 --overwrite")
        with Image.open("y.tif") as image:
            assert (image.mode, image.size) == (mode, (2, 2))


@row_of(FILES, "alpha")
def _alpha(row: Row) -> None:
    picture("x.png", "RGBA", np.array([[[255, 0, 0, 0], [0, 0, 200, 255]]], np.uint8))
    pool("avg x.png -o avg.png -k 1,2")
    pool("max x.png -o max.png -k 1,2")
    found = [Image.open(name).getpixel((0, 0)) for name in ("avg.png", "max.png")]
    assert found == [(0, 0, 200, 128), (255, 0, 200, 255)]


@row_of(FILES, "palettes, bilevel, YCbCr, HSV")
def _expanded(row: Row) -> None:
    values = np.full((2, 2), 255, np.uint8)
    kinds = {"P": ("png", 3, "palette expanded to RGB"), "1": ("png", 1, "mode 1 read as L")}  # fmt: skip
    for mode, (suffix, channels, note) in kinds.items():
        picture(f"x.{suffix}", mode, values)
        assert f"note {note}" in pool(f"avg x.{suffix} -o y.npy -k 2 --overwrite")
        assert np.load("y.npy").shape == (1, channels, 1, 1)


@row_of(FILES, "`mode` of one page with a palette")
def _classes(row: Row) -> None:
    image = Image.fromarray(np.array([[2, 1], [1, 2]], np.uint8))
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 0, 255])
    image.save("x.png")
    for suffix in ("png", "gif", "tif", "bmp"):
        assert "note the indices of the palette vote" in pool(f"mode x.png -o y.{suffix} -k 2")
        with Image.open(f"y.{suffix}") as made:
            assert (made.mode, made.getpixel((0, 0)), made.convert("RGB").getpixel((0, 0))) == ("P", 1, (255, 0, 0))
    pool("mode x.png -o y.npy -k 2")
    assert np.load("y.npy").tolist() == [[[[1]]]]
    pool("mode x.png -o y.webp -k 2")
    assert Image.open("y.webp").getpixel((0, 0)) == (0, 0, 255)


@row_of(FILES, "16 bits per channel (PNG)")
def _deep(row: Row) -> None:
    imagecodecs = pytest.importorskip("imagecodecs")
    Path("x.png").write_bytes(imagecodecs.png_encode(np.full((2, 2, 3), 40_001, np.uint16)))
    pool("avg x.png -o y.png -k 2")
    assert imagecodecs.png_decode(Path("y.png").read_bytes()).tolist() == [[[40_001] * 3]]


@row_of(FILES, "TIFF of other types or bands")
def _bands(row: Row) -> None:
    tifffile.imwrite("x.tif", np.full((2, 2, 6), -5, np.int16), photometric="minisblack", planarconfig="contig")
    pool("avg x.tif -o z.tif -k 2")
    assert tifffile.imread("z.tif").tolist() == [[[-5] * 6]]


@row_of(FILES, "TIFF of 1 to 15 bits per sample, white is zero, associated alpha")
def _full_scale(row: Row) -> None:
    tifffile.imwrite("x.tif", np.full((2, 2), 1000, np.uint16), photometric="miniswhite")
    assert "note white is zero: inverted" in pool("avg x.tif -o y.npy -k 2")
    assert np.load("y.npy").item() == 64_535


@row_of(FILES, "PGM and PPM with a maximum other than 255 and 65535")
def _stored_numbers(row: Row) -> None:
    Path("x.pgm").write_bytes(b"P5 2 2 100\n" + bytes([100] * 4))
    assert "note not kept: the numbers stand for stored / 100" in pool("avg x.pgm -o y.npy -k 2")
    assert np.load("y.npy").item() == 100
    assert "note numbers up to 100 scaled to 8 bits: stored * 255 / 100" in pool("avg x.pgm -o y.png -k 2")
    assert np.asarray(Image.open("y.png")).item() == 255


@row_of(FILES, "pages of different sizes or modes")
def _different(row: Row) -> None:
    Image.new("L", (2, 2)).save("x.tif", save_all=True, append_images=[Image.new("L", (4, 4), 7)])
    assert "note page 2 of 2 is read, the first of full size; --pages (and" in pool("avg x.tif -o y.npy -k 4")
    assert np.load("y.npy").item() == 7
    pool("avg x.tif -o z.npy -k 2 --pages 1")
    assert np.load("z.npy").item() == 0


@row_of(
    FILES,
    "three spatial axes: a layout with D (`--layout DHW`), or three values (`-k 1,2,2`) where the file names a depth",
)
def _volume(row: Row) -> None:
    about = {"axes": "ZYX", "PhysicalSizeZ": 0.5, "PhysicalSizeZUnit": "nm"}
    tifffile.imwrite("x.tif", np.zeros((4, 6, 8), np.uint16), ome=True, photometric="minisblack", metadata=about)
    pool("avg x.tif -o y.tif -k 2 -s 2 --layout DHW")
    with tifffile.TiffFile("y.tif") as file:
        assert (file.series[0].axes, file.series[0].shape) == ("ZYX", (2, 3, 4))
        assert 'PhysicalSizeZ="1.0" PhysicalSizeZUnit="nm"' in str(file.ome_metadata)


@row_of(FILES, "smaller copies, previews")
def _copies(row: Row) -> None:
    sizes = (8, 4, 2)
    first, *others = (Image.new("L", (size, size), size) for size in sizes)
    first.save("x.tif", save_all=True, append_images=others)
    assert "note page 1 of 3 is read, the first of full size; --pages (and" in pool("avg x.tif -o y.tif -k 2")
    pool("avg x.tif -o z.tif -k 2 --pages 2")
    with Image.open("z.tif") as made:
        assert made.size == (3, 3)


@row_of(FILES, "GIF output", "APNG, GIF, WebP")
def _gif(row: Row) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "red", "blue")]
    frames[0].save("x.png", save_all=True, append_images=frames[1:], duration=[30, 20, 10], default_image=False)
    pool("max x.png -o y.gif -k 2")
    with Image.open("y.gif") as made:
        assert (getattr(made, "n_frames", 1), made.info["duration"]) == (2, 50)


@row_of(FILES, "gamma")
def _light(row: Row) -> None:
    picture("x.png", "L", np.array([[0, 255]], np.uint8))
    pool("avg x.png -o plain.png -k 1,2")
    pool("avg x.png -o light.png -k 1,2 --linear-light")
    assert [Image.open(name).getpixel((0, 0)) for name in ("plain.png", "light.png")] == [128, 188]


@row_of(FILES, "EXIF orientation")
def _orientation(row: Row) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture("x.jpg", "RGB", np.zeros((2, 4, 3), np.uint8), exif=exif)
    assert "H=4 W=2 C=3" in pool("avg x.jpg -o y.png -k 1")


@row_of(FILES, "TIFF output")
def _tiff(row: Row) -> None:
    picture("x.tif", "RGB", np.zeros((16, 16, 3), np.uint8), compression="tiff_lzw")
    pool("avg x.tif -o y.tif -k 2 -s 2")
    with Image.open("y.tif") as image:
        assert image.info["compression"] == "tiff_adobe_deflate"


@row_of(FILES, "JPEG output")
def _jpeg(row: Row) -> None:
    values = np.zeros((16, 16, 3), np.uint8)
    tables = {}
    for quality in (40, 95):
        picture(f"{quality}.jpg", "RGB", values, quality=quality)
    pool("avg 40.jpg -o best.jpg -k 2 -s 2")
    pool("avg 95.jpg -o asked.jpg -k 2 -s 2 --quality 40")
    for name in ("40", "95", "best", "asked"):
        with Image.open(f"{name}.jpg") as image:
            tables[name] = image.quantization  # type: ignore[attr-defined]  # of JPEG alone
    assert tables["asked"] == tables["40"] != tables["95"] == tables["best"]


@row_of(FILES, "WebP output")
def _webp(row: Row) -> None:
    values = np.random.default_rng(1).integers(0, 255, (8, 8, 3), np.uint8, endpoint=True)
    picture("x.png", "RGB", values)
    pool("avg x.png -o exact.webp -k 1")
    pool("avg x.png -o lossy.webp -k 1 --quality 50")
    same = [np.array_equal(np.asarray(Image.open(name)), values) for name in ("exact.webp", "lossy.webp")]
    assert same == [True, False]
