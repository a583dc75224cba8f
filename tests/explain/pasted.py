"""What is written down for a framework, run by that framework."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def pytorch(text: str, x: Any) -> Any:
    import torch

    return eval(text, {"torch": torch, "x": torch.from_numpy(x)}).numpy()  # noqa: S307


def onnx_runtime(text: str, x: Any) -> Any:
    import onnx
    import onnxruntime

    made = eval(text, {"onnx": onnx, "np": np})  # noqa: S307
    nodes = made if isinstance(made, list) else [made]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, list(x.shape))], [value("y", 1, [None] * x.ndim)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def openvino(text: str, x: Any) -> Any:
    import openvino as ov

    if "Adaptive" in text:
        return _openvino_bins(text, x)
    parameter = ov.opset1.parameter(list(x.shape), ov.Type.f32)
    node = parameter.output(0)
    for line in text.splitlines():
        node = _openvino_layer(line, node).output(0)
    model = ov.Model([ov.opset1.result(node)], [parameter])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([x])[0]


def _openvino_layer(text: str, node: Any) -> Any:
    from openvino import opset1

    kind, *_ = text.split()
    if kind == "Pad":
        begin, end = ([int(n) for n in part.split(",")] for part in re.findall(r"pads_\w+: ([\d,]+)", text))
        value = float(text.rpartition(" ")[2])
        return opset1.pad(node, np.array(begin), np.array(end), "constant", np.float32(value))
    if kind in ("Abs", "Negative"):
        return opset1.abs(node) if kind == "Abs" else opset1.negative(node)
    if kind in ("Multiply", "Power"):
        number = np.float32(text.rpartition(" ")[2])
        return opset1.multiply(node, number) if kind == "Multiply" else opset1.power(node, number)
    return _openvino_pool(text, node)


def _openvino_pool(text: str, node: Any) -> Any:
    kind, opset = text.split(":")[0].split()
    given = dict(re.findall(r'([\w-]+)="([^"]*)"', text))
    lists = {k: [int(n) for n in given[k].split(",")] for k in ("strides", "pads_begin", "pads_end")}
    options: dict[str, Any] = lists | {
        "kernel_shape": [int(n) for n in given["kernel"].split(",")],
        "rounding_type": given["rounding_type"], "auto_pad": given["auto_pad"],
    }  # fmt: skip
    if "dilations" in given:
        options["dilations"] = [int(n) for n in given["dilations"].split(",")]
    if kind == "AvgPool":
        options["exclude_pad"] = given["exclude-pad"] == "true"
    module = getattr(__import__(f"openvino.{opset}"), opset)
    return module.avg_pool(node, **options) if kind == "AvgPool" else module.max_pool(
        node, axis=int(given["axis"]), index_element_type=given["index_element_type"], **options
    )  # fmt: skip


def tensorflow(text: str, x: Any) -> Any:
    import tensorflow as tf

    found = eval(text, {"tf": tf, "x": tf.constant(np.moveaxis(x, 1, -1))})  # noqa: S307
    return np.moveaxis(found.numpy(), -1, 1)


def _openvino_bins(text: str, x: Any) -> Any:
    import openvino as ov
    from openvino import opset8

    given, sizes = text.split(" second input: ")
    parameter = opset8.parameter(list(x.shape), ov.Type.f32)
    output = opset8.constant(np.array([int(n) for n in sizes.split(",")], np.int64))
    index_type = re.findall(r'index_element_type="(\w+)"', given)
    node = opset8.adaptive_max_pool(parameter, output, *index_type) if index_type else opset8.adaptive_avg_pool(
        parameter, output
    )  # fmt: skip
    model = ov.Model([opset8.result(node.output(0))], [parameter])
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
