"""Checks of the metadata of images in docs/formats.md: Pillow or tifffile read what becomes of each kind."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image, ImageCms, ImageFile
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from tests.documents.checks import Row, row_of
from tests.documents.rows_of_files import FILES, picture, pool

row = partial(row_of, FILES)
GREY = np.zeros((8, 8), np.uint8)
RGB = np.zeros((8, 8, 3), np.uint8)


@cache  # a profile holds the time of its making
def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def halved(name: str, output: str | None = None) -> tuple[str, ImageFile.ImageFile]:
    """What is said while a picture is halved, and the result."""
    output = output or f"y{Path(name).suffix}"
    said = pool(f"avg {name} -o {output} -k 2 -s 2 --overwrite")
    with Image.open(output) as made:
        made.load()
    return said, made


@row("resolution")
def _sizes(row: Row) -> None:
    picture("x.jpg", "RGB", RGB, dpi=(300, 150))
    assert halved("x.jpg")[1].info["dpi"] == (150, 75)


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
    assert "note not kept: GDAL's MEAN" in pool("avg x.tif -o y.tif -k 2 --overwrite")
    with Image.open("y.tif") as image:
        assert 'sample="0" role="scale">0.5</Item>' in image.getexif()[42112]


@row("ICC profile")
def _icc(row: Row) -> None:
    for suffix in ("png", "jpg", "tif", "webp"):
        picture(f"x.{suffix}", "RGB", RGB, icc_profile=profile())
        assert halved(f"x.{suffix}")[1].info["icc_profile"] == profile()
    picture("x.png", "L", GREY, icc_profile=profile())
    assert "note not kept: ICC profile (it is for RGB pixels, these are L)" in halved("x.png")[0]


@row("EXIF data")
def _exif(row: Row) -> None:
    exif = Image.Exif()
    exif[315] = "an artist"
    exif.get_ifd(34665).update({37500: b"maker", 36867: "2020:01:01 00:00:00"})
    for suffix in ("jpg", "png", "webp", "tif"):
        picture("x.jpg", "RGB", RGB, exif=exif)
        said, made = halved("x.jpg", f"y.{suffix}")
        assert "note not kept: tags MakerNote" in said
        found = made.getexif()
        assert (found[315], dict(found.get_ifd(34665))) == ("an artist", {36867: "2020:01:01 00:00:00"})


@row("XMP, IPTC, texts, comments, gamma other than that of sRGB, unknown TIFF tags")
def _others(row: Row) -> None:
    text = PngInfo()
    text.add_text("Title", "a title")
    text.add(b"gAMA", (100_000).to_bytes(4))
    picture("x.png", "L", GREY, pnginfo=text)
    assert "note not kept: gamma, texts" in halved("x.png")[0]
    picture("x.jpg", "RGB", RGB, comment=b"a comment", xmp=b"<x/>")
    assert "note not kept: XMP data, comment" in halved("x.jpg")[0]
    tags = [(65_000, 3, 1, 3, True), (33723, 7, 8, b"iptcdata", True)]
    tifffile.imwrite("x.tif", RGB, photometric="rgb", metadata=None, extratags=tags)
    assert "note not kept: IPTC data, tags 65000" in halved("x.tif")[0]


@row("descriptions of stacks by ImageJ and OME")
def _stacks(row: Row) -> None:
    tifffile.imwrite(
        "x.tif", np.zeros((3, 8, 8), np.uint8), imagej=True, metadata={"axes": "ZYX", "spacing": 2.0, "unit": "um"}
    )
    halved("x.tif", "y.tif")
    with tifffile.TiffFile("y.tif") as file:
        assert (file.series[0].axes, 'PhysicalSizeZ="2.0"' in str(file.ome_metadata)) == ("ZYX", True)
    assert "note not kept: axes and distances of the stack" in halved("x.tif", "y.png")[0]


@row("what pages after the first say (TIFF)")
def _pages(row: Row) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        for page in range(3):
            file.write(RGB, photometric="rgb", metadata=None, resolution=(300 + page, 300))
    assert "note not kept: metadata of later pages" in halved("x.tif")[0]
    with tifffile.TiffFile("y.tif") as made:
        assert [page.resolution for page in made.pages] == [(150, 150)] * 3
