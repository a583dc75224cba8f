"""The chain to one pooling layer of an ONNX model (`check --layer NAME --chain`): the path with most convolutions and
poolings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from poolcli.errors import RequestError
from poolcli.explain.chain import Chain, LayerSpec, chain_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field
from poolcli.models.layer import GlobalWindow, InvalidError, Layer, Shape, is_number
from poolcli.models.onnx_graph import Node, key_of, text
from poolcli.models.onnx_layers import MAX, attributes_of, nodes_of

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
        return LayerSpec(layer.name, op) if op is not None and layer.layout is None and layer.keeps_axes else None
    place = CONVOLUTIONS[key_of(node.proto)[1]]
    weights: Any = node.constants.get(node.proto.input[place]) if len(node.proto.input) > place else None
    if weights is None or len(weights.dims) < 3:
        return None
    data = {"kernel_shape": tuple(weights.dims[2:])} | dict(attributes_of(node.proto))
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
