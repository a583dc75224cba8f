"""Asking ONNX Runtime: many nodes in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnxruntime
from onnx import TensorProto, checker, helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_errors

from tests.conformance.peers import Answer, Array, spread

OPSET = 22
AUTO_PADS = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
NAMES = {"avg": "AveragePool", "max": "MaxPool", "lp": "LpPool"}
REFUSALS = tuple(
    getattr(runtime_errors, name) for name in ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented")
)


def node(op: Any, rank: int, source: str, targets: Sequence[str]) -> Any:
    """The operator as an ONNX node; what the operator leaves to the default is left out."""
    attributes: dict[str, Any] = {
        "kernel_shape": spread(op.kernel, rank),
        "dilations": spread(op.dilations, rank),
        "auto_pad": AUTO_PADS[op.auto_pad],
        "ceil_mode": int(op.rounding_type == "ceil"),
        "pads": spread(op.pads_begin, rank) + spread(op.pads_end, rank),
    }
    if op.strides is not None:
        attributes["strides"] = spread(op.strides, rank)
    if op.name == "avg" and op.exclude_pad is not None:
        attributes["count_include_pad"] = int(not op.exclude_pad)
    if op.name == "lp":
        attributes["p"] = op.p
    return helper.make_node(NAMES[op.name], [source], list(targets), **attributes)


def ask(questions: Sequence[tuple[Any, Array]], indices: bool = True) -> list[Answer]:
    """Values of each (operator, input), and indices of maxima; a node without indices runs another kernel."""
    nodes, inputs, outputs, feed = [], [], [], {}
    for i, (op, x) in enumerate(questions):
        names = [f"y{i}", f"at{i}"] if op.name == "max" and indices else [f"y{i}"]
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
    options.log_severity_level = 4  # refusals are answers here
    options.enable_mem_reuse = False  # its shape inference and its kernels can disagree about a length
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = iter(session.run(None, feed))
    return [(next(answers), next(answers) if op.name == "max" and indices else None) for op, _ in questions]


def refuses(op: Any, x: Array) -> bool:
    """Whether the model is refused when it is loaded or run."""
    try:
        ask([(op, x)])
    except REFUSALS:
        return True
    return False
