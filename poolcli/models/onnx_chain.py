"""The longest path of an ONNX model to one of its layers: of all paths, that with most convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from poolcli.errors import RequestError
from poolcli.explain.chain import Chain, LayerSpec, chain_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field
from poolcli.models.layer import InvalidError, Layer, Shape, Whole, is_number
from poolcli.models.onnx_graph import Node, key_of, text
from poolcli.models.onnx_layers import MAX, attributes_of, nodes_of

# Operators that give each element of the output what they make of the elements at its place.
KEEPING = frozenset({
    "Abs", "Add", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Concat", "DequantizeLinear", "Div", "Dropout",
    "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LRN", "LeakyRelu", "Log", "Max",
    "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QLinearAdd", "QLinearConcat", "QLinearMul", "QuantizeLinear",
    "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh",
    "ThresholdedRelu",
})  # fmt: skip
SLICING = frozenset({"Slice", "Split"})  # followed where they take channels, and all of the plane
CONVOLVING = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # and the place of the weights


@dataclass(frozen=True, slots=True)
class _Path:
    """The way to a value: how many steps it has, the last of them, the path before it, and the input it starts from."""

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

    A RequestError where an operator that is not followed lies on each path, or lengths are not known.
    """
    ways: dict[str, _Path] = {}
    ends: dict[str, str] = {}  # of values without a way: the operator after which there is none
    for node, layer in nodes_of(path, given, limit):
        inputs = [each for each in node.proto.input if each and each not in node.constants]
        for each in inputs:
            shape = node.known.get(each)
            if each not in ways and each not in ends and not node.scope and shape is not None and len(shape) > 2:
                ways[each] = _Path(0, shape)  # an input of the model
        way = _through(node, layer, inputs, ways)
        if layer is not None and layer.name == name:
            if way is None:
                end = next((ends[each] for each in inputs if each in ends), name)
                raise RequestError(f"{path}: no path of convolutions and poolings leads to {name}: it ends at {end}")
            return _followed(path, way)
        named = next((ends[each] for each in inputs if each in ends), f"{text(node.proto.name)} ({node.proto.op_type})")
        for result in filter(None, node.proto.output):
            if way is None:
                ends[result] = named
            else:
                ways[result] = way
    raise RequestError(f"{path}: no pooling layer is called {name}")


def _through(node: Node, layer: Layer | None, inputs: list[str], ways: Mapping[str, _Path]) -> _Path | None:
    """The longest way to the output of a node; None where it is not followed."""
    kind, result = key_of(node.proto)[1], next(iter(node.proto.output), "")
    if layer is not None or kind in CONVOLVING:
        first = next(iter(node.proto.input), "")
        before = ways.get(first)
        step = _step(node, layer, node.known.get(first)) if before else None
        for channels in (node.known.get(result) or ())[1:2]:  # which concatenations before it have changed
            if step and isinstance(channels, int):
                step = replace(step, channels=channels)
        return _Path(before.length + 1, before.start, step, before) if before and step else None
    size = _size(node.known.get(result))
    if kind not in KEEPING and not (kind in SLICING and size and all(map(is_number, size))):
        return None
    # Of what is broadcast, as a factor for each channel, only the inputs of the output's size are followed.
    able = [ways[each] for each in inputs if each in ways and _size(node.known.get(each)) == size]
    longest = max(able, key=lambda way: way.length, default=None)
    return longest and _Path(longest.length, longest.start, None, longest)


def _size(shape: Shape | None) -> Shape | None:
    return None if shape is None else shape[2:]


def _step(node: Node, layer: Layer | None, shape: Shape | None) -> LayerSpec | None:
    """A convolution or pooling as a step of a chain; None where its windows are not known."""
    if layer is not None:
        op = layer.op
        if isinstance(op, Whole):
            sizes = (shape or ())[2:]
            op = op.over([n for n in sizes if isinstance(n, int)]) if sizes and all(map(is_number, sizes)) else None
        return LayerSpec(layer.name, op) if op is not None and layer.layout is None and layer.keeps_axes else None
    place = CONVOLVING[key_of(node.proto)[1]]
    weights: Any = node.constants.get(node.proto.input[place]) if len(node.proto.input) > place else None
    if weights is None or len(weights.dims) < 3:
        return None
    data = {"kernel_shape": tuple(weights.dims[2:])} | dict(attributes_of(node.proto))
    try:
        op = MAX(data, shape)  # which has the windows of a convolution; its pads may be longer than those of poolings
    except InvalidError:
        return None
    name = node.scope + (text(node.proto.name) or text(next(iter(node.proto.output), "")))
    return None if isinstance(op, Whole) else LayerSpec(name, replace(op, like="openvino"), weights.dims[0])


def _followed(path: str, way: _Path) -> Chain:
    """The chain; lengths of N and C that are not known do not matter."""
    if not all(map(is_number, way.start[2:])):
        raise RequestError(f"{path}: the lengths of its input are not known; {field('input_shape')} gives them")
    shape = tuple(n if isinstance(n, int) and n > 0 else 1 for n in way.start)
    return chain_of(shape, default_layout(len(shape)), way.steps())
