"""Checks of the metadata of images in docs/formats.md: Pillow or tifffile read what becomes of each kind."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms, ImageFile, IptcImagePlugin
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from tests.documents.checks import Row, row_of
from tests.documents.rows_of_files import FILES, picture, pool

row = partial(row_of, FILES)
GREY = np.zeros((8, 8), np.uint8)
RGB = np.zeros((8, 8, 3), np.uint8)
IPTC = b"\x1c\x02\x78\0\x07caption"
SPACE = ((b"cHRM", struct.pack(">8I", *range(1, 9))), (b"gAMA", struct.pack(">I", 100_000)), (b"cICP", b"\t\x08\0\1"))
PANORAMA = "xmlns:GPano='http://ns.google.com/photos/1.0/panorama/' GPano:FullPanoWidthPixels="
MOTION = "xmlns:Cam='http://ns.google.com/photos/1.0/camera/' xmlns:C='http://ns.google.com/photos/1.0/container/'"


@cache  # a profile holds the time of its making
def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def rdf(content: str) -> bytes:
    return f"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:Description {content}</rdf:Description></x:xmpmeta>".encode()


def halved(name: str, output: str | None = None) -> tuple[str, ImageFile.ImageFile]:
    """What is said while a picture is halved, and the result."""
    output = output or f"y{Path(name).suffix}"
    said = pool(f"avg {name} -o {output} -k 2 -s 2 --overwrite")
    with Image.open(output) as made:
        made.load()
    return said, made


def blocks(*found: tuple[int, bytes]) -> bytes:
    """A JPEG marker with Photoshop's resources."""
    data = b"".join(b"8BIM" + struct.pack(">HHI", n, 0, len(each)) + each + bytes(len(each) % 2) for n, each in found)
    return b"\xff\xed" + struct.pack(">H", len(data) + 16) + b"Photoshop 3.0\0" + data


@row("resolution, sizes in EXIF, focal plane resolution")
def _sizes(row: Row) -> None:
    exif = Image.Exif()
    exif.get_ifd(34665).update({40962: 8, 40963: 8, 41486: 1000.0})
    picture("x.jpg", "RGB", RGB, dpi=(300, 150), exif=exif)
    _, made = halved("x.jpg")
    found = made.getexif().get_ifd(34665)
    assert (made.info["dpi"], found[40962], found[40963], found[41486]) == ((150, 75), 4, 4, 500)


@row("georeference (GeoTIFF)", "nodata value (GDAL)")
def _places(row: Row) -> None:
    places = ImageFileDirectory_v2()
    places[33550], places[42113] = (10.0, 20.0, 0.0), "7"
    picture("x.tif", "L", GREY, tiffinfo=places)
    pool("avg x.tif -o y.tif -k 2 -s 2,3 --overwrite")
    with Image.open("y.tif") as image:
        found = image.getexif()
        assert (found[33550], found[42113]) == ((30.0, 40.0, 0.0), "7")


@row("scale, offset, unit and description of bands (GDAL)")
def _bands(row: Row) -> None:
    items = '<Item name="SCALE" sample="0" role="scale">0.5</Item><Item name="MEAN">1</Item>'
    picture("x.tif", "L", GREY, tiffinfo={42112: f"<GDALMetadata>{items}</GDALMetadata>"})
    assert "note GDAL's MEAN not kept" in pool("avg x.tif -o y.tif -k 2 --overwrite")
    with Image.open("y.tif") as image:
        assert 'sample="0" role="scale">0.5</Item>' in image.getexif()[42112]


@row("ICC profile")
def _icc(row: Row) -> None:
    for suffix in ("png", "jpg", "tif", "webp", "gif"):
        picture(f"x.{suffix}", "RGB", RGB, icc_profile=profile())
    assert halved("x.png", "first.gif")[1].size == (4, 4)
    for suffix in ("png", "jpg", "tif", "webp"):
        assert halved(f"x.{suffix}")[1].info["icc_profile"] == profile()
    assert _gif_profile("first.gif") == profile()
    assert halved("first.gif", "y.png")[1].info["icc_profile"] == profile()
    picture("x.png", "L", GREY, icc_profile=profile())
    assert "note ICC profile not kept: it is for RGB pixels, these are L" in halved("x.png")[0]


