"""ONNX models made of a few nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def node(kind: str, inputs: str = "x", outputs: str = "y", **attributes: Any) -> Any:
    """A node; names of values are separated by spaces."""
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def value(name: str, shape: Sequence[int | str | None] | None) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def model(
    path: Path, nodes: Sequence[Any], shape: Sequence[int | str | None] | None = (1, 3, 9, 9), opset: int = 22,
    outputs: Sequence[Any] = (), values: Sequence[Any] = (), constants: Sequence[Any] = (),
    functions: Sequence[Any] = (),
) -> Path:  # fmt: skip
    """A model with the input `x` of this shape; its output is `y` where no other is given."""
    outputs = outputs or [value("y", None)]
    graph = helper.make_graph(nodes, "g", [value("x", shape)], outputs, constants, value_info=values)
    domains = [helper.make_opsetid("", opset), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    domains += [helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=domains, functions=functions, ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path
