"""TIFF to TIFF: whatever the input's form, the output's pixels are what other libraries read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, UnidentifiedImageError

from poolcli.formats import Source, read
from tests.conftest import Cli
from tests.formats.pictures import HALVE, halved
from tests.formats.tiffs import TIFFS, meant
from tests.profiles import slow

pytestmark = pytest.mark.usefixtures("here")


def pooled(name: str, cli: Cli) -> Any:
    """What the output must hold, after `x.tif` was halved into `y.tif`."""
    tiff = TIFFS[name]
    tiff.make("x.tif")
    x = read(Source("x.tif")).array
    if tiff.pixels is not None:
        np.testing.assert_array_equal(x, tiff.pixels, strict=True)
    result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "-q")
    assert (result.code, result.err) == (0, "")
    return halved(x)


def some(names: Iterable[str]) -> list[Any]:
    """All of them, of which quick runs take every fourth."""
    return [slow(name) if i % 4 else name for i, name in enumerate(names)]


@pytest.mark.heavy
@pytest.mark.parametrize("name", some(TIFFS))
def test_tifffile_and_pillow_read_what_was_pooled(name: str, cli: Cli) -> None:
    expected = pooled(name, cli)
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        photometric = "cielab" if page.photometric == 8 else ""
        np.testing.assert_array_equal(meant(page.asarray(), photometric), expected, strict=True)
        assert (page.compression, page.photometric) == (TIFFS[name].compression, TIFFS[name].photometric)
    pillow_reads(expected)


def pillow_reads(expected: Any) -> None:
    try:
        image = Image.open("y.tif")
    except UnidentifiedImageError:
        return  # Pillow knows no such TIFF
    with image:
        y = np.asarray(image)
        if y.dtype == expected.dtype and len(image.getbands()) == (expected.shape[2:] or (1,))[0]:
            np.testing.assert_array_equal(meant(y, "cielab") if image.mode == "LAB" else y, expected)


def test_bands_in_planes_are_written_pixel_by_pixel_with_a_note(cli: Cli) -> None:
    x = np.arange(96, dtype=np.uint16).reshape(6, 4, 4)
    for planar, said in (("separate", True), ("contig", False)):
        stored = x if said else np.moveaxis(x, 0, -1)
        tifffile.imwrite("x.tif", stored, planarconfig=planar, photometric="minisblack", metadata=None)
        result = cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--overwrite")
        assert ("not kept: the planes of bands (written pixel by pixel)" in result.out) is said
        np.testing.assert_array_equal(tifffile.imread("y.tif"), halved(np.moveaxis(x, 0, -1)))
