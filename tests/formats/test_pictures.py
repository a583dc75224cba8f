"""Pictures as they are in the wild: every mode, pages, transparency, light, and what is said beside the pixels."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, TiffImagePlugin
from PIL.PngImagePlugin import PngInfo

from poolcli import AvgPool
from poolcli.engine import run_region
from poolcli.formats import Source, read
from poolcli.formats.image import pillow
from poolcli.job.colour import Colour, pool_colours
from tests.conftest import Cli

NOISE = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pixels(height: int, width: int, channels: int = 3, dtype: str = "uint8") -> Any:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return NOISE.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def halved(x: Any) -> Any:
    """Means of 2 x 2 blocks, halves to even, by a loop over Python integers."""
    out = np.empty((x.shape[0] // 2, x.shape[1] // 2, *x.shape[2:]), x.dtype)
    for i, j, *c in np.ndindex(out.shape):
        total = sum(int(x[(2 * i + a, 2 * j + b, *c)]) for a in (0, 1) for b in (0, 1))
        out[(i, j, *c)] = round(total / 4)
    return out


HALVE = ("-k", "2", "-s", "2")
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


def test_a_float_tiff_keeps_its_floats(cli: Cli) -> None:
    x = NOISE.normal(size=(8, 6)).astype(np.float32)
    Image.fromarray(x).save("x.tiff")
    assert cli("avg", "x.tiff", "-o", "y.tiff", *HALVE, "-q").code == 0
    y = np.asarray(Image.open("y.tiff"))
    np.testing.assert_allclose(y, x.reshape(4, 2, 3, 2).mean((1, 3)), rtol=1e-6)


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


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_colour_of_16_bits_is_refused_without_libraries(suffix: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    x = pixels(4, 4, 3, "uint16")
    Path("x.png").write_bytes(imagecodecs.png_encode(x))
    tifffile.imwrite("x.tiff", x, photometric="rgb")
    monkeypatch.setitem(__import__("sys").modules, "imagecodecs", None)
    result = cli("avg", f"x.{suffix}", "-o", "y.npy", *HALVE)
    assert (result.code, result.err) == (
        1,
        f"poolcli: x.{suffix}: has colour of 16 bits a channel, or numbers, that Pillow cannot read without loss; "
        "install what can: pip install imagecodecs\n",
    )


@pytest.mark.parametrize("dtype", ["uint32", "float64", "int8", "float16"])
def test_a_tiff_of_other_numbers_is_read_by_the_extra(dtype: str) -> None:
    x = (NOISE.normal(size=(5, 4)) * 50).astype(dtype)
    tifffile.imwrite("x.tif", x)
    np.testing.assert_array_equal(read(Source("x.tif")).array, x)


def test_a_transparent_pixel_does_not_bleed(cli: Cli) -> None:
    x = np.zeros((2, 4, 4), np.uint8)
    x[:, :2] = [[[255, 0, 0, 0], [10, 20, 30, 255]], [[255, 0, 0, 0], [20, 20, 31, 255]]]
    x[:, 2:] = [[[200, 100, 50, 128], [100, 0, 50, 64]], [[0, 0, 0, 0], [0, 0, 0, 0]]]
    Image.fromarray(x).save("x.png")
    result = cli("avg", "x.png", "-o", "y.png", *HALVE)
    assert "note     colours are weighted with alpha\n" in result.out
    y = np.asarray(Image.open("y.png"))
    expected = [[15, 20, 30, 128], [round((200 * 128 + 100 * 64) / 192), round(100 * 128 / 192), 50, 48]]
    assert y.tolist() == [expected]  # 30.5 goes to the even 30, an alpha of 127.5 to 128


@pytest.mark.parametrize("layout", ["HWD", "CHW", "HCW"])
def test_alpha_is_a_number_like_others_where_the_layout_has_no_channels_there(layout: str, cli: Cli) -> None:
    x = pixels(4, 6, 4)
    Image.fromarray(x).save("x.png")
    one = ("-k", "1", "-s", "1")
    result = cli("avg", "x.png", "-o", "y.npy", *one, "--layout", layout, "--output-layout", layout)
    assert (result.code, "weighted" in result.out) == (0, False)
    np.testing.assert_array_equal(np.load("y.npy"), x)
    result = cli("avg", "x.png", "-o", "z.npy", *one, "--layout", layout, "--linear-light")
    assert (result.code, result.err) == (
        2,
        "poolcli: x.png: --linear-light needs to know which channel is alpha: the picture is HWC; "
        f"leave out --layout {layout}\n",
    )


@pytest.mark.parametrize("layout", ["HWC", "WHC", "hwc"])
def test_colours_are_weighted_wherever_the_channels_are_named(layout: str, cli: Cli) -> None:
    x = pixels(4, 6, 4)
    Image.fromarray(x).save("x.png")
    assert "weighted" in cli("avg", "x.png", "-o", "y.npy", *HALVE, "--layout", layout).out
    assert cli("avg", "x.png", "-o", "w.npy", *HALVE, "-q").code == 0
    y = np.load("y.npy")
    np.testing.assert_array_equal(y.swapaxes(2, 3) if layout == "WHC" else y, np.load("w.npy"))


def test_channels_may_come_before_the_pixels() -> None:
    x = pixels(4, 6, 4)
    colour = Colour(weighted=True)
    results = []
    for layout, array in (("HWC", x), ("CHW", np.ascontiguousarray(x.transpose(2, 0, 1)))):
        plan = AvgPool(2, 2).plan(array.shape, "uint8", layout=layout)
        results.append(pool_colours(lambda region, slab: run_region(region, slab)[0], plan, array, colour))
    np.testing.assert_array_equal(results[1].transpose(1, 2, 0), results[0])


def test_an_opaque_picture_with_alpha_is_averaged_as_without(cli: Cli) -> None:
    x = pixels(8, 6, 4)
    x[..., 3] = 255
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), halved(x))


def test_weights_agree_with_a_slow_loop_also_across_parts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.job.colour.TILE", 4096)
    x = pixels(40, 30, 4)
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", "-k", "3", "-s", "2", "-p", "1", "-q").code == 0
    y = np.asarray(Image.open("y.png")).astype(int)
    for i, j in np.ndindex(20, 15):
        window = x[max(0, 2 * i - 1) : 2 * i + 2, max(0, 2 * j - 1) : 2 * j + 2].reshape(-1, 4).astype(int).tolist()
        weight = sum(a for *_, a in window)
        expected = [round(sum(p[c] * p[3] for p in window) / weight) for c in range(3)]
        assert y[i, j].tolist() == [*expected, round(weight / len(window))]


def test_the_maximum_is_taken_channel_by_channel(cli: Cli) -> None:
    x = pixels(4, 4, 4)
    Image.fromarray(x).save("x.png")
    assert cli("max", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(np.asarray(Image.open("y.png")), x.reshape(2, 2, 2, 2, 4).max((1, 3)))


def test_linear_light_makes_a_checkerboard_as_bright_as_it_looks(cli: Cli) -> None:
    x = np.zeros((4, 4), np.uint8)
    x[::2, ::2] = x[1::2, 1::2] = 255
    Image.fromarray(x).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    assert np.asarray(Image.open("y.png")).tolist() == [[128, 128], [128, 128]]
    result = cli("avg", "x.png", "-o", "z.png", *HALVE, "--linear-light")
    assert "note     averaged in linear light (sRGB curve)\n" in result.out
    assert np.asarray(Image.open("z.png")).tolist() == [[188, 188], [188, 188]]  # sRGB of one half is 187.5


@pytest.mark.parametrize("value", [0, 1, 10, 11, 128, 254, 255])
def test_linear_light_keeps_an_even_colour(value: int, cli: Cli) -> None:
    Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save("x.png")
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "--linear-light", "-q").code == 0
    assert (np.asarray(Image.open("y.png")) == value).all()


def test_linear_light_is_refused_where_there_is_no_light(cli: Cli) -> None:
    np.save("x.npy", np.zeros((1, 1, 4, 4), np.float32))
    result = cli("avg", "x.npy", "-o", "y.npy", *HALVE, "--linear-light")
    assert (result.code, result.err) == (
        2,
        "poolcli: x.npy: --linear-light is for averages of grey, RGB and RGBA pictures; this is avg of no picture; "
        "leave it out\n",
    )


def animation(name: str, frames: int = 3, mode: str = "RGB") -> list[Any]:
    pages = [pixels(4, 6, len(mode) if mode != "L" else 1) for _ in range(frames)]
    if mode == "RGBA":
        for page in pages:
            page[..., 3] = 255
    pictures = [Image.fromarray(page) for page in pages]
    options: dict[str, Any] = {} if name.endswith("tiff") else {"duration": [100, 200, 300][:frames]}
    if name.endswith("webp"):
        options["lossless"] = True
    pictures[0].save(name, save_all=True, append_images=pictures[1:], **options)
    return pages


@pytest.mark.parametrize("suffix", ["tiff", "png", "webp"])
def test_all_pages_are_pooled_and_kept(suffix: str, cli: Cli) -> None:
    pages = animation(f"x.{suffix}")
    assert cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        assert getattr(made, "n_frames", 1) == 3
        for i, page in enumerate(pages):
            made.seek(i)
            np.testing.assert_array_equal(np.asarray(made.convert("RGB")), halved(page))
            assert made.info.get("duration", 0) == (0 if suffix == "tiff" else (i + 1) * 100)


def test_pages_can_be_chosen(cli: Cli) -> None:
    pages = animation("x.tiff")
    assert cli("avg", "x.tiff", "-o", "two.npy", *HALVE, "--pages", "2-3", "-q").code == 0
    two = np.load("two.npy")
    assert two.shape == (2, 3, 2, 3)
    np.testing.assert_array_equal(two[1].transpose(1, 2, 0), halved(pages[2]))
    result = cli("avg", "x.tiff", "-o", "one.jpg", *HALVE, "--pages", "2")
    assert "page 2 of 3 is read" in result.out


PAGE_REFUSALS = {
    "format of one picture": (
        ["-o", "y.jpg"],
        "a jpeg file holds one picture, the result has N=3; use .tiff, .png, .webp, .npy, .npz or .h5, or take one "
        "picture with --pages 1",
    ),
    "page that is not there": (
        ["-o", "y.npy", "--pages", "4"],
        "has 3 pages, --pages asks for 4; they count from 1 to 3",
    ),
    "no number": (
        ["-o", "y.npy", "--pages", "x"],
        "--pages is 'x'; write all, a page such as 1, or a range such as 2-5",
    ),
}


@pytest.mark.parametrize("name", PAGE_REFUSALS)
def test_pages_that_cannot_be_are_refused(name: str, cli: Cli) -> None:
    arguments, message = PAGE_REFUSALS[name]
    animation("x.tiff")
    result = cli("avg", "x.tiff", *HALVE, *arguments)
    assert (result.code, result.err) == (2, f"poolcli: x.tiff: {message}\n")


def test_a_gif_is_read_with_all_its_frames(cli: Cli) -> None:
    frames = [Image.new("P", (8, 8), i) for i in (0, 1, 2)]
    palette = [255, 0, 0, 0, 255, 0, 0, 0, 255]
    for frame in frames:
        frame.putpalette(palette)
    frames[0].save("x.gif", save_all=True, append_images=frames[1:], duration=50)
    result = cli("avg", "x.gif", "-o", "y.png", *HALVE)
    assert "palette expanded to RGBA" in result.out
    with Image.open("y.png") as made:
        colours = []
        for i in range(3):
            made.seek(i)
            colours.append(made.convert("RGB").getpixel((1, 1)))
    assert colours == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]


def test_of_pages_of_different_sizes_the_first_of_the_largest_is_read(cli: Cli) -> None:
    small, large = Image.new("L", (4, 4)), Image.new("L", (8, 6), 3)
    small.save("x.tiff", save_all=True, append_images=[large, Image.new("L", (6, 8))])
    result = cli("avg", "x.tiff", "-o", "y.npy", *HALVE)
    assert "note     page 2 of 3 is read, the first of full size; --pages takes others\n" in result.out
    np.testing.assert_array_equal(np.load("y.npy"), np.full((1, 1, 3, 4), 3))
    result = cli("avg", "x.tiff", "-o", "z.npy", *HALVE, "--pages", "all")
    assert (result.code, result.err) == (
        1,
        "poolcli: x.tiff: page 2 is 8 x 6 (L), page 1 is 4 x 4 (L); take pages of one size and kind with --pages 1\n",
    )
    assert cli("avg", "x.tiff", "-o", "z.npy", *HALVE, "--pages", "3", "-q").code == 0


FULL: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "COG": ("page 1 of 3", [{}, {"subfiletype": 1}, {"subfiletype": 1}]),
    "copy of the same size": ("page 1 of 2", [{}, {"subfiletype": 1, "same": True}]),
    "thumbnail first": ("page 2 of 2", [{"subfiletype": 1}, {}]),
    "pyramid without a word": ("page 1 of 3", [{}, {"half": True}, {"half": True}]),
    "other type": ("page 1 of 2", [{}, {"dtype": "uint16"}]),
    "a type that Pillow does not know": ("page 1 of 2", [{}, {"dtype": "float64"}]),
}


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("name", FULL)
def test_the_first_page_of_full_size_is_read_and_said(name: str, dtype: str, cli: Cli) -> None:
    said, pages = FULL[name]
    full = np.arange(48).reshape(6, 8)
    with tifffile.TiffWriter("x.tif") as file:
        for page in pages:
            kind = page.get("subfiletype", 0)
            small = (kind or "half" in page) and "same" not in page
            x = (np.zeros((3, 4)) if small else full + kind).astype(page.get("dtype", dtype))
            file.write(x, subfiletype=kind, metadata=None)
    result = cli("avg", "x.tif", "-o", "y.npy", "-k", "1")
    assert f"note     {said} is read, the first of full size; --pages takes others\n" in result.out
    np.testing.assert_array_equal(np.load("y.npy")[0, 0], full)


def test_a_mask_that_pillow_does_not_know_keeps_it_from_no_other_page(cli: Cli) -> None:
    with tifffile.TiffWriter("x.tif") as file:  # as GDAL stores JPEG with a mask
        file.write(pixels(64, 48), photometric="ycbcr", compression="jpeg", tile=(32, 32))
        file.write(np.ones((64, 48), bool), photometric="mask", subfiletype=4, compression="zlib")
    with Image.open("x.tif") as image:
        stored = np.asarray(image)
    assert cli("max", "x.tif", "-o", "y.npy", "-k", "1", "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy")[0], stored.transpose(2, 0, 1))


@pytest.mark.parametrize("compression", ["webp", "lerc", "zstd", "lzma", "packbits"])
def test_a_tiff_that_only_some_pillows_unpack_is_read(compression: str, cli: Cli) -> None:
    x = pixels(6, 8)
    lossless = {"lossless": True} if compression == "webp" else None
    tifffile.imwrite("x.tif", x, photometric="rgb", compression=compression, compressionargs=lossless)
    assert cli("max", "x.tif", "-o", "y.npy", "-k", "1", "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy")[0], x.transpose(2, 0, 1))


def test_a_bmp_of_16_bits_a_pixel_has_8_bits_a_channel(cli: Cli) -> None:
    masks = (0xF800, 0x07E0, 0x001F)  # 5 bits of red, 6 of green, 5 of blue
    header = struct.pack("<IiiHHIIiiII3I", 52, 2, 2, 1, 16, 3, 8, 0, 0, 0, 0, *masks)
    data = struct.pack("<4H", 0x001F, 0xFFFF, 0xF800, 0x07E0)  # from the bottom
    Path("x.bmp").write_bytes(b"BM" + struct.pack("<IHHI", 66 + len(data), 0, 0, 66) + header + data)
    assert cli("max", "x.bmp", "-o", "y.npy", "-k", "1", "-q").code == 0
    shown = [[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]]
    np.testing.assert_array_equal(np.load("y.npy")[0].transpose(1, 2, 0), shown)


def test_a_file_of_smaller_copies_alone_says_so(cli: Cli) -> None:
    tifffile.imwrite("x.tif", np.zeros((6, 8), np.uint8), subfiletype=1)
    result = cli("avg", "x.tif", "-o", "y.npy", "-k", "1")
    assert "page 1 of 1 is read, which the file calls a smaller copy of what is not read" in " ".join(
        result.out.split()
    )


@pytest.mark.parametrize("size", [(4, 4), (8, 8)])
def test_of_a_jpeg_with_further_views_the_first_is_read(size: tuple[int, int], cli: Cli) -> None:
    Path("in").mkdir()
    first, other = Image.new("RGB", (8, 8), (200, 200, 200)), Image.new("RGB", size)
    first.save("in/x.mpo", save_all=True, append_images=[other])
    result = cli("avg", "in/x.mpo", "-o", "y.jpg", *HALVE)
    assert "note     page 1 of 2 is read, the first of full size; --pages takes others\n" in result.out
    with Image.open("y.jpg") as made:
        assert (made.format, made.size, made.getpixel((0, 0))) == ("JPEG", (4, 4), (200, 200, 200))
    assert cli("avg", "in", "-o", "out/", *HALVE).out.startswith("1 done, 0 skipped, 0 failed\n")
    assert cli("avg", "in/x.mpo", "-o", "z.jpg", *HALVE, "--pages", "2", "-q").code == 0


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


def test_a_heic_of_more_than_8_bits_is_refused(cli: Cli) -> None:
    heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
    heif.encode("RGB;16", (64, 64), bytes(64 * 64 * 6), "x.heic", quality=-1)
    result = cli("avg", "x.heic", "-o", "y.npy", *HALVE)
    assert (result.code, "has more than 8 bits a channel, of which Pillow keeps 8" in result.err) == (1, True)


def test_a_heic_is_refused_without_its_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    Path("x.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    result = cli("avg", "x.heic", "-o", "y.npy", *HALVE)
    assert (result.code, result.err) == (
        1,
        "poolcli: x.heic: HEIC pictures need a package of their own: pip install pillow-heif\n",
    )


@cache  # the time of its making is in it
def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf/></x:xmpmeta>"
KEEPERS: dict[str, dict[str, Any]] = {
    "png": {"icc": True, "exif": True, "dpi": True, "xmp": True},
    "jpg": {"icc": True, "exif": True, "dpi": True, "xmp": True},
    "tiff": {"icc": True, "exif": True, "dpi": True, "xmp": True},
    "webp": {"icc": True, "exif": True, "dpi": False, "xmp": True},
    "bmp": {"icc": False, "exif": False, "dpi": True, "xmp": False},
    "ppm": {"icc": False, "exif": False, "dpi": False, "xmp": False},
}


@pytest.mark.parametrize("suffix", KEEPERS)
def test_what_is_said_beside_the_pixels_is_kept_or_reported(suffix: str, cli: Cli) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x011A], exif[0x011B] = "Maker", TiffImagePlugin.IFDRational(300), 300.0
    exif.get_ifd(0x8769)[0xA002], exif.get_ifd(0x8769)[0xA003] = 6, 8
    source = Image.fromarray(pixels(8, 6))
    source.save("x.jpg", exif=exif.tobytes(), icc_profile=profile(), dpi=(300, 300), xmp=XMP, quality=95)
    result = cli("avg", "x.jpg", "-o", f"y.{suffix}", "-k", "2", "-s", "4,2")
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
            assert dict(found.get_ifd(0x8769)) | {} == {0xA002: 3, 0xA003: 2}
            assert float(found[0x011A]) == pytest.approx(150)
        xmp = made.info.get("xmp") or made.info.get("XML:com.adobe.xmp")
        assert ((xmp.encode() if isinstance(xmp, str) else xmp) == XMP) is kept["xmp"]
    for word, key in (("ICC profile", "icc"), ("EXIF data", "exif"), ("resolution", "dpi"), ("XMP data", "xmp")):
        assert (f"{word} not kept" in result.out) is not kept[key]


def test_text_chunks_of_a_png_are_kept(cli: Cli) -> None:
    info = PngInfo()
    info.add_text("Author", "somebody")
    info.add_itxt("Title", "Größe")
    Image.fromarray(pixels(4, 4)).save("x.png", pnginfo=info)
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "-q").code == 0
    with Image.open("y.png") as made:
        made.load()
        assert getattr(made, "text", {}) == {"Author": "somebody", "Title": "Größe"}


def test_a_jpeg_keeps_its_tables_and_subsampling_unless_a_quality_is_named(cli: Cli) -> None:
    from PIL import JpegImagePlugin

    Image.fromarray(pixels(64, 64)).save("x.jpg", quality=61, subsampling=2)
    assert cli("avg", "x.jpg", "-o", "y.jpg", *HALVE, "-q").code == 0
    assert cli("avg", "x.jpg", "-o", "z.jpg", *HALVE, "-q", "--quality", "20").code == 0
    with Image.open("x.jpg") as x, Image.open("y.jpg") as y, Image.open("z.jpg") as z:
        tables = [getattr(image, "quantization", None) for image in (x, y, z)]
        assert tables[0] == tables[1] != tables[2]
        assert JpegImagePlugin.get_sampling(y) == JpegImagePlugin.get_sampling(x) == 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_each_exif_orientation_is_applied_once(orientation: int, cli: Cli) -> None:
    x = pixels(8, 6)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(x).save("x.png", exif=exif.tobytes())
    assert cli("avg", "x.png", "-o", "y.png", "-k", "1", "-q").code == 0
    turned: Callable[[Any], Any] = {
        1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2), 6: lambda a: a.transpose(1, 0, 2)[:, ::-1],
        7: lambda a: a.transpose(1, 0, 2)[::-1, ::-1], 8: lambda a: a.transpose(1, 0, 2)[::-1],
    }[orientation]  # fmt: skip
    with Image.open("y.png") as made:
        assert made.getexif().get(0x0112) is None
        np.testing.assert_array_equal(np.asarray(made), turned(x))


def test_a_16_bit_tiff_is_turned_upright_too(cli: Cli) -> None:
    x = pixels(8, 6, 3, "uint16")
    for orientation, expected in ((6, x.transpose(1, 0, 2)[:, ::-1]), (3, x[::-1, ::-1]), (5, x.transpose(1, 0, 2))):
        tifffile.imwrite("x.tiff", x, photometric="rgb", extratags=[(274, 3, 1, orientation, True)])
        np.testing.assert_array_equal(read(Source("x.tiff")).array, expected)


def test_cmyk_is_not_stored_as_if_it_were_rgba(cli: Cli) -> None:
    buffer = io.BytesIO()
    Image.frombytes("CMYK", (6, 8), pixels(8, 6, 4).tobytes()).save(buffer, "TIFF")
    Path("x.tiff").write_bytes(buffer.getvalue())
    result = cli("avg", "x.tiff", "-o", "y.png", *HALVE)
    assert (result.code, result.err) == (
        2,
        "poolcli: x.tiff: png cannot hold 4 channels of uint8 (CMYK); use .jpeg, .tiff, .npy, .npz or .h5\n",
    )


@pytest.mark.parametrize("largest", [2**31, 0], ids=["in one piece", "as Pillow gives it"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_pixels_come_as_numpy_has_them(mode: str, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillow, "LARGEST_PIECE", largest)
    image = Image.effect_noise((7, 5), 90).convert(mode)
    np.testing.assert_array_equal(pillow._in_one_piece(image), np.asarray(image), strict=True)
