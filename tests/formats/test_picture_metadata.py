"""What goes along with other pixels is chosen from tables; the rest is left out, and said."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, IptcImagePlugin
from PIL.PngImagePlugin import PngInfo

from tests.conftest import Cli

HALVE = ("-k", "2", "-s", "2", "--overwrite")
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8)
X = np.stack([GREY, GREY + 1, GREY + 2], -1)
DEEP = X.astype(np.uint16) * 257
TEXTS = {269: "document", 270: "a scene", 271: "Maker", 272: "Model", 305: "program", 315: "artist", 33432: "owner"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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


def test_a_tiff_that_must_be_large_keeps_what_it_says(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.formats.image.tiff_write.MAX_CLASSIC_BYTES", 10)
    tiff(True)
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE, "-q").code == 0
    with tifffile.TiffFile("y.tif") as file:
        tags = first(file).tags
        assert file.is_bigtiff
        assert {tag: tags[tag].value for tag in TEXTS} == TEXTS
        np.testing.assert_array_equal(
            first(file).asarray(), np.rint(DEEP.reshape(3, 2, 4, 2, 3).mean((1, 3))).astype(np.uint16)
        )


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_the_tags_of_a_tiff_become_exif_data(suffix: str, cli: Cli) -> None:
    tiff(False)
    assert cli("avg", "x.tif", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        found = dict(made.getexif())
    assert {tag: found.pop(tag) for tag in TEXTS} == TEXTS
    assert found == {282: 150, 283: 75, 296: 2}


STRUCTURE: dict[str, dict[str, Any]] = {
    "palette": {"photometric": "palette", "colormap": np.arange(768, dtype=np.uint16).reshape(3, 256)},
    "planes": {"photometric": "rgb", "planarconfig": "separate"},
    "predictor": {"photometric": "rgb", "compression": "lzw", "predictor": True},
    "tiles": {"photometric": "rgb", "tile": (16, 16), "compression": "zlib"},
    "BigTIFF": {"photometric": "rgb", "bigtiff": True},
}
STORAGE = {*range(254, 269), *range(273, 282), 284, 292, 293, 317, *range(320, 331), *range(332, 348), 512, 529, 530}


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("name", STRUCTURE)
def test_no_other_format_is_told_how_a_tiff_was_stored(name: str, suffix: str, cli: Cli) -> None:
    options = STRUCTURE[name]
    x = GREY if name == "palette" else np.moveaxis(X, -1, 0) if name == "planes" else X
    tifffile.imwrite("x.tif", x, metadata=None, **options)
    assert cli("avg", "x.tif", "-o", f"y.{suffix}", *HALVE, "-q").code == 0
    with Image.open(f"y.{suffix}") as made:
        assert not STORAGE & set(made.getexif())


@pytest.mark.parametrize("deep", [False, True])
def test_tags_that_are_not_known_are_named_once(deep: bool, cli: Cli) -> None:
    tiff(deep, tuple((65000 + i, 3, 1, i, True) for i in range(7)))
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    note = "tags 65000, 65001, 65002, 65003, 65004 and 2 more not kept: may not apply to the output\n"
    assert note in result.out
    assert result.out.count("not kept") == 1
    with tifffile.TiffFile("y.tif") as file:
        assert not [tag for tag in first(file).tags if tag.code >= 65000]


@pytest.mark.parametrize(
    ("program", "description"),
    [
        ("ImageJ", "ImageJ=1.54f\nimages=1\nslices=1\n"),
        ("OME-XML", '<?xml version="1.0"?><OME xmlns="x"><Image><Pixels SizeX="8" SizeY="6"/></Image></OME>'),
        ("tifffile", '{"shape": [6, 8, 3]}'),
    ],
)
def test_a_description_of_the_array_is_not_kept_for_another(program: str, description: str, cli: Cli) -> None:
    tiff(False, description=description)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, columns=200)
    assert f"description by {program} not kept: it describes how the input is stored\n" in result.out
    with tifffile.TiffFile("y.tif") as file:
        assert 270 not in first(file).tags


def exif_with(tag: int, value: object) -> bytes:
    exif = Image.Exif()
    exif.get_ifd(34665)[tag] = value
    exif.get_ifd(34665)[36867] = "2020:01:01 00:00:00"
    return exif.tobytes()


NOT_KEPT = {
    37500: (b"Apple iOS\0\0\1MM", "maker notes not kept: they may not apply to the output"),
    41492: ((3, 4), "tag SubjectLocation not kept: may not apply to the output"),
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


def test_pixels_to_the_centimetre_of_the_sensor_follow_the_stride(cli: Cli) -> None:
    Image.fromarray(X).save("x.jpg", exif=exif_with(41486, 1000.0))
    assert cli("avg", "x.jpg", "-o", "y.jpg", *HALVE, "-q").code == 0
    with Image.open("y.jpg") as made:
        assert made.getexif().get_ifd(34665)[41486] == 500


def test_a_tiff_without_a_resolution_gets_none(cli: Cli) -> None:
    Image.fromarray(X).save("x.tif")
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE, "-q").code == 0
    with Image.open("y.tif") as made:
        assert 282 not in made.getexif()


@pytest.mark.parametrize("deep", [False, True])
def test_exif_and_gps_directories_go_along_to_a_tiff(deep: bool, cli: Cli) -> None:
    exif = Image.Exif()
    exif[271] = "Maker"
    exif.get_ifd(34665)[36867] = "2020:01:01 00:00:00"
    exif.get_ifd(34665)[40965] = {1: "R98"}
    exif.get_ifd(34853)[1], exif.get_ifd(34853)[2] = "N", (1.0, 2.0, 3.0)
    if deep:
        Path("x.png").write_bytes(imagecodecs.png_encode(DEEP))
        with_exif("x.png", exif.tobytes())
    else:
        Image.fromarray(X).save("x.png", exif=exif.tobytes())
    assert cli("avg", "x.png", "-o", "y.tif", *HALVE, "-q").code == 0
    assert cli("avg", "y.tif", "-o", "z.tif", "-k", "1", "-q").code == 0
    for path in ("y.tif", "z.tif"):
        with Image.open(path) as made:
            found = made.getexif()
            assert found.get_ifd(34665)[36867] == "2020:01:01 00:00:00"
            assert dict(found.get_ifd(34853)) == {1: "N", 2: (1.0, 2.0, 3.0)}
            assert found.get_ifd(40965) == {1: "R98"}


def with_exif(path: str, exif: bytes) -> None:
    """Puts EXIF data into a PNG, behind its pixels."""
    data, content = Path(path).read_bytes(), b"eXIf" + exif.removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    Path(path).write_bytes(data[:-12] + chunk + data[-12:])


XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf/></x:xmpmeta>"
IPTC = b"\x1c\x02\x78\0\x07caption\x1c\x02\x05\0\x05title"
CAPTION = {(2, 120): b"caption", (2, 5): b"title"}


def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def deep_png() -> bytes:
    """A PNG of 16 bits with all that a PNG can say; gives the profile."""
    exif, info, icc = Image.Exif(), PngInfo(), profile()
    exif[271] = "Maker"
    info.add_text("Author", "somebody")
    info.add_itxt("Title", "Größe")
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    beside = io.BytesIO()
    Image.new("RGB", (1, 1)).save(beside, "PNG", exif=exif, icc_profile=icc, dpi=(300, 300), pnginfo=info)
    said = beside.getvalue()
    data = imagecodecs.png_encode(DEEP)
    Path("x.png").write_bytes(data[:33] + said[33 : said.index(b"IDAT") - 4] + data[33:])
    with_exif("x.png", exif.tobytes())
    return icc


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_colour_of_16_bits_says_what_8_bits_say(suffix: str, cli: Cli) -> None:
    icc = deep_png()
    result = cli("avg", "x.png", "-o", f"y.{suffix}", *HALVE)
    assert ("text chunks not kept" in result.out) is (suffix == "tif")
    assert result.out.count("not kept") == (suffix == "tif")
    with Image.open(f"y.{suffix}") as made:
        made.load()
        assert made.info["icc_profile"] == icc
        assert made.info["dpi"] == pytest.approx((150, 150), abs=0.02)
        assert made.getexif()[271] == "Maker"
        xmp = made.info.get("xmp") or made.info.get("XML:com.adobe.xmp")
        assert (xmp.encode() if isinstance(xmp, str) else xmp) == XMP
        if suffix == "png":
            text = getattr(made, "text", {})
            assert (text["Author"], text["Title"]) == ("somebody", "Größe")
    y = imagecodecs.png_decode(Path("y.png").read_bytes()) if suffix == "png" else tifffile.imread("y.tif")
    np.testing.assert_array_equal(y, np.rint(DEEP.reshape(3, 2, 4, 2, 3).mean((1, 3))).astype(np.uint16))


def with_iptc(suffix: str) -> None:
    """`x.jpg` or `x.tif` with IPTC data among Photoshop's resources, and one more of these."""
    blocks = b"".join(
        b"8BIM" + struct.pack(">HHI", number, 0, len(data)) + data + bytes(len(data) % 2)
        for number, data in ((0x0404, IPTC), (0x03ED, bytes(16)), (0x0408, b"grid"))
    )
    content = b"Photoshop 3.0\0" + blocks
    marker = b"\xff\xed" + struct.pack(">H", len(content) + 2) + content
    if suffix == "jpg":
        Image.fromarray(X).save("x.jpg", extra=marker)
    else:
        tiff(suffix == "deep tif", ((34377, 1, len(blocks), blocks, True),))


