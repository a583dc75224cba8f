"""The nodes of an ONNX model with the shapes that are known to them, in its graph, in bodies and in functions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from io import BytesIO
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.core.frozen import frozen
from poolcli.core.lazy import need
from poolcli.models.layer import Shape
from poolcli.models.onnx_parts import REFUSED_BY_ONNX, Part, parts, stated_values
from poolcli.models.onnx_values import Shapes, bodies, constant, inside, merged, shapes, text, with_bodies
from poolcli.models.pieces import TornError
from poolcli.models.wire import Lean, joined, lean_of

MOST_NODES = 1_000_000  # after functions were put in the places of their calls
WHY = "reading ONNX models needs onnx"


@frozen
class Node:
    """A node: `scope` names the bodies that it is in; `declared` are the shapes that the file states, `known` those
    and the ones that follow, and `constants` the small tensors, by the names of values.
    """

    proto: Any
    scope: str
    declared: Shapes
    known: Shapes
    constants: Mapping[str, Any]


@frozen
class Model:
    """What is told of a model: its nodes, once; `opsets` by domain; `moved` where lengths were given for its inputs."""

    nodes: Iterator[Node]
    opsets: Mapping[str, int]
    moved: bool


def load(path: str, given: Mapping[str, tuple[int, ...]]) -> Model:
    """The model at `path`, its inputs as long as `given` says; a RequestError where it cannot be read."""
    onnx, _, _, protobuf = need(
        "onnx", "onnx.inliner", "onnx.shape_inference", "google.protobuf.message", why=f"{path}: {WHY}"
    )
    try:
        with open(path, "rb") as stream:
            lean = lean_of(stream)
        head = onnx.ModelProto.FromString(lean.head)
        if head.functions:
            lean = _without_functions(onnx, lean, path)
            head = onnx.ModelProto.FromString(lean.head)
        stated = stated_values(onnx, head, lean)
    except (TornError, protobuf.DecodeError) as error:
        raise _torn(path, error) from None
    if not lean.nodes or not head.opset_import:
        raise RequestError(f"{path}: no ONNX model: it has no nodes or no opset")
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in head.opset_import}
    if given:
        _give(path, head, given)

    def nodes() -> Iterator[Node]:
        try:
            for part in parts(onnx, head, lean, stated, bool(given)):
                yield from _Walk(onnx.TensorProto, part, bool(given)).nodes()
        except protobuf.DecodeError as error:
            raise _torn(path, error) from None

    return Model(nodes(), opsets, bool(given))


def _torn(path: str, error: Exception) -> RequestError:
    return RequestError(f"{path}: no ONNX model: {' '.join(str(error).split()) or 'torn'}")


def _without_functions(onnx: Any, lean: Lean, path: str) -> Lean:
    """The model with the bodies of its functions in the places of their calls, their nodes named after them."""
    model = onnx.ModelProto.FromString(joined(lean))
    if _size(model, path) > MOST_NODES:
        raise RequestError(f"{path}: its functions call each other to more than {MOST_NODES:,} nodes")
    for function in model.functions:
        for node in function.node:
            name = text(node.name) or (text(node.output[0]) if node.output else "")
            node.name = f"{text(function.name)}/{name}"
    try:
        return lean_of(BytesIO(onnx.inliner.inline_local_functions(model).SerializeToString()))
    except REFUSED_BY_ONNX as error:
        raise RequestError(f"{path}: its functions cannot be read: {' '.join(str(error).split())[:200]}") from None


def _size(model: Any, path: str) -> int:
    """How many nodes there are when every call is replaced by the body of its function."""
    known = {(f.domain, f.name): f.node for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Any, within: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in with_bodies(nodes):
            key = (node.domain, node.op_type)
            if key in within:
                raise RequestError(f"{path}: its function {text(key[1])} calls itself")
            if key in known and key not in sizes:
                sizes[key] = size(known[key], (*within, key))
            total += sizes.get(key, 1)
        return min(total, MOST_NODES + 1)

    return size(model.graph.node, ())


def _give(path: str, head: Any, given: Mapping[str, tuple[int, ...]]) -> None:
    """Sets the lengths of inputs."""
    inputs = {value.name: value for value in head.graph.input}
    for name, lengths in given.items():
        if name not in inputs:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(map(text, inputs))[:200]}")
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length


@frozen
class _Around:
    """What is known of the values around a graph: declared and known shapes, and constants."""

    declared: MutableMapping[str, Shape]
    known: MutableMapping[str, Shape]
    constants: MutableMapping[str, Any]


@frozen
class _Walk:
    """The way through the nodes of a part, and those of the bodies in it, which see the values around them."""

    tensor: type[Any]
    part: Part
    moved: bool

    def nodes(self) -> Iterator[Node]:
        """The nodes that no part before had."""
        yield from self._within(self.part.graph, "", _Around({}, {}, {}), self.part.first, self.part.repeated)

    def _within(self, graph: Any, scope: str, around: _Around, first: int = 0, repeated: int = 0) -> Iterator[Node]:
        here = self._seen_from(graph, scope, around)
        for i, node in enumerate(graph.node):
            if node.op_type == "Constant" and node.output:
                here.constants[node.output[0]] = constant(node, self.tensor)
            if i < repeated:
                continue
            yield Node(node, scope, here.declared, here.known, here.constants)
            for name, body in bodies(node):
                yield from self._within(body, inside(scope, node, first + i, name), here)

    def _seen_from(self, graph: Any, scope: str, around: _Around) -> _Around:
        """The values of a graph before those around it."""
        stated = self.part.stated.get(scope, {})
        follow = shapes((*graph.input, *graph.value_info, *graph.output))
        return _Around(
            ChainMap(dict(stated), around.declared),
            ChainMap(follow if self.moved else merged(stated, follow), around.known),
            ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
        )
