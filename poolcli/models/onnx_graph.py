"""Loads an ONNX model without its weights, and yields its nodes with the shapes known at each: of the main graph, of
bodies, and of inlined functions.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from os import SEEK_END
from typing import Any, BinaryIO

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.layer import MAX_NAME, Dim, NotOnnxError, Shape, TruncatedError, read_exactly
from poolcli.system.lazy_imports import need

NEEDS_ONNX = "reading ONNX models needs onnx"
GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
ONNX_ERRORS = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)  # that onnx raises
DEFAULT_MEMORY = 2**30  # bytes for the nodes of inlined functions, without a limit
NODE_BYTES, NODE_COPIES = 3000, 4  # memory of an inlined node, and copies of its message
SMALL_FIELD = 512  # bytes: shorter fields are copied unchanged, among them the shapes and axes that nodes read
MAX_FIELD = 1 << 16  # bytes of a string or list that is kept
MAX_VARINT = 10  # bytes
MAX_DEPTH = 90  # nested messages; protobuf itself reads 100
VARINT, LENGTH = 0, 2  # wire types of protobuf
FIXED_SIZES = {1: 8, 5: 4}  # bytes, of the other wire types
TENSOR = "tensor"
WEIGHT_FIELDS = {4, 5, 6, 7, 9, 10, 11}  # fields of a tensor
# The fields that may contain tensors, and their messages. The numbers are those of onnx.proto3.
SUBMESSAGES = {
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
    """A node and what is known there.

    `scope` is the path of the bodies around it, `opsets` are by domain. By names of values: `declared` are the shapes
    that the file states, `known` those and inferred ones, `constants` small tensors, and `stopped` the nodes at which
    shape inference stopped.
    """

    proto: Any
    scope: str = ""
    opsets: Mapping[str, int] = field(default_factory=dict)
    declared: MutableMapping[str, Shape] = field(default_factory=dict)
    known: MutableMapping[str, Shape] = field(default_factory=dict)
    constants: MutableMapping[str, Any] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)


def load(
    path: str, given: Mapping[str, tuple[int, ...]], infer: Callable[[Any], Any], limit: int | None
) -> Iterator[Node]:
    """Yield the nodes of the model at `path` with the input shapes `given`; a RequestError if it cannot be read.

    `infer` returns the graph of a model with inferred shapes; `limit` is the memory for inlined functions, in bytes.
    """
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {NEEDS_ONNX}")
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
        _set_input_shapes(path, model.graph, given)
        for scope, graph in _graphs(model.graph, ""):
            _clear_shapes(graph, keep_inputs=not scope)
    return _nodes(infer(model), Node(None, opsets=opsets_of(model.opset_import)), stated, bool(given))


def _set_input_shapes(path: str, graph: Any, given: Mapping[str, tuple[int, ...]]) -> None:
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


def _clear_shapes(graph: Any, keep_inputs: bool) -> None:
    """Remove the shapes that a graph states, which are wrong for other inputs."""
    del graph.value_info[:]
    for value in (*graph.output, *(() if keep_inputs else graph.input)):
        value.type.tensor_type.ClearField("shape")


def text(value: str | bytes) -> str:
    """A string of the file; onnx returns bytes if it is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The body graphs of a node (If, Loop, Scan), each with its name."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == GRAPH:
            yield text(attribute.name), attribute.g
        elif kind == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def _graphs(graph: Any, scope: str) -> Iterator[tuple[str, Any]]:
    """The graph and all bodies in it, each with its scope."""
    yield scope, graph
    for number, node in enumerate(graph.node):
        for name, body in bodies(node):
            yield from _graphs(body, _scope(scope, node, number, name))