@pytest.mark.parametrize("source", ["jpg", "tif", "deep tif"])
@pytest.mark.parametrize("target", ["jpg", "tif", "png"])
def test_iptc_data_are_kept_and_other_resources_named(source: str, target: str, cli: Cli) -> None:
    if (source, target) == ("deep tif", "jpg"):
        pytest.skip("a JPEG has 8 bits")
    with_iptc(source)
    result = cli("avg", f"x.{source.split()[-1]}", "-o", f"y.{target}", *HALVE, columns=200)
    assert "Photoshop's resources 1032 not kept: may not apply to the output\n" in result.out
    assert ("IPTC data not kept: png files cannot store it\n" in result.out) is (target == "png")
    with Image.open(f"y.{target}") as made:
        assert IptcImagePlugin.getiptcinfo(made) == (None if target == "png" else CAPTION)


def test_iptc_data_of_a_tiff_in_a_tag_of_their_own_are_kept_or_said_to_be_lost(cli: Cli) -> None:
    longs = struct.unpack("<6I", IPTC.ljust(24, b"\0"))
    for tag, kept in (((33723, 7, len(IPTC), IPTC, True), True), ((33723, 4, 6, longs, True), False)):
        tiff(False, (tag,))
        result = cli("avg", "x.tif", "-o", "y.jpg", *HALVE)
        assert ("note     IPTC data not kept: stored as numbers, not as bytes\n" in result.out) is not kept
        with Image.open("y.jpg") as made:
            assert IptcImagePlugin.getiptcinfo(made) == (CAPTION if kept else None)


