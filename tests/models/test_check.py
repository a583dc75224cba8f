"""`poolcli check`: verdicts on model files, and what is refused as one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AvgPool, RequestError
from poolcli.models.layer import Shape, infer_shape
from tests.conftest import Cli
from tests.models.irs import AVG, layer, model
from tests.processes import fresh

# The examples of the specification of AvgPool-1, made well-formed, and the shapes that they declare for 1,3,32,32.
SPECIFIED = [
    ('auto_pad="same_upper" exclude-pad="true" kernel="2,2" pads_begin="0,0" pads_end="1,1" strides="2,2"', 32, 16),
    ('auto_pad="same_upper" exclude-pad="false" kernel="5,5" pads_begin="0,0" pads_end="1,1" strides="2,2"', 32, 16),
    ('auto_pad="explicit" exclude-pad="true" kernel="5,5" pads_begin="1,1" pads_end="1,1" strides="3,3"', 10, 10),
    ('auto_pad="explicit" exclude-pad="false" kernel="5,5" pads_begin="1,1" pads_end="1,1" strides="2,2"', 15, 15),
    ('auto_pad="valid" exclude-pad="true" kernel="5,5" pads_begin="1,1" pads_end="1,1" strides="2,2"', 14, 14),
]


@pytest.mark.parametrize(("data", "declared", "true"), SPECIFIED)
def test_the_examples_of_the_specification(data: str, declared: int, true: int, cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.xml", layer(data, (1, 3, 32, 32), (1, 3, declared, declared)))
    done = cli("check", path, "--json")
    (found,) = done.json["layers"]
    assert found["computed"] == [1, 3, true, true]
    assert (done.code, found["verdict"]) == ((0, "agrees") if declared == true else (1, "differs"))


SCREEN = """\
verdict  type     input      declared   computed   layer
differs  AvgPool  1,3,32,32  1,3,32,32  1,3,16,16  pool
agrees   AvgPool  1,3,32,32  1,3,14,14  1,3,14,14  pool
agrees   AvgPool  1,3,9,9    1,3,4,4    1,3,4,4    pool

pool  differs: axes H, W: declared 32, computed (32+0+0-2)//2 + 1 = 16
pool  the given pads are ignored: auto_pad same_upper sets them
pool  its input is as stated, although pool differs
pool  the given pads are ignored: auto_pad valid sets them
pool  its input is as stated, although pool differs
pool  attribute exclude_pad is not one of AvgPool's and is ignored; did you mean
      exclude-pad?

m.xml: 3 pooling layers of opset1: 2 agree, 1 differs
"""
NARROW = """\
verdict  type     input            computed         layer
agrees   AvgPool  1,1024,112,112   1,1024,56,56     features/transition1/pool
agrees   AvgPool  batch,1024,56,h  batch,1024,28,?  features/transition2/pool

