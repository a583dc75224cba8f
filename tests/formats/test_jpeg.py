"""JPEGs that are cut short are refused, and small ones of many pixels are not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolcli.errors import FileError
from poolcli.formats import Source, read

NOISE = np.random.default_rng(2).integers(0, 256, (37, 50, 3), np.uint8)
# 2048 x 1024 pixels of one grey, coded arithmetically by cjpeg.
ARITHMETIC = bytes.fromhex(
    "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d3c3933383740485c4e404457453738506d51575f62"
    "6768673e4d71797064785c656763ffc9000b080400080001011100ffcc000600101005ffda0008010100003f00ff003ffee750ffd9"
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(NOISE).save(stream, "JPEG")
    return stream.getvalue()


def test_one_that_was_cut_is_refused_though_a_preview_in_it_has_an_end() -> None:
    data = bytearray(saved())
    start = data.index(b"\xff\xdb")  # the first tables, before which a segment with a preview is put
    preview = saved()
    data[start:start] = b"\xff\xed" + (len(preview) + 2).to_bytes(2, "big") + preview
    Path("x.jpg").write_bytes(data[:-200])
    with pytest.raises(FileError, match=r"^x\.jpg: the image cannot be read or written: image file is truncated"):
        read(Source("x.jpg"))


def test_pixels_of_one_colour_are_read_however_few_bytes_they_take() -> None:
    Path("x.jpg").write_bytes(ARITHMETIC)
    np.testing.assert_array_equal(read(Source("x.jpg")).array, np.full((1024, 2048), 76, np.uint8))
    for options in ({}, {"progressive": True}, {"optimize": True, "progressive": True, "subsampling": 2}):
        Image.new("RGB", (2048, 1024), (9, 9, 9)).save("x.jpg", **options)
        np.testing.assert_array_equal(read(Source("x.jpg")).array, np.full((1024, 2048, 3), 9, np.uint8))
