"""An ONNX graph in parts, with the shapes that follow from its nodes: memory follows from a part, not from them all."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poolcli.models.onnx_graph import (
    AS_THEY_ARE,
    Calls,
    Item,
    Names,
    Shapes,
    bodies,
    constant,
    inside,
    shapes,
    text,
    with_bodies,
)
from poolcli.models.onnx_protobuf import MARK, StrippedGraph

AT_ONCE = 1000  # nodes of a part
BYTES_AT_ONCE = 1 << 20  # bytes of its nodes
BYTES_BEFORE = 1 << 18
BEFORE = 300  # of the parts before, from which lengths may be computed, as a Reshape takes them
REFUSED_BY_ONNX = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes in a graph, and what they are in theirs; parts before had the first `repeated`. `stated` are the shapes
    that the file states, by scope, those of the nodes' own values under none.
    """

    graph: Any
    items: Sequence[Item]
    stated: Mapping[str, Shapes]
    repeated: int


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of the values that a graph may use, by name, as protobuf."""

    stated: MutableMapping[str, bytes]
    types: MutableMapping[str, bytes]
    constants: MutableMapping[str, bytes]

    def inner(self) -> Around:
        """The same for a graph within, which adds to none of it."""
        return Around(*(ChainMap({}, each) for each in (self.stated, self.types, self.constants)))


def nothing_around() -> Around:
    """What is known around the outermost graph."""
    return Around({}, {}, {})


def state(around: Around, values: Any) -> None:
    """Adds the values that say a shape, unless they did before."""
    for value in values:
        if value.type.tensor_type.HasField("shape"):
            around.stated.setdefault(value.name, value.SerializeToString())


class Parts:
    """Tells the parts of a model; where it is `moved`, what is stated of values between nodes holds no longer."""

    def __init__(self, onnx: Any, head: Any, calls: Calls, moved: bool) -> None:
        self._onnx, self._head, self._calls, self._moved = onnx, head, calls, moved

    def of(
        self, graph: Any, lean: StrippedGraph, around: Around, opsets: Mapping[str, int], scope: str = "",
        names: Names = AS_THEY_ARE,
    ) -> Iterator[Part]:  # fmt: skip
        """The graph with this head, part by part; what is found out of its values is added to `around`."""
        self._begin(graph, lean, around, names)
        batch: list[Item] = []
        before: Sequence[Item] = ()
        size = 0
        for item in self._calls.items(lean, scope, names, opsets):
            if self._is_constant(item.proto, around):
                continue
            batch.append(item)
            size += item.proto.ByteSize()
            if item.bodies or len(batch) >= AT_ONCE or size > BYTES_AT_ONCE:
                yield from self._part(before, batch, around)
                before = _last([each for each in (*before, *batch) if not each.bodies])
                batch, size = [], 0
        if batch:
            yield from self._part(before, batch, around)

    def _begin(self, graph: Any, lean: StrippedGraph, around: Around, names: Names) -> None:
        """Adds what the graph itself says of its values."""
        for kind, pieces, table in (
            (self._onnx.ValueInfoProto, lean.values, around.stated),
            (self._onnx.TensorProto, lean.initializers, around.constants),
        ):
            for raw in pieces:
                one = kind.FromString(raw)
                name = names.of(one.name)
                table[name] = raw if name == one.name else _called(one, name)
        state(around, (*graph.input, *graph.output))
        around.types.update((value.name, value.SerializeToString()) for value in graph.input)

    def _part(self, before: Sequence[Item], fresh: Sequence[Item], around: Around) -> Iterator[Part]:
        """The part of these nodes; then those of the large graphs that the last one holds."""
        items = [*before, *fresh]
        model = self._inferred(items, around)
        made = {name for item in items for name in item.proto.output}
        used = _used(items)
        here = [
            self._onnx.ValueInfoProto.FromString(around.stated[n]) for n in used.keys() | made if n in around.stated
        ]
        tables: dict[str, Shapes] = {"": shapes(here)}
        for item in fresh:
            if item.holds:
                tables |= _bodies_stated(item.proto, item.scope, item.number)
        yield Part(model.graph, items, tables, len(before))
        last = items[-1]
        if last.bodies:
            node = model.graph.node[-1]
            yield from self._large(node, last, around)
            for name in node.output:
                around.types.pop(name, None)
            self._inferred([replace(last, proto=node)], around)

    def _large(self, node: Any, item: Item, around: Around) -> Iterator[Part]:
        """The parts of the large graphs that a node holds, which has then the types of what they give."""
        for name, graph in bodies(node):
            called = text(graph.name)
            if called.startswith(MARK):
                lean, within = item.bodies[int(called.removeprefix(MARK))], around.inner()
                scope = inside(item.scope, node, item.number, name)
                yield from self.of(graph, lean, within, item.opsets, scope, item.names)
                for value in graph.output:
                    if value.name in within.types:
                        value.ParseFromString(within.types[value.name])
                    elif self._moved:
                        value.type.tensor_type.ClearField("shape")

    def _inferred(self, items: Sequence[Item], around: Around) -> Any:
        """A model of these nodes with the types of their values, as far as they follow; `around` has them then, too."""
        onnx = self._onnx
        model = onnx.ModelProto(ir_version=self._head.ir_version, opset_import=self._head.opset_import)
        model.graph.node.extend(item.proto for item in items)
        made = {name: None for item in items for name in item.proto.output}
        used = [name for name in _used(items) if name not in made]
        known = around.types if self._moved else ChainMap(around.types, around.stated)
        for names, table, there in (
            (used, known, model.graph.input), (used, around.constants, model.graph.initializer),
            (made, known, model.graph.value_info),
        ):  # fmt: skip
            for name in names:
                if name in table:
                    there.add().MergeFromString(table[name])
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except (*REFUSED_BY_ONNX, onnx.shape_inference.InferenceError):
            pass  # onnx cannot tell
        for value in model.graph.value_info:
            raw = value.SerializeToString()
            if raw != known.get(value.name):
                around.types.setdefault(value.name, raw)
        return model

    def _is_constant(self, node: Any, around: Around) -> bool:
        """Whether a node gives a constant, as a name of another one does; it is known then, and the node not needed."""
        tensor = None
        if len(node.output) != 1 or not isinstance(node.output[0], str):  # bytes are no UTF-8, which none can be called
            return False
        if node.op_type == "Constant":
            tensor = constant(node, self._onnx.TensorProto)
        elif node.op_type == "Identity" and len(node.input) == 1:
            raw = around.constants.get(node.input[0])
            tensor = self._onnx.TensorProto.FromString(raw) if raw is not None else None
        if tensor is not None:
            around.constants[node.output[0]] = _called(tensor, node.output[0])
        return tensor is not None


def _used(items: Sequence[Item]) -> dict[str, None]:
    """The values that the nodes and the graphs in them use."""
    used: dict[str, None] = {}
    for item in items:
        for node in with_bodies([item.proto]) if item.holds else (item.proto,):
            used.update(dict.fromkeys(node.input))
    return used


def _last(items: Sequence[Item]) -> Sequence[Item]:
    """The last of them, as many as the next part repeats."""
    size, first = 0, len(items)
    while first and len(items) - first < BEFORE and size < BYTES_BEFORE:
        first -= 1
        size += items[first].proto.ByteSize()
    return items[first:]


def _called(one: Any, name: str) -> bytes:
    """A value or a tensor under this name, as protobuf."""
    one.name = name
    raw: bytes = one.SerializeToString()
    return raw


def _bodies_stated(node: Any, scope: str, number: int) -> dict[str, Shapes]:
    """The shapes that the graphs in a node state, by scope; large ones state theirs in parts of their own."""
    found: dict[str, Shapes] = {}
    for name, body in bodies(node):
        within = inside(scope, node, number, name)
        found[within] = shapes((*body.input, *body.value_info, *body.output))
        for i, each in enumerate(body.node):
            found |= _bodies_stated(each, within, i)
    return found