m.xml: 2 pooling layers of opset1: 2 agree
"""


def test_columns_that_say_nothing_new_are_left_out(cli: Cli, here: None) -> None:
    model(
        Path("m.xml"),
        layer(AVG, (1, 1024, 112, 112), (1, 1024, 56, 56), name="features/transition1/pool"),
        layer(AVG, ("batch", 1024, 56, "h"), ("batch", 1024, 28, "?"), name="features/transition2/pool"),
    )
    assert cli("check", "m.xml", columns=80).out == NARROW


def test_the_screen(cli: Cli, here: None) -> None:
    model(
        Path("m.xml"),
        layer(SPECIFIED[0][0], (1, 3, 32, 32), (1, 3, 32, 32)),
        layer(SPECIFIED[4][0], (1, 3, 32, 32), (1, 3, 14, 14)),
        layer(AVG.replace("exclude-pad", "exclude_pad"), (1, 3, 9, 9), (1, 3, 4, 4)),
    )
    done = cli("check", "m.xml")
    assert (done.code, done.out) == (1, SCREEN)
    assert cli("check", "m.xml", "-q").out == ""


def test_what_to_type_is_said_as_the_reader_types_it(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.xml", layer(AVG, (1, 3, -1, 8), (1, 3, 4, 4)))
    why = "axis H: declared, but dynamic in the input; {} gives its lengths"
    warning = "PyTorch: not compared, because axes are dynamic; {} gives its lengths"
    (typed,) = cli("check", path, "--against", "pytorch", "--json").json["layers"]
    assert (typed["reason"], typed["warnings"]) == (why.format("--input-shape"), [warning.format("--input-shape")])
    (called,) = poolcli.check(path, against="pytorch")
    assert (called.reason, called.warnings) == (why.format("input_shape"), (warning.format("input_shape"),))


def test_what_another_framework_would_read_differently(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.xml", layer(f'{AVG} rounding_type="ceil"', (1, 3, 9, 9), (1, 3, 5, 5)))
    assert "TensorFlow: not in the same attributes (" in cli("check", path, "--against", "tensorflow").out
    done = cli("check", path, "--against", "pytorch").out
    assert (done.count("PyTorch"), done.endswith(": 1 agrees; the same in PyTorch: 1 of 1\n")) == (1, True)
    assert cli("check", path, "--against", "caffe").code == 2


def test_windows_without_input_are_pointed_out(cli: Cli, tmp_path: Path) -> None:
    data = 'dilations="1,1" kernel="1,1" pads_begin="1,1" pads_end="0,0" strides="1,1"'
    path = model(tmp_path / "m.xml", layer(data, (1, 1, 2, 2), (1, 1, 3, 3), "MaxPool"))
    assert "5 windows hold no input element" in " ".join(cli("check", path).out.split())


@pytest.mark.slow
def test_a_large_model_takes_no_more_memory_than_the_limit(work: Path) -> None:
    other = '<layer id="1" name="c" type="Convolution" version="opset1"><data a="{}"/></layer>'.format("x" * 10_000)
    with Path("large.xml").open("w") as stream:
        stream.write('<?xml version="1.0"?><net><layers>')
        stream.writelines(other for _ in range(20_000))  # 200 MB
        stream.write(layer(AVG, (1, 3, 8, 8), (1, 3, 4, 4)) + "</layers></net>")
    done = fresh(work, "check", "large.xml", "--max-memory", "100M", timeout=None)
    said = "poolcli: large.xml: its layers take more memory than the limit, 100 MiB; raise --max-memory\n"
    assert (done.code, done.err, done.peak < 200 << 10) == (2, said, True)


def test_recorded_data_is_compared(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.xml", layer(AVG, (1, 3, 8, 8), (1, 3, 4, 4)))
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    y = poolcli.avg_pool(x, 2, strides=2)
    np.savez(tmp_path / "good.npz", input=x, output=y)
    done = cli("check", path, "--layer", "pool", "--run", tmp_path / "good.npz")
    assert (done.code, "data: all 48 elements are identical" in done.out) == (0, True)
    y[0, 1, 2, 3] += 0.5
    y[0, 0, 0, 0] = np.nan
    np.savez(tmp_path / "bad.npz", input=x, output=y)
    done = cli("check", path, "--layer", "pool", "--run", tmp_path / "bad.npz")
    assert (done.code, "data: 2 of 48 elements differ; the largest difference is inf at" in done.out) == (1, True)
    data = cli("check", path, "--layer", "pool", "--run", tmp_path / "bad.npz", "--json").json["data"]
    assert (data["off"], data["at"], data["largest"]) == (2, [0, 0, 0, 0], "inf")
    assert cli("check", path, "--run", tmp_path / "good.npz").code == 0  # of its only layer
    refused = cli("check", "samples/backbone.xml", "--run", tmp_path / "good.npz")
    assert refused.err == "poolcli: --run compares the data of one pooling layer; name it with --layer\n"
    assert cli("check", path, "--layer", "other").code == 2
    np.savez(tmp_path / "named.npz", x=x, output=y)
    done = cli("check", path, "--layer", "pool", "--run", tmp_path / "named.npz")
    assert (done.code, done.err.endswith("; --run needs arrays called input and output\n")) == (2, True)
    np.savez(tmp_path / "short.npz", input=x, output=y[..., :2])
    assert "output is 1,3,4,2, but layer pool makes 1,3,4,4" in cli(
        "check", path, "--layer", "pool", "--run", tmp_path / "short.npz"
    ).err  # fmt: skip


def test_a_name_of_megabytes_costs_time_in_proportion_and_is_shown_in_part(cli: Cli, tmp_path: Path) -> None:
    layer = f'<layer id="0" name="{"x" * 8_000_000}" type="AvgPool"><data {AVG}/></layer>'
    (tmp_path / "m.xml").write_text(f"<net><layers>{layer}</layers></net>")
    start = time.monotonic()
    shown = cli("check", tmp_path / "m.xml").out
    assert time.monotonic() - start < 10  # of 30 when every piece of a name was looked through from its start
    assert len(shown) < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ResNet", "audio", "volume"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_exported_networks_agree_with_the_shapes_that_their_frameworks_compute(
    name: str, cli: Cli, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch exports the networks where it is installed")
    import onnx
    import openvino as ov
    from torch import nn

    layers, shape = {  # the pooling of well-known networks
        "ResNet": ([nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AdaptiveAvgPool2d(1)],
                   (2, 3, 97, 64)),
        "audio": ([nn.Conv1d(2, 4, 5), nn.MaxPool1d(4, 3, 2, dilation=2), nn.AvgPool1d(3, 2, ceil_mode=True)],
                  (1, 2, 203)),
        "volume": ([nn.Conv3d(1, 2, 3), nn.MaxPool3d((1, 2, 2), (1, 2, 2)), nn.AvgPool3d(3, 2, 1)],
                   (1, 1, 12, 31, 30)),
    }[name]  # fmt: skip
    network, x = nn.Sequential(*layers).eval(), torch.zeros(shape)
    torch.onnx.export(network, (x,), str(tmp_path / "m.onnx"), dynamo=False)
    onnx.save(onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "m.onnx")), tmp_path / "m.onnx")
    converted = ov.convert_model(network, example_input=x)
    converted.reshape(list(shape))
    ov.save_model(converted, tmp_path / "m.xml")
    torch.export.save(torch.export.export(network, (x,)), tmp_path / "m.pt2")
    for file in ("m.onnx", "m.xml", "m.pt2"):
        done = cli("check", tmp_path / file, "--json", "--against", "pytorch")
        assert (done.code, {found["verdict"] for found in done.json["layers"]}) == (0, {"agrees"})


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (7, "7"),
        ({"x": "1,3"}, "{'x': '1,3'}"),
        ({"x": (1, -1)}, "{'x': (1, -1)}"),
    ],
)
def test_lengths_that_are_none_are_refused_in_python(given: Any, shown: str) -> None:
    with pytest.raises(poolcli.RequestError) as refusal:
        poolcli.check("samples/backbone.xml", input_shape=given)
    assert str(refusal.value) == f"input_shape is {shown}; give whole numbers from 1 to 2**63 - 1 for each input"


@pytest.mark.parametrize(
    ("op", "shape", "output"),
    [
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", "W"), ("N", 3, "?", "?")),
        (AvgPool(2, divisor_override=3, like="pytorch"), ("N", 3, "H", 9), ("N", 3, "?", 4)),
        (AvgPool((1, 2, 3), like="pytorch"), ("N", 3, "D", "H", 9), ("N", 3, "?", "?", 3)),
    ],
    ids=["divisor", "divisor and one known length", "an own kernel for each axis"],
)  # fmt: skip
def test_limits_of_one_axis_do_not_hold_for_several_that_are_dynamic(op: AvgPool, shape: Shape, output: Shape) -> None:
    """PyTorch's avg_pool1d takes no divisor_override."""
    assert infer_shape(op, shape).shape == output


def test_limits_of_three_axes_hold_where_one_of_them_is_dynamic() -> None:
    """PyTorch 2.13: "kernel size (kT: 2 kH: 5 kW: 2) should be smaller than or equal to input image size"."""
    op = AvgPool((2, 5, 2), pads_begin=1, pads_end=1, like="pytorch")
    assert infer_shape(op, ("N", 3, "D", 5, 4)).shape == ("N", 3, "?", 1, 3)
    with pytest.raises(RequestError, match="axis H is 4 long, the kernel 5"):
        infer_shape(op, ("N", 3, "D", 4, 4))