def _gif_profile(path: str) -> bytes:
    """The ICC profile of a GIF, as its specification (ICC.1, annex B.6) has it."""
    data = Path(path).read_bytes()
    at, found = data.index(b"\x21\xff\x0bICCRGBG1012") + 14, b""
    while data[at]:
        found, at = found + data[at + 1 : at + 1 + data[at]], at + 1 + data[at]
    return found


@row("XMP: sizes and positions of a panorama")
def _panorama(row: Row) -> None:
    picture("x.jpg", "RGB", RGB, xmp=rdf(f"{PANORAMA}'8'><GPano:CroppedAreaTopPixels>4</GPano:CroppedAreaTopPixels>"))
    xmp = halved("x.jpg")[1].info["xmp"]
    assert xmp == rdf(f"{PANORAMA}'4'><GPano:CroppedAreaTopPixels>2</GPano:CroppedAreaTopPixels>")


@row("XMP: how the pixels are stored")
def _stored(row: Row) -> None:
    picture("x.jpg", "RGB", RGB, xmp=rdf("tiff:Orientation='6' exif:PixelXDimension = '8' a='1'>"))
    assert halved("x.jpg")[1].info["xmp"] == rdf("a='1'>")


@row("XMP: companion images, depth, video")
def _companions(row: Row) -> None:
    directory = "<C:Directory><rdf:Seq><C:Item Item:Length='9'/></rdf:Seq></C:Directory>"
    picture("x.jpg", "RGB", RGB, xmp=rdf(f"{MOTION} Cam:MotionPhoto='1' a='1'>{directory}<b>2</b>"))
    said, made = halved("x.jpg")
    assert "note XMP data of companion images (C, Cam) not kept: the output has none" in said
    assert made.info["xmp"] == rdf(f"{MOTION} a='1'><b>2</b>")


@row("other XMP")
def _xmp(row: Row) -> None:
    for suffix in ("png", "jpg", "webp", "tif"):
        chunks = PngInfo()
        chunks.add_itxt("XML:com.adobe.xmp", rdf("a='1'>").decode())
        saved: Any = {"pnginfo": chunks} if suffix == "png" else {"tiffinfo": {700: rdf("a='1'>")}}
        picture(f"x.{suffix}", "RGB", RGB, **(saved if suffix in ("png", "tif") else {"xmp": rdf("a='1'>")}))
        assert halved(f"x.{suffix}")[1].info["xmp"] == rdf("a='1'>")
    halved("x.jpg", "y.gif")
    assert b"\x21\xff\x0bXMP DataXMP" + rdf("a='1'>") + b"\1\xff\xfe" in Path("y.gif").read_bytes()
    assert halved("y.gif", "z.png")[1].info["xmp"] == rdf("a='1'>")


@row("IPTC data, copyright flag and URL of Photoshop", "other resources of Photoshop")
def _iptc(row: Row) -> None:
    picture("x.jpg", "RGB", RGB, extra=blocks((0x0404, IPTC), (0x0408, b"grid")))
    said, made = halved("x.jpg")
    assert IptcImagePlugin.getiptcinfo(made) == {(2, 120): b"caption"}
    assert "note Photoshop's resources 1032 not kept: may not apply to the output" in said


@row("texts and comments")
def _texts(row: Row) -> None:
    text = PngInfo()
    text.add_text("Title", "a title")
    picture("x.png", "L", GREY, pnginfo=text)
    assert halved("x.png")[1].text == {"Title": "a title"}  # type: ignore[attr-defined]  # of PNG alone
    assert "text chunks not kept: bmp files cannot store it" in halved("x.png", "y.bmp")[0]
    picture("x.jpg", "RGB", RGB, comment=b"a comment")
    assert halved("x.jpg")[1].info["comment"] == b"a comment"


