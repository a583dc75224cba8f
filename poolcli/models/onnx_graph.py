"""The nodes of an ONNX model with the shapes known to them: in its graph, in bodies, and in functions that it calls."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.byte_reader import TruncatedError
from poolcli.models.layer import Dim, NotOnnxError, Shape
from poolcli.models.onnx_protobuf import DEEPEST, without_weights
from poolcli.system.lazy_imports import need

WHY = "reading ONNX models needs onnx"
GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
MEMORY = 2**30  # bytes that nodes may take after functions are inlined, unless more is allowed
NODE, COPIES = 3000, 4  # bytes that an inlined node takes beside its own, and copies of those
LONGEST_NAME = 200  # characters of a name that is put before others
Shapes = Mapping[str, Shape]
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `scope` names the bodies that it is in, `opsets` are those by domain; `declared` are the shapes that the
    file states, `known` those and the inferred ones, `constants` the small tensors, and `stopped` the nodes at which
    shape inference stopped, by the names of values.
    """

    proto: Any
    scope: str
    opsets: Mapping[str, int]
    declared: Shapes
    known: Shapes
    constants: Mapping[str, Any]
    stopped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """The nodes of a model; `moved` where lengths were given for its inputs."""

    nodes: Iterator[Node]
    moved: bool


def load(
    path: str, given: Mapping[str, tuple[int, ...]], infer: Callable[[Any, Sequence[Item]], Any], limit: int | None
) -> Model:
    """The model at `path` with the input shapes `given`; a RequestError where it cannot be read.

    `infer` gives the graph of a model with inferred shapes; `limit` is the memory that calls may take, in bytes.
    """
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {WHY}")
    try:
        with open(path, "rb") as stream:
            model = onnx.ModelProto.FromString(without_weights(stream))
    except (TruncatedError, protobuf.DecodeError) as error:
        raise NotOnnxError(f"{path}: no ONNX model: {' '.join(str(error).split()) or 'torn'}") from None
    if not model.graph.node or not model.opset_import:
        raise NotOnnxError(f"{path}: no ONNX model: it has no nodes or no opset")
    calls = Calls(model.functions, path)
    calls.check(model.graph, limit)
    graph = model.graph
    stated: dict[str, Shapes] = {"": shapes((*graph.input, *graph.value_info, *graph.output))}
    if given:
        _give(path, graph, given)
        _forget_shapes(graph, keep_inputs=True)
    items = calls.inlined(graph, "", Names(), opsets_of(model.opset_import), stated, forget=bool(given))
    del model.functions[:]
    graph = infer(model, items)
    return Model(_Walk(onnx.TensorProto, stated, bool(given)).nodes(graph, items), bool(given))


def _give(path: str, graph: Any, given: Mapping[str, tuple[int, ...]]) -> None:
    """Sets the lengths of inputs."""
    inputs = {value.name: value for value in graph.input}
    for name, lengths in given.items():
        if name not in inputs:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(map(text, inputs))[:200]}")
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length


def _forget_shapes(graph: Any, keep_inputs: bool) -> None:
    """Removes the shapes that a graph states: with other inputs they no longer hold."""
    del graph.value_info[:]
    for value in (*graph.output, *(() if keep_inputs else graph.input)):
        value.type.tensor_type.ClearField("shape")


def text(value: str | bytes) -> str:
    """A text of the file; where it is not UTF-8, onnx gives bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The graphs that a node holds (If, Loop, Scan), each with its name."""
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


def constant(node: Any, tensor: type[Any]) -> Any:
    """The tensor that a Constant makes, of a list of integers too; None for other kinds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return tensor(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of values that state one."""
    found: dict[str, Shape] = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found.setdefault(value.name, tuple(map(dim, kind.shape.dim)))
    return found


def _is_known(shape: Shape | None) -> bool:
    """Whether every length is a number."""
    return shape is not None and all(isinstance(length, int) for length in shape)


def merged(stated: Shapes, inferred: Shapes) -> dict[str, Shape]:
    """The inferred lengths, and the stated ones where those are unknown."""
    found = dict(inferred)
    for name, shape in stated.items():
        other = inferred.get(name, ())
        found[name] = tuple(
            b if isinstance(b, int) else a
            for a, b in zip(shape, other, strict=True)
        ) if len(other) == len(shape) else shape  # fmt: skip
    return found


