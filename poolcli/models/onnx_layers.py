"""Interprets the pooling nodes of an ONNX model by the schema of their operator in the model's opset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from poolcli.dialects.onnx import AUTO_PAD_NAMES
from poolcli.message_fields import option_value
from poolcli.models.layer import (
    GLOBAL_SUM,
    GlobalWindow,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    channels_last,
    check_count,
    check_rank,
    contradicts,
    make_operator,
    may_pool,
    output_shape,
    pools_by_name,
    reduced_layout,
)
from poolcli.models.onnx_graph import NEEDS_ONNX, Node, key_of, load, text
from poolcli.models.onnx_inference import infer
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.plan.attributes import SlidingAttributes
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import need

AUTO_PADS = {there: here for here, there in AUTO_PAD_NAMES.items()}
MICROSOFT = "com.microsoft"
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # types of attributes

Values = Mapping[str, Any]
ReadAttribute = tuple[str, int, Any]  # an attribute: its name, its type and its value


@dataclass(frozen=True, slots=True)
class Kind:
    """A node type: how to create the operator from its attributes.

    `takes` are its attributes if onnx has no schema of it. `last` is the attribute for channels last, or True if they
    always are. `reduces`: it is a reduction, whose axes are an attribute or input.
    """

    make: Callable[[Values, Shape | None], LayerOp]
    takes: tuple[str, ...] | None = None
    last: str | bool = False
    reduces: bool = False


def _sliding(record: type[SlidingAttributes], **own: str) -> Callable[[Values, Shape | None], LayerOp]:
    """A function that creates an operator with sliding windows; `own` are further fields by their ONNX attributes."""

    def make(data: Values, shape: Shape | None) -> LayerOp:
        if "kernel_shape" not in data:
            raise InvalidError("it has no attribute kernel_shape")
        kernel = tuple(data["kernel_shape"])
        axes = len(shape) - 2 if shape is not None else len(kernel)
        for name, count in {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}.items():
            if name in data:
                check_count(name, len(data[name]), axes, count)
        pads = tuple(data.get("pads", (0,) * (2 * axes)))
        word = data.get("auto_pad", "NOTSET")
        if word not in AUTO_PADS:
            raise InvalidError(f"auto_pad is {word!r}; it must be one of {', '.join(AUTO_PADS)}")
        given: dict[str, Any] = {
            "kernel": kernel,
            "strides": tuple(data.get("strides", (1,) * axes)),
            "pads_begin": pads[:axes],
            "pads_end": pads[axes:],
            "dilations": tuple(data.get("dilations", (1,) * axes)),
            "auto_pad": AUTO_PADS[word],
            "rounding_type": "ceil" if data.get("ceil_mode", 0) == 1 else "floor",
            "like": "onnx",
        }
        if "exclude_pad" in own:
            given["exclude_pad"] = not data.get(own["exclude_pad"], 0)
        given |= {field: data[name] for field, name in own.items() if field != "exclude_pad" and name in data}
        return make_operator(cast("Any", record), **given)

    return make


AVG, MAX = _sliding(AvgPool, exclude_pad="count_include_pad"), _sliding(MaxPool)
SLIDING = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def _lp(power: int | None) -> Callable[[Values, Shape | None], LayerOp]:
    return lambda data, _: GlobalWindow(LpPool, (("p", power or data.get("p", 2)),))


KINDS: dict[tuple[str, str], Kind] = {
    ("", "AveragePool"): Kind(AVG),
    ("", "MaxPool"): Kind(MAX),
    ("", "LpPool"): Kind(_sliding(LpPool, p="p")),
    ("", "GlobalAveragePool"): Kind(lambda *_: AdaptiveAvgPool(1)),
    ("", "GlobalMaxPool"): Kind(lambda *_: AdaptiveMaxPool(1)),
    ("", "GlobalLpPool"): Kind(_lp(None)),
    ("", "ReduceMean"): Kind(lambda *_: AdaptiveAvgPool(1), reduces=True),
    ("", "ReduceMax"): Kind(lambda *_: AdaptiveMaxPool(1), reduces=True),
    ("", "ReduceSum"): Kind(lambda *_: GLOBAL_SUM, reduces=True),
    ("", "ReduceL1"): Kind(_lp(1), reduces=True),
    ("", "ReduceL2"): Kind(_lp(2), reduces=True),
    (MICROSOFT, "QLinearAveragePool"): Kind(AVG, (*SLIDING, "count_include_pad", "channels_last"), "channels_last"),
    (MICROSOFT, "QLinearGlobalAveragePool"): Kind(
        lambda *_: AdaptiveAvgPool(1), ("channels_last",), "channels_last"
    ),
    (MICROSOFT, "NhwcMaxPool"): Kind(MAX, SLIDING, True),
}  # fmt: skip


def read_onnx(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> Iterator[Layer]:
    """Read the pooling nodes of the model in order; a RequestError if it is invalid or takes more than `limit`."""
    (defs,) = need("onnx.defs", why=f"{path}: {NEEDS_ONNX}")

    def inferred(model: Any) -> Any:
        return infer(path, model, _is_pooling, _output_shape, limit)

    for node in load(path, given, inferred, limit):
        key = key_of(node.proto)
        if key in KINDS or pools_by_name(key[1]):
            layer = _layer(node, key, node.opsets.get(key[0], 1), defs, bool(given))
            if layer:
                yield layer


def _is_pooling(proto: Any) -> bool:
    """Whether the output shape of a node is computed here; reductions are left to onnx."""
    kind = KINDS.get(key_of(proto))
    return kind is not None and not kind.reduces


def _output_shape(proto: Any, opset: int, shape: Shape) -> Shape | None:
    """The output shape of a pooling; None if it refuses the input."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    values: dict[str, Shape] = {proto.input[0]: shape}
    layer = _layer(Node(proto, declared=values, known=values), key_of(proto), opset, defs, False)
    return output_shape(layer) if layer else None


