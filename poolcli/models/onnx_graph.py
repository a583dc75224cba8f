"""Calls of a model's own functions: the nodes of the function in the place of the call, their values renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from poolcli.errors import RequestError
from poolcli.models.layer import Dim, Shape
from poolcli.models.onnx_protobuf import DEEPEST, StrippedGraph

GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
Shapes = Mapping[str, Shape]


def text(value: str | bytes) -> str:
    """A text of the file, which is bytes where it is no UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def holds_graphs(node: Any) -> bool:
    """Whether a node holds a graph."""
    return any(attribute.type in (GRAPH, GRAPHS) for attribute in node.attribute)


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The graphs that a node holds, each with its name."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == GRAPH:
            yield text(attribute.name), attribute.g
        elif kind == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def with_bodies(nodes: Any) -> Iterator[Any]:
    """The nodes and those of the bodies within them."""
    for node in nodes:
        yield node
        for _, graph in bodies(node):
            yield from with_bodies(graph.node)


def inside(scope: str, node: Any, number: int, name: str) -> str:
    """The scope of a body: what it is in, the node, and its name there."""
    return f"{scope}{text(node.name) or f'{text(node.op_type)}_{number}'}/{name}/"


def constant(node: Any, tensor: type[Any]) -> Any:
    """The tensor that a Constant makes, a list of integers as one, too; None for other kinds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return tensor(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of values that state one."""
    found = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple(_dim(dim) for dim in kind.shape.dim)
    return found


def merged(stated: Shapes, follow: Shapes) -> dict[str, Shape]:
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


MOST_NODES = 1_000_000  # after functions were put in the places of their calls
Key = tuple[str, str, str]


def key_of(node: Any) -> Key:
    """The domain, the name and the overload that a node calls."""
    return text(node.domain), text(node.op_type), text(getattr(node, "overload", ""))


@dataclass(frozen=True, slots=True)
class Names:
    """How a function's values are called where it is called: those that it is given, and a `prefix` for its own.

    `given` are the attributes that its nodes may refer to.
    """

    known: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)

    def of(self, name: str | bytes) -> str:
        """The name of a value there."""
        own = text(name)
        return self.known.get(own, self.prefix + own) if own else ""

    def apply(self, node: Any) -> None:
        """Renames the values of a node, and of the graphs in it, and gives it the attributes that it refers to."""
        if not node.name and node.output:
            node.name = text(node.output[0])  # by which it is called: as the function has it
        for names in (node.input, node.output):
            names[:] = [self.of(name) for name in names]
        for place in reversed(range(len(node.attribute))):
            attribute = node.attribute[place]
            if attribute.ref_attr_name:
                name, value = text(attribute.name), self.given.get(text(attribute.ref_attr_name))
                if value is None:
                    del node.attribute[place]
                    continue
                attribute.CopyFrom(value)
                attribute.name = name
        for _, graph in bodies(node):
            self.apply_to_values(graph)
            for each in graph.node:
                self.apply(each)

    def apply_to_values(self, graph: Any) -> None:
        """Renames the values that a graph states."""
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = self.of(value.name)


AS_THEY_ARE = Names()


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the model: its head as protobuf, and its nodes."""

    head: Any
    lean: StrippedGraph


@dataclass(frozen=True, slots=True)
class Item:
    """A node as it is told: in its `scope`, by its `number` in its graph; whether it holds graphs, with the large ones
    of them and the names for what is in them.
    """

    proto: Any
    scope: str
    number: int
    holds: bool
    bodies: tuple[StrippedGraph, ...]
    names: Names
    opsets: Mapping[str, int]


class Calls:
    """Goes through nodes, and through those of functions where they are called."""

    def __init__(self, onnx: Any, functions: list[StrippedGraph], path: str) -> None:
        self._onnx, self._path, self._numbers = onnx, path, count()
        self._known: dict[Key, Function] = {}
        for lean in functions:
            head = onnx.FunctionProto.FromString(lean.head)
            key = text(head.domain), text(head.name), text(getattr(head, "overload", ""))
            self._known[key] = Function(head, lean)

    def items(
        self, lean: StrippedGraph, scope: str, names: Names, opsets: Mapping[str, int], depth: int = 0
    ) -> Iterator[Item]:
        """The nodes of a graph."""
        once = names is AS_THEY_ARE
        for number, raw in enumerate(lean.taken() if once else lean.nodes):
            node = self._onnx.NodeProto.FromString(raw)
            if not once:
                names.apply(node)
            function = self._known.get(key_of(node))
            if function is None:
                yield Item(node, scope, number, holds_graphs(node), tuple(lean.bodies.get(number, ())), names, opsets)
                continue
            name = text(node.name) or f"{text(node.op_type)}_{number}"
            versions = {**opsets, **opsets_of(function.head.opset_import)}
            yield from self.items(function.lean, f"{scope}{name}/", self._bound(function, node), versions, depth + 1)

    def _bound(self, function: Function, node: Any) -> Names:
        """The names in a function that is called by this node."""
        head = function.head
        known: dict[str, str] = {}
        prefix = f"{text(head.name)}#{next(self._numbers)}/"
        for i, name in enumerate(map(text, head.output)):
            known[name] = text(node.output[i]) if i < len(node.output) and node.output[i] else prefix + name
        for i, name in enumerate(map(text, head.input)):  # what is left out is left out within, too
            known[name] = text(node.input[i]) if i < len(node.input) else ""
        given = {text(each.name): each for each in (*head.attribute_proto, *node.attribute)}
        return Names(known, prefix, given)

    def check(self, lean: StrippedGraph) -> None:
        """Refuses functions that call themselves, or each other to more nodes or deeper than can be read."""
        if self._known and self._size(lean, (), {}) > MOST_NODES:
            raise RequestError(f"{self._path}: its functions call each other to more than {MOST_NODES:,} nodes")

    def _size(self, lean: StrippedGraph, within: tuple[Key, ...], sizes: dict[Key, int]) -> int:
        """How many nodes a graph has, with those of the functions that it calls."""
        if len(within) > DEEPEST:
            raise RequestError(f"{self._path}: its functions call each other more than {DEEPEST} deep")
        total = 0
        for key, times in self._counted(lean).items():
            if key in within:
                raise RequestError(f"{self._path}: its function {key[1]} calls itself")
            if key in self._known and key not in sizes:
                sizes[key] = self._size(self._known[key].lean, (*within, key), sizes)
            total += times * sizes.get(key, 1)
        return min(total, MOST_NODES + 1)

    def _counted(self, lean: StrippedGraph) -> Counter[Key]:
        """What the nodes of a graph call, those in the graphs that they hold too."""
        found: Counter[Key] = Counter()
        for raw in lean.nodes:
            found.update(key_of(node) for node in with_bodies([self._onnx.NodeProto.FromString(raw)]))
        for each in lean.bodies.values():
            for body in each:
                found += self._counted(body)
        return found


def opsets_of(imports: Any) -> dict[str, int]:
    """Versions by domain."""
    return {"" if text(o.domain) == "ai.onnx" else text(o.domain): o.version for o in imports}
