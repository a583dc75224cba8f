"""Layers after one whose stated output is wrong: OpenVINO infers the shapes of an IR; others get a warning."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np

from poolcli.models import check
from tests.models.irs import AVG, layer, runnable

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


def written(path: Path) -> Path:
    """A model of OpenVINO: a pooling, a convolution, and three more poolings."""
    import openvino as ov
    from openvino import opset14

    x = opset14.parameter([1, 2, 12, 13], ov.Type.f32)
    pool = opset14.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3], "floor")
    weights = np.ones((4, 2, 3, 3), np.float32)
    conv = opset14.convolution(pool.output(0), weights, [1, 1], [1, 1], [1, 1], [1, 1])
    average = opset14.avg_pool(conv, [2, 2], [0, 0], [0, 0], [2, 2], False, "floor")
    outputs = [
        opset14.reduce_mean(average, np.array([2, 3]), True).output(0),
        opset14.max_pool(average, [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]).output(0),
    ]
    ov.save_model(ov.Model(outputs, [x]), path)
    return path


def test_shapes_follow_an_edited_pooling_of_openvino(tmp_path: Path) -> None:
    import openvino as ov

    path = written(tmp_path / "m.xml")
    assert [each.verdict for each in check(path)] == ["agrees"] * 4
    before, first, after = path.read_text().partition('rounding_type="floor"')
    path.write_text(before + first.replace("floor", "ceil") + after)
    read = ov.Core().read_model(path).get_ordered_ops()
    theirs = {
        n.friendly_name: (tuple(n.input(0).get_shape()), tuple(n.output(0).shape)) for n in read if n.get_input_size()
    }
    found = check(path)
    assert [(each.layer.input_shape, each.computed) for each in found] == [theirs[each.layer.name] for each in found]
    assert sorted(each.verdict for each in found) == ["agrees", "differs", "differs", "differs"]
    assert theirs[found[1].layer.name] == ((1, 4, 6, 6), (1, 4, 3, 3))


def test_a_model_that_openvino_does_not_read_keeps_its_stated_shapes_with_a_warning(tmp_path: Path) -> None:
    layers = layer(AVG, (1, 3, 8, 8), (1, 3, 5, 5), name="one") + layer(AVG, (1, 3, 5, 5), (1, 3, 2, 2), name="two")
    path = runnable(tmp_path / "m.xml", layers, (1, 3, 8, 8))
    path.write_text(path.read_text().replace('element_type="f32"', 'element_type="none"'))
    first, second = check(path)
    assert (first.verdict, second.verdict, first.warnings) == ("differs", "agrees", ())
    (warning,) = second.warnings
    assert warning.startswith("its input is as stated, although one differs: OpenVINO cannot read it: ")
