"""Layers after one whose stated output is wrong get a warning where shapes are not inferred, as they are of ONNX."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from poolcli.models import check
from tests.models.irs import AVG, layer, model

SAMPLES = Path(__file__).parent / "samples"


def test_layers_after_an_edited_pooling_of_tensorflow_lite_get_a_warning() -> None:
    """The file: strides 2 became 1 in the first layer, and no shape was changed."""
    found = check(SAMPLES / "edited.tflite")
    warning = f"its input is as stated, although {found[0].layer.name} differs"
    assert [each.verdict for each in found] == ["differs", "agrees", "agrees", "agrees"]
    assert [each.warnings for each in found] == [(), *[(warning,)] * 3]


def test_layers_after_an_edited_pooling_of_pytorch_get_a_warning(tmp_path: Path) -> None:
    edited = tmp_path / "m.pt2"
    with zipfile.ZipFile(SAMPLES / "pooling.pt2") as old, zipfile.ZipFile(edited, "w") as new:
        for name in old.namelist():
            new.writestr(name, re.sub(rb'"as_int": ?20\b', b'"as_int": 21', old.read(name)))
    found = check(edited)
    assert (found[0].verdict, found[0].warnings) == ("differs", ())
    assert all(f"its input is as stated, although {found[0].layer.name} differs" in each.warnings for each in found[1:])


def test_layers_after_an_edited_pooling_of_openvino_get_a_warning(tmp_path: Path) -> None:
    layers = layer(AVG, (1, 3, 8, 8), (1, 3, 5, 5), name="one") + layer(AVG, (1, 3, 5, 5), (1, 3, 2, 2), name="two")
    first, second = check(model(tmp_path / "m.xml", layers))
    warning = "its input is as stated, although one differs"
    assert (first.verdict, first.warnings, second.verdict, second.warnings) == ("differs", (), "agrees", (warning,))
