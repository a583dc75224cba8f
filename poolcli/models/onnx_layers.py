"""Interprets the pooling nodes of an ONNX model by the schema of their operator in the model's opset.

`chain_to` follows the path with most convolutions and poolings to one of them (`check --layer NAME --chain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from poolcli.dialects.onnx import AUTO_PAD_NAMES
from poolcli.errors import RequestError
from poolcli.explain.chain import Chain, LayerSpec, chain_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field, option_value
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
    is_number,
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
    return (layer for _, layer in nodes_of(path, given, limit) if layer)


def nodes_of(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None) -> Iterator[tuple[Node, Layer | None]]:
    """All nodes, each with its layer if it is a pooling."""
    (defs,) = need("onnx.defs", why=f"{path}: {NEEDS_ONNX}")

    def inferred(model: Any) -> Any:
        return infer(path, model, _is_pooling, _output_shape, limit)

    for node in load(path, given, inferred, limit):
        key = key_of(node.proto)[:2]
        pools = key in KINDS or pools_by_name(key[1])
        yield node, _layer(node, key, node.opsets.get(key[0], 1), defs, bool(given)) if pools else None


def _is_pooling(proto: Any) -> bool:
    """Whether the output shape of a node is computed here; reductions are left to onnx."""
    kind = KINDS.get(key_of(proto)[:2])
    return kind is not None and not kind.reduces


def _output_shape(proto: Any, opset: int, shape: Shape) -> Shape | None:
    """The output shape of a pooling; None if it refuses the input."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    values: dict[str, Shape] = {proto.input[0]: shape}
    layer = _layer(Node(proto, declared=values, known=values), key_of(proto)[:2], opset, defs, False)
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


# Operators that compute each output element from the input elements at the same position.
ELEMENTWISE = frozenset({
    "Abs", "Add", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Concat", "DequantizeLinear", "Div", "Dropout",
    "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LRN", "LeakyRelu", "Log", "Max",
    "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QLinearAdd", "QLinearConcat", "QLinearMul", "QuantizeLinear",
    "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh",
    "ThresholdedRelu",
})  # fmt: skip
SLICES = frozenset({"Slice", "Split"})  # followed if they select channels only
CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # with the input number of the weights


@dataclass(frozen=True, slots=True)
class _Path:
    """A path to a value: its number of layers, the shape of its input, its last layer, and the path before that."""

    length: int
    start: Shape
    step: LayerSpec | None = None
    before: _Path | None = None

    def steps(self) -> list[LayerSpec]:
        found, path = [], self
        while path.before is not None:
            if path.step:
                found.append(path.step)
            path = path.before
        return found[::-1]


def chain_to(path: str, name: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> Chain:
    """The chain of the longest path from an input of the model at `path` to its pooling layer `name`.

    A RequestError if there is no path of known operators, or lengths are not known.
    """
    paths: dict[str, _Path] = {}
    ends: dict[str, str] = {}  # of values without a path: the operator at which paths end
    for node, layer in nodes_of(path, given, limit):
        inputs = [each for each in node.proto.input if each and each not in node.constants]
        for each in inputs:
            shape = node.known.get(each)
            if each not in paths and each not in ends and not node.scope and shape is not None and len(shape) > 2:
                paths[each] = _Path(0, shape)  # an input of the model
        route = _path_through(node, layer, inputs, paths)
        if layer is not None and layer.name == name:
            if route is None:
                end = next((ends[each] for each in inputs if each in ends), name)
                raise RequestError(f"{path}: no path of convolutions and poolings leads to {name}: it ends at {end}")
            return _chain(path, route)
        named = next((ends[each] for each in inputs if each in ends), f"{text(node.proto.name)} ({node.proto.op_type})")
        for result in filter(None, node.proto.output):
            if route is None:
                ends[result] = named
            else:
                paths[result] = route
    raise RequestError(f"{path}: no pooling layer is called {name}")


def _path_through(node: Node, layer: Layer | None, inputs: list[str], paths: Mapping[str, _Path]) -> _Path | None:
    """The longest path to the output of a node; None if the operator is not followed."""
    kind, result = key_of(node.proto)[1], next(iter(node.proto.output), "")
    if layer is not None or kind in CONVOLUTIONS:
        first = next(iter(node.proto.input), "")
        before = paths.get(first)
        step = _layer_spec(node, layer, node.known.get(first)) if before else None
        for channels in (node.known.get(result) or ())[1:2]:  # concatenations may have changed them
            if step and isinstance(channels, int):
                step = replace(step, channels=channels)
        return _Path(before.length + 1, before.start, step, before) if before and step else None
    size = _spatial_shape(node.known.get(result))
    if kind not in ELEMENTWISE and not (kind in SLICES and size and all(map(is_number, size))):
        return None
    # Of inputs that are broadcast, such as a factor for each channel, only those of the output's size are followed.
    able = [paths[each] for each in inputs if each in paths and _spatial_shape(node.known.get(each)) == size]
    longest = max(able, key=lambda route: route.length, default=None)
    return longest and _Path(longest.length, longest.start, None, longest)


def _spatial_shape(shape: Shape | None) -> Shape | None:
    return None if shape is None else shape[2:]


def _layer_spec(node: Node, layer: Layer | None, shape: Shape | None) -> LayerSpec | None:
    """A convolution or pooling as a layer of a chain; None if its windows are not known."""
    if layer is not None:
        op = layer.op
        if isinstance(op, GlobalWindow):
            sizes = (shape or ())[2:]
            op = op.over([n for n in sizes if isinstance(n, int)]) if sizes and all(map(is_number, sizes)) else None
        first = not (layer.layout or "").endswith("C")  # channels
        return LayerSpec(layer.name, op) if op is not None and first and layer.keeps_axes else None
    place = CONVOLUTIONS[key_of(node.proto)[1]]
    weights: Any = node.constants.get(node.proto.input[place]) if len(node.proto.input) > place else None
    if weights is None or len(weights.dims) < 3:
        return None
    data = {"kernel_shape": tuple(weights.dims[2:])}
    data |= {text(each.name): _value(each)[1] for each in node.proto.attribute}
    try:
        op = MAX(data, shape)  # with the same windows; openvino allows the longer pads of convolutions
    except InvalidError:
        return None
    name = node.scope + (text(node.proto.name) or text(next(iter(node.proto.output), "")))
    return None if isinstance(op, GlobalWindow) else LayerSpec(name, replace(op, like="openvino"), weights.dims[0])


def _chain(path: str, route: _Path) -> Chain:
    """The chain of a path; unknown lengths of N and C do not matter."""
    if not all(map(is_number, route.start[2:])):
        raise RequestError(f"{path}: the lengths of its input are not known; {field('input_shape')} gives them")
    shape = tuple(n if isinstance(n, int) and n > 0 else 1 for n in route.start)
    return chain_of(shape, default_layout(len(shape)), route.steps())
