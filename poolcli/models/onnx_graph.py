"""The nodes of an ONNX model with the shapes known to them: in its graph, in bodies, and in functions that it calls."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from os import SEEK_END
from typing import Any, BinaryIO

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.layer import Dim, NotOnnxError, Shape, TruncatedError, read_exactly
from poolcli.system.lazy_imports import need

WHY = "reading ONNX models needs onnx"
GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
REFUSED_BY_ONNX = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)  # what it raises
MEMORY = 2**30  # bytes that nodes may take after functions are inlined, unless more is allowed
NODE, COPIES = 3000, 4  # bytes that an inlined node takes beside its own, and copies of those
LONGEST_NAME = 200  # characters of a name that is put before others
SMALL = 512  # bytes: shorter fields are copied unchanged; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
DEEPEST = 90  # nested messages; protobuf itself reads 100
VARINT, LENGTH = 0, 2  # kinds of fields
FIXED = {1: 8, 5: 4}  # bytes of other kinds
TENSOR = "tensor"
WEIGHTS = {4, 5, 6, 7, 9, 10, 11}  # fields of a tensor
# The fields that lead to tensors: by message, what the message in a field is. Numbers are those of onnx.proto3.
INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: TENSOR, 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: TENSOR, 6: "graph", 10: TENSOR, 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: TENSOR, 2: TENSOR},
}
Shapes = Mapping[str, Shape]
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `scope` names the bodies that it is in, `opsets` are those of the model by domain; `declared` are the
    shapes that the file states, `known` those and the inferred ones, `constants` the small tensors, and `stopped` the
    nodes at which shape inference stopped, by the names of values.
    """

    proto: Any
    scope: str
    opsets: Mapping[str, int]
    declared: Shapes
    known: Shapes
    constants: Mapping[str, Any]
    stopped: Mapping[str, str] = field(default_factory=dict)


def load(
    path: str, given: Mapping[str, tuple[int, ...]], infer: Callable[[Any], Any], limit: int | None
) -> Iterator[Node]:
    """The nodes of the model at `path` with the input shapes `given`; a RequestError where it cannot be read.

    `infer` gives the graph of a model with inferred shapes; `limit` is the memory that functions may take, in bytes.
    """
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {WHY}")
    try:
        with open(path, "rb") as stream:
            model = onnx.ModelProto.FromString(without_weights(stream))
    except (TruncatedError, protobuf.DecodeError) as error:
        raise NotOnnxError(f"{path}: not an ONNX model: {' '.join(str(error).split()) or 'torn'}") from None
    if not model.graph.node or not model.opset_import:
        raise NotOnnxError(f"{path}: not an ONNX model: it has no nodes or no opset")
    if model.functions:
        model = _inlined(path, model, limit)
    stated = {
        scope: shapes((*graph.input, *graph.value_info, *graph.output)) for scope, graph in _graphs(model.graph, "")
    }
    if given:
        _give(path, model.graph, given)
        for scope, graph in _graphs(model.graph, ""):
            _forget_shapes(graph, keep_inputs=not scope)
    walk = _Walk(onnx.TensorProto, stated, opsets_of(model.opset_import), bool(given))
    return walk.nodes(infer(model), "", _Values({}, {}, {}))


def _give(path: str, graph: Any, given: Mapping[str, tuple[int, ...]]) -> None:
    """Sets the lengths of inputs."""
    inputs = {value.name: value for value in graph.input}
    for name, lengths in given.items():
        if name not in inputs:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(map(text, inputs))[:200]}")
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, but {len(lengths)} lengths are given")
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


def _graphs(graph: Any, scope: str) -> Iterator[tuple[str, Any]]:
    """The graph and the bodies of its nodes, each with its scope."""
    yield scope, graph
    for number, node in enumerate(graph.node):
        for name, body in bodies(node):
            yield from _graphs(body, _scope(scope, node, number, name))


