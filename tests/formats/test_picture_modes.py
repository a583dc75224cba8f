"""Pictures of each mode and orientation as arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolcli.formats import Source, read, write


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_and_then_forgotten(orientation: int) -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "maker"
    Image.fromarray(pixels).save("x.png", exif=exif)
    turned = {
        1: pixels, 2: pixels[:, ::-1], 3: pixels[::-1, ::-1], 4: pixels[::-1], 5: pixels.transpose(1, 0, 2),
        6: np.rot90(pixels, -1), 7: np.rot90(pixels, 2).transpose(1, 0, 2), 8: np.rot90(pixels),
    }[orientation]  # fmt: skip
    tensor = read(Source("x.png"))
    np.testing.assert_array_equal(tensor.array, turned)
    assert tensor.header.shape == turned.shape
    assert tensor.header.notes == ((f"EXIF orientation {orientation} applied",) if orientation > 1 else ())
    write("y.png", tensor.array, "HWC", metadata=tensor.metadata)
    with Image.open("y.png") as image:
        kept = image.getexif()
    assert (kept.get(0x0112, 1), kept[0x010F]) == (1, "maker")


@pytest.mark.parametrize(
    ("mode", "shape", "dtype", "notes"),
    [
        ("1", (3, 4), "uint8", ("1 bits a sample, scaled to 8",)),
        ("L", (3, 4), "uint8", ()),
        ("LA", (3, 4, 2), "uint8", ()),
        ("P", (3, 4, 3), "uint8", ("palette expanded to RGB",)),
        ("RGB", (3, 4, 3), "uint8", ()),
        ("RGBA", (3, 4, 4), "uint8", ()),
        ("I;16", (3, 4), "uint16", ()),
        ("F", (3, 4), "float32", ()),
        ("I", (3, 4), "int32", ()),
    ],
)
def test_each_mode_becomes_the_array_of_its_colours(
    mode: str, shape: tuple[int, ...], dtype: str, notes: tuple[str, ...]
) -> None:
    Image.new(mode, (4, 3)).save("x.tif")
    header = read(Source("x.tif")).header
    assert (header.shape, header.dtype, header.notes) == (shape, dtype, notes)