def _scope(around: str, node: Any, number: int, body: str) -> str:
    """The scope of a body, the prefix of its nodes' names. `number` is the node's index in its graph."""
    name = text(node.name) or f"{text(node.op_type)}_{number}"
    return f"{around}{name if len(name) <= MAX_NAME else f'{name[:MAX_NAME]}#{number}'}/{body}/"


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of the values that have one."""
    found: dict[str, Shape] = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found.setdefault(value.name, tuple(map(dim, kind.shape.dim)))
    return found


def merged(stated: Shapes, inferred: Shapes) -> dict[str, Shape]:
    """The inferred shapes; unknown lengths are those that the file states."""
    found = dict(inferred)
    for name, shape in stated.items():
        other = inferred.get(name, ())
        found[name] = tuple(
            b if isinstance(b, int) else a
            for a, b in zip(shape, other, strict=True)
        ) if len(other) == len(shape) else shape  # fmt: skip
    return found


def dim(proto: Any) -> Dim:
    """A length; one that is not positive is dynamic, and names that onnx generated (`unk__0`) do not count."""
    if proto.HasField("dim_value") and proto.dim_value > 0:
        return int(proto.dim_value)
    name = text(proto.dim_param)
    return "?" if not name or name.startswith("unk__") else name


def opsets_of(imports: Any) -> dict[str, int]:
    """The opset versions by domain."""
    return {"" if text(o.domain) == "ai.onnx" else text(o.domain): o.version for o in imports}


def key_of(node: Any) -> Key:
    """The domain, name and overload of the operator of a node."""
    domain = text(node.domain)
    return "" if domain == "ai.onnx" else domain, text(node.op_type), text(node.overload)


def _inlined(path: str, model: Any, limit: int | None) -> Any:
    """The model with its functions inlined; their nodes are named as in `Function/node__1`."""
    inliner, checker = need("onnx.inliner", "onnx.checker", why=f"{path}: {NEEDS_ONNX}")
    functions = {(text(each.domain), text(each.name), text(each.overload)): each for each in model.functions}
    _check_calls(path, model.graph, functions, limit)
    for function in model.functions:
        # onnx inlines only functions with the opsets of the model; an operator must be the same in both anyway.
        del function.opset_import[:]
        function.opset_import.extend(model.opset_import)
        for node in function.node:
            name = text(node.name) or (text(node.output[0]) if node.output else text(node.op_type))
            node.name = f"{text(function.name)[:MAX_NAME]}/{name}"
    try:
        return inliner.inline_local_functions(model)
    except (*ONNX_ERRORS, checker.ValidationError) as error:
        why = " ".join(str(error).rpartition(": ")[2].split())
        raise RequestError(f"{path}: onnx cannot inline its functions: {why[:200]}") from None


def _check_calls(path: str, graph: Any, functions: Mapping[Key, Any], limit: int | None) -> None:
    """Refuse functions that are recursive, nest too deep, or take more memory than `limit` once inlined.

    The values of an inlined node are named as in its caller, so each may be as long as the longest name.
    """
    every = [each for nodes in (graph.node, *(f.node for f in functions.values())) for each in _all_nodes(nodes)]
    longest = max((len(name) for node in every for name in (*node.input, *node.output)), default=0)
    sizes: dict[Key, int] = {}

    def size_of(nodes: Any, within: tuple[Key, ...]) -> int:
        if len(within) > MAX_DEPTH:
            raise RequestError(f"{path}: its functions nest more than {MAX_DEPTH} deep")
        values = sum(len(node.input) + len(node.output) for node in _all_nodes(nodes))
        total: int = NODE_COPIES * (sum(node.ByteSize() for node in nodes) + longest * values)
        for key, times in Counter(map(key_of, _all_nodes(nodes))).items():
            if key in within:
                raise RequestError(f"{path}: its function {key[1]} calls itself")
            if key in functions and key not in sizes:
                sizes[key] = size_of(functions[key].node, (*within, key))
            total += times * sizes.get(key, NODE_BYTES)
        return total

    size, most = size_of(graph.node, ()), limit or DEFAULT_MEMORY
    if size > most:
        raise RequestError(
            f"{path}: its inlined functions take {human_bytes(size)} of memory, but the limit is "
            f"{human_bytes(most)}; raise {words_of('max_memory')}"
        )


def _all_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for _, graph in bodies(node):
            yield from _all_nodes(graph.node)


def _nodes(graph: Any, around: Node, stated: Mapping[str, Shapes], moved: bool) -> Iterator[Node]:
    """All nodes of a graph, each before those of its bodies, in which the values `around` the graph are visible."""
    own, inferred = stated.get(around.scope, {}), shapes((*graph.input, *graph.value_info, *graph.output))
    here = replace(
        around,
        declared=ChainMap(dict(own), around.declared),
        known=ChainMap(inferred if moved else merged(own, inferred), around.known),
        constants=ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
    )
    for number, proto in enumerate(graph.node):
        _note_constant(proto, here.constants)
        node = replace(here, proto=proto)
        yield node
        _note_stop(node)
        for name, body in bodies(proto):
            yield from _nodes(body, replace(here, scope=_scope(here.scope, proto, number, name)), stated, moved)


def _note_stop(node: Node) -> None:
    """Remember the node for outputs of unknown shape, if all its inputs are known; else the earlier node."""
    proto = node.proto
    unknown = [name for name in proto.output if name and not _is_known(node.known.get(name))]
    if not unknown:
        return
    before = [name for name in proto.input if name and name not in node.constants]
    found = next((node.stopped[name] for name in before if name in node.stopped), None)
    if found is None and all(_is_known(node.known.get(name)) for name in before):
        name = text(proto.name) or (text(proto.output[0]) if proto.output else "")
        found = f"{node.scope}{name} ({text(proto.op_type)})"
    if found is not None:
        node.stopped.update(dict.fromkeys(unknown, found))


def _note_constant(node: Any, constants: MutableMapping[str, Any]) -> None:
    """Remember the output of a Constant, or of an Identity of a constant."""
    if len(node.output) != 1:
        return
    tensor = None
    if node.op_type == "Constant":
        tensor = _constant(node)
    elif node.op_type == "Identity" and len(node.input) == 1:
        tensor = constants.get(node.input[0])
    if tensor is not None:
        constants[node.output[0]] = tensor


def _is_known(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(length, int) for length in shape)


def _constant(node: Any) -> Any:
    """The value of a Constant if it is a tensor or a list of integers, else None."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return type(attribute.t)(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None


