"""Interprets the pooling nodes of an ONNX model by the schema of their operator in the model's opset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from poolcli.dialects.onnx import AUTO_PAD_NAMES
from poolcli.errors import RequestError
from poolcli.message_fields import option_value
from poolcli.models.layer import (
    GLOBAL_SUM,
    RANKS,
    Given,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    check_count,
    check_rank,
    global_norm,
    interpreted,
    make_operator,
    output_shape,
    pools_by_name,
    reduced_layout,
)
from poolcli.models.onnx_graph import NEEDS_ONNX, key_of, text
from poolcli.models.onnx_inference import Node, read_nodes
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.system.lazy_imports import need

AUTO_PADS = {there: here for here, there in AUTO_PAD_NAMES.items()}
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # types of attributes
Values = Mapping[str, Any]


KINDS: dict[str, LayerOp | type[Any]] = {  # operators, or records of sliding windows
    "AveragePool": AvgPool,
    "MaxPool": MaxPool,
    "LpPool": LpPool,
    "GlobalAveragePool": AdaptiveAvgPool(1),
    "GlobalMaxPool": AdaptiveMaxPool(1),
    "GlobalLpPool": global_norm(2),
    "ReduceMean": AdaptiveAvgPool(1),
    "ReduceMax": AdaptiveMaxPool(1),
    "ReduceSum": GLOBAL_SUM,
    "ReduceL1": global_norm(1),
    "ReduceL2": global_norm(2),
}


def read_onnx(path: str, given: Given, limit: int | None = None) -> Iterator[Layer]:
    """Read the pooling nodes of the model in order; a RequestError if it is invalid or takes more than `limit`."""
    for node, shape in read_nodes(path, given, _wanted, _output_shape, limit):
        layer = _layer(node, shape)
        if layer:
            yield layer


def _wanted(proto: Any) -> bool | None:
    """Whether the output shape of a node is computed here, or left to onnx; None if it is not listed."""
    domain, name = key_of(proto)
    if name in KINDS and not domain:
        return not name.startswith("Reduce")
    return False if pools_by_name(name) else None


def _output_shape(node: Node, shape: Shape) -> Shape | None:
    """The output shape of a pooling; None if it refuses the input."""
    layer = _layer(node, shape)
    return output_shape(layer) if layer else None


def _layer(node: Node, shape: Shape | None) -> Layer | None:
    """The layer of a node; None if it is no pooling."""
    domain, kind = key_of(node.proto)
    data = {text(each.name): _value(each) for each in node.proto.attribute}
    stated = Layer(
        name=node.name,
        type=kind,
        version=domain or f"opset {node.opset}",
        framework="ONNX Runtime",
        given={name: "?" if value is None else option_value(value) for name, value in data.items()},
        input_shape=shape,
        stated_input=node.stated,
        declared_shape=node.declared,
    )
    return interpreted(stated, partial(_interpret, node, data))


def _interpret(node: Node, data: Values, layer: Layer) -> Layer | None:
    """The layer with its operator; None for a reduction over other axes than the spatial ones."""
    (domain, name), shape = key_of(node.proto), layer.input_shape
    kind = None if domain else KINDS.get(name)
    if kind is None:
        raise RequestError(f"{domain}{'.' if domain else ''}{name} is not checked")
    if not node.proto.input or not node.proto.output:
        raise InvalidError(f"it has no {'output' if node.proto.input else 'input'}")
    _check_attributes(node)
    if name.startswith("Reduce"):
        return _reduction(node, kind, data, layer)
    if shape is not None:
        check_rank(shape)
    if isinstance(kind, type):
        return replace(layer, op=_sliding(kind, data, shape))
    return replace(layer, op=global_norm(data["p"]) if "p" in data else kind)


def _sliding(record: Any, data: Values, shape: Shape | None) -> LayerOp:
    if "kernel_shape" not in data:
        raise InvalidError("it has no attribute kernel_shape")
    axes = len(shape) - 2 if shape is not None else len(data["kernel_shape"])
    for name, count in {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}.items():
        if name in data:
            check_count(name, len(data[name]), axes, count)
    pads = data.get("pads", (0,) * (2 * axes))
    word = data.get("auto_pad", "NOTSET")
    if word not in AUTO_PADS:
        raise InvalidError(f"auto_pad is {word!r}; it must be one of {', '.join(AUTO_PADS)}")
    own = {"p": data["p"]} if "p" in data else {}
    if record is AvgPool:
        own["exclude_pad"] = not data.get("count_include_pad", 0)
    return make_operator(
        record,
        kernel=data["kernel_shape"],
        strides=data.get("strides", (1,) * axes),
        pads_begin=pads[:axes],
        pads_end=pads[axes:],
        dilations=data.get("dilations", (1,) * axes),
        auto_pad=AUTO_PADS[word],
        rounding_type="ceil" if data.get("ceil_mode", 0) == 1 else "floor",
        like="onnx",
        **own,
    )


def _reduction(node: Node, op: Any, data: Values, layer: Layer) -> Layer | None:
    """The layer of a reduction over the spatial axes, or one that may be so, though its axes or rank are not known."""
    shape, declared = layer.input_shape, layer.declared_shape
    axes, keeps = _axes(node, data), data.get("keepdims", 1) != 0
    if axes is None:
        if shape is not None and len(shape) in RANKS:
            raise RequestError("its list of axes is not a constant; fold constants (onnxsim)")
        return None
    if shape is not None:
        layout = reduced_layout(axes, shape, keeps=keeps)
        return replace(layer, op=op, layout=layout, keeps_axes=keeps) if layout else None
    ranks = RANKS if declared is None else (len(declared) + (0 if keeps else len(axes)),)
    return layer if any(reduced_layout(axes, ("?",) * rank, keeps=keeps) for rank in ranks) else None


def _axes(node: Node, data: Values) -> tuple[int, ...] | None:
    """The axes of a reduction, from its attribute or a constant second input; () for all of them, if there is neither,
    and None if they are not known.
    """
    if "axes" in data:
        return data["axes"] if isinstance(data["axes"], tuple) else None
    if len(node.proto.input) < 2 or not node.proto.input[1]:
        return ()
    tensor = node.second
    if tensor is None or len(tensor.dims) > 1:
        return None
    if tensor.int64_data:
        return tuple(tensor.int64_data)
    raw = tensor.raw_data
    return tuple(int.from_bytes(raw[i : i + 8], "little", signed=True) for i in range(0, len(raw), 8))


def _check_attributes(node: Node) -> None:
    """Refuse attributes that this version does not have or that have another type, as ONNX Runtime does."""
    kind = node.proto.op_type
    known = _attribute_types(kind, node.opset)
    for each in node.proto.attribute:
        name = text(each.name)
        if name not in known:
            raise InvalidError(f"{kind} of opset {node.opset} has no attribute {name}")
        if each.type != known[name]:
            raise InvalidError(f"{name} is of another type than in {kind} of opset {node.opset}")


@lru_cache(1024)
def _attribute_types(kind: str, opset: int) -> dict[str, int]:
    """The attributes of an operator in an opset, and the numbers of their types."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    try:
        schema = defs.get_schema(kind, opset)
    except (defs.SchemaError, TypeError):  # TypeError: opset exceeds 32 bits
        raise InvalidError(f"opset {opset} has no {kind}") from None
    return {name: int(each.type) for name, each in schema.attributes.items()}


def _value(attribute: Any) -> Any:
    """The value of an attribute; None for types that pooling does not have."""
    if attribute.type == INTS:
        return tuple(attribute.ints)
    if attribute.type == STRING:
        return attribute.s.decode(errors="replace")
    return {INT: attribute.i, FLOAT: attribute.f}.get(attribute.type)
