"""The nodes of an ONNX model with the shapes that are known to them, in its graph, in bodies and in functions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from poolcli.errors import RequestError
from poolcli.models.byte_reader import TruncatedError
from poolcli.models.layer import Shape
from poolcli.models.onnx_graph import Calls, Shapes, bodies, constant, inside, merged, opsets_of, shapes, text
from poolcli.models.onnx_parts import Part, Parts, nothing_around, state
from poolcli.models.onnx_protobuf import stripped
from poolcli.system.lazy_imports import need

WHY = "reading ONNX models needs onnx"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `scope` names the bodies that it is in, `opsets` are those by domain; `declared` are the shapes that the
    file states, `known` those and the ones that follow, and `constants` the small tensors, by the names of values.
    """

    proto: Any
    scope: str
    opsets: Mapping[str, int]
    declared: Shapes
    known: Shapes
    constants: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """What is told of a model: its nodes, once; `moved` where lengths were given for its inputs."""

    nodes: Iterator[Node]
    moved: bool


def load(path: str, given: Mapping[str, tuple[int, ...]]) -> Model:
    """The model at `path`, its inputs as long as `given` says; a RequestError where it cannot be read."""
    onnx, _, protobuf = need("onnx", "onnx.shape_inference", "google.protobuf.message", why=f"{path}: {WHY}")
    try:
        with open(path, "rb") as stream:
            lean = stripped(stream)
        head = onnx.ModelProto.FromString(lean.head)
        calls = Calls(onnx, lean.functions, path)
        calls.check(lean.graph)
    except (TruncatedError, protobuf.DecodeError) as error:
        raise _torn(path, error) from None
    if not lean.graph.nodes or not head.opset_import:
        raise RequestError(f"{path}: no ONNX model: it has no nodes or no opset")
    around = nothing_around()
    state(around, head.graph.input)
    if given:
        _give(path, head, given)

    def nodes() -> Iterator[Node]:
        told = Parts(onnx, head, calls, bool(given))
        try:
            for part in told.of(head.graph, lean.graph, around, opsets_of(head.opset_import)):
                yield from _Walk(onnx.TensorProto, part, bool(given)).nodes()
        except protobuf.DecodeError as error:
            raise _torn(path, error) from None

    return Model(nodes(), bool(given))


def _torn(path: str, error: Exception) -> RequestError:
    return RequestError(f"{path}: no ONNX model: {' '.join(str(error).split()) or 'torn'}")


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


@dataclass(frozen=True, slots=True)
class _Around:
    """What is known of the values around a graph: declared and known shapes, and constants."""

    declared: MutableMapping[str, Shape]
    known: MutableMapping[str, Shape]
    constants: MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Walk:
    """The way through the nodes of a part, and those of the bodies in it, which see the values around them."""

    tensor: type[Any]
    part: Part
    moved: bool

    def nodes(self) -> Iterator[Node]:
        """The nodes that no part before had."""
        here = self._seen_from(self.part.graph, "", _Around({}, {}, {}))
        for i, (node, item) in enumerate(zip(self.part.graph.node, self.part.items, strict=True)):
            if i >= self.part.repeated:
                yield from self._node(node, item.number, item.scope, item.opsets, here, item.holds)

    def _node(
        self, node: Any, number: int, scope: str, opsets: Mapping[str, int], here: _Around, holds: bool = True
    ) -> Iterator[Node]:
        yield Node(node, scope, opsets, here.declared, here.known, here.constants)
        for name, body in bodies(node) if holds else ():
            within = inside(scope, node, number, name)
            around = self._seen_from(body, within, here)
            for i, each in enumerate(body.node):
                if each.op_type == "Constant" and each.output:
                    around.constants[each.output[0]] = constant(each, self.tensor)
                yield from self._node(each, i, within, opsets, around)

    def _seen_from(self, graph: Any, scope: str, around: _Around) -> _Around:
        """The values of a graph before those around it."""
        stated = self.part.stated.get(scope, {})
        follow = shapes((*graph.input, *graph.value_info, *graph.output))
        return _Around(
            ChainMap(dict(stated), around.declared),
            ChainMap(follow if self.moved else merged(stated, follow), around.known),
            ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
        )
