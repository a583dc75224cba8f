"""Asking OpenVINO: many operators as outputs of one model, because compiling a model is what costs time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset8 as opset8
import openvino.opset14 as opset14
import openvino.opset16 as opset16

from poolcli.attributes import per_axis

Array = np.ndarray[Any, np.dtype[Any]]


@cache
def _core() -> Any:
    return ov.Core()


def node(op: Any, data: Any, rank: int) -> Any:
    """The operator as an OpenVINO node on `data`. Average pooling always names its dilations (it crashes without)."""
    axes = "DHW"[-rank:]
    if op.name.startswith("adaptive"):
        size = np.array(per_axis("output_size", op.output_size, axes, 1), np.int64)
        if op.name == "adaptive-avg":
            return opset8.adaptive_avg_pool(data, size)
        return opset8.adaptive_max_pool(data, size, "i32")  # i64 does not run on the CPU
    lists = {
        name: list(per_axis(name, getattr(op, name), axes, 0))
        for name in ("kernel", "strides", "pads_begin", "pads_end", "dilations")
    }
    kernel = lists.pop("kernel")
    words = {"rounding_type": op.rounding_type, "auto_pad": op.auto_pad}
    if op.name == "avg":
        exclude = True if op.exclude_pad is None else op.exclude_pad
        return opset16.avg_pool(data, kernel_shape=kernel, exclude_pad=exclude, **lists, **words)
    return opset14.max_pool(data, kernel_shape=kernel, axis=op.axis or 0, **lists, **words)


def ask(questions: Sequence[tuple[Any, Array]]) -> list[tuple[Array, Array | None]]:
    """Values and indices of each (operator, input)."""
    parameters, results = [], []
    for op, x in questions:
        parameter = opset8.parameter(list(x.shape), ov.Type(x.dtype))
        made = node(op, parameter, x.ndim - 2)
        parameters.append(parameter)
        results += [opset8.result(output) for output in made.outputs()]
    model = ov.Model(results, parameters)
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    answers = iter(_core().compile_model(model, "CPU", hints)([x for _, x in questions]).values())
    return [(next(answers), next(answers) if "max" in op.name else None) for op, _ in questions]
