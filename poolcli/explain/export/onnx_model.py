"""Writes a pooling as an ONNX model (`Plan.save_onnx`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from poolcli.errors import RequestError
from poolcli.explain.export import convert
from poolcli.explain.export.onnx import Constant, Node, element_type, nodes_of
from poolcli.formats.checks import tensor_layout
from poolcli.layouts import converted_shape
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.system.lazy_imports import need, numpy as np

DEFAULT_OPSET = 17
FIRST_OPSET = 11  # before it, the pads of Pad are an attribute


def save_onnx(plan: Plan, path: str | os.PathLike[str], opset: int | None, overwrite: bool) -> None:
    """Write the model to an .onnx file, atomically; every refusal is a RequestError."""
    path = os.fspath(path)
    if Path(path).suffix.lower() != ".onnx":
        raise RequestError(f"{path}: a model needs the extension .onnx; write {Path(path).stem}.onnx")
    (onnx,) = need("onnx", why=f"{path}: writing ONNX models needs onnx")
    from poolcli.formats.atomic import write_bytes

    write_bytes(path, onnx_model(plan, opset, onnx).SerializeToString(), overwrite)


def onnx_model(plan: Plan, given: int | None, onnx: Any) -> Any:
    """The model of a plan, from input `x` to output `y`, validated by onnx; a RequestError if there is none.

    Without an opset it has the usual one, or the next that takes it.
    """
    newest, opset = onnx.defs.onnx_opset_version(), DEFAULT_OPSET if given is None else given
    if not FIRST_OPSET <= opset <= newest:
        raise RequestError(f"{field('opset')} is {opset}; it must be from {FIRST_OPSET} to {newest}")
    if plan.output_dtype != plan.dtype:
        raise RequestError(f"an ONNX model gives the type that it takes; leave out {field('dtype')}")
    found = convert(plan, "onnx")
    if found.steps is None:
        raise RequestError(f"no ONNX model: {found.reason}")
    element = _element_type(plan.dtype, onnx)
    layout = tensor_layout(plan.layout)
    x, y = (
        onnx.helper.make_tensor_value_info(name, element, converted_shape(shape, plan.layout, layout))
        for name, shape in (("x", plan.input_shape), ("y", plan.output_shape))
    )
    nodes = [_proto(node, onnx) for node in nodes_of(found.steps)]
    graph = onnx.helper.make_graph(nodes, "pooling", [x], [y])
    model, why = _checked_model(graph, opset, onnx)
    if why is None:
        return model
    others = (*range(opset + 1, newest + 1), *range(opset - 1, FIRST_OPSET - 1, -1))
    able = next((other for other in others if _checked_model(graph, other, onnx)[1] is None), None)
    if able and given is None:
        return _checked_model(graph, able, onnx)[0]
    remedy = "no opset takes it" if able is None else f"use {field('opset', able)}"
    raise RequestError(f"onnx refuses the model in opset {opset}: {why}; {remedy}")


def _checked_model(graph: Any, opset: int, onnx: Any) -> tuple[Any, str | None]:
    imports = [onnx.helper.make_opsetid("", opset)]
    version = onnx.helper.find_min_ir_version_for(imports)
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=version, producer_name="poolcli")
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return model, str(error).splitlines()[0]
    return model, None


def _element_type(dtype: str, onnx: Any) -> int:
    return int(onnx.TensorProto.DataType.Value(element_type(dtype)))


def _proto(node: Node, onnx: Any) -> Any:
    """The node for onnx, without attributes that are 0, the default, as older opsets lack some of them."""
    given = {name: _attribute(name, value, onnx) for name, value in node.attributes.items() if value != 0}
    return onnx.helper.make_node(node.op_type, list(node.inputs), [node.output], **given)


def _attribute(name: str, value: object, onnx: Any) -> object:
    """The value of an attribute for `onnx.helper`: constants become tensors, types become numbers."""
    if name == "to":
        return _element_type(str(value), onnx)
    if not isinstance(value, Constant):
        return value
    array = np.array(value.values() if callable(value.values) else value.values)
    return onnx.helper.make_tensor("value", _element_type(value.dtype, onnx), array.shape, array.ravel())
