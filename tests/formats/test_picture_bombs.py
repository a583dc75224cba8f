"""Pictures that claim more than they hold are refused before memory is taken."""

from __future__ import annotations

import io
import lzma
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli.errors import FileError
from poolcli.formats import Source, read, read_header
from poolcli.formats.image import tiff
from poolcli.formats.image.tiff import SPARSE_NOTE
from tests.conftest import Cli
from tests.formats.pictures import png
from tests.formats.tiffs import bare
from tests.processes import forked
from tests.profiles import slow

pytestmark = pytest.mark.usefixtures("here")
LIMIT = "300M"
MARGIN = 64 * 1024  # KiB


def gif(path: Path, patches: dict[int, tuple[int, int]], screen: tuple[int, int] = (8, 8)) -> None:
    """Three frames of 8 x 8, some of which are said to be of another size."""
    frames = []
    for i in range(3):
        frame = Image.new("P", (8, 8), i)
        frame.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
        frame.putpixel((0, 0), 3)
        frame.putpixel((7, 7), 3)
        frames.append(frame)
    stream = io.BytesIO()
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:], disposal=2)
    data = bytearray(stream.getvalue())
    data[6:10] = struct.pack("<HH", *screen)
    place = -1
    for i in range(3):
        place = data.index(b"\x2c\0\0\0\0\x08\0\x08\0", place + 1)
        if i in patches:
            data[place + 5 : place + 9] = struct.pack("<HH", *patches[i])
    path.write_bytes(data)