def test_xmp_data_say_nothing_of_the_input_s_pixels(cli: Cli) -> None:
    xmp = (
        b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:Description tiff:Orientation=\"6\" dc:format='image/jpeg' "
        b'exif:PixelXDimension="8"><tiff:ImageWidth>8</tiff:ImageWidth>\n<dc:title>t</dc:title></rdf:Description>'
    )
    Image.fromarray(X).save("x.jpg", xmp=xmp)
    assert cli("avg", "x.jpg", "-o", "y.jpg", *HALVE, "-q").code == 0
    with Image.open("y.jpg") as made:
        assert made.size == (3, 4)  # it was turned
        assert made.info["xmp"] == (
            b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:Description dc:format='image/jpeg'>"
            b"<dc:title>t</dc:title></rdf:Description>"
        )


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("lossless", [True, False])
def test_a_webp_is_stored_with_loss_where_its_input_was(lossless: bool, frames: int, cli: Cli) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    pictures = [Image.fromarray(np.roll(noise, i, 0)) for i in range(frames)]
    several: dict[str, Any] = {"save_all": True, "append_images": pictures[1:]} if frames > 1 else {}
    pictures[0].save("x.webp", lossless=lossless, quality=80, **several)
    assert cli("avg", "x.webp", "-o", "y.webp", *HALVE, "-q").code == 0
    assert cli("avg", "x.webp", "-o", "z.webp", *HALVE, "-q", "--quality", "20").code == 0
    assert (b"VP8L" in Path("y.webp").read_bytes()) is lossless
    assert (b"VP8 " in Path("y.webp").read_bytes()) is not lossless
    assert Path("z.webp").stat().st_size < Path("y.webp").stat().st_size


