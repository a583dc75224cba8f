"""Interprets the pooling nodes of an ONNX model by the schema of their operator in the model's opset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from poolcli.dialects.onnx import AUTO_PAD_NAMES
from poolcli.errors import RequestError
from poolcli.layouts import channels_last
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
    may_pool,
    output_shape,
    pools_by_name,
    reduced_layout,
)
from poolcli.models.onnx_graph import NEEDS_ONNX, key_of, text
from poolcli.models.onnx_inference import Node, read_nodes
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import need

AUTO_PADS = {there: here for here, there in AUTO_PAD_NAMES.items()}
MICROSOFT, LAST = "com.microsoft", "channels_last"
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # types of attributes
SLIDING = {"auto_pad": STRING, "ceil_mode": INT} | dict.fromkeys(("dilations", "kernel_shape", "pads", "strides"), INTS)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A node type: its operator, or the record of one with sliding windows.

    `takes` are its attributes and their types if onnx has no schema of it. `last` is the attribute for channels last,
    or True if they always are. `reduces`: it is a reduction, whose axes are an attribute or input.
    """

    op: LayerOp | type[Any]
    takes: Mapping[str, int] | None = None
    last: str | bool = False
    reduces: bool = False


KINDS: dict[tuple[str, str], Kind] = {
    ("", "AveragePool"): Kind(AvgPool),
    ("", "MaxPool"): Kind(MaxPool),
    ("", "LpPool"): Kind(LpPool),
    ("", "GlobalAveragePool"): Kind(AdaptiveAvgPool(1)),
    ("", "GlobalMaxPool"): Kind(AdaptiveMaxPool(1)),
    ("", "GlobalLpPool"): Kind(global_norm(2)),
    ("", "ReduceMean"): Kind(AdaptiveAvgPool(1), reduces=True),
    ("", "ReduceMax"): Kind(AdaptiveMaxPool(1), reduces=True),
    ("", "ReduceSum"): Kind(GLOBAL_SUM, reduces=True),
    ("", "ReduceL1"): Kind(global_norm(1), reduces=True),
    ("", "ReduceL2"): Kind(global_norm(2), reduces=True),
    (MICROSOFT, "QLinearAveragePool"): Kind(AvgPool, {**SLIDING, "count_include_pad": INT, LAST: INT}, LAST),
    (MICROSOFT, "QLinearGlobalAveragePool"): Kind(AdaptiveAvgPool(1), {LAST: INT}, LAST),
    (MICROSOFT, "NhwcMaxPool"): Kind(MaxPool, SLIDING, True),
}


def read_onnx(path: str, given: Given, limit: int | None = None) -> Iterator[Layer]:
    """Read the pooling nodes of the model in order; a RequestError if it is invalid or takes more than `limit`."""
    for node, shape, is_fixed in read_nodes(path, given, _wanted, _output_shape, limit):
        layer = _layer(node, shape, is_fixed)
        if layer:
            yield layer


def _wanted(proto: Any) -> bool | None:
    """Whether the output shape of a node is computed here, or left to onnx; None if it is not listed."""
    key = key_of(proto)
    if key in KINDS:
        return not KINDS[key].reduces
    return False if pools_by_name(key[1]) else None


def _output_shape(node: Node, shape: Shape) -> Shape | None:
    """The output shape of a pooling; None if it refuses the input."""
    layer = _layer(node, shape, False)
    return output_shape(layer) if layer else None


def _layer(node: Node, shape: Shape | None, is_fixed: bool) -> Layer | None:
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
        shape_only="it is quantised, by scales that are not read" if kind.startswith("QLinear") else None,
        is_fixed=is_fixed,
    )
    return interpreted(stated, partial(_interpret, node, data))


def _interpret(node: Node, data: Values, layer: Layer) -> Layer | None:
    """The layer with its operator; None for a reduction over other axes than the spatial ones."""
    key, shape = key_of(node.proto), layer.input_shape
    kind = KINDS.get(key)
    if kind is None:
        raise RequestError(f"{'.'.join(filter(None, key))} is not checked")
    if not node.proto.input or not node.proto.output:
        raise InvalidError(f"it has no {'output' if node.proto.input else 'input'}")
    _check_attributes(node, kind)
    if kind.reduces:
        return _reduction(node, kind, data, layer)
    if shape is not None:
        check_rank(shape)
    last = kind.last is True or bool(data.get(str(kind.last), 0))
    layout = channels_last(len(shape)) if last and shape is not None else None
    if isinstance(kind.op, type):
        op: LayerOp = _sliding(kind.op, data, shape)
    else:
        op = global_norm(data["p"]) if "p" in data else kind.op
    return replace(layer, op=op, layout=layout)


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


def _reduction(node: Node, kind: Kind, data: Values, layer: Layer) -> Layer | None:
    """The layer of a reduction over the spatial axes, or one that may be so, though its axes or rank are not known."""
    shape, declared = layer.input_shape, layer.declared_shape
    axes, keeps = _axes(node, data), data.get("keepdims", 1) != 0
    layout = reduced_layout(axes, shape, keeps=keeps)
    if layout is not None and not isinstance(kind.op, type):
        return replace(layer, op=kind.op, layout=layout, keeps_axes=keeps)
    if axes is None and may_pool(shape, declared, keeps=keeps):
        raise RequestError("its list of axes is not a constant; fold constants (onnxsim)")
    if axes is None or shape is not None:
        return None
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


def _check_attributes(node: Node, kind: Kind) -> None:
    """Refuse attributes that this version does not have or that have another type, as ONNX Runtime does."""
    key = key_of(node.proto)
    known = _attribute_types(key, node.opset) if kind.takes is None else kind.takes
    for each in node.proto.attribute:
        name = text(each.name)
        if name not in known:
            raise InvalidError(f"{key[1]} has no attribute {name}{_where_known(name, key, node.opset, tuple(known))}")
        if each.type != known[name]:
            (onnx,) = need("onnx", why=NEEDS_ONNX)
            types = {number: word for word, number in onnx.AttributeProto.AttributeType.items()}
            raise InvalidError(f"{name} is {types.get(each.type, 'of no type')}; it must be {types[known[name]]}")


@lru_cache(1024)
def _attribute_types(key: tuple[str, str], opset: int) -> dict[str, int]:
    """The attributes of an operator in an opset, and the numbers of their types."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    try:
        schema = defs.get_schema(key[1], opset, key[0])
    except (defs.SchemaError, TypeError):  # TypeError: opset exceeds 32 bits
        raise InvalidError(f"opset {opset} has no {key[1]}") from None
    return {name: int(each.type) for name, each in schema.attributes.items()}


def _where_known(name: str, key: tuple[str, str], opset: int, known: tuple[str, ...]) -> str:
    """In which opsets the operator has an attribute, or a similar name."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    versions = [schema.since_version for schema in defs.get_all_schemas_with_history()
                if (schema.domain, schema.name) == key and name in schema.attributes]  # fmt: skip
    if not versions:
        return did_you_mean(name, known)
    other = f"from opset {min(versions)} on" if min(versions) > opset else f"up to opset {max(versions)}"
    return f" in opset {opset}, it has it {other}"


def _value(attribute: Any) -> Any:
    """The value of an attribute; None for types that pooling does not have."""
    if attribute.type == INTS:
        return tuple(attribute.ints)
    if attribute.type == STRING:
        return attribute.s.decode(errors="replace")
    return {INT: attribute.i, FLOAT: attribute.f}.get(attribute.type)
