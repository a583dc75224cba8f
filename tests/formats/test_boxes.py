"""What boxes of JPEG 2000, AVIF and HEIC files and chunks of WebP and BMP hold, which Pillow does not report."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from poolcli.formats import Source, read
from poolcli.formats.image.boxes import primary_properties
from tests.conftest import Cli
from tests.formats.pictures import HALVE

X = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
UUID_OF_XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac")
P3_PQ = (12, 16)  # Display P3 primaries, the PQ curve


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(X).save(stream, kind, **options)
    return stream.getvalue()


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + kind + content


def before_codestream(data: bytes, *more: bytes) -> bytes:
    at = data.index(b"jp2c") - 4
    return data[:at] + b"".join(more) + data[at:]


def chunk(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content


def test_the_profile_and_xmp_of_a_jpeg_2000_are_kept_and_its_other_boxes_named(cli: Cli) -> None:
    data = saved("JPEG2000")
    at = data.index(b"jp2h") - 4
    end = at + int.from_bytes(data[at : at + 4])
    colour = data.index(b"colr") - 4
    header = data[at + 8 : colour] + box(b"colr", b"\2\0\0" + PROFILE) + data[colour + 15 : end]
    more = (box(b"uuid", UUID_OF_XMP + XMP), box(b"xml ", b"<a/>"), box(b"uuid", b"JpgTiffExif->JP2II*\0"))
    Path("x.jp2").write_bytes(before_codestream(data[:at] + box(b"jp2h", header) + data[end:], *more))
    result = cli("avg", "x.jp2", "-o", "y.png", *HALVE, "--json")
    assert result.json["notes"] == ["JPEG 2000 boxes xml, EXIF not kept: may not apply to the output"]
    with Image.open("y.png") as made:
        assert (made.info["icc_profile"], made.info["xmp"]) == (PROFILE, XMP)


def test_all_bits_are_read_of_a_jpeg_2000_and_an_avif_whose_pixels_come_late(cli: Cli) -> None:
    deep = (X.astype(np.uint16) << 4) + 5
    packed = imagecodecs.jpeg2k_encode(deep, bitspersample=12, level=0, codecformat="jp2")
    Path("x.jp2").write_bytes(before_codestream(bytes(packed), box(b"free", bytes(5000))))
    assert read(Source("x.jp2")).array.dtype == np.uint16
    packed = imagecodecs.avif_encode(deep >> 2, bitspersample=10, level=100)
    start, place = packed.index(b"meta") - 4, struct.pack(">I", packed.index(b"mdat") + 4)
    assert packed.count(place) == 1
    packed = packed.replace(place, struct.pack(">I", packed.index(b"mdat") + 4 + 5008))
    Path("x.avif").write_bytes(packed[:start] + box(b"free", bytes(5000)) + packed[start:])
    assert read(Source("x.avif")).array.dtype == np.uint16


@pytest.mark.parametrize(
    ("colour", "kept"),
    [(P3_PQ, bytes([12, 16, 0, 1])), ((1, 13), None), ((2, 2), None)],
    ids=["P3 and PQ", "sRGB", "unspecified"],
)
@pytest.mark.parametrize("kind", ["avif", "heic"])
def test_the_colour_space_of_an_avif_or_heic_goes_into_a_png(
    kind: str, colour: tuple[int, int], kept: bytes | None, cli: Cli
) -> None:
    if kind == "heic":
        heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
        heif.register_heif_opener()
    data = saved("HEIF" if kind == "heic" else "AVIF")
    if b"nclx" not in data:
        pytest.skip("this version of pillow_heif writes no colour space")
    at = data.index(b"nclx") + 4
    Path(f"x.{kind}").write_bytes(data[:at] + struct.pack(">HH", *colour) + data[at + 4 :])
    result = cli("avg", f"x.{kind}", "-o", "y.png", *HALVE, "--json")
    assert (result.code, result.json["notes"]) == (0, [])
    made = Path("y.png").read_bytes()
    assert (made.count(b"cICP"), b"cICP" + (kept or b"") in made) == ((1, True) if kept else (0, False))
    said = cli("avg", f"x.{kind}", "-o", "y.jpg", *HALVE, "--json").json["notes"]
    assert said == (["colour space not kept: jpeg files cannot store it"] if kept else [])


def test_a_colour_space_that_no_chunk_can_name_gives_none(cli: Cli) -> None:
    data = saved("AVIF")
    at = data.index(b"nclx") + 4
    Path("x.avif").write_bytes(data[:at] + struct.pack(">HH", 9, 300) + data[at + 4 :])
    assert cli("avg", "x.avif", "-o", "y.png", *HALVE).code == 0
    assert b"cICP" not in Path("y.png").read_bytes()


def test_boxes_of_a_file_that_is_cut_anywhere_are_none_or_those_of_the_whole() -> None:
    data = saved("AVIF")
    Path("x.avif").write_bytes(data)
    with open("x.avif", "rb") as stream:
        whole = primary_properties(stream)
    assert {kind for kind, _ in whole} >= {b"ispe", b"pixi", b"av1C", b"colr"}
    for length in range(len(data)):
        Path("y.avif").write_bytes(data[:length])
        with open("y.avif", "rb") as stream:
            assert primary_properties(stream) in ([], whole)


def test_chunks_of_a_webp_that_are_not_kept_are_named(cli: Cli) -> None:
    data = saved("WEBP", lossless=True)
    data += chunk(b"PSAI", b"8BIM")
    Path("x.webp").write_bytes(data[:4] + struct.pack("<I", len(data) - 8) + data[8:])
    result = cli("avg", "x.webp", "-o", "y.webp", *HALVE, "--json")
    assert result.json["notes"] == ["WebP chunks PSAI not kept: may not apply to the output"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (b"DEBM", "ICC profile not kept: bmp files cannot store it"),
        (b"KNIL", "ICC profile in another file not kept: may not apply to the output"),
        (bytes(4), "BMP colour space not kept: may not apply to the output"),
        (b"BGRs", None),
    ],
    ids=["embedded", "linked", "calibrated", "sRGB"],
)
def test_the_colour_space_of_a_bmp_is_kept_or_named(kind: bytes, said: str | None, cli: Cli) -> None:
    plain = saved("BMP", dpi=(300, 300))
    header = struct.pack("<I", 124) + plain[18:54] + struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0)
    header += kind + (bytes(48) if kind != bytes(4) else bytes([1]) * 48)
    header += struct.pack("<4I", 4, 124 + len(plain) - 54, len(PROFILE), 0)
    data = plain[:10] + struct.pack("<I", 14 + 124) + header + plain[54:] + PROFILE
    Path("x.bmp").write_bytes(data)
    result = cli("avg", "x.bmp", "-o", "y.bmp", *HALVE, "--json")
    assert result.json["notes"] == ([said] if said else [])
    cli("avg", "x.bmp", "-o", "y.png", *HALVE, "--json")
    with Image.open("y.png") as made:
        assert made.info.get("icc_profile") == (PROFILE if kind == b"DEBM" else None)
        assert made.info["dpi"] == pytest.approx((150, 150), abs=0.1)


def test_the_resolution_of_a_bmp_with_bit_fields_is_scaled(cli: Cli) -> None:
    rows = np.arange(64, dtype="<u4").reshape(8, 8).tobytes()
    masks = struct.pack("<3I", 0x3FF00000, 0xFFC00, 0x3FF)
    head = struct.pack("<IiiHHIIiiII", 40, 8, 8, 1, 32, 3, len(rows), 11811, 11811, 0, 0)
    Path("x.bmp").write_bytes(b"BM" + struct.pack("<IHHI", 66 + len(rows), 0, 0, 66) + head + masks + rows)
    assert cli("avg", "x.bmp", "-o", "y.png", *HALVE).code == 0
    with Image.open("y.png") as made:
        assert made.info["dpi"] == pytest.approx((150, 150), abs=0.1)


def test_images_below_others_in_a_tiff_are_named(cli: Cli) -> None:
    with tifffile.TiffWriter("x.tif") as file:
        file.write(X, photometric="rgb", subifds=1, metadata=None)
        file.write(X[::2, ::2], photometric="rgb", metadata=None)
    notes = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--json").json["notes"]
    assert "images in SubIFDs not kept: they are not read" in notes


def test_blocks_of_a_gif_that_are_not_kept_are_named(cli: Cli) -> None:
    data = saved("GIF", comment=b"a comment")
    block = b"\x21\xff\x0bMGK8BIM0000\x0412340"[:-1] + b"\0"
    at = 13 + (3 << (data[10] & 7) + 1)
    Path("x.gif").write_bytes(b"GIF89a" + data[6:at] + block + data[at:])
    notes = cli("avg", "x.gif", "-o", "y.gif", *HALVE, "--json").json["notes"]
    assert "GIF extensions MGK8BIM0000 not kept: may not apply to the output" in notes