def _scope(around: str, node: Any, number: int, body: str) -> str:
    """The scope of a body: what the names of its nodes begin with. `number` is the node's place in its graph."""
    name = text(node.name) or f"{text(node.op_type)}_{number}"
    return f"{around}{name if len(name) <= LONGEST_NAME else f'{name[:LONGEST_NAME]}#{number}'}/{body}/"


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of values that state one."""
    found: dict[str, Shape] = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found.setdefault(value.name, tuple(map(dim, kind.shape.dim)))
    return found


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
    domain = text(node.domain)
    return "" if domain == "ai.onnx" else domain, text(node.op_type), text(node.overload)


def _inlined(path: str, model: Any, limit: int | None) -> Any:
    """The model with its functions inlined, whose nodes are then named after the function: `Function/node__1`."""
    inliner, checker = need("onnx.inliner", "onnx.checker", why=f"{path}: {WHY}")
    functions = {(text(each.domain), text(each.name), text(each.overload)): each for each in model.functions}
    _check_calls(path, model.graph, functions, limit)
    for function in model.functions:
        # An operator must be the same in the function's opset and in the model's; only calls of one opset are inlined.
        del function.opset_import[:]
        function.opset_import.extend(model.opset_import)
        for node in function.node:
            name = text(node.name) or (text(node.output[0]) if node.output else text(node.op_type))
            node.name = f"{text(function.name)[:LONGEST_NAME]}/{name}"
    try:
        return inliner.inline_local_functions(model)
    except (*REFUSED_BY_ONNX, checker.ValidationError) as error:
        why = " ".join(str(error).rpartition(": ")[2].split())
        raise RequestError(f"{path}: onnx cannot inline its functions: {why[:200]}") from None


def _check_calls(path: str, graph: Any, functions: Mapping[Key, Any], limit: int | None) -> None:
    """Refuses functions that call themselves, or each other to more memory than `limit`, or deeper than can be read.

    A node of a function has the names of its caller's values, which are as long as the `longest` name at most.
    """
    every = [each for nodes in (graph.node, *(f.node for f in functions.values())) for each in _with_bodies(nodes)]
    longest = max((len(name) for node in every for name in (*node.input, *node.output)), default=0)
    sizes: dict[Key, int] = {}

    def size_of(nodes: Any, within: tuple[Key, ...]) -> int:
        if len(within) > DEEPEST:
            raise RequestError(f"{path}: its functions nest more than {DEEPEST} deep")
        values = sum(len(node.input) + len(node.output) for node in _with_bodies(nodes))
        total: int = COPIES * (sum(node.ByteSize() for node in nodes) + longest * values)
        for key, times in Counter(map(key_of, _with_bodies(nodes))).items():
            if key in within:
                raise RequestError(f"{path}: its function {key[1]} calls itself")
            if key in functions and key not in sizes:
                sizes[key] = size_of(functions[key].node, (*within, key))
            total += times * sizes.get(key, NODE)
        return total

    size, most = size_of(graph.node, ()), limit or MEMORY
    if size > most:
        raise RequestError(
            f"{path}: its inlined functions take {human_bytes(size)} of memory, but the limit is "
            f"{human_bytes(most)}; raise {words_of('max_memory')}"
        )


def _with_bodies(nodes: Any) -> Iterator[Any]:
    """The nodes and those of the bodies within them."""
    for node in nodes:
        yield node
        for _, graph in bodies(node):
            yield from _with_bodies(graph.node)


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
    opsets: Mapping[str, int]
    moved: bool
    stopped: dict[str, str] = field(default_factory=dict)

    def nodes(self, graph: Any, scope: str, around: _Values) -> Iterator[Node]:
        """All nodes, each before those of its bodies."""
        here = self._values(graph, scope, around)
        for number, node in enumerate(graph.node):
            self._note_constant(node, here)
            yield Node(node, scope, self.opsets, here.declared, here.known, here.constants, self.stopped)
            self._note_stop(node, scope, here)
            for name, body in bodies(node):
                yield from self.nodes(body, _scope(scope, node, number, name), here)

    def _values(self, graph: Any, scope: str, around: _Values) -> _Values:
        """The values of a graph before those around it."""
        stated = self.stated.get(scope, {})
        inferred = shapes((*graph.input, *graph.value_info, *graph.output))
        return _Values(
            ChainMap(dict(stated), around.declared),
            ChainMap(inferred if self.moved else merged(stated, inferred), around.known),
            ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
        )

    def _note_stop(self, node: Any, scope: str, here: _Values) -> None:
        """Remembers the node for its outputs that have a length which is not known, though its inputs have none."""
        unknown = [name for name in node.output if name and not _is_known(here.known.get(name))]
        if not unknown:
            return
        before = [name for name in node.input if name and name not in here.constants]
        found = next((self.stopped[name] for name in before if name in self.stopped), None)
        if found is None and all(_is_known(here.known.get(name)) for name in before):
            name = text(node.name) or (text(node.output[0]) if node.output else "")
            found = f"{scope}{name} ({text(node.op_type)})"
        if found is not None:
            self.stopped.update(dict.fromkeys(unknown, found))

    def _note_constant(self, node: Any, here: _Values) -> None:
        """Remembers what a Constant gives, and an Identity of one."""
        if len(node.output) != 1:
            return
        tensor = None
        if node.op_type == "Constant":
            tensor = _constant(node, self.tensor)
        elif node.op_type == "Identity" and len(node.input) == 1:
            tensor = here.constants.get(node.input[0])
        if tensor is not None:
            here.constants[node.output[0]] = tensor


def _is_known(shape: Shape | None) -> bool:
    """Whether every length is a number."""
    return shape is not None and all(isinstance(length, int) for length in shape)


def _constant(node: Any, tensor: type[Any]) -> Any:
    """The tensor that a Constant makes, of a list of integers too; None for other kinds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return tensor(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None


def without_weights(stream: BinaryIO) -> bytes:
    """The model as protobuf, tensors of more than 512 bytes without their numbers, which say nothing about shapes.

    `onnx.load` takes twice the file in memory: 2 GB and 5 s for a model of 1 GB, where this takes 40 MB and 0.5 s. A
    TruncatedError where the file ends early, or is no protobuf message.
    """
    return _copy(stream, 0, stream.seek(0, SEEK_END), "model", 0)


def _copy(stream: BinaryIO, at: int, stop: int, message: str, depth: int) -> bytes:
    """The message between `at` and `stop`, copied field by field."""
    if depth > DEEPEST:
        raise TruncatedError(f"more than {DEEPEST} nested messages")
    out = bytearray()
    while at < stop:
        key, begin, end = _field(stream, at, stop)
        inner = INNER.get(message, {}).get(key >> 3) if key & 7 == LENGTH else None
        if inner and end - begin > SMALL:
            copied = _copy(stream, begin, end, inner, depth + 1)
            out += _to_varint(key) + _to_varint(len(copied)) + copied
        elif end - begin <= SMALL or (end - begin <= LONGEST and not (message == TENSOR and key >> 3 in WEIGHTS)):
            out += read_exactly(stream, at, end - at)
        at = end
    return bytes(out)


def _field(stream: BinaryIO, at: int, stop: int) -> tuple[int, int, int]:
    """The key of the field that lies at `at`, where its content begins, and where it ends."""
    key, begin = _number(stream, at, stop)
    kind = key & 7
    if kind == LENGTH:
        length, begin = _number(stream, begin, stop)
        end = begin + length
    elif kind == VARINT:
        _, end = _number(stream, begin, stop)
    elif kind in FIXED:
        end = begin + FIXED[kind]
    else:
        raise TruncatedError(f"a field of kind {kind} at byte {at:,}")
    if end > stop:
        raise TruncatedError(f"a field at byte {at:,} extends past the end of its message")
    return key, begin, end


def _number(stream: BinaryIO, at: int, stop: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    for byte in read_exactly(stream, at, min(LONGEST_NUMBER, stop - at)):
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise TruncatedError(f"a number at byte {at:,} does not end")


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