@row("PNG: gAMA, cHRM, sRGB, cICP")
def _space(row: Row) -> None:
    chunks = PngInfo()
    for kind, data in SPACE:
        chunks.add(kind, data)
    picture("x.png", "RGB", RGB, pnginfo=chunks)
    halved("x.png")
    assert all(kind + data in Path("y.png").read_bytes() for kind, data in SPACE)
    assert "note colour space not kept: tiff files cannot store it" in halved("x.png", "y.tif")[0]


@row("PNG: profiles that ImageMagick stores as texts")
def _as_texts(row: Row) -> None:
    exif, chunks = Image.Exif(), PngInfo()
    exif[315], exif[274] = "an artist", 6
    for kind, data in (("exif", exif.tobytes()), ("xmp", rdf("a='1'>")), ("iptc", IPTC), ("icc", profile())):
        chunks.add_text(f"Raw profile type {kind}", f"\n{kind}\n{len(data):8}\n{data.hex()}\n", zip=True)
    picture("x.png", "RGB", RGB[:, :4], pnginfo=chunks)
    made = halved("x.png", "y.jpg")[1]
    assert (made.size, dict(made.getexif())) == ((4, 2), {315: "an artist"})
    assert (made.info["xmp"], made.info["icc_profile"]) == (rdf("a='1'>"), profile())
    assert IptcImagePlugin.getiptcinfo(made) == {(2, 120): b"caption"}


@row("AVIF, HEIC: colour space other than sRGB")
def _named_space(row: Row) -> None:
    Image.fromarray(RGB).save(stream := io.BytesIO(), "AVIF")
    at = stream.getvalue().index(b"nclx") + 4
    Path("x.avif").write_bytes(stream.getvalue()[:at] + b"\0\x0c\0\x10" + stream.getvalue()[at + 4 :])
    assert "not kept" not in halved("x.avif", "y.png")[0]
    assert b"cICP\x0c\x10\0\1" in Path("y.png").read_bytes()
    assert "note colour space not kept: jpeg files cannot store it" in halved("x.avif", "y.jpg")[0]


@row("JPEG 2000, BMP: ICC profile, XMP")
def _in_boxes(row: Row) -> None:
    Image.fromarray(RGB).save(stream := io.BytesIO(), "JPEG2000")
    data, content = stream.getvalue(), bytes.fromhex("be7acfcb97a942e89c71999491e3afac") + rdf("a='1'>")
    at = data.index(b"jp2c") - 4
    Path("x.jp2").write_bytes(data[:at] + struct.pack(">I", len(content) + 8) + b"uuid" + content + data[at:])
    assert halved("x.jp2", "y.png")[1].info["xmp"] == rdf("a='1'>")
    Image.fromarray(RGB).save(stream := io.BytesIO(), "BMP")
    data, place = stream.getvalue(), struct.pack("<4I", 4, 124 + RGB.nbytes, len(profile()), 0)
    header = struct.pack("<I", 124) + data[18:54] + bytes(16) + b"DEBM" + bytes(48) + place
    Path("x.bmp").write_bytes(data[:10] + struct.pack("<I", 138) + header + data[54:] + profile())
    assert halved("x.bmp", "y.png")[1].info["icc_profile"] == profile()


@row("images in SubIFDs (TIFF), auxiliary and depth images (HEIC)")
def _below(row: Row) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        file.write(RGB, photometric="rgb", subifds=1, metadata=None)
        file.write(RGB[::2, ::2], photometric="rgb", metadata=None)
    assert "note images in SubIFDs not kept: they are not read" in halved("x.tif")[0]