def zeros(path: Path, bits: int, colour: int, channels: int, size: int) -> None:
    row, packed = bytes(1 + size * channels * bits // 8), zlib.compressobj(1)
    data = b"".join(packed.compress(row) for _ in range(size)) + packed.flush()
    path.write_bytes(png((size, size), bits, colour, data))


def two_pages(path: Path) -> None:
    """A small page, and one that claims 13,000 x 13,000 pixels of 8 bytes."""
    with tifffile.TiffWriter(path) as file:
        file.write(np.zeros((8, 8), np.float64), metadata=None)
        file.write(np.zeros((9, 9), np.float64), metadata=None)
    with tifffile.TiffFile(path, mode="r+") as opened:
        page = opened.pages[1]
        assert isinstance(page, tifffile.TiffPage)
        for tag in (256, 257):
            page.tags[tag].overwrite(13_000)


def large_jpeg(path: Path) -> None:
    """8 x 8 pixels, and 13,000 x 13,000 of which nothing is there."""
    Image.new("RGB", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, 13_000, 13_000)
    path.write_bytes(data)


def large_tile(path: Path) -> None:
    """A tile of 12,000 x 12,000 pixels in a picture of 16 x 16."""
    packed = zlib.compress(bytes(12_000 * 12_000 * 3))
    options: dict[str, Any] = {"photometric": "rgb", "compression": "zlib", "metadata": None, "tile": (16, 16)}
    tifffile.imwrite(path, iter([packed]), shape=(16, 16, 3), dtype="u1", **options)
    with tifffile.TiffFile(path, mode="r+") as opened:
        for tag in (322, 323):
            opened.pages[0].tags[tag].overwrite(12_000)  # type: ignore[union-attr]  # it is a whole page


BOMBS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "first frame": ("x.gif", lambda p: gif(p, {0: (60_000, 60_000)}), "needs "),
    "first frame, within the pixels": ("x.gif", lambda p: gif(p, {0: (12_000, 12_000)}), "needs 549 MiB of memory"),
    "last frame, within the pixels": ("x.gif", lambda p: gif(p, {2: (12_000, 12_000)}), "needs 549 MiB of memory"),
    "screen": ("x.gif", lambda p: gif(p, {}, (12_000, 12_000)), "needs 549 MiB of memory"),
    "PNG": ("x.png", lambda p: zeros(p, 8, 6, 4, 6000), "needs "),
    "grey PNG": ("x.png", lambda p: zeros(p, 8, 0, 1, 13_000), "needs "),
    "PNG of 16 bits": ("x.png", lambda p: zeros(p, 16, 6, 4, 6000), "needs "),
    "JPEG 2000": ("x.jp2", lambda p: Image.new("L", (9000, 9000)).save(p), "needs "),
    "TIFF": ("x.tif", lambda p: bare(str(p), [bytes(8)] * 8, 8, 8, {256: 60_000, 257: 60_000}), "needs "),
    "TIFF, within the pixels": ("x.tif",
        lambda p: bare(str(p), [bytes(8)] * 8, 8, 16, {256: 13_000, 257: 13_000, 278: 13_000}), "needs "),
    "TIFF of many bands": ("x.tif",
        lambda p: bare(str(p), [bytes(8)] * 8, 8, 8, {256: 200, 257: 200, 277: 65_535, 278: 200, 284: 1}), "needs "),
    "later page": ("x.tif", two_pages, "needs "),
    "JPEG": ("x.jpg", large_jpeg, "needs "),
    "packed TIFF": ("x.tif",
        lambda p: bare(str(p), [bytes(8)] * 8, 8, 8, {256: 13_000, 257: 13_000, 259: 5, 278: 13_000}), "needs "),
    "tile far larger than its picture": ("x.tif", large_tile, "needs 412 MiB of memory to be decoded"),
}  # fmt: skip


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Peak memory of a run on a small picture."""
    folder = tmp_path_factory.mktemp("idle") / "in"
    folder.mkdir()
    Image.new("L", (8, 8)).save(folder / "small.png")
    return forked(folder, "avg", "small.png", "-o", "y.npy", "-k", "2", "-q").peak


@pytest.mark.slow
@pytest.mark.parametrize("name", [slow(name) if name == "JPEG 2000" else name for name in BOMBS])
def test_a_bomb_is_refused_within_little_memory(name: str, idle: int, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path, make, message = BOMBS[name]
    make(folder / path)
    result = forked(folder, "avg", path, "-o", "z.npy", "-k", "2", "-q", "--max-memory", LIMIT)
    assert result.code == 1, result.err
    assert result.err.startswith(f"poolcli: {path}: {message}")
    assert result.peak <= idle + MARGIN


@pytest.mark.parametrize("length", [1, 2, 300])
def test_pages_in_a_circle_are_read_once(length: int) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        for _ in range(length):
            file.write(np.zeros((4, 4), np.int16), metadata=None)
    with tifffile.TiffFile("x.tif") as made:
        offsets = [page.offset for page in made.pages]
    data = bytearray(Path("x.tif").read_bytes())
    (count,) = struct.unpack_from("<H", data, offsets[-1])
    struct.pack_into("<I", data, offsets[-1] + 2 + 12 * count, offsets[0])
    Path("x.tif").write_bytes(data)
    header = read_header(Source("x.tif"))
    assert header.shape == ((length, 4, 4) if length > 1 else (4, 4))
    assert "the pages of the file form a cycle, and each is read once" in header.notes


@pytest.mark.parametrize("compression", ["zlib", "lzma"])
def test_a_strip_that_unpacks_to_more_than_its_place_is_refused_where_tifffile_would_unpack_it(
    compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """imagecodecs, where it is installed, stops when the strip is full."""
    packed = (zlib if compression == "zlib" else lzma).compress(bytes(2**20 + 1))
    tifffile.imwrite("x.tif", iter([packed]), shape=(16, 16), dtype="u1", compression=compression, metadata=None)
    monkeypatch.setattr(tiff, "installed", lambda *_: False)
    monkeypatch.setattr(tiff, "SMALL_CHUNK", 2**20)
    said = "is damaged: a strip or tile of page 1 unpacks to more than its 256 B"
    with pytest.raises(FileError, match=rf"^x\.tif: {said}$"):
        read(Source("x.tif"))


def test_frames_that_a_file_is_too_short_for_are_refused() -> None:
    first, second = (Image.new("L", (8, 8), value) for value in (1, 2))
    first.save("x.png", save_all=True, append_images=[second])
    data = bytearray(Path("x.png").read_bytes())
    at = data.index(b"acTL")
    struct.pack_into(">I", data, at + 4, 2**24)
    struct.pack_into(">I", data, at + 12, zlib.crc32(data[at : at + 12]))
    Path("x.png").write_bytes(data)
    said = rf"^x\.png: is damaged: it says that it has 16,777,216 pages, in {len(data)} B$"
    with pytest.raises(FileError, match=said):
        read_header(Source("x.png"))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "packbits", "lzma", "zstd", "png"])
def test_pixels_that_a_tiff_does_not_have_are_not_made_up(compression: str | None, dtype: str) -> None:
    x = np.full((32, 16, 3), 7, dtype)
    for name in ("x.tif", "sparse.tif"):
        tifffile.imwrite(name, x, photometric="rgb", compression=compression, rowsperstrip=16, metadata=None)
    with tifffile.TiffFile("x.tif", mode="r+") as file:
        file.pages[0].tags[257].overwrite(64)  # type: ignore[union-attr]  # it is a whole page
    with pytest.raises(FileError, match=r"^x\.tif: is damaged: page 1 names 2 of its 4 strips$"):
        read(Source("x.tif"))
    with tifffile.TiffFile("sparse.tif", mode="r+") as file:
        for tag in (273, 279):
            found = file.pages[0].tags[tag]  # type: ignore[union-attr]  # likewise
            found.overwrite([found.value[0], 0])
    assert read_header(Source("sparse.tif")).notes == (SPARSE_NOTE,)
    np.testing.assert_array_equal(read(Source("sparse.tif")).array, np.concatenate([x[:16], 0 * x[16:]]))


def test_a_small_file_takes_little_memory_for_a_pyramid_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.formats.checks.SMALL_FILE_MEMORY", 2000)
    Image.new("L", (64, 64)).save("x.png")
    err = cli("pyramid", "x.png", "-o", "y.ome.zarr").err
    assert re.match(r"poolcli: x\.png: needs .* KiB of memory, but the limit is 1.95 KiB; raise --max-memory", err)


def test_the_memory_that_is_asked_for_suffices(tmp_path: Path) -> None:
    """What Pillow would take alone is less, and was asked for first."""
    Image.new("RGB", (1000, 1000)).save(tmp_path / "x.png")
    halve = ("avg", "x.png", "-o", "y.png", "-k", "2", "-s", "2", "--max-memory")
    asked = {forked(tmp_path, *halve, limit).err.partition(" MiB of memory")[0] for limit in ("1M", "6M")}
    (words,) = asked
    assert forked(tmp_path, *halve, f"{float(words.split()[-1]) + 0.1}M").code == 0
