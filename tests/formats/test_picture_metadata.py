"""What goes along with other pixels is chosen from tables; the rest is left out, and said."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.conftest import Cli
from tests.formats.pictures import png_chunk, put_exif_behind_pixels

pytestmark = pytest.mark.usefixtures("here")
HALVE = ("-k", "2", "-s", "2", "--overwrite")
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8)
X = np.stack([GREY, GREY + 1, GREY + 2], -1)
DEEP = X.astype(np.uint16) * 257
TEXTS = {269: "document", 270: "a scene", 271: "Maker", 272: "Model", 305: "program", 315: "artist", 33432: "owner"}


def tiff(deep: bool, tags: tuple[Any, ...] = (), **options: Any) -> None:
    """`x.tif` with the texts, a resolution, and further tags as tifffile takes them."""
    texts = [(tag, 2, None, text, True) for tag, text in TEXTS.items() if tag not in (270, 305)]
    options = {"photometric": "rgb", "description": "a scene", "resolution": (300, 150), **options}
    tifffile.imwrite(
        "x.tif", DEEP if deep else X, software="program", metadata=None, extratags=[*texts, *tags], **options
    )


def first(file: tifffile.TiffFile) -> Any:
    """The first page."""
    return file.pages[0]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("compression", [None, "lzw", "zlib"])
def test_a_tiff_keeps_what_it_says_of_its_making(deep: bool, compression: str | None, cli: Cli) -> None:
    tiff(deep, compression=compression)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE)
    assert (result.code, "not kept" in result.out) == (0, False)
    with tifffile.TiffFile("y.tif") as file:
        tags = first(file).tags
        assert {tag: tags[tag].value for tag in TEXTS} == TEXTS
        assert (tags[282].value, tags[283].value, tags[296].value) == ((150, 1), (75, 1), 2)
        assert [tag.code for tag in tags] == sorted(tag.code for tag in tags)


def test_a_tiff_whose_tags_pillow_does_not_read_says_that_they_are_lost(cli: Cli) -> None:
    tiff(False, bigtiff=True, byteorder=">")
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    assert "note     not kept: EXIF data and texts (Pillow does not read them in this file)\n" in result.out


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_the_tags_of_a_tiff_become_exif_data(suffix: str, cli: Cli) -> None:
    tiff(False)
    assert cli("avg", "x.tif", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        found, dots = dict(made.getexif()), [round(number) for number in made.info.get("dpi", ())]
    assert {tag: found.pop(tag) for tag in TEXTS} == TEXTS
    assert (found, dots) == ({}, [150, 75] if suffix != "webp" else [])


@pytest.mark.parametrize("deep", [False, True])
def test_tags_that_are_not_known_are_named_once(deep: bool, cli: Cli) -> None:
    tiff(deep, tuple((65000 + i, 3, 1, i, True) for i in range(7)))
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    note = "note     not kept: tags 65000, 65001, 65002, 65003, 65004 and 2 more\n"
    assert note in result.out
    assert result.out.count("not kept") == 1
    with tifffile.TiffFile("y.tif") as file:
        assert not [tag for tag in first(file).tags if tag.code >= 65000]


@pytest.mark.parametrize(
    "description",
    [
        "ImageJ=1.54f\nimages=1\nslices=1\n",
        '<?xml version="1.0"?><OME xmlns="x"><Image><Pixels SizeX="8" SizeY="6"/></Image></OME>',
        "shape=(6, 8, 3)",
        "Aperio Image Library v12|AppMag = 40|MPP = 0.2495",
        "<MetaData><prop id='spatial-calibration-x' value='0.65'/></MetaData>",
    ],
)
def test_a_description_of_the_array_is_not_kept_for_another(description: str, cli: Cli) -> None:
    tiff(False, description=description)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    assert "note     not kept: description of the array\n" in result.out
    with tifffile.TiffFile("y.tif") as file:
        assert 270 not in first(file).tags


def test_the_shape_that_tifffile_describes_is_no_loss(cli: Cli) -> None:
    tiff(False, description='{"shape": [6, 8, 3]}')
    assert "not kept" not in cli("avg", "x.tif", "-o", "y.tif", *HALVE).out
    with tifffile.TiffFile("y.tif") as file:
        assert 270 not in first(file).tags


def exif_with(tag: int, value: object) -> bytes:
    exif = Image.Exif()
    exif.get_ifd(34665)[tag] = value
    exif.get_ifd(34665)[36867] = "2020:01:01 00:00:00"
    return exif.tobytes()


NOT_KEPT = {
    37500: (b"Apple iOS\0\0\1MM", "not kept: tags MakerNote"),
    41486: (1000.0, "not kept: tags FocalPlaneXResolution"),
    41492: ((3, 4), "not kept: tags SubjectLocation"),
}


@pytest.mark.parametrize("suffix", ["jpg", "tif", "png"])
@pytest.mark.parametrize("tag", NOT_KEPT)
def test_exif_data_that_would_be_untrue_are_left_out_and_said(tag: int, suffix: str, cli: Cli) -> None:
    value, note = NOT_KEPT[tag]
    Image.fromarray(X).save("x.jpg", exif=exif_with(tag, value))
    result = cli("avg", "x.jpg", "-o", f"y.{suffix}", *HALVE, columns=200)
    assert f"{note}\n" in result.out
    with Image.open(f"y.{suffix}") as made:
        assert dict(made.getexif().get_ifd(34665)) == {36867: "2020:01:01 00:00:00"}


@pytest.mark.parametrize("deep", [False, True])
def test_exif_and_gps_directories_go_along_to_a_tiff(deep: bool, cli: Cli) -> None:
    exif = Image.Exif()
    exif[271] = "Maker"
    exif.get_ifd(34665)[36867] = "2020:01:01 00:00:00"
    exif.get_ifd(34853)[1], exif.get_ifd(34853)[2] = "N", (1.0, 2.0, 3.0)
    if deep:
        Path("x.png").write_bytes(imagecodecs.png_encode(DEEP))
        put_exif_behind_pixels(Path("x.png"), exif.tobytes())
    else:
        Image.fromarray(X).save("x.png", exif=exif.tobytes())
    assert cli("avg", "x.png", "-o", "y.tif", *HALVE, "-q").code == 0
    assert cli("avg", "y.tif", "-o", "z.tif", "-k", "1", "-q").code == 0
    for path in ("y.tif", "z.tif"):
        with Image.open(path) as made:
            found = made.getexif()
            assert found.get_ifd(34665)[36867] == "2020:01:01 00:00:00"
            assert dict(found.get_ifd(34853)) == {1: "N", 2: (1.0, 2.0, 3.0)}


def test_what_is_not_kept_is_one_note(cli: Cli) -> None:
    info = PngInfo()
    info.add_text("Author", "somebody")
    info.add_itxt("XML:com.adobe.xmp", "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>")
    info.add(b"gAMA", struct.pack(">I", 100_000))
    Image.fromarray(X).save("x.png", pnginfo=info)
    result = cli("avg", "x.png", "-o", "y.png", *HALVE)
    assert "note     not kept: XMP data, gamma, texts\n" in result.out
    with Image.open("y.png") as made:
        assert made.info == {}


def test_a_webp_is_stored_without_loss_unless_a_quality_is_named(cli: Cli) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save("x.webp", quality=80)
    for name, options in (("y.webp", ()), ("z.webp", ("--quality", "20"))):
        assert cli("avg", "x.webp", "-o", name, *HALVE, "-q", *options).code == 0
        assert (b"VP8L" in Path(name).read_bytes()) is (not options)


def test_grey_becomes_colour_in_a_webp(cli: Cli) -> None:
    for mode in ("L", "LA"):
        Image.fromarray(X).convert(mode).save("x.png")
        notes = cli("max", "x.png", "-o", "y.webp", "-k", "1", "--overwrite", "--json").json["notes"]
        with Image.open("x.png") as grey, Image.open("y.webp") as made:
            np.testing.assert_array_equal(np.asarray(made), np.asarray(grey.convert(made.mode)))
        assert "not kept: grey (written as RGB)" in notes


def test_a_tiff_keeps_its_tiles_where_one_fits(cli: Cli) -> None:
    tifffile.imwrite("x.tif", np.ones((48, 64), np.uint8), tile=(16, 32))
    for stride, kept in (("2", (16, 32)), ("3", None)):
        assert cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", stride, "--overwrite", "-q").code == 0
        with tifffile.TiffFile("y.tif") as file:
            assert (first(file).tile if first(file).is_tiled else None) == kept


def test_colours_of_transparent_pixels_are_stored_in_a_webp_without_loss(cli: Cli) -> None:
    x = np.random.default_rng(0).integers(0, 256, (8, 8, 4), np.uint8)
    x[..., 3] = 0
    Image.fromarray(x).save("x.png")
    assert cli("max", "x.png", "-o", "y.webp", *HALVE, "-q").code == 0
    with Image.open("y.webp") as made:
        np.testing.assert_array_equal(np.asarray(made), x.reshape(4, 2, 4, 2, 4).max((1, 3)))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_texts_of_tags_keep_their_bytes(suffix: str, cli: Cli) -> None:
    """Tags are ASCII by their specification, and other characters are common in them."""
    exif = Image.Exif()
    exif[315], exif[270] = "\u00a9 M\u00fcller".encode(), "25 \u00b0".encode("latin-1")
    exif[34665] = {42036: "obj\u00e9ctif".encode()}
    Image.fromarray(X).save(f"x.{suffix}", exif=exif.tobytes())
    assert cli("avg", f"x.{suffix}", "-o", f"y.{suffix}", *HALVE).code == 0
    data = Path(f"y.{suffix}").read_bytes()
    assert all(text in data for text in ("\u00a9 M\u00fcller".encode(), "25 \u00b0".encode("latin-1")))
    with Image.open(f"x.{suffix}") as read, Image.open(f"y.{suffix}") as made:
        for tag in (315, 270):
            assert made.getexif()[tag] == read.getexif()[tag]
        assert made.getexif().get_ifd(34665)[42036] == read.getexif().get_ifd(34665)[42036]


@pytest.mark.parametrize("deep", [False, True])
def test_texts_of_the_tags_of_a_tiff_keep_their_bytes(deep: bool, cli: Cli) -> None:
    keys = (1, 1, 0, 1, 1026, 34737, 4, 0)
    geo = (33550, "d", 3, (2.0, 2.0, 0.0), True), (34735, "H", 8, keys, True), (34737, "s", 0, b"m|\xc2\xb0|", True)
    tiff(deep, (*geo, (285, "s", 0, b"25 \xb0", True)))
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE).code == 0
    data = Path("y.tif").read_bytes()
    assert (b"m|\xc2\xb0|\0" in data, b"25 \xb0\0" in data) == (True, True)


def test_a_resolution_in_centimetres_is_kept(cli: Cli) -> None:
    exif = Image.Exif()
    exif[296], exif[282], exif[283] = 3, 60.0, 60.0
    Image.new("RGB", (8, 6)).save("x.png", exif=exif.tobytes())
    assert cli("avg", "x.png", "-o", "y.png", *HALVE, "-q").err == ""
    with Image.open("y.png") as image:
        assert image.info["dpi"] == pytest.approx((76.2, 76.2), abs=0.02)  # of half as many pixels


def test_pages_after_the_first_get_none_of_its_words_and_lose_theirs_with_a_note(cli: Cli) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        for page in range(3):
            own: dict[str, Any] = {"extratags": [(42113, 2, None, f"{page}", True)]}
            file.write(GREY, description=f"page {page}", software=f"soft {page}", metadata=None, **own)
    notes = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--json").json["notes"]
    lost = ["not kept: nodata values of later pages; that of the first is used", "not kept: metadata of later pages"]
    assert [note for note in notes if note.startswith("not kept")] == lost
    with tifffile.TiffFile("y.tif") as made:
        words = [
            {tag.code: tag.value for tag in page.aspage().tags if tag.code in (270, 305)}
            for page in map(made.pages.get, range(3))
        ]
    assert words == [{270: "page 0", 305: "soft 0"}, {}, {}]


@pytest.mark.parametrize("source", ["x.tif", "x.jpg", "x.png"])
@pytest.mark.parametrize("suffix", ["tif", "jpg", "png"])
def test_the_aspect_of_pixels_is_kept_in_a_tiff_and_else_said_to_be_lost(source: str, suffix: str, cli: Cli) -> None:
    tifffile.imwrite("x.tif", GREY, resolution=(2, 1), resolutionunit="NONE", metadata=None)
    for name, found, stated in (
        ("x.jpg", b"JFIF\0\1\1\0\0\1\0\1", b"JFIF\0\1\1\0\0\2\0\1"),
        ("x.png", png_chunk(b"pHYs", struct.pack(">IIB", 79, 79, 1)), png_chunk(b"pHYs", struct.pack(">IIB", 2, 1, 0))),
    ):
        Image.fromarray(GREY).save(name, dpi=(2, 2) if name == "x.png" else (0, 0))
        Path(name).write_bytes(Path(name).read_bytes().replace(found, stated))
    notes = cli("avg", source, "-o", f"y.{suffix}", "-k", "2", "-s", "2,1", "--overwrite", "--json").json["notes"]
    assert ("not kept: aspect ratio of the pixels" in notes) is (suffix != "tif")
    if suffix == "tif":
        with tifffile.TiffFile("y.tif") as made:
            across, down = (first(made).tags[tag].value for tag in (282, 283))
            assert (first(made).tags[296].value, across[0] / across[1], down[0] / down[1]) == (1, 2, 0.5)
