"""Asking OpenVINO: many operators as outputs of one model, because compiling a model is what costs time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset1 as opset1
import openvino.opset8 as opset8
import openvino.opset14 as opset14
import openvino.opset16 as opset16

from tests.conformance.peers import Answer, Array, spread


@cache
def _core() -> Any:
    return ov.Core()


def node(op: Any, data: Any, rank: int, turn: int = 0) -> Any:
    """The operator as a node on `data`; `turn` picks among the versions that can express it."""
    if op.name.startswith("adaptive"):
        size = np.array(spread(op.output_size, rank), np.int64)
        if op.name == "adaptive-avg":
            return opset8.adaptive_avg_pool(data, size)
        return opset8.adaptive_max_pool(data, size, "i32")  # i64 does not run on the CPU
    options: dict[str, Any] = {
        "strides": spread(1 if op.strides is None else op.strides, rank),  # required: it has no default
        "pads_begin": spread(op.pads_begin, rank),
        "pads_end": spread(op.pads_end, rank),
        "kernel_shape": spread(op.kernel, rank),
        "rounding_type": op.rounding_type,
        "auto_pad": op.auto_pad,
    }
    dilations = spread(op.dilations, rank)
    torch_rounding = op.rounding_type == "ceil_torch"
    if op.name == "max":
        build = [opset8.max_pool, opset14.max_pool][1 if torch_rounding else turn % 2]
        return build(data, dilations=dilations, index_element_type=op.index_element_type, axis=op.axis or 0, **options)
    options["exclude_pad"] = True if op.exclude_pad is None else op.exclude_pad
    # version 16 always names its dilations: the CPU plugin crashes without
    versions: list[Any] = [lambda *a, **o: opset16.avg_pool(*a, dilations=dilations, **o)]
    if set(dilations) == {1}:
        versions += [opset14.avg_pool] if torch_rounding else [opset14.avg_pool, opset1.avg_pool]
    return versions[turn % len(versions)](data, **options)


def ask(questions: Sequence[tuple[Any, Array]], indices: bool = True) -> list[Answer]:
    """Values of each (operator, input), and indices of maxima."""
    parameters, results = [], []
    for turn, (op, x) in enumerate(questions):
        brain = x.dtype.name == "bfloat16"  # exchanged as float32, which holds it exactly
        parameter = opset8.parameter(list(x.shape), ov.Type.f32 if brain else ov.Type(x.dtype))
        made = node(op, opset8.convert(parameter, "bf16") if brain else parameter, x.ndim - 2, turn)
        parameters.append(parameter)
        values, *positions = made.outputs()[: 1 + indices]
        results.append(opset8.result(opset8.convert(values, "f32") if brain else values))
        results += [opset8.result(output) for output in positions]
    model = ov.Model(results, parameters)
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    feed = [x.astype(np.float32) if x.dtype.name == "bfloat16" else x for _, x in questions]
    answers = iter(_core().compile_model(model, "CPU", hints)(feed).values())
    return [
        (_as_asked(next(answers), x), next(answers) if indices and "max" in op.name else None) for op, x in questions
    ]


def _as_asked(values: Array, x: Array) -> Array:
    return values.astype(x.dtype) if x.dtype.name == "bfloat16" else values


def refuses(op: Any, x: Array) -> bool:
    """Whether the node cannot be built."""
    try:
        node(op, opset8.parameter(list(x.shape), ov.Type(x.dtype)), x.ndim - 2)
    except RuntimeError:
        return True
    return False