def _layer(node: Node, key: tuple[str, str], opset: int, defs: Any, moved: bool) -> Layer | None:
    """The layer of a node; None for a reduction over other axes than the spatial ones."""
    proto, kind = node.proto, KINDS.get(key)
    first = proto.input[0] if proto.input else ""
    result = proto.output[0] if proto.output else ""
    shape, declared = node.known.get(first) or node.declared.get(first), node.declared.get(result)
    read = [(text(each.name), *_value(each)) for each in proto.attribute]
    data = {name: value for name, _, value in read}
    op: LayerOp | None = None
    problem = invalid = layout = None
    keeps = True
    try:
        if kind is None:
            problem = f"{'.'.join(filter(None, key))} is not checked"
        else:
            if not proto.input or not proto.output:
                raise InvalidError(f"it has no {'output' if proto.input else 'input'}")
            _check_attributes(read, key, opset, defs)
            if kind.reduces:
                axes, keeps = _axes(node, data), data.get("keepdims", 1) != 0
                layout = reduced_layout(axes, shape, keeps=keeps)
                if layout is None and not may_pool(axes, shape, declared, keeps=keeps):
                    return None
                if axes is None:
                    problem = "its list of axes is not a constant; fold constants (onnxsim)"
            elif shape is not None:
                check_rank(shape)
                last = kind.last is True or bool(data.get(str(kind.last), 0))
                layout = channels_last(len(shape)) if last else None
            op = None if kind.reduces and layout is None else kind.make(data, shape)
    except InvalidError as error:
        invalid = error.sentence
    return Layer(
        name=node.scope + (text(proto.name) or text(result) or key[1]),
        type=key[1],
        version=key[0] or f"opset {opset}",
        framework="ONNX Runtime",
        op=op,
        problem=problem,
        invalid=invalid,
        given={name: "?" if value is None else option_value(value) for name, value in data.items()},
        input_shape=shape,
        declared_shape=declared,
        layout=layout,
        keeps_axes=keeps,
        shape_only="it is quantised, by scales that are not read" if key[1].startswith("QLinear") else None,
        stopped=node.stopped.get(first),
        moved=moved and contradicts(shape, node.declared.get(first)),
    )


def _axes(node: Node, data: Values) -> tuple[int, ...] | None:
    """The axes of a reduction, from its attribute or a constant second input; () for all of them, if there is neither,
    and None if they are not known.
    """
    if "axes" in data:
        return data["axes"] if isinstance(data["axes"], tuple) else None
    named = node.proto.input[1] if len(node.proto.input) > 1 else ""
    if not named:
        return ()
    tensor = node.constants.get(named)
    if tensor is None or len(tensor.dims) > 1:
        return None
    if tensor.int64_data:
        return tuple(tensor.int64_data)
    raw = tensor.raw_data
    return tuple(int.from_bytes(raw[i : i + 8], "little", signed=True) for i in range(0, len(raw), 8))


def _check_attributes(read: Sequence[ReadAttribute], key: tuple[str, str], opset: int, defs: Any) -> None:
    """Refuse attributes that this version does not have or that have another type, as ONNX Runtime does."""
    takes = KINDS[key].takes
    known = dict.fromkeys(takes) if takes is not None else _attribute_types(key, opset, defs)
    for name, kind, _ in read:
        needed = known.get(name)
        if name not in known:
            raise InvalidError(_unknown_attribute(name, key[1], tuple(known), opset, defs, key[0]))
        if needed is not None and kind != needed:
            (onnx,) = need("onnx", why=NEEDS_ONNX)
            types = {number: word for word, number in onnx.AttributeProto.AttributeType.items()}
            raise InvalidError(f"{name} is {types.get(kind, 'of no type')}; it must be {types[needed]}")


@lru_cache(1024)
def _attribute_types(key: tuple[str, str], opset: int, defs: Any) -> dict[str, int | None]:
    """The attributes of an operator in an opset, and the numbers of their types."""
    try:
        schema = defs.get_schema(key[1], opset, key[0])
    except (defs.SchemaError, TypeError):  # TypeError: opset exceeds 32 bits
        raise InvalidError(f"opset {opset} has no {key[1]}") from None
    return {name: int(each.type) for name, each in schema.attributes.items()}


def _unknown_attribute(name: str, kind: str, known: Sequence[str], opset: int, defs: Any, domain: str) -> str:
    later = [schema.since_version for schema in defs.get_all_schemas_with_history()
             if (schema.domain, schema.name) == (domain, kind) and name in schema.attributes]  # fmt: skip
    if later:
        other = f"from opset {min(later)} on" if min(later) > opset else f"up to opset {max(later)}"
        return f"{kind} has no attribute {name} in opset {opset}, it has it {other}"
    return f"{kind} has no attribute {name}{did_you_mean(name, known)}"


def _value(attribute: Any) -> tuple[int, Any]:
    """The type and value of an attribute; the value is None for types that pooling does not have."""
    kind = attribute.type
    if kind == INTS:
        return kind, tuple(attribute.ints)
    if kind == INT:
        return kind, attribute.i
    if kind == STRING:
        return kind, attribute.s.decode(errors="replace")
    return kind, attribute.f if kind == FLOAT else None