def dim(proto: Any) -> Dim:
    """A length; what is not positive is dynamic, and names that onnx made up (`unk__0`) are none."""
    if proto.HasField("dim_value") and proto.dim_value > 0:
        return int(proto.dim_value)
    name = text(proto.dim_param)
    return "?" if not name or name.startswith("unk__") else name


def opsets_of(imports: Any) -> dict[str, int]:
    """Versions by domain."""
    return {"" if text(o.domain) == "ai.onnx" else text(o.domain): o.version for o in imports}


def key_of(node: Any) -> Key:
    """The domain, the name and the overload that a node calls."""
    return text(node.domain), text(node.op_type), text(getattr(node, "overload", ""))


def called(node: Any, number: int) -> str:
    """What a node is called in the names of what is in it; `number` is its place in the graph."""
    name = text(node.name) or f"{text(node.op_type)}_{number}"
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}#{number}"


@dataclass(frozen=True, slots=True)
class Names:
    """What the values of a function are called where it is inlined: those that it is given, and a `prefix` for its own.

    `given` are the attributes that its nodes may refer to. Without a function, names stay.
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
        if not self.prefix:
            return
        if not node.name and node.output:
            node.name = text(node.output[0])  # as the function has it
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
            for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
                value.name = self.of(value.name)


@dataclass(frozen=True, slots=True)
class Item:
    """Where a node of the inlined graph comes from: its `scope`, its `number` there, its opsets, and the same for the
    nodes of the graphs that it holds.
    """

    scope: str
    number: int
    opsets: Mapping[str, int]
    bodies: tuple[Sequence[Item], ...]


class Calls:
    """Inlines the functions of a model. onnx.inliner does too, but renames nodes, by which layers are reported."""

    def __init__(self, functions: Any, path: str) -> None:
        self._path, self._numbers = path, count()
        self._known = {
            (text(each.domain), text(each.name), text(getattr(each, "overload", ""))): each for each in functions
        }

    def inlined(
        self, graph: Any, scope: str, names: Names, opsets: Mapping[str, int], stated: dict[str, Shapes], forget: bool
    ) -> list[Item]:
        """Inlines all calls in a graph and in its bodies, and says where each node comes from.

        `stated` receives the shapes that bodies state, by scope; with `forget` they are removed from them.
        """
        nodes: list[Any] = []
        items = self._nodes(graph.node, scope, names, opsets, stated, forget, nodes)
        if any(a is not b for a, b in zip(nodes, graph.node, strict=False)) or len(nodes) != len(graph.node):
            copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(copies)
        return items

    def _nodes(
        self, nodes: Any, scope: str, names: Names, opsets: Mapping[str, int], stated: dict[str, Shapes],
        forget: bool, made: list[Any],
    ) -> list[Item]:  # fmt: skip
        items: list[Item] = []
        for number, original in enumerate(nodes):
            node = original
            if names.prefix:  # a function may be called again
                node = type(original)()
                node.CopyFrom(original)
                names.apply(node)
            function = self._known.get(key_of(node))
            if function is not None:
                within = f"{scope}{called(node, number)}/"
                versions = {**opsets, **opsets_of(function.opset_import)}
                bound = self._bound(function, node)
                items += self._nodes(function.node, within, bound, versions, stated, forget, made)
                continue
            held: list[Sequence[Item]] = []
            for name, graph in bodies(node):
                within = f"{scope}{called(node, number)}/{name}/"
                stated[within] = shapes((*graph.input, *graph.value_info, *graph.output))
                if forget:
                    _forget_shapes(graph, keep_inputs=False)
                held.append(self.inlined(graph, within, names, opsets, stated, forget))
            made.append(node)
            items.append(Item(scope, number, opsets, tuple(held)))
        return items

    def _bound(self, function: Any, node: Any) -> Names:
        """The names in a function that is called by this node."""
        known: dict[str, str] = {}
        prefix = f"{text(function.name)[:LONGEST_NAME]}#{next(self._numbers)}/"
        for i, name in enumerate(map(text, function.output)):
            known[name] = text(node.output[i]) if i < len(node.output) and node.output[i] else prefix + name
        for i, name in enumerate(map(text, function.input)):  # what is left out is left out within, too
            known[name] = text(node.input[i]) if i < len(node.input) else ""
        given = {text(each.name): each for each in (*function.attribute_proto, *node.attribute)}
        return Names(known, prefix, given)

    def check(self, graph: Any, limit: int | None) -> None:
        """Refuses functions that call themselves, or each other to more memory than `limit`, or deeper than can be
        read.
        """
        if not self._known:
            return
        every = (graph.node, *(function.node for function in self._known.values()))
        names = (name for nodes in every for node in with_bodies(nodes) for name in (*node.input, *node.output))
        size, most = self._size(graph.node, (), {}, max(map(len, names), default=0)), limit or MEMORY
        if size > most:
            raise RequestError(
                f"{self._path}: its functions call each other to {human_bytes(size)} of memory, the limit is "
                f"{human_bytes(most)}; raise {words_of('max_memory')}"
            )

    def _size(self, nodes: Any, within: tuple[Key, ...], sizes: dict[Key, int], longest: int) -> int:
        """The memory that nodes take with those of the functions that are called, which have the names of the caller's
        values, `longest` characters each at most.
        """
        if len(within) > DEEPEST:
            raise RequestError(f"{self._path}: its functions call each other more than {DEEPEST} deep")
        values = sum(len(node.input) + len(node.output) for node in with_bodies(nodes))
        total: int = COPIES * (sum(node.ByteSize() for node in nodes) + longest * values)
        for key, times in Counter(map(key_of, with_bodies(nodes))).items():
            if key in within:
                raise RequestError(f"{self._path}: its function {key[1]} calls itself")
            if key in self._known and key not in sizes:
                sizes[key] = self._size(self._known[key].node, (*within, key), sizes, longest)
            total += times * sizes.get(key, NODE)
        return total


@dataclass(frozen=True, slots=True)
class _Values:
    """What is known of the values that a graph may use: declared and known shapes, and constants."""

    declared: MutableMapping[str, Shape]
    known: MutableMapping[str, Shape]
    constants: MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Walk:
    """Goes through the nodes of a graph and of the bodies in it, which see the values around them."""

    tensor: type[Any]
    stated: Mapping[str, Shapes]
    moved: bool
    stopped: dict[str, str] = field(default_factory=dict)

    def nodes(self, graph: Any, items: Sequence[Item]) -> Iterator[Node]:
        """All nodes, each before those of its bodies."""
        return self._within(graph, items, self._values(graph, "", _Values({}, {}, {})))

    def _within(self, graph: Any, items: Sequence[Item], here: _Values) -> Iterator[Node]:
        for node, item in zip(graph.node, items, strict=True):
            self._note_constant(node, here)
            yield Node(node, item.scope, item.opsets, here.declared, here.known, here.constants, self.stopped)
            self._note_stop(node, item, here)
            for (name, body), inner in zip(bodies(node), item.bodies, strict=True):
                scope = f"{item.scope}{called(node, item.number)}/{name}/"
                yield from self._within(body, inner, self._values(body, scope, here))

    def _note_stop(self, node: Any, item: Item, here: _Values) -> None:
        """Remembers the node for its outputs that have a length which is not known, though its inputs have none."""
        unknown = [name for name in node.output if name and not _is_known(here.known.get(name))]
        if not unknown:
            return
        before = [name for name in node.input if name and name not in here.constants]
        found = next((self.stopped[name] for name in before if name in self.stopped), None)
        if found is None and all(_is_known(here.known.get(name)) for name in before):
            name = text(node.name) or (text(node.output[0]) if node.output else "")
            found = f"{item.scope}{name} ({text(node.op_type)})"
        if found is not None:
            self.stopped.update(dict.fromkeys(unknown, found))

    def _note_constant(self, node: Any, here: _Values) -> None:
        """Remembers what a Constant gives, and an Identity of one."""
        if len(node.output) != 1:
            return
        tensor = None
        if node.op_type == "Constant":
            tensor = constant(node, self.tensor)
        elif node.op_type == "Identity" and len(node.input) == 1:
            tensor = here.constants.get(node.input[0])
        if tensor is not None:
            here.constants[node.output[0]] = tensor

    def _values(self, graph: Any, scope: str, around: _Values) -> _Values:
        """The values of a graph before those around it."""
        stated = self.stated.get(scope, {})
        inferred = shapes((*graph.input, *graph.value_info, *graph.output))
        return _Values(
            ChainMap(dict(stated), around.declared),
            ChainMap(inferred if self.moved else merged(stated, inferred), around.known),
            ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
        )
