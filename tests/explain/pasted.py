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

    node = eval(text, {"onnx": onnx})  # noqa: S307
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, list(x.shape))], [value("y", 1, [None] * x.ndim)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def openvino(text: str, x: Any) -> Any:
    import openvino as ov

    if "Adaptive" in text:
        return _openvino_bins(text, x)
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
    parameter = module.parameter(list(x.shape), ov.Type.f32)
    node = module.avg_pool(parameter, **options) if kind == "AvgPool" else module.max_pool(
        parameter, axis=int(given["axis"]), index_element_type=given["index_element_type"], **options
    )  # fmt: skip
    model = ov.Model([module.result(node.output(0))], [parameter])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([x])[0]


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