def without_weights(stream: BinaryIO) -> bytes:
    """Copy the protobuf message of a model without the data of tensors above 512 bytes, on which no shape depends.

    `onnx.load` takes twice the size of the file in memory: 2 GB and 5 s for a model of 1 GB, instead of 40 MB and 0.5
    s. A TruncatedError if the file ends early or is not protobuf.
    """
    return _copied(stream, 0, stream.seek(0, SEEK_END), "model", 0)


def _copied(stream: BinaryIO, at: int, stop: int, message: str, depth: int) -> bytes:
    """Copy the message between `at` and `stop`, field by field."""
    if depth > MAX_DEPTH:
        raise TruncatedError(f"more than {MAX_DEPTH} nested messages")
    out = bytearray()
    while at < stop:
        key, begin, end = _field(stream, at, stop)
        inner = SUBMESSAGES.get(message, {}).get(key >> 3) if key & 7 == LENGTH else None
        if inner and end - begin > SMALL_FIELD:
            copied = _copied(stream, begin, end, inner, depth + 1)
            out += _to_varint(key) + _to_varint(len(copied)) + copied
        elif end - begin <= SMALL_FIELD or (
            end - begin <= MAX_FIELD and not (message == TENSOR and key >> 3 in WEIGHT_FIELDS)
        ):
            out += read_exactly(stream, at, end - at)
        at = end
    return bytes(out)


def _field(stream: BinaryIO, at: int, stop: int) -> tuple[int, int, int]:
    """The key of the field at `at`, and where its content begins and ends."""
    key, begin = _varint(stream, at, stop)
    kind = key & 7
    if kind == LENGTH:
        length, begin = _varint(stream, begin, stop)
        end = begin + length
    elif kind == VARINT:
        _, end = _varint(stream, begin, stop)
    elif kind in FIXED_SIZES:
        end = begin + FIXED_SIZES[kind]
    else:
        raise TruncatedError(f"a field of kind {kind} at byte {at:,}")
    if end > stop:
        raise TruncatedError(f"a field at byte {at:,} extends past the end of its message")
    return key, begin, end


def _varint(stream: BinaryIO, at: int, stop: int) -> tuple[int, int]:
    """The varint at `at`, and where it ends."""
    value = shift = 0
    for byte in read_exactly(stream, at, min(MAX_VARINT, stop - at)):
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
