"""Interprets the pooling nodes of an ONNX model by the schema of their operator in the model's opset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from poolcli.dialects import ONNX_AUTO_PADS
from poolcli.errors import RequestError
from poolcli.layouts import channels_last
from poolcli.message_fields import option_value
from poolcli.models import layer as shared
from poolcli.models.layer import Given, InvalidError, Layer, Shape
from poolcli.models.onnx_graph import NEEDS_ONNX, Node, key_of, read_nodes, text
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import need

AUTO_PADS = {there: here for here, there in ONNX_AUTO_PADS.items()}
MICROSOFT, LAST = "com.microsoft", "channels_last"
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # types of attributes
SLIDING = {"auto_pad": STRING, "ceil_mode": INT} | dict.fromkeys(("dilations", "kernel_shape", "pads", "strides"), INTS)
KINDS: dict[tuple[str, str], Attributes | type[Any]] = {  # operators, and records of those with sliding windows
    ("", "AveragePool"): AvgPool,
    ("", "MaxPool"): MaxPool,
    ("", "LpPool"): LpPool,
    ("", "GlobalAveragePool"): AdaptiveAvgPool(1),
    ("", "GlobalMaxPool"): AdaptiveMaxPool(1),
    (MICROSOFT, "QLinearAveragePool"): AvgPool,
    (MICROSOFT, "QLinearGlobalAveragePool"): AdaptiveAvgPool(1),
    **{("", f"Reduce{name}"): op for name, op in shared.REDUCTIONS.items()},
}
ATTRIBUTES = {  # of the operators that onnx has no schema of, and their types
    "QLinearAveragePool": {**SLIDING, "count_include_pad": INT, LAST: INT},
    "QLinearGlobalAveragePool": {LAST: INT},
}
FIELDS = {"kernel_shape": "kernel", "strides": "strides", "dilations": "dilations", "p": "p"}
Values = Mapping[str, Any]


def read(path: str, given: Given, limit: int | None = None) -> Iterator[Layer]:
    """Read the pooling nodes of the model in order; a RequestError if it is invalid or takes more than `limit`."""
    for node, shape in read_nodes(path, given, _wanted, _output_shape, limit):
        layer = _layer(node, shape)
        if layer:
            yield layer


def _wanted(proto: Any) -> bool | None:
    """Whether the output shape of a node is computed here, or left to onnx; None if it is not listed."""
    key = key_of(proto)
    if key in KINDS:
        return not key[1].startswith("Reduce")
    return False if shared.pools_by_name(key[1]) else None


def _output_shape(node: Node, shape: Shape) -> Shape | None:
    layer = _layer(node, shape)
    return shared.output_shape(layer) if layer else None


def _layer(node: Node, shape: Shape | None) -> Layer | None:
    """The layer of a node on an input of this shape; None if it is no pooling."""
    data = {text(each.name): _value(each) for each in node.proto.attribute}
    stated = replace(
        node.layer,
        given={name: "?" if value is None else option_value(value) for name, value in data.items()},
        input_shape=shape,
        shape_only="it is quantised, by scales that are not read" if node.layer.type.startswith("QLinear") else None,
    )
    return shared.interpreted(stated, partial(_interpret, node, data))


def _interpret(node: Node, data: Values, layer: Layer) -> Layer | None:
    """The layer with its operator; None for a reduction over other axes than the spatial ones."""
    key, shape = key_of(node.proto), layer.input_shape
    op = KINDS.get(key)
    if op is None:
        raise RequestError(f"{'.'.join(filter(None, key))} is not checked")
    if not node.proto.input or not node.proto.output:
        raise InvalidError(f"it has no {'output' if node.proto.input else 'input'}")
    _check_attributes(node, layer)
    if layer.type.startswith("Reduce"):
        return _reduction(node, op, data, layer)
    shared.check_rank(shape)
    if isinstance(op, type):
        op = _sliding(op, data, shape)
    if data.get("storage_order") == 1 and len(node.proto.output) > 1:
        said = "storage_order 1: its indices count along columns, those of poolcli along rows"
        layer = replace(layer, warnings=(*layer.warnings, said))
    return replace(layer, op=op, layout=channels_last(len(shape)) if data.get(LAST) and shape is not None else None)


def _sliding(record: Any, data: Values, shape: Shape | None) -> Attributes:
    if "kernel_shape" not in data:
        raise InvalidError("it has no attribute kernel_shape")
    axes = len(shape) - 2 if shape is not None else len(data["kernel_shape"])
    for name, count in {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}.items():
        if name in data:
            shared.check_count(name, len(data[name]), axes, count)
    word = data.get("auto_pad", "NOTSET")
    if word not in AUTO_PADS:
        raise InvalidError(f"auto_pad is {word!r}; it must be one of {', '.join(AUTO_PADS)}")
    given: dict[str, Any] = {"strides": (1,) * axes} | {own: data[name] for name, own in FIELDS.items() if name in data}
    given |= {"auto_pad": AUTO_PADS[word], "rounding_type": "ceil" if data.get("ceil_mode", 0) == 1 else "floor"}
    if "pads" in data:
        given |= {"pads_begin": data["pads"][:axes], "pads_end": data["pads"][axes:]}
    if record is AvgPool:
        given["exclude_pad"] = not data.get("count_include_pad", 0)
    return shared.make_operator(record, like="onnx", **given)  # type: ignore[no-any-return]


def _reduction(node: Node, op: Any, data: Values, layer: Layer) -> Layer | None:
    """The layer of a reduction over the spatial axes, or one that may be so, though its axes or rank are not known."""
    shape, declared = layer.input_shape, layer.declared_shape
    axes, keeps = _axes(node, data), data.get("keepdims", 1) != 0
    layout = shared.reduced_layout(axes, shape, keeps=keeps)
    if layout is not None:
        return replace(layer, op=op, layout=layout, keeps_axes=keeps)
    if axes is None and shared.may_pool(shape, declared, keeps=keeps):
        raise RequestError("its list of axes is not a constant; fold constants (onnxsim)")
    if axes is None or shape is not None:
        return None
    ranks = shared.RANKS if declared is None else (len(declared) + (0 if keeps else len(axes)),)
    return layer if any(shared.reduced_layout(axes, ("?",) * rank, keeps=keeps) for rank in ranks) else None


def _axes(node: Node, data: Values) -> tuple[int, ...] | None:
    """The axes of a reduction; () for all of them, None if they are not known."""
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


def _check_attributes(node: Node, layer: Layer) -> None:
    """Refuse attributes that this version does not have or that have another type, as ONNX Runtime does."""
    known = ATTRIBUTES.get(layer.type) or _attribute_types(layer.type, node.opset)
    for each in node.proto.attribute:
        name = text(each.name)
        if name not in known:
            hint = did_you_mean(name, tuple(known))
            raise InvalidError(f"{layer.type} has no attribute {name} in {layer.version}{hint}")
        if each.type != known[name]:
            (onnx,) = need("onnx", why=NEEDS_ONNX)
            word = onnx.AttributeProto.AttributeType.Name
            raise InvalidError(f"{name} is {word(each.type)}; it must be {word(known[name])}")


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
