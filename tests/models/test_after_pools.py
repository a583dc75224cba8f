"""What follows a pooling is inferred from the shape that the runtime gives it, whatever the file or onnx say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference

from poolcli.models import Finding, check
from tests.models.onnxs import model, node, value
from tests.profiles import sized

# Ceil poolings of an axis of 7 or 9 elements: the last window of all but one starts beyond the input, and is dropped.
DROPS: dict[str, dict[str, Any]] = {
    "pads": {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "strides": {"kernel_shape": [2, 2], "strides": [5, 5]},
    "one axis": {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 0, 1, 0]},
    "kept": {"kernel_shape": [3, 3], "strides": [2, 2]},
}
FOLLOWERS = ("Conv", "MaxPool", "GlobalMaxPool", "Concat", "If")
SIZES = (7, 9)
STATED = ("nothing", "true", "as onnx infers")


def following(kind: str) -> list[Any]:
    """The nodes after `p`: one of the kind, and a pooling of what that makes."""
    last = node("AveragePool", "f", "y", kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    if kind == "Conv":
        return [node("Conv", "p w", "f", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]), last]
    if kind == "Concat":
        return [node("Relu", "p", "r"), node("Concat", "p r", "f", axis=2), last]
    if kind == "If":
        then, other = (
            helper.make_graph([node("MaxPool", "p", out, kernel_shape=[2, 2])], out, [], [value(out, None)])
            for out in ("t", "e")
        )
        return [node("If", "c", "f", then_branch=then, else_branch=other), last]
    return [node(kind, "p", "f", **({"kernel_shape": [2, 2]} if kind == "MaxPool" else {})), last]


def made(path: Path, pool: str, attributes: dict[str, Any], kind: str, size: int, opset: int) -> onnx.ModelProto:
    """A pooling with `ceil_mode` where the opset has it, and what follows."""
    ceil = {"ceil_mode": 1} if opset >= (18 if pool == "LpPool" else 10) else {}
    constants = [
        numpy_helper.from_array(np.ones((2, 2, 3, 3), np.float32), "w"),
        numpy_helper.from_array(np.array(True), "c"),
    ]
    nodes = [node(pool, "x", "p", **attributes, **ceil), *following(kind)]
    model(path, nodes, (1, 2, size, size), opset, constants=constants, outputs=[value(n, None) for n in "pfy"])
    return onnx.load(path)


def shapes_at_run_time(read: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shapes of the outputs, computed by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(read.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {each.name: np.zeros(each.shape, np.float32) for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return {name: found.shape for name, found in zip(names, session.run(None, inputs), strict=True)}


def state(path: Path, read: onnx.ModelProto, stated: str, true: dict[str, tuple[int, ...]]) -> None:
    """Writes the model with the shapes of `p`, `f` and `y`: true ones, or those that onnx infers."""
    if stated == "as onnx infers":
        onnx.save(shape_inference.infer_shapes(read), path)
    elif stated == "true":
        del read.graph.output[:]
        read.graph.output.extend(value(name, shape) for name, shape in true.items())
        onnx.save(read, path)


def _right(found: Finding, true: dict[str, tuple[int, ...]]) -> bool:
    given = {"p": "x", "y": "f"}.get(found.layer.name)
    if given in true and found.layer.input_shape != true[given]:
        return False
    shape, declared = true.get(found.layer.name), found.layer.declared_shape
    if shape is not None and found.computed != shape:
        return False
    if declared is None:
        return found.verdict == "computed"
    return found.verdict == ("agrees" if declared == found.computed else "differs")


def combinations(opset: int) -> list[tuple[Any, ...]]:
    return list(itertools.product(("MaxPool", "AveragePool", "LpPool"), DROPS, FOLLOWERS, SIZES, [opset], STATED))


def disagreements(cases: Sequence[tuple[Any, ...]], folder: Path) -> list[Any]:
    found: list[Any] = []
    path = folder / "m.onnx"
    for case in cases:
        pool, attributes, kind, size, opset, stated = case
        read = made(path, pool, DROPS[attributes], kind, size, opset)
        true = shapes_at_run_time(read)
        state(path, read, stated, true)
        judged = check(path)
        assert judged
        found += [(case, each.layer.name, each.computed, each.verdict) for each in judged if not _right(each, true)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("opset", range(7, 23, sized(3, 1)))
def test_what_follows_a_pooling_has_the_shape_of_onnx_runtime_in_every_opset(opset: int, tmp_path: Path) -> None:
    cases = combinations(opset)
    assert disagreements(cases[opset % sized(21, 1) :: sized(21, 1)], tmp_path) == []


THERE = {"domain": "com.microsoft"}
# `u` is the quantised input, and `v` is broadcast to it.
BETWEEN = [
    node("MeanVarianceNormalization", "x", "f"),
    node("FusedConv", "x w", "f", **THERE, strides=[2, 1], pads=[1, 0, 0, 2], activation="Relu"),
    node("QLinearAdd", "u s z v s z s z", "f", **THERE),
    node("QLinearMul", "v s z u s z s z", "f", **THERE),
    node("QLinearLeakyRelu", "u s z s z", "f", **THERE, alpha=0.5),
    node("QLinearSigmoid", "u s z s z", "f", **THERE),
]


@pytest.mark.parametrize("between", BETWEEN, ids=lambda each: each.op_type)
def test_a_pooling_behind_an_operator_without_a_rule_has_the_shape_of_onnx_runtime(
    between: Any, tmp_path: Path
) -> None:
    small = {"s": np.float32(1), "z": np.uint8(0), "v": np.ones((4, 1, 1), np.uint8), "w": np.ones((3, 4, 3, 2), "f")}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in small.items()]
    last = [node("MaxPool", "f", "y", kernel_shape=[2, 2])]
    if between.op_type.startswith("QLinear"):
        last = [node("DequantizeLinear", "f s z", "g"), node("MaxPool", "g", "y", kernel_shape=[2, 2])]
    nodes = [node("QuantizeLinear", "x s z", "u"), between, *last]
    path = model(tmp_path / "m.onnx", nodes, (1, 4, 9, 12), 13, constants=constants)
    theirs = onnxruntime.InferenceSession(path).run(["y"], {"x": np.ones((1, 4, 9, 12), np.float32)})[0].shape
    (found,) = check(path)
    assert (found.computed, found.verdict) == (theirs, "computed")


def test_quantised_poolings_follow_each_other(tmp_path: Path) -> None:
    scale = [
        numpy_helper.from_array(np.array(0.5, np.float32), "s"),
        numpy_helper.from_array(np.array(3, np.uint8), "z"),
    ]
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("QLinearAveragePool", "q s z s z", "p", **DROPS["pads"], ceil_mode=1, **THERE),
        node("QLinearAveragePool", "p s z s z", "f", kernel_shape=[2, 2], **THERE),
        node("QLinearGlobalAveragePool", "f s z s z", "g", **THERE),
        node("DequantizeLinear", "g s z", "d"),
        node("GlobalMaxPool", "d", "y"),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in "pfg"]
    model(tmp_path / "m.onnx", nodes, (1, 2, 7, 7), 13, constants=scale, outputs=[*outputs, value("y", None)])
    true = shapes_at_run_time(onnx.load(tmp_path / "m.onnx"))
    found = check(tmp_path / "m.onnx")
    assert [(each.computed, each.verdict) for each in found] == [(true[name], "computed") for name in "pfgy"]
