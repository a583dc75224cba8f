"""Pooling nodes of an ONNX model; weights are not loaded."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.core.fields import on_command_line
from poolcli.core.lazy import need
from poolcli.models.layer import Dim, Layer, operators_of
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import SHARED, Attributes, DividingAttributes, SlidingAttributes

OPERATORS_THERE = operators_of("onnx")
GLOBAL = {"GlobalAveragePool": "adaptive-avg", "GlobalMaxPool": "adaptive-max"}  # pooling to one element
KNOWN = {name: there.takes for name, (_, there) in OPERATORS_THERE.items()} | dict.fromkeys(GLOBAL, ())
AUTO_PADS = {"NOTSET": "explicit", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid"}


def read_onnx(path: str) -> list[Layer]:
    """The pooling nodes of the main graph, in its order; a RequestError where the model cannot be read."""
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: reading ONNX models needs onnx")
    try:
        model = onnx.load(path, load_external_data=False)
    except (protobuf.DecodeError, ValueError, MemoryError, OverflowError) as error:
        raise RequestError(f"{path}: no ONNX model: {error or type(error).__name__}") from None
    if not model.graph.node or not model.opset_import:
        raise RequestError(f"{path}: no ONNX model: it has no nodes or no opset")
    declared = _shapes(model.graph)
    inferred = declared
    if any(node.op_type in KNOWN and (node.input[0] not in declared) for node in model.graph.node):
        inferred = _shapes(onnx.shape_inference.infer_shapes(model).graph) | declared
    opset = next((str(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")), "")
    nodes = [node for node in model.graph.node if node.op_type in KNOWN and node.domain in ("", "ai.onnx")]
    return [_layer(node, f"opset {opset}", declared, inferred, onnx.helper.get_attribute_value) for node in nodes]


def _shapes(graph: Any) -> dict[str, tuple[Dim, ...]]:
    """The stated shapes of inputs, outputs and values in between."""
    found = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple(_dim(dim) for dim in kind.shape.dim)
    return found


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or "?"


def _layer(
    node: Any, version: str, declared: dict[str, tuple[Dim, ...]], inferred: dict[str, tuple[Dim, ...]], value_of: Any
) -> Layer:
    data = {attribute.name: value_of(attribute) for attribute in node.attribute}
    shape = inferred.get(node.input[0])
    op, problem = None, None
    try:
        op = _operator(node.op_type, data, shape)
    except RequestError as error:
        problem = on_command_line(error.message)
    unknown = [name for name in data if name not in KNOWN[node.op_type]]
    return Layer(
        name=node.name or node.output[0],
        type=node.op_type,
        version=version,
        op=op,
        problem=problem,
        given={name: _text(value) for name, value in data.items()},
        input_shape=shape,
        declared_shape=declared.get(node.output[0]),
        warnings=tuple(f"attribute {name} is not one of {node.op_type}'s and is ignored" for name in unknown),
    )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _operator(kind: str, data: dict[str, Any], shape: tuple[Dim, ...] | None) -> Attributes:
    """The operator under the rules of ONNX; global pooling is adaptive pooling to 1."""
    if kind in GLOBAL:
        if shape is None:
            raise RequestError("its input shape is not known")
        return OPERATORS[GLOBAL[kind]]((1,) * (len(shape) - 2))
    if "kernel_shape" not in data:
        raise RequestError(f"{kind} has no attribute kernel_shape")
    kernel = tuple(data["kernel_shape"])
    pads = tuple(data.get("pads", (0,) * (2 * len(kernel))))
    word = _text(data.get("auto_pad", b"NOTSET"))
    if word not in AUTO_PADS:
        raise RequestError(f"auto_pad is {word!r}, it must be one of {', '.join(AUTO_PADS)}")
    record, _ = OPERATORS_THERE[kind]
    own = {field.name for field in fields(record)} - {field.name for field in fields(SlidingAttributes)} - SHARED
    given: dict[str, Any] = {
        "kernel": kernel,
        "strides": tuple(data.get("strides", (1,) * len(kernel))),
        "pads_begin": pads[: len(pads) // 2],
        "pads_end": pads[len(pads) // 2 :],
        "dilations": tuple(data.get("dilations", (1,) * len(kernel))),
        "auto_pad": AUTO_PADS[word],
        "rounding_type": "ceil" if data.get("ceil_mode", 0) else "floor",
        "like": "onnx",
    } | {name: data[name] for name in own if name in data}
    if issubclass(record, DividingAttributes):
        given["exclude_pad"] = not data.get("count_include_pad", 0)
    return record(**given)
