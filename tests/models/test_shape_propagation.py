"""Layers after a pooling whose stated output is wrong: the shape that flows is what the runtimes compute."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.models.check import Finding, check
from tests.models.irs import AVG, layer, runnable

Row = tuple[str, Any, Any]  # the verdict, the shape that flows in and the computed one


def rows(found: list[Finding]) -> list[Row]:
    return [(each.verdict, each.layer.input_shape, each.computed) for each in found]


def test_shapes_follow_an_edited_pooling_of_tensorflow_lite() -> None:
    """The file: strides 2 became 1 in the first layer. The shapes are those of the interpreter of TensorFlow 2.21."""
    found = check(Path(__file__).parent / "samples" / "edited.tflite")
    unknown = ("?",) * 4
    assert rows(found) == [
        ("differs", (1, 19, 21, 4), (1, 17, 19, 4)),
        ("differs", (1, 9, 10, 12), (1, 8, 9, 12)),  # after convolutions, a concatenation and a sum
        ("agrees", (1, 8, 9, 12), (1, 12)),
        ("unknown", unknown, unknown),
    ]
    assert found[3].reason == (
        "axes N, H, W, C: declared, but dynamic in the input; shapes after transpose are not inferred; correct the "
        "layer before it that differs"
    )


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_shapes_follow_an_edited_pooling_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, ceil: bool) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(3, 2, padding=1, ceil_mode=ceil)
            self.conv = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.SiLU())
            self.mean = nn.AvgPool2d(2, 2, ceil_mode=True)

        def forward(self, x: Any) -> Any:
            p = self.pool(x)
            y = self.mean(self.conv(p)) * 2
            both = torch.cat([p[:, :, 1:], p[:, 1:, :-1] + 1], 1)
            return y, self.mean(both), p.mean((2, 3)), nn.functional.adaptive_avg_pool2d(y, 1), self.mean(p.mT)

    x, programs = torch.zeros(1, 2, 12, 14), []
    for ceil in (False, True):
        path = tmp_path / f"{ceil}.pt2"
        torch.export.save(torch.export.export(Net(ceil).eval(), (x,)), path)
        with zipfile.ZipFile(path) as archive:
            name = next(each for each in archive.namelist() if each.endswith("models/model.json"))
            programs.append(json.loads(archive.read(name)))
    stale, true = (each["graph_module"]["graph"]["tensor_values"] for each in programs)
    differing = {each for each in true if true[each]["sizes"] != stale[each]["sizes"]}
    assert len(differing) >= 6
    programs[1]["graph_module"]["graph"]["tensor_values"] = stale  # the calls of one with the shapes of the other
    with zipfile.ZipFile(tmp_path / "stale.pt2", "w") as archive:
        archive.writestr(name, json.dumps(programs[1]))
    found, right = check(tmp_path / "stale.pt2"), check(tmp_path / "True.pt2")
    assert {each.verdict for each in right} == {"agrees"}
    assert rows(found[:-1]) == [
        ("differs" if each.layer.name in differing else "agrees", each.layer.input_shape, each.computed)
        for each in right[:-1]
    ]
    assert (found[-1].verdict, found[-1].layer.stopped) == ("unknown", "m_t")
