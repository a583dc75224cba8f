"""The longest path of an ONNX model to a layer, held against what ONNX Runtime's output depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from poolcli import RequestError
from poolcli.models.onnx_layers import chain_to
from tests.conftest import Cli
from tests.models.onnxs import model, node, value

SHAPE = (1, 2, 61, 47)


def weights(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


NODES = [  # a stem, a block with a short cut and a gate of its channels, a dense block of halves of its channels
    node("Conv", "x w0", "a", name="stem", kernel_shape=[5, 3], strides=[2, 1], pads=[2, 1, 1, 0]),
    node("Relu", "a", "b"),
    node("Conv", "b w1", "c", name="wide", dilations=[2, 3], pads=[2, 3, 2, 3]),
    node("Add", "c b", "d"),
    node("GlobalAveragePool", "d", "e", name="squeeze"),
    node("Conv", "e w2", "f", name="gate"),
    node("Sigmoid", "f", "g"),
    node("Mul", "d g", "h"),
    node("MaxPool", "h", "i", name="pool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    node("Split", "i", "j k", axis=1, num_outputs=2),
    node("Conv", "k w3", "l", name="half", pads=[1, 1, 1, 1]),
    node("Concat", "j l", "m", axis=1),
    node("AveragePool", "m", "y", name="last", kernel_shape=[2, 2], strides=[2, 2]),
]
CONSTANTS = [weights("w0", 4, 2, 5, 3), weights("w1", 4, 4, 3, 3), weights("w2", 4, 4, 1, 1), weights("w3", 3, 2, 3, 3)]


def _depends(path: Path, axis: int, centre: bool) -> tuple[int, int]:
    """The first and last line of the input on which the first or the centre output line depends."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = np.zeros(SHAPE, np.float32)
    still = session.run(None, {"x": x})[0]
    at = still.shape[axis] // 2 if centre else 0
    reached = []
    for line in range(SHAPE[axis]):
        moved = x.copy()
        moved[(slice(None),) * axis + (line,)] = 1
        found = session.run(None, {"x": moved})[0]
        if (found.take(at, axis) != still.take(at, axis)).any():
            reached.append(line)
    return reached[0], reached[-1]


def test_the_longest_path_leads_through_every_window_to_what_the_output_depends_on(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", NODES, SHAPE, 18, constants=CONSTANTS)
    found = chain_to(str(path), "last", {})
    assert [layer.layer for layer in found.layers] == ["stem", "wide", "pool", "half", "last"]
    assert found.layers[-1].output == (1, 5, 7, 11)
    assert (found.layers[-1].stride, found.layers[-1].field) == ((8, 4), (29, 17))
    without_gate = [each for each in NODES if each.name not in ("squeeze", "gate") and each.op_type != "Sigmoid"]
    without_gate = [node("Identity", "d", "h") if each.op_type == "Mul" else each for each in without_gate]
    plain = model(tmp_path / "plain.onnx", without_gate, SHAPE, 18, constants=CONSTANTS)  # whose gate reads all
    ends = [(_depends(plain, axis, False), _depends(plain, axis, True)) for axis in (2, 3)]
    assert ends == list(zip(found.layers[-1].span, found.layers[-1].centre, strict=True))


def test_what_is_not_followed_is_named(tmp_path: Path, cli: Cli) -> None:
    resized = [node("Resize", "x  s", "a", name="up"), node("MaxPool", "a", "y", name="pool", kernel_shape=[2, 2])]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s")
    resized[0].input[:] = ["x", "", "s"]
    path = str(model(tmp_path / "r.onnx", resized, SHAPE, 18, constants=[scales]))
    with pytest.raises(RequestError, match=r"leads to pool: it ends at up \(Resize\)$"):
        chain_to(path, "pool", {})
    assert cli("check", path, "--chain").err == (
        "poolcli: --chain follows the path to one layer; name it with --layer\n"
    )
    one = [node("MaxPool", name="pool", kernel_shape=[2, 2])]
    dynamic = str(model(tmp_path / "d.onnx", one, ("N", 3, "H", "W"), outputs=[value("y", None)]))
    refused = cli("check", dynamic, "--layer", "pool", "--chain")
    told = "the lengths of its input are not known; --input-shape gives them"
    assert (refused.code, refused.err) == (2, f"poolcli: {dynamic}: {told}\n")
    shown = cli("check", dynamic, "--layer", "pool", "--chain", "--input-shape", "x=1,3,9,9")
    assert [line.split()[:2] for line in shown.out.splitlines()[-3:-1]] == [["input", "N=1"], ["pool", "N=1"]]
    document = cli("check", dynamic, "--layer", "pool", "--chain", "--input-shape", "x=1,3,9,9", "--json").json
    assert [layer["output"] for layer in document["chain"]["layers"]] == [[1, 3, 8, 8]]


def test_other_formats_than_onnx_are_refused(cli: Cli) -> None:
    refused = cli("check", "samples/backbone.xml", "--layer", "stem", "--chain")
    told = "samples/backbone.xml: --chain follows ONNX models, which this is not"
    assert (refused.code, refused.err) == (2, f"poolcli: {told}\n")
