"""Asking ONNX Runtime: many nodes in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, checker, helper

from poolcli.attributes import per_axis

Array = np.ndarray[Any, np.dtype[Any]]
OPSET = 22
AUTO_PADS = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def node(op: Any, rank: int, source: str, targets: Sequence[str]) -> Any:
    """The operator as an ONNX node."""
    axes = "DHW"[-rank:]

    def numbers(name: str) -> list[int]:
        return list(per_axis(name, getattr(op, name), axes, 0))

    attributes: dict[str, Any] = {
        "kernel_shape": numbers("kernel"),
        "strides": numbers("strides"),
        "dilations": numbers("dilations"),
        "auto_pad": AUTO_PADS[op.auto_pad],
        "ceil_mode": int(op.rounding_type == "ceil"),
    }
    if op.auto_pad == "explicit":
        attributes["pads"] = numbers("pads_begin") + numbers("pads_end")
    if op.name == "avg":
        attributes["count_include_pad"] = int(op.exclude_pad is False)
    return helper.make_node("AveragePool" if op.name == "avg" else "MaxPool", [source], list(targets), **attributes)


def ask(questions: Sequence[tuple[Any, Array]]) -> list[tuple[Array, Array | None]]:
    """Values and indices of each (operator, input)."""
    nodes, inputs, outputs, feed = [], [], [], {}
    for i, (op, x) in enumerate(questions):
        names = [f"y{i}"] if op.name == "avg" else [f"y{i}", f"at{i}"]
        nodes.append(node(op, x.ndim - 2, f"x{i}", names))
        element = helper.np_dtype_to_tensor_dtype(x.dtype)
        inputs.append(helper.make_tensor_value_info(f"x{i}", element, x.shape))
        outputs.append(helper.make_tensor_value_info(names[0], element, [None] * x.ndim))
        outputs += [helper.make_tensor_value_info(name, TensorProto.INT64, [None] * x.ndim) for name in names[1:]]
        feed[f"x{i}"] = x
    graph = helper.make_graph(nodes, "questions", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = iter(session.run(None, feed))
    return [(next(answers), next(answers) if op.name == "max" else None) for op, _ in questions]