def test_colours_of_transparent_pixels_are_stored_in_a_webp_without_loss(cli: Cli) -> None:
    x = np.random.default_rng(0).integers(0, 256, (8, 8, 4), np.uint8)
    x[..., 3] = 0
    Image.fromarray(x).save("x.png")
    assert cli("max", "x.png", "-o", "y.webp", *HALVE, "-q").code == 0
    with Image.open("y.webp") as made:
        np.testing.assert_array_equal(np.asarray(made), x.reshape(4, 2, 4, 2, 4).max((1, 3)))


@pytest.mark.parametrize("deep", [False, True])
def test_a_gamma_is_kept_by_a_png_and_said_to_be_lost_by_others_unless_it_is_that_of_srgb(deep: bool, cli: Cli) -> None:
    for gamma, unusual in ((1.0, True), (0.45455, False)):
        stated = PngInfo()
        stated.add(b"gAMA", struct.pack(">I", round(gamma * 100_000)))
        Image.fromarray(X).save("x.png", pnginfo=stated)
        if deep:
            data = imagecodecs.png_encode(DEEP)
            Path("x.png").write_bytes(data[:33] + Path("x.png").read_bytes()[33:49] + data[33:])
        assert "not kept" not in cli("avg", "x.png", "-o", "y.png", *HALVE).out
        with Image.open("y.png") as made:
            assert made.info.get("gamma") == gamma
        said = "note     colour space not kept: tiff files cannot store it\n"
        assert (said in cli("avg", "x.png", "-o", "y.tif", *HALVE, columns=200).out) is unusual


def test_a_damaged_directory_is_said_in_a_few_notes(cli: Cli) -> None:
    """Pillow warns of each of these tags that it has two values where one is expected."""
    grey = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 8 + 2 + 12 * 13 + 4, 277: 1, 278: 8, 279: 64}
    entries = {tag: (4, 1, value) for tag, value in grey.items()} | dict.fromkeys((266, 274, 284, 296), (3, 2, 0x10001))
    stored = b"".join(struct.pack("<HHII", tag, *entries[tag]) for tag in sorted(entries))
    Path("x.tif").write_bytes(b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + stored + bytes(4 + 64))
    notes = cli("avg", "x.tif", "-o", "y.png", "-k", "2", "--json").json["notes"]
    assert len([note for note in notes if "too many entries" in note]) == 3
    assert "and 1 more warnings of the image" in notes


@pytest.mark.parametrize("deep", [False, True])
def test_a_resolution_without_a_unit_is_scaled_and_gets_none(deep: bool, cli: Cli) -> None:
    tiff(deep, resolution=(2, 1), resolutionunit=1)
    assert cli("avg", "x.tif", "-o", "y.tif", *HALVE, "-q").code == 0
    with tifffile.TiffFile("y.tif") as file:
        tags = first(file).tags
        assert (tags[282].value, tags[283].value, tags[296].value) == ((1, 1), (1, 2), 1)


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
