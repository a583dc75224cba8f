"""Where memory runs out, that is said: nothing else is tried then, and nothing is left out of the output in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tifffile
from PIL import Image

from tests.conftest import Cli
from tests.formats.pictures import HALVE, pixels

# What runs out of memory, and the picture that it is asked for.
PLACES = {
    "decoding": ("PIL.Image.Image.load", "x.png"),
    "choosing EXIF data": ("poolcli.formats.image.pillow.select_exif", "x.jpg"),
    "tags of a TIFF": ("PIL.Image.Exif.load_from_fp", "deep.tif"),
    "what stands for no number": ("poolcli.formats.image.tiff.can_hold", "deep.tif"),
    "packing": ("PIL.Image.Image.save", "x.jpg"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_lack_of_memory_is_said(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target, path = PLACES[name]
    if path == "deep.tif":
        tifffile.imwrite(path, pixels(8, 8, 1).astype("uint16"), extratags=[(42113, "s", 0, "7", True)])
    else:
        exif = Image.Exif()
        exif[315] = "somebody"
        Image.fromarray(pixels(8, 8, 3)).save(path, exif=exif)

    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(target, fails)
        result = cli("avg", path, "-o", f"y.{path.split('.')[1]}", *HALVE, "-q")
    assert (result.code, result.err) == (1, f"poolcli: {path}: not enough memory for this input\n")
    assert sorted(tmp_path.iterdir()) == [tmp_path / path]