@row(
    "other chunks (PNG, WebP), segments (JPEG), boxes (JPEG 2000), extensions (GIF); aspect ratio of pixels",
)
def _others(row: Row) -> None:
    Image.fromarray(GREY).save(stream := io.BytesIO(), "PNG")
    data, tag = stream.getvalue(), b"oFFs" + bytes(9)
    Path("x.png").write_bytes(data[:33] + struct.pack(">I", 9) + tag + struct.pack(">I", zlib.crc32(tag)) + data[33:])
    assert "note PNG chunks oFFs not kept: may not apply to the output" in halved("x.png")[0]
    Image.fromarray(RGB).save(stream := io.BytesIO(), "JPEG")
    data = stream.getvalue().replace(b"JFIF\0\1\1\0\0\1\0\1", b"JFIF\0\1\1\0\0\2\0\1")
    Path("x.jpg").write_bytes(data[:20] + b"\xff\xeb\0\x06JUMB" + data[20:])
    said = halved("x.jpg")[0]
    assert "note aspect ratio of the pixels not kept: may not apply to the output" in said
    assert "note JPEG segments APP11 not kept: may not apply to the output" in said


@row("TIFF and EXIF tags that remain true", "other tags", "maker notes; descriptions by tifffile")
def _tags(row: Row) -> None:
    exif = Image.Exif()
    exif[315], exif[270], exif[65_000] = "an artist", "ImageJ=1.54\nimages=1", 3
    exif.get_ifd(34665)[37500] = b"maker"
    picture("x.jpg", "RGB", RGB, exif=exif)
    said, made = halved("x.jpg", "y.tif")
    for what in ("tag 65000", "maker notes", "description by ImageJ"):
        assert f"note {what} not kept: " in said
    assert {tag for tag in made.getexif() if tag in (315, 270, 65_000)} == {315}


@row("descriptions of stacks by ImageJ and OME")
def _stacks(row: Row) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(
        "x.tif", np.zeros((3, 8, 8), np.uint8), imagej=True, metadata={"axes": "ZYX", "spacing": 2.0, "unit": "um"}
    )
    halved("x.tif", "y.tif")
    with tifffile.TiffFile("y.tif") as file:
        assert (file.series[0].axes, 'PhysicalSizeZ="2.0"' in file.ome_metadata) == ("ZYX", True)
    assert "note axes and distances of the stack not kept: " in halved("x.tif", "y.png")[0]


@row("TIFF: metadata of each page")
def _pages(row: Row) -> None:
    tifffile = pytest.importorskip("tifffile")
    for x in (RGB, RGB.astype(np.uint16)):  # Pillow reads the one, tifffile the other
        with tifffile.TiffWriter("x.tif") as file:
            for page in range(3):
                about = {"description": f"cell {page}", "resolution": (300, 150)} if page < 2 else {}
                file.write(x, photometric="rgb", metadata=None, software=False, **about)
        assert "not kept" not in halved("x.tif")[0]
        with tifffile.TiffFile("y.tif") as file:
            assert [page.description for page in file.pages] == ["cell 0", "cell 1", ""]
            assert [page.resolution for page in file.pages] == [(150, 75), (150, 75), (0.5, 0.5)]
    note = "note metadata of pages after the first not kept: webp files cannot store it"
    picture("x.tif", "RGB", RGB, save_all=True, append_images=[Image.fromarray(RGB)], dpi=(72, 72))
    assert "not kept" not in halved("x.tif", "y.webp")[0].replace("resolution not kept", "")
    with tifffile.TiffWriter("x.tif") as file:
        for page in range(2):
            file.write(RGB, photometric="rgb", metadata=None, description=f"cell {page}")
    assert note in halved("x.tif", "y.webp")[0]


@row("MPO: metadata of the page that is read")
def _mpo(row: Row) -> None:
    parts = [Image.fromarray(RGB), Image.fromarray(RGB[:4, :4])]
    parts[0].save("x.mpo", save_all=True, append_images=parts[1:])
    data, segment = Path("x.mpo").read_bytes(), b"http://ns.adobe.com/xap/1.0/\0" + rdf("second='1'>")
    second = data.rindex(b"\xff\xd8\xff") + 2
    marker = b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment
    Path("x.mpo").write_bytes(data[:second] + marker + data[second:])
    assert "xmp" not in halved("x.mpo", "y.jpg")[1].info
    pool("avg x.mpo -o z.jpg -k 2 -s 2 --pages 2")
    with Image.open("z.jpg") as made:
        assert made.info["xmp"] == rdf("second='1'>")
