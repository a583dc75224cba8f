"""`check --to` and `check --run`: layers written for other frameworks, and whose answer recorded data are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poolcli
from tests.conftest import Cli
from tests.models.irs import AVG, layer, model
from tests.models.onnxs import model as onnx_model, node

PADDED = 'kernel="3,3" strides="2,2" pads_begin="1,1" pads_end="1,1" exclude-pad="false" rounding_type="ceil"'


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), ("N", 3, "H", 8)])
def test_a_layer_is_written_down_for_another_framework(shape: tuple[object, ...], cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.xml", layer(AVG, shape, ()))
    text = "torch.nn.functional.avg_pool2d(x, 2, stride=2, padding=0, ceil_mode=False, count_include_pad=False)"
    done = cli("check", path, "--to", "pytorch", "--json")
    assert (done.code, done.json["layers"][0]["to"]) == (
        0, {"like": "pytorch", "text": text, "reason": None, "note": None, "only_this_size": False}
    )  # fmt: skip
    assert text in cli("check", path, "--to", "pytorch", columns=80).out.splitlines()  # to be pasted


def test_a_call_that_holds_for_the_size_of_the_model_only_says_so(cli: Cli, tmp_path: Path) -> None:
    numbers = 'kernel="2,2" strides="3,3" pads_begin="0,0" pads_end="0,0"'
    data = f'{numbers} exclude-pad="false" rounding_type="ceil"'
    path = model(tmp_path / "m.xml", layer(data, (1, 3, 8, 8), ()))
    found = cli("check", path, "--to", "onnx", "--json").json["layers"][0]["to"]
    assert (found["note"], found["only_this_size"]) == ("for this input size only", True)
    assert "for this input size only" in cli("check", path, "--to", "onnx").out
    path = model(tmp_path / "dynamic.xml", layer(data, (1, 3, "H", 8), ()))
    found = cli("check", path, "--to", "onnx", "--json").json["layers"][0]["to"]
    assert (found["text"], found["reason"], found["only_this_size"]) == (
        None, "the call depends on dynamic lengths; --input-shape gives its lengths", False
    )  # fmt: skip


def test_global_pooling_is_written_for_lengths_that_are_not_known(cli: Cli, tmp_path: Path) -> None:
    path = onnx_model(tmp_path / "m.onnx", [node("GlobalAveragePool")], ["N", 3, "H", "W"])
    for like, text in (
        ("onnx", 'onnx.helper.make_node("GlobalAveragePool", ["x"], ["y"])'),
        ("tensorflow", "tf.reduce_mean(x, [1, 2], keepdims=True)"),
        ("pytorch", "torch.nn.functional.adaptive_avg_pool2d(x, 1)"),
    ):
        assert cli("check", path, "--to", like, "--json").json["layers"][0]["to"]["text"] == text


def test_a_layer_that_another_framework_does_not_have_says_why(cli: Cli, tmp_path: Path) -> None:
    path = onnx_model(tmp_path / "m.onnx", [node("LpPool", kernel_shape=[2, 2])], [1, 3, 8, 8])
    found = cli("check", path, "--to", "ngraph", "--json").json["layers"][0]["to"]
    assert found["text"] is None
    assert found["reason"]
    assert cli("check", path, "--to", "caffe").code == 2


@pytest.fixture
def recorded(tmp_path: Path) -> Any:
    """Writes input and output as PyTorch's rules make them, and the model of the same attributes."""
    x = np.random.default_rng(0).standard_normal((1, 2, 7, 7)).astype(np.float32)

    def record(output: Any, data: str, shape: tuple[int, ...] = (1, 2, 7, 7)) -> tuple[Path, Path]:
        np.savez(tmp_path / "d.npz", input=x, output=output(x))
        return model(tmp_path / "m.xml", layer(data, shape, ())), tmp_path / "d.npz"

    return record


def test_data_says_whose_answer_it_is(recorded: Any, cli: Cli) -> None:
    data = PADDED.replace('kernel="3,3"', 'kernel="2,2"').replace('pads_end="1,1"', 'pads_end="0,0"')
    path, file = recorded(
        lambda x: poolcli.avg_pool(x, 2, strides=2, pads_begin=1, rounding_type="ceil", like="onnx", exclude_pad=False),
        data,
    )
    done = cli("check", path, "--layer", "pool", "--run", file, "--json")
    assert (done.code, done.json["data"]["answer_of"]) == (0, None)  # no window hangs over
    path, file = recorded(
        lambda x: poolcli.avg_pool(x, 3, strides=3, pads_begin=1, rounding_type="ceil", like="onnx", exclude_pad=False),
        data.replace("2,2", "3,3"),
    )
    done = cli("check", path, "--layer", "pool", "--run", file, "--json")
    assert (done.code, done.json["data"]["answer_of"]) == (1, "ONNX")
    assert "it equals the result of ONNX" in " ".join(cli("check", path, "--layer", "pool", "--run", file).out.split())
    path, file = recorded(lambda x: poolcli.avg_pool(x, 2, strides=2, pads_begin=1, exclude_pad=True),
                          data.replace("ceil", "floor"))  # fmt: skip
    done = cli("check", path, "--layer", "pool", "--run", file, "--json")
    assert (done.code, done.json["data"]["answer_of"]) == (1, "OpenVINO floor with padding not counted")


def test_data_of_another_shape_is_refused(recorded: Any, cli: Cli) -> None:
    path, file = recorded(lambda x: poolcli.avg_pool(x, 2, strides=2, rounding_type="ceil"), AVG)
    done = cli("check", path, "--layer", "pool", "--run", file)
    message = "output is 1,2,4,4, but layer pool makes 1,2,3,3 of input 1,2,7,7"
    assert (done.code, done.out, done.err) == (2, "", f"poolcli: {file}: {message}\n")
    path, file = recorded(lambda x: x, AVG, (1, 2, 9, 9))
    done = cli("check", path, "--layer", "pool", "--run", file)
    assert (done.code, done.err) == (2, f"poolcli: {file}: input is 1,2,7,7, but layer pool takes 1,2,9,9\n")
