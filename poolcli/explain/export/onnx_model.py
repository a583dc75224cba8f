"""Writes a pooling as an ONNX model (`Plan.save_onnx`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.equivalence import same_pooling
from poolcli.explain.export import convert
from poolcli.explain.export.compose import compositions
from poolcli.explain.export.onnx import ONNX_WRITER, Constant, ElementType, Node, Nodes, nodes_of
from poolcli.formats.checks import tensor_layout
from poolcli.layouts import converted_shape
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.system.lazy_imports import need

DEFAULT_OPSET = 17
FIRST_OPSET = 11  # before it, the pads of Pad are an attribute
FIRST_RIGHT_OPSET = 22  # before it, onnx infers the last window that a ceil pooling drops; runtimes do not compute it


def save_onnx(plan: Plan, path: str | os.PathLike[str], opset: int, overwrite: bool) -> None:
    """Write the model to an .onnx file, atomically; every refusal is a RequestError."""
    path = os.fspath(path)
    if Path(path).suffix.lower() != ".onnx":
        raise RequestError(f"{path}: a model needs the extension .onnx; write {Path(path).stem}.onnx")
    if Path(path).exists() and not overwrite:
        raise RequestError(f"{path} exists; use {field('overwrite', True)} to replace it")
    (onnx,) = need("onnx", why=f"{path}: writing ONNX models needs onnx")
    content = onnx_model(plan, opset, onnx).SerializeToString()
    from poolcli.formats.atomic import atomic_stream

    with atomic_stream(path, overwrite) as stream:
        stream.write(content)


def onnx_model(plan: Plan, opset: int, onnx: Any) -> Any:
    """The model of a plan, from input `x` to output `y`, validated by onnx; a RequestError if there is none."""
    newest = onnx.defs.onnx_opset_version()
    if not FIRST_OPSET <= opset <= newest:
        raise RequestError(f"{field('opset')} is {opset}; it must be from {FIRST_OPSET} to {newest}")
    if plan.output_dtype != plan.dtype:
        raise RequestError(f"an ONNX model gives the type that it takes; leave out {field('dtype')}")
    nodes = _simplest_nodes(plan, opset, onnx)
    element = _element_type(plan.dtype, onnx)
    layout = tensor_layout(plan.layout)
    x, y = (
        onnx.helper.make_tensor_value_info(name, element, converted_shape(shape, plan.layout, layout))
        for name, shape in (("x", plan.input_shape), ("y", plan.output_shape))
    )
    graph = onnx.helper.make_graph([_proto(node, opset, onnx) for node in nodes], "pooling", [x], [y])
    imports = [onnx.helper.make_opsetid("", opset)]
    version = onnx.helper.find_min_ir_version_for(imports)
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=version, producer_name="poolcli")
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.shape_inference.InferenceError:
        if opset >= FIRST_RIGHT_OPSET:
            raise
        onnx.checker.check_model(model)
    return model


def _element_type(dtype: str, onnx: Any) -> int:
    number: int = onnx.TensorProto.DataType.Value(ElementType(dtype).name)
    return number


def _simplest_nodes(plan: Plan, opset: int, onnx: Any) -> Nodes:
    found = convert(plan, "onnx")
    if found.steps is None:
        raise RequestError(f"no ONNX model: {found.reason}")
    others = (each.steps for each in compositions(plan, DIALECTS["onnx"], ONNX_WRITER) if same_pooling(plan, each.plan))
    refusals = []
    for nodes in map(nodes_of, (found.steps, *others)):
        why = next((why for node in nodes for why in _unsupported(node, plan.dtype, opset, onnx)), None)
        if why is None:
            return nodes
        refusals.append(why)
    raise RequestError(refusals[0])


def _unsupported(node: Node, dtype: str, opset: int, onnx: Any) -> Iterator[str]:
    """Why the opset's version of an operator does not support a node: a missing attribute, or the type."""
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    for name, value in node.attributes.items():
        if name not in schema.attributes and value:
            since = next(n for n in range(opset, 100) if name in onnx.defs.get_schema(node.op_type, n, "").attributes)
            yield f"{node.op_type} has no {name} in opset {opset}; use {field('opset', since)}"
    takes = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    allowed = takes.get(schema.inputs[0].type_str, ()) if schema.inputs else ()
    if allowed and f"tensor({ElementType(dtype).name.lower()})" not in allowed:
        types = sorted(each.removeprefix("tensor(").removesuffix(")") for each in allowed)
        yield f"{node.op_type} of ONNX opset {opset} takes no {dtype}, but {', '.join(types)}"


def _proto(node: Node, opset: int, onnx: Any) -> Any:
    known = onnx.defs.get_schema(node.op_type, opset, "").attributes
    given = {name: _attribute(value, onnx) for name, value in node.attributes.items() if name in known}
    return onnx.helper.make_node(node.op_type, list(node.inputs), [node.output], **given)


def _attribute(value: object, onnx: Any) -> object:
    """The value of an attribute for `onnx.helper`: constants become tensors, types become numbers."""
    if isinstance(value, ElementType):
        return _element_type(value.dtype, onnx)
    if not isinstance(value, Constant):
        return value
    dims, flat = [], [value.values() if callable(value.values) else value.values]
    while isinstance(flat[0], list):
        dims.append(len(flat[0]))
        flat = [each for row in flat for each in row]
    element = _element_type(value.dtype, onnx)
    return onnx.helper.make_tensor("value", element, dims, flat)
