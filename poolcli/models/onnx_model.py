"""The nodes of an ONNX model with the shapes that are known to them, in its graph, in bodies and in functions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.core.lazy import need
from poolcli.models.layer import Dim, Shape
from poolcli.models.pieces import TornError
from poolcli.models.wire import without_weights

GRAPH, GRAPHS = 5, 10  # types of attributes
MOST_NODES = 1_000_000  # after functions were put in the places of their calls
WHY = "reading ONNX models needs onnx"
REFUSED_BY_ONNX = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)
Shapes = Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `scope` names the bodies that it is in; `declared` are the shapes that the file states, `known` those
    and the ones that follow, and `constants` the small tensors, by the names of values.
    """

    proto: Any
    scope: str
    declared: Shapes
    known: Shapes
    constants: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """What is kept of a model: `opsets` by domain; `moved` where lengths were given for its inputs."""

    nodes: tuple[Node, ...]
    opsets: Mapping[str, int]
    moved: bool


def load(path: str, given: Mapping[str, tuple[int, ...]]) -> Model:
    """The model at `path`, its inputs as long as `given` says; a RequestError where it cannot be read."""
    onnx, _, _, protobuf = need(
        "onnx", "onnx.inliner", "onnx.shape_inference", "google.protobuf.message", why=f"{path}: {WHY}"
    )
    try:
        model = onnx.ModelProto.FromString(without_weights(path))
    except (TornError, protobuf.DecodeError) as error:
        raise RequestError(f"{path}: no ONNX model: {' '.join(str(error).split()) or 'torn'}") from None
    if not model.graph.node or not model.opset_import:
        raise RequestError(f"{path}: no ONNX model: it has no nodes or no opset")
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    model = _without_functions(onnx, model, path)
    declared = _tables(model.graph)
    if given:
        _give(path, model, given)
    inferred = _inferred(onnx, model)
    nodes = tuple(_nodes(inferred.graph, "", declared, {}, {}, {}, bool(given)))
    return Model(nodes, opsets, bool(given))


def text(value: str | bytes) -> str:
    """A text of the file, which is bytes where it is no UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _inferred(onnx: Any, model: Any) -> Any:
    """The model with the shapes that follow from its nodes; as it is where onnx cannot tell."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (*REFUSED_BY_ONNX, onnx.shape_inference.InferenceError):
        return model


def _without_functions(onnx: Any, model: Any, path: str) -> Any:
    """The model with the bodies of its functions in the places of their calls, their nodes named after them."""
    if not model.functions:
        return model
    if _size(model, path) > MOST_NODES:
        raise RequestError(f"{path}: its functions call each other to more than {MOST_NODES:,} nodes")
    for function in model.functions:
        for node in function.node:
            name = text(node.name) or (text(node.output[0]) if node.output else "")
            node.name = f"{text(function.name)}/{name}"
    try:
        return onnx.inliner.inline_local_functions(model)
    except REFUSED_BY_ONNX as error:
        raise RequestError(f"{path}: its functions cannot be read: {' '.join(str(error).split())[:200]}") from None


def _size(model: Any, path: str) -> int:
    """How many nodes there are when every call is replaced by the body of its function."""
    bodies = {(f.domain, f.name): f.node for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Any, inside: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in _with_bodies(nodes):
            key = (node.domain, node.op_type)
            if key in inside:
                raise RequestError(f"{path}: its function {text(key[1])} calls itself")
            if key in bodies and key not in sizes:
                sizes[key] = size(bodies[key], (*inside, key))
            total += sizes.get(key, 1)
        return min(total, MOST_NODES + 1)

    return size(model.graph.node, ())


def _with_bodies(nodes: Any) -> Iterator[Any]:
    """The nodes and those of the bodies within them."""
    for node in nodes:
        yield node
        for _, graph in _bodies(node):
            yield from _with_bodies(graph.node)


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The graphs that a node holds, each with its name."""
    for attribute in node.attribute:
        if attribute.type == GRAPH:
            yield text(attribute.name), attribute.g
        elif attribute.type == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def _give(path: str, model: Any, given: Mapping[str, tuple[int, ...]]) -> None:
    """Sets the lengths of inputs, and takes out what the file states of values that follow from them."""
    inputs = {value.name: value for value in model.graph.input}
    for name, lengths in given.items():
        if name not in inputs:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(map(text, inputs))[:200]}")
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _nodes(
    graph: Any, scope: str, tables: Mapping[str, Any], declared: MutableMapping[str, Shape],
    known: MutableMapping[str, Shape], constants: MutableMapping[str, Any], moved: bool,
) -> Iterator[Node]:  # fmt: skip
    """The nodes of a graph and of the bodies in it, which see the values around them."""
    stated: dict[str, Shape] = tables.get(scope, {})
    follow = _shapes(graph)
    declared = ChainMap(stated, declared)
    known = ChainMap(follow | {} if moved else _merged(stated, follow), known)
    constants = ChainMap({tensor.name: tensor for tensor in graph.initializer}, constants)
    for i, node in enumerate(graph.node):
        if node.op_type == "Constant" and node.output:
            constants[node.output[0]] = next((each.t for each in node.attribute if each.name == "value"), None)
        yield Node(node, scope, declared, known, constants)
        for name, body in _bodies(node):
            yield from _nodes(body, _inside(scope, node, i, name), tables, declared, known, constants, moved)


def _inside(scope: str, node: Any, number: int, name: str) -> str:
    """The scope of a body: what it is in, the node, and its name there."""
    return f"{scope}{text(node.name) or f'{text(node.op_type)}_{number}'}/{name}/"


def _tables(graph: Any, scope: str = "") -> dict[str, dict[str, Shape]]:
    """The stated shapes of each scope."""
    found = {scope: _shapes(graph)}
    for i, node in enumerate(graph.node):
        for name, body in _bodies(node):
            found |= _tables(body, _inside(scope, node, i, name))
    return found


def _shapes(graph: Any) -> dict[str, Shape]:
    """The shapes of inputs, outputs and values in between that are there."""
    found = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple(_dim(dim) for dim in kind.shape.dim)
    return found


def _merged(stated: Mapping[str, Shape], follow: Mapping[str, Shape]) -> dict[str, Shape]:
    """What is stated, and for lengths that are not, what follows."""
    found = dict(follow)
    for name, shape in stated.items():
        other = follow.get(name, ())
        found[name] = tuple(
            b if isinstance(b, int) and not isinstance(a, int) else a
            for a, b in zip(shape, other, strict=True)
        ) if len(other) == len(shape) else shape  # fmt: skip
    return found


def _dim(dim: Any) -> Dim:
    """A length; what is not positive is dynamic, and names that onnx made up are none."""
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    name = text(dim.dim_param)
    return "?" if not name or name.startswith("unk__") else name
